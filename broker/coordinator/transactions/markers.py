"""MarkerWriter: says in a partition how a producer's transaction has ended."""

import asyncio
import logging
from typing import Protocol

from seglog.broker.coordinator.groups.store import OFFSETS_TOPIC
from seglog.broker.coordinator.internal_topics.records import Place
from seglog.broker.coordinator.transactions.state import Claim
from seglog.broker.partition.partition import Partition
from seglog.broker.requests.services import Services
from seglog.broker.storage.log.producer_entry import NO_COORDINATOR_EPOCH
from seglog.protocol.records.control import ControlType, build_marker
from seglog.protocol.types import Acks

logger = logging.getLogger(__name__)


class OffsetsListener(Protocol):
    """Told when a marker was appended to a partition of ``__consumer_offsets``."""

    def __call__(self, partition_number: int, producer_id: int, *, is_commit: bool) -> None:
        """The offsets of a producer in a partition are decided."""


class MarkerWriter:
    """Appends control batches to the partitions of this broker.

    Args:
        services: of the broker.

    Attributes:
        offsets_listener: what has to know when offsets of a transaction are decided.
    """

    def __init__(self, services: Services) -> None:
        self.offsets_listener: OffsetsListener | None = None
        self._services = services

    def write(
        self,
        place: Place,
        producer: Claim,
        *,
        commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
        is_repeat: bool = False,
    ) -> "asyncio.Future[None] | None":
        """Append one marker; the transaction has ended there when this returns.

        Args:
            place: the partition.
            producer: whose transaction ends, with the epoch of the marker.
            commit: or abort.
            coordinator_epoch: the term of the coordinator that says so.
            transaction_version: from 2 on the epoch has to be above that of the records (TXN-4).
            is_repeat: whether the marker may be there already; then it is not written again.

        Returns:
            What has to be waited for until the marker is as durable as an acknowledged record.

        Raises:
            RequestError, RecordError, StorageError: nothing was written.
        """
        topic, number = place
        partition = self._services.partitions.get(topic, number)
        if is_repeat and _has_ended(partition, producer):
            return None
        now_ms = self._services.clock.time_ms()
        marker = build_marker(
            ControlType.COMMIT if commit else ControlType.ABORT,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=now_ms,
        )
        info = partition.append_marker(memoryview(marker), now_ms, transaction_version)
        acknowledged = partition.acknowledgement(info, Acks.ALL)
        if topic == OFFSETS_TOPIC and self.offsets_listener is not None:
            self.offsets_listener(number, producer.producer_id, is_commit=commit)
        return acknowledged

    def has_nothing_open(self, place: Place, producer_id: int) -> bool:
        """Whether a producer is known to have no open transaction in a partition (TXN-3)."""
        partition = self._services.partitions.find(*place)
        if partition is None:
            return False
        entry = partition.log.producer_state.get(producer_id)
        return entry is None or entry.open_transaction_offset is None

    def known_coordinator_epoch(self, place: Place, producer_id: int) -> int:
        """The highest term of a coordinator that a partition has seen for a producer, or -1."""
        partition = self._services.partitions.find(*place)
        entry = None if partition is None else partition.log.producer_state.get(producer_id)
        return NO_COORDINATOR_EPOCH if entry is None else entry.coordinator_epoch


def _has_ended(partition: Partition, producer: Claim) -> bool:
    """Whether nothing of the producer is open in a partition, and nothing older can come."""
    entry = partition.log.producer_state.get(producer.producer_id)
    return (
        entry is not None
        and entry.open_transaction_offset is None
        and entry.epoch >= producer.producer_epoch
    )
