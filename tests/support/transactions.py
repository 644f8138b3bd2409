"""Transactional producers over a broker without sockets."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seglog.broker.coordinator.transactions.state import TransactionState
from seglog.protocol.api import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProducePartition,
    ProduceRequest,
    TransactionDescription,
    TransactionPartitions,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.batch import iter_batches
from seglog.protocol.types import Acks, IsolationLevel
from support.broker_parts import BrokerParts, batch_of
from support.fake_clock import FakeClock
from support.group_broker import GroupBroker

FEW_PARTITIONS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


async def transaction_broker(
    folder: Path,
    settings: Mapping[str, str] | None = None,
    clock: FakeClock | None = None,
    **options: Any,
) -> GroupBroker:
    """A broker with few internal partitions, everything read back."""
    broker = await GroupBroker.start(
        folder, {**FEW_PARTITIONS, **(settings or {})}, clock, **options
    )
    await broker.coordination.transactions.table.loaded()
    return broker


async def restarted(
    broker: GroupBroker, settings: Mapping[str, str] | None = None, *, clean: bool = True
) -> GroupBroker:
    """Another broker over the same folder."""
    successor = await broker.restarted({**FEW_PARTITIONS, **(settings or {})}, clean=clean)
    await successor.coordination.transactions.table.loaded()
    return successor


class TransactionalProducer:
    """One producer; ``version`` 2 adds partitions by writing and gets an epoch with each end."""

    def __init__(
        self,
        broker: GroupBroker,
        transactional_id: str = "x",
        version: int = 0,
        timeout_ms: int = 60_000,
    ) -> None:
        self.broker = broker
        self.transactional_id = transactional_id
        self.version = version
        self.timeout_ms = timeout_ms
        self.producer_id = self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    async def init(self, *, goes_on: bool = False) -> ErrorCode:
        """Become the owner; with ``goes_on`` as who it is (KIP-360)."""
        request = InitProducerIdRequest(self.transactional_id, self.timeout_ms)
        if goes_on:
            request.producer_id, request.producer_epoch = self.producer_id, self.epoch
        response = await self.broker.ask(request)
        if not response.error:
            self._is_now(response.producer_id, response.producer_epoch)
        error: ErrorCode = response.error
        return error

    def _is_now(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

    async def add(self, *places: tuple[str, int]) -> list[ErrorCode]:
        """Add partitions, as older clients do."""
        transaction = TransactionPartitions(
            self.transactional_id, self.producer_id, self.epoch, list(places)
        )
        response: AddPartitionsToTxnResponse = await self.broker.ask(
            AddPartitionsToTxnRequest([transaction])
        )
        return [each.error for each in response.transactions[0].partitions]

    async def add_offsets(self, group: str = "g") -> ErrorCode:
        request = AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, group)
        error: ErrorCode = (await self.broker.ask(request)).error
        return error

    async def produce(self, topic: str, number: int, *values: bytes) -> ErrorCode:
        """Write records without adding their partition, unless that is done by writing."""
        sequence = self.sequences.get((topic, number), 0)
        batch = batch_of(
            *values,
            timestamp_ms=self.broker.clock.time_ms(),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        request = ProduceRequest(
            Acks.ALL,
            5000,
            [ProducePartition(topic, number, batch)],
            self.transactional_id,
            may_add=self.version >= 2,
        )
        (result,) = (await self.broker.ask(request)).partitions
        if not result.error:
            self.sequences[topic, number] = sequence + len(values)
        error: ErrorCode = result.error
        return error

    async def send(self, topic: str, number: int, *values: bytes) -> ErrorCode:
        """Write records, whatever that takes."""
        if self.version < 2:
            (error,) = await self.add((topic, number))
            if error:
                return error
        return await self.produce(topic, number, *values)

    async def end(self, *, commit: bool) -> ErrorCode:
        response = await self.broker.ask(
            EndTxnRequest(
                self.transactional_id,
                self.producer_id,
                self.epoch,
                commit,
                bumps_epoch=self.version >= 2,
            )
        )
        if not response.error and self.version >= 2:
            self._is_now(response.producer_id, response.producer_epoch)
        error: ErrorCode = response.error
        return error


async def described(broker: GroupBroker, transactional_id: str = "x") -> TransactionDescription:
    request = DescribeTransactionsRequest([transactional_id])
    (description,) = (await broker.ask(request)).transactions
    assert isinstance(description, TransactionDescription)
    return description


async def state_of(broker: GroupBroker, transactional_id: str = "x") -> TransactionState:
    return TransactionState((await described(broker, transactional_id)).state)


async def committed_values(parts: BrokerParts, topic: str, number: int) -> Sequence[bytes | None]:
    """What a reader of committed data sees from the beginning on."""
    skipped: set[int] = set()
    values: list[bytes | None] = []
    offset = 0
    while True:
        response = await parts.fetch(
            [(topic, number, offset)], isolation=IsolationLevel.READ_COMMITTED
        )
        (result,) = response.partitions
        assert not result.error, result
        aborted = sorted(
            (first_offset, producer_id) for producer_id, first_offset in result.aborted_transactions
        )
        batches = list(iter_batches(parts.bytes_of(result)))
        if not batches:
            return values
        for batch in batches:
            header = batch.header
            while aborted and aborted[0][0] <= header.base_offset:
                skipped.add(aborted.pop(0)[1])
            if header.is_control:
                skipped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipped):
                values += [record.value for record in batch.records()]
        offset = batches[-1].header.next_offset
