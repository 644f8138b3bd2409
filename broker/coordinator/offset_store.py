"""OffsetStore: the internal topic ``__consumer_offsets``, made when it is first needed.

A group's records go to the partition that Kafka would choose, through ``Partition.append`` like
any other batch. What was appended is in force; what is acknowledged is as durable as acknowledged
records are.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from seglog.broker.api.services import Services
from seglog.broker.coordinator.group_records import StoredRecord, split_by_size
from seglog.broker.errors import RequestError, describe_error
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.identifiers import random_id
from seglog.broker.storage.producer_state import AppendOrigin
from seglog.protocol.compression import Codec
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.batch import HEADER_BYTES
from seglog.protocol.records.builder import build_batch
from seglog.protocol.types import Acks

logger = logging.getLogger(__name__)

OFFSETS_TOPIC: Final = "__consumer_offsets"

_INT32_MIN: Final = -(2**31)


class OffsetStore:
    """Writes the records of groups.

    Args:
        services: of the broker.

    Attributes:
        partition_count: of the topic, as it was when it was made or loaded; 0 while there is none.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._creation: asyncio.Task[None] | None = None
        topic = services.catalog.get(OFFSETS_TOPIC)
        self.partition_count = 0 if topic is None else topic.partition_count

    @property
    def exists(self) -> bool:
        """Whether the topic is there."""
        return self.partition_count > 0

    def partition_of(self, group_id: str) -> int:
        """The partition that a group's records are in."""
        assert self.exists
        return partition_of_key(group_id, self.partition_count)

    def batch_bytes_max(self, group_id: str) -> int:
        """How many bytes of records one append for a group may hold.

        Raises:
            RequestError: the partition is offline.
        """
        number = self.partition_of(group_id)
        config = self._services.partitions.get(OFFSETS_TOPIC, number).log.config
        return min(config.max_message_bytes, config.segment_bytes) - HEADER_BYTES

    def append(
        self, group_id: str, records: Sequence[StoredRecord]
    ) -> "asyncio.Future[None] | None":
        """Append records of one group as one batch; they are in force when this returns.

        Returns:
            What an acknowledgement has to wait for, None if it may be given at once. The future may
            be shared: do not cancel it.

        Raises:
            RequestError, RecordError, StorageError: nothing was written.
        """
        services = self._services
        partition = services.partitions.get(OFFSETS_TOPIC, self.partition_of(group_id))
        now_ms = services.clock.time_ms()
        batch = build_batch(
            [(now_ms, key, value, ()) for key, value in records],
            codec=Codec(services.config.offsets_topic_compression_codec),
        )
        info = partition.append(memoryview(batch), Acks.ALL, now_ms, AppendOrigin.COORDINATOR)
        return partition.acknowledgement(info, Acks.ALL)

    def append_all(self, group_id: str, records: Sequence[StoredRecord]) -> None:
        """Append as many records as there may be, in several batches if need be; raises likewise.

        For what nobody waits for: deletions of offsets, whose loss a later check makes good.
        """
        for run in split_by_size(records, self.batch_bytes_max(group_id)):
            self.append(group_id, run)

    # ---- making the topic

    def prepare(self) -> None:
        """Begin to make the topic, since it will be needed soon."""
        if not self.exists and self._creation is None:
            self._creation = asyncio.get_running_loop().create_task(self._create())
            self._creation.add_done_callback(self._created)

    async def ensure(self) -> None:
        """Make the topic if there is none.

        Raises:
            StorageError: it could not be made.
        """
        self.prepare()
        if self._creation is not None:
            await asyncio.shield(self._creation)

    def topic_deleted(self) -> None:
        """Somebody has deleted the topic; the next write makes it anew."""
        self.partition_count = 0

    async def stop(self, deadline_seconds: float) -> None:
        """Let the topic be finished if it is just being made, unless that takes long."""
        if self._creation is not None:
            await asyncio.wait([self._creation], timeout=deadline_seconds)

    async def _create(self) -> None:
        services = self._services
        config = services.config
        async with services.changing:
            topic = services.catalog.get(OFFSETS_TOPIC)
            if topic is None:
                count = config.offsets_topic_num_partitions
                configs = {
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(config.offsets_topic_segment_bytes),
                }
                await services.topics.create(
                    OFFSETS_TOPIC, random_id(), count, configs, config.log_config(configs)
                )
                logger.info("event=topic-created topic=%s partitions=%d", OFFSETS_TOPIC, count)
                topic = services.catalog.get(OFFSETS_TOPIC)
            assert topic is not None
            self.partition_count = topic.partition_count

    def _created(self, task: "asyncio.Task[None]") -> None:
        self._creation = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("event=topic-not-created topic=%s error=%s", OFFSETS_TOPIC, error)


def partition_of_key(key: str, partition_count: int) -> int:
    """The partition of an internal topic that a group or transactional id belongs to.

    Kafka takes Java's ``String.hashCode``, which is computed over UTF-16.

    >>> partition_of_key("group", 50)
    47
    """
    units = key.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for index in range(0, len(units), 2):
        hashed = (31 * hashed + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >= 1 << 31 else hashed
    return 0 if signed == _INT32_MIN else abs(signed) % partition_count


def coordinator_error(error: BaseException, *, too_large: ErrorCode) -> RequestError:
    """What a client of the coordinator is told of a failed write.

    Args:
        too_large: the code for records that do not fit into a batch.
    """
    code, message = describe_error(error)
    if code in {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE}:
        code = too_large
    elif isinstance(error, StorageError) or code in {
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return RequestError(code, message)
