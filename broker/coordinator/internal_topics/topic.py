"""InternalTopic: a topic that a coordinator keeps its state in, made when it is first needed.

The records of a key go to the partition that Kafka would choose, through ``Partition.append`` like
any other batch. An appended record is in force; an acknowledged one is as durable as other
acknowledged records.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from seglog.broker.coordinator.internal_topics.records import StoredRecord, split_by_size
from seglog.broker.partition.partition import Partition
from seglog.broker.requests.services import Services
from seglog.broker.storage.identifiers import random_id
from seglog.broker.storage.log.producer_state import AppendOrigin
from seglog.config import BrokerConfig
from seglog.protocol.compression import Codec
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.records.batch import HEADER_BYTES
from seglog.protocol.records.builder import build_batch
from seglog.protocol.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Acks

logger = logging.getLogger(__name__)

_INT32_MIN: Final = -(2**31)


@dataclass(frozen=True)
class TopicPlan:
    """How an internal topic is made and written to.

    Attributes:
        partition_count: read when the topic is made.
        configs: of the topic, as CreateTopics would be given them; read when it is made.
        codec: of its batches.
    """

    partition_count: Callable[[BrokerConfig], int]
    configs: Callable[[BrokerConfig], dict[str, str]]
    codec: Callable[[BrokerConfig], Codec]


class InternalTopic:
    """Writes the records of one kind of coordinator.

    Args:
        services: of the broker.
        name: of the topic.
        plan: for making it.

    Attributes:
        name: of the topic.
        partition_count: of the topic, as it was when it was made or loaded; 0 while there is none.
    """

    def __init__(self, services: Services, name: str, plan: TopicPlan) -> None:
        self.name = name
        self._services = services
        self._plan = plan
        self._creation: asyncio.Task[None] | None = None
        topic = services.catalog.get(name)
        self.partition_count = 0 if topic is None else topic.partition_count

    @property
    def exists(self) -> bool:
        """Whether the topic is there."""
        return self.partition_count > 0

    def partition_of(self, key: str) -> int:
        """The partition that the records of a group or transactional id are in."""
        assert self.exists
        return partition_of_key(key, self.partition_count)

    def partition(self, key: str) -> Partition:
        """The same, to be written to.

        Raises:
            RequestError: it is offline.
        """
        return self._services.partitions.get(self.name, self.partition_of(key))

    def batch_bytes_max(self, key: str) -> int:
        """How many bytes of records one append for a key may hold.

        Raises:
            RequestError: the partition is offline.
        """
        config = self.partition(key).log.config
        return min(config.max_message_bytes, config.segment_bytes) - HEADER_BYTES

    def append(
        self,
        key: str,
        records: Sequence[StoredRecord],
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        is_bounded: bool = False,
    ) -> "asyncio.Future[None] | None":
        """Append records of one key as one batch; they are in force when this returns.

        Args:
            key: the group or transactional id.
            records: of it.
            producer_id: of the transaction that the records belong to; without one they count at
                once.
            producer_epoch: of that producer.
            is_bounded: whether max.message.bytes holds, as for all that clients make up; what a
                coordinator has to store of its own has the segment as its bound.

        Returns:
            What an acknowledgement has to wait for, None if it may be given at once. The future may
            be shared: do not cancel it.

        Raises:
            RequestError, RecordError, StorageError: nothing was written.
        """
        services = self._services
        partition = self.partition(key)
        now_ms = services.clock.time_ms()
        batch = build_batch(
            [(now_ms, record_key, value, ()) for record_key, value in records],
            codec=self._plan.codec(services.config),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_transactional=producer_id != NO_PRODUCER_ID,
        )
        bytes_max = partition.log.config.max_message_bytes
        if is_bounded and len(batch) > bytes_max:
            raise RecordError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the batch has {len(batch)} bytes, max.message.bytes is {bytes_max}",
            )
        info = partition.append(memoryview(batch), Acks.ALL, now_ms, AppendOrigin.COORDINATOR)
        return partition.acknowledgement(info, Acks.ALL)

    def append_all(
        self, key: str, records: Sequence[StoredRecord]
    ) -> "asyncio.Future[None] | None":
        """Append as many records as there may be, in several batches if need be.

        Returns and raises as ``append`` does, but records written before an error stay.
        """
        acknowledgement = None
        for run in split_by_size(records, self.batch_bytes_max(key)):
            # That of the last batch is that of all: they are in one partition.
            acknowledgement = self.append(key, run) or acknowledgement
        return acknowledgement

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

    async def stop(self, deadline_seconds: float) -> None:
        """Let the topic be finished if it is just being made, unless that takes long."""
        if self._creation is not None:
            await asyncio.wait([self._creation], timeout=deadline_seconds)

    async def _create(self) -> None:
        services = self._services
        config = services.config
        async with services.changing:
            topic = services.catalog.get(self.name)
            if topic is None:
                count = self._plan.partition_count(config)
                configs = self._plan.configs(config)
                await services.topics.create(
                    self.name, random_id(), count, configs, config.log_config(configs)
                )
                logger.info("event=topic-created topic=%s partitions=%d", self.name, count)
                topic = services.catalog.get(self.name)
            assert topic is not None
            self.partition_count = topic.partition_count

    def _created(self, task: "asyncio.Task[None]") -> None:
        self._creation = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("event=topic-not-created topic=%s error=%s", self.name, error)


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
