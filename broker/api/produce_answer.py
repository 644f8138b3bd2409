"""The answer to one produce request while it comes together, partition by partition."""

import asyncio
from collections.abc import Sequence
from typing import Final

from seglog.broker.api.acknowledgements import Waiting, when_acknowledged
from seglog.broker.errors import RequestError, describe_error
from seglog.broker.partition.partition import Partition
from seglog.broker.requests.context import RequestContext
from seglog.broker.requests.services import Services
from seglog.broker.storage.log.append import AppendInfo
from seglog.protocol.api import (
    ZERO_TOPIC_ID,
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)
from seglog.protocol.errors import ErrorCode, RecordError, SeglogError
from seglog.protocol.types import Acks

_ADMIN_CLIENT_ID: Final = "__admin_client"


class ProduceAnswer:
    """Takes the outcome for each entry of ``request``, in their order."""

    __slots__ = ("_context", "_response", "_services", "_waiting", "acks", "request")

    def __init__(
        self, services: Services, request: ProduceRequest, context: RequestContext
    ) -> None:
        self._services = services
        self._context = context
        self._response = ProduceResponse([])
        self._waiting: Waiting = []
        self.request = request
        self.acks = request.acks

    @property
    def outcomes(self) -> int:
        """How many entries have theirs."""
        return len(self._response.partitions)

    def partition_for(self, entry: ProducePartition) -> Partition:
        """Find where to append.

        Raises:
            RequestError: there is no such partition, or a client must not write to it.
        """
        if entry.topic_id != ZERO_TOPIC_ID or not entry.topic:
            # Each time: the name may be that of another topic by now.
            entry.topic = self._services.partitions.topic_name(entry.topic_id)
        partition = self._services.partitions.get(entry.topic, entry.partition)
        if partition.is_internal and self._context.client_id != _ADMIN_CLIENT_ID:
            raise RequestError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"{entry.topic} is internal: clients cannot write to it",
            )
        return partition

    def accept(self, entry: ProducePartition, partition: Partition, info: AppendInfo) -> None:
        """The batch of ``entry`` was appended."""
        result = ProducePartitionResult(
            entry.topic,
            entry.partition,
            ErrorCode.NONE,
            info.first_offset,
            info.log_append_time_ms,
            info.log_start_offset,
            (),
            None,
            entry.topic_id,
        )
        self._response.partitions.append(result)
        partition.counters.produce_requests += 1
        acknowledged = partition.acknowledgement(info, self.acks)
        if acknowledged is not None and self.acks != Acks.NONE:
            self._waiting.append((result, acknowledged))

    def refuse(self, entry: ProducePartition, error: SeglogError) -> None:
        """Nothing of ``entry`` was appended."""
        code, message = describe_error(error)
        record_errors: Sequence[tuple[int, str]] = ()
        if isinstance(error, RecordError):
            record_errors = error.record_errors
        partition = self._services.partitions.find(entry.topic, entry.partition)
        if partition is not None:
            counters = partition.counters
            counters.produce_requests += 1
            counters.failed_produce_requests += 1
            if entry.records is not None:
                counters.bytes_rejected += entry.records.nbytes
            if isinstance(error, RecordError):
                counters.invalid_records += 1
        if self.acks == Acks.NONE:
            self._services.counters.unacknowledged_failures += 1
        self._response.partitions.append(
            ProducePartitionResult(
                entry.topic,
                entry.partition,
                code,
                record_errors=record_errors,
                error_message=message,
                topic_id=entry.topic_id,
            )
        )

    def finish(self) -> "ProduceResponse | asyncio.Future[ProduceResponse]":
        """The response, or its future if its promise does not hold yet: that is counted."""
        if not self._waiting:
            return self._response
        for entry in self.request.partitions:
            # They are written, or refused: what waits from here on must not keep the buffer that
            # they were received into, for as long as the client likes.
            entry.records = None
        answer = when_acknowledged(self._response, self._waiting, self.request)
        self._services.counters.waiting_produces += 1
        answer.add_done_callback(self._waits_no_more)
        return answer

    def _waits_no_more(self, _answer: "asyncio.Future[ProduceResponse]") -> None:
        self._services.counters.waiting_produces -= 1


def no_batch(entry: ProducePartition) -> RecordError:
    """The error for an entry without records."""
    return RecordError(
        ErrorCode.INVALID_RECORD,
        f"nothing was sent for {entry.topic}-{entry.partition}; one batch is needed",
    )
