"""Transactions from the first request to the last marker, without sockets: C052, C055, TXN-11."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from seglog.broker.coordinator.transactions import endings
from seglog.broker.coordinator.transactions.records import transaction_record
from seglog.broker.coordinator.transactions.state import TransactionState
from seglog.broker.coordinator.transactions.store import TRANSACTION_TOPIC
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.log.producer_state import AppendOrigin
from seglog.protocol.api import (
    DescribeProducersRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TransactionEnd,
    WriteTxnMarkersRequest,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.builder import build_batch
from seglog.protocol.types import Acks
from support.broker_parts import batch_of
from support.failing_disk import FailingDisk
from support.group_broker import GroupBroker
from support.replicas import LaggingReplicas
from support.transactions import (
    TransactionalProducer,
    committed_values,
    described,
    restarted,
    state_of,
    transaction_broker,
)

NONE = ErrorCode.NONE
VERSIONS = pytest.mark.parametrize("version", [0, 2])


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[GroupBroker]:
    broker = await transaction_broker(tmp_path)
    await broker.parts.create_topic("t", 2)
    yield broker
    await broker.stop()


async def owner(broker: GroupBroker, name: str = "x", version: int = 0) -> TransactionalProducer:
    producer = TransactionalProducer(broker, name, version)
    assert await producer.init() is NONE
    return producer


@VERSIONS
async def test_half_of_a_transaction_is_seen(broker: GroupBroker, version: int) -> None:
    """All of what was committed, on all partitions, and nothing of what was not."""
    producer = await owner(broker, version=version)
    for commit in (True, False, True):
        for number in range(2):
            assert await producer.send("t", number, b"%d" % commit) is NONE
            await committed_values(broker.parts, "t", number)
        assert await state_of(broker) is TransactionState.ONGOING
        assert await producer.end(commit=commit) is NONE
    assert producer.epoch == (3 if version else 0)
    for number in range(2):
        assert await committed_values(broker.parts, "t", number) == [b"1", b"1"]
        log = broker.parts.log("t", number)
        assert log.offsets.last_stable == log.offsets.log_end
    assert (await described(broker)).partitions == []


@VERSIONS
async def test_an_owner_that_was_replaced_goes_on(broker: GroupBroker, version: int) -> None:
    """Its open transaction is aborted, and whatever it sends is refused."""
    zombie = await owner(broker, version=version)
    assert await zombie.send("t", 0, b"zombie") is NONE
    successor = await owner(broker, version=version)
    assert successor.epoch == 2
    assert await zombie.produce("t", 0, b"late") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await zombie.produce("t", 1, b"late") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await zombie.add(("t", 1)) == [ErrorCode.PRODUCER_FENCED]
    assert await zombie.add_offsets() is ErrorCode.PRODUCER_FENCED
    assert await zombie.end(commit=True) is ErrorCode.PRODUCER_FENCED
    assert await zombie.init(goes_on=True) is ErrorCode.PRODUCER_FENCED
    assert await successor.send("t", 0, b"new") is NONE
    assert await successor.end(commit=True) is NONE
    assert await committed_values(broker.parts, "t", 0) == [b"new"]


async def test_a_producer_cannot_recover_from_an_error(broker: GroupBroker) -> None:
    """KIP-360: with its own id and epoch it goes on with the next one, its transaction aborted."""
    producer = await owner(broker)
    assert await producer.send("t", 0, b"gone") is NONE
    first_id = producer.producer_id
    assert await producer.init(goes_on=True) is NONE
    assert (producer.producer_id, producer.epoch) == (first_id, 1)
    assert await producer.init(goes_on=True) is NONE
    assert await producer.send("t", 0, b"kept") is NONE
    assert await producer.end(commit=True) is NONE
    assert await committed_values(broker.parts, "t", 0) == [b"kept"]


async def test_the_wrong_timeout_is_granted(tmp_path: Path) -> None:
    """C052: 900000 against 5000 is INVALID_TRANSACTION_TIMEOUT."""
    broker = await transaction_broker(tmp_path, {"transaction.max.timeout.ms": "5000"})
    for timeout_ms, code in (
        (900_000, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (5001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (5000, NONE),
    ):
        response = await broker.ask(InitProducerIdRequest("x", timeout_ms))
        assert (response.error, response.producer_id >= 0) == (code, code is NONE)
    assert ErrorCode.INVALID_TRANSACTION_TIMEOUT == 50
    await broker.stop()


@VERSIONS
@pytest.mark.parametrize("restart", [None, True, False], ids=["running", "clean", "killed"])
async def test_a_dead_producer_holds_readers_up(
    broker: GroupBroker, version: int, restart: bool | None
) -> None:
    """C052: its transaction is aborted soon after its timeout, before and after a restart."""
    dead = TransactionalProducer(broker, "dead", version, timeout_ms=3000)
    assert await dead.init() is NONE
    assert await dead.send("t", 0, b"lost") is NONE
    alive = await owner(broker, "alive", version)
    for value in (b"1", b"2"):
        assert await alive.send("t", 0, value) is NONE
        assert await alive.end(commit=True) is NONE
    await broker.parts.produce([("t", 0, batch_of(b"plain"))])
    assert await committed_values(broker.parts, "t", 0) == []
    served = broker if restart is None else await restarted(broker, clean=restart)
    await served.advance(3000)
    assert await committed_values(served.parts, "t", 0) == []
    await served.advance(1000)
    assert await committed_values(served.parts, "t", 0) == [b"1", b"2", b"plain"]
    assert await state_of(served, "dead") is TransactionState.COMPLETE_ABORT
    assert served.coordination.transactions.table.counters.timeouts == 1
    dead.broker = served
    assert await dead.produce("t", 0, b"late") is ErrorCode.INVALID_PRODUCER_EPOCH
    ended = await dead.end(commit=False)
    assert ended is (NONE if version else ErrorCode.PRODUCER_FENCED)
    if served is not broker:
        await served.stop()


async def test_records_arrive_behind_their_own_marker(broker: GroupBroker) -> None:
    """TXN-11: where the partition was not added, or the transaction is over, nothing is written."""
    producer = await owner(broker)
    assert await producer.produce("t", 0, b"x") is ErrorCode.TRANSACTION_ABORTABLE
    assert await producer.add(("t", 0)) == [NONE]
    assert await producer.produce("t", 1, b"x") is ErrorCode.TRANSACTION_ABORTABLE
    assert await producer.produce("t", 0, b"x") is NONE
    assert await producer.produce("t", 0, b"y") is NONE
    assert await producer.end(commit=True) is NONE
    assert await producer.produce("t", 0, b"z") is ErrorCode.TRANSACTION_ABORTABLE
    nameless = batch_of(
        b"n", producer_id=99, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    # It may come along with others, or in a transaction that is open there: nobody may write it.
    assert await producer.add(("t", 0)) == [NONE]
    assert await producer.produce("t", 0, b"z") is NONE
    results = await broker.parts.produce([("t", 0, nameless), ("t", 1, batch_of(b"plain"))])
    assert {each.error for each in results} == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert broker.parts.values("t", 1) == []
    assert broker.parts.values("t", 0)[:2] == [b"x", b"y"]
    assert broker.parts.offsets("t", 0) == (0, 4)


async def test_the_second_of_two_batches_overtakes_the_first(broker: GroupBroker) -> None:
    """A log that knows nothing of the producer must not begin with the second one."""
    producer = await owner(broker, version=2)
    producer.sequences["t", 0] = 5
    assert await producer.produce("t", 0, b"second") is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producer.sequences["t", 0] = 0
    assert await producer.produce("t", 0, b"first") is NONE


async def test_a_large_batch_is_let_in_without_leave(broker: GroupBroker) -> None:
    """What is validated in a worker is asked for again when it comes back."""
    producer = await owner(broker, version=2)
    values = [b"%05d" % number * 50 for number in range(200)]
    assert await producer.produce("t", 0, *values) is NONE
    assert await producer.end(commit=True) is NONE
    assert await committed_values(broker.parts, "t", 0) == values


async def test_verification_cannot_be_switched_off(tmp_path: Path) -> None:
    """Clients that add by writing are let in through the coordinator in any case."""
    broker = await transaction_broker(
        tmp_path, {"transaction.partition.verification.enable": "false"}
    )
    await broker.parts.create_topic("t", 1)
    old, new = await owner(broker, "old"), await owner(broker, "new", 2)
    assert await old.produce("t", 0, b"hangs") is NONE
    assert await new.produce("t", 0, b"added") is NONE
    assert (await described(broker, "old")).partitions == []
    assert (await described(broker, "new")).partitions == [("t", 0)]
    await broker.stop()


async def test_unknown_partitions_are_added(broker: GroupBroker) -> None:
    producer = await owner(broker)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await producer.add(("t", 0), ("t", 9)) == [ErrorCode.OPERATION_NOT_ATTEMPTED, unknown]
    assert await producer.add((TRANSACTION_TOPIC, 0)) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert await state_of(broker) is TransactionState.EMPTY


async def test_a_deleted_topic_keeps_a_transaction_open(broker: GroupBroker) -> None:
    producer = await owner(broker)
    await broker.parts.create_topic("gone", 1)
    assert await producer.send("gone", 0, b"x") is NONE
    assert await producer.send("t", 0, b"y") is NONE
    await broker.parts.delete_topic("gone")
    assert await producer.end(commit=True) is NONE
    assert await state_of(broker) is TransactionState.COMPLETE_COMMIT
    assert await committed_values(broker.parts, "t", 0) == [b"y"]


@VERSIONS
@pytest.mark.parametrize("full", ["t-1/", f"{TRANSACTION_TOPIC}-"])
async def test_a_full_disk_loses_a_marker(tmp_path: Path, full: str, version: int) -> None:
    """It is written when there is room; what was decided stays decided."""
    disk = FailingDisk()
    broker = await transaction_broker(tmp_path, file_system=OsFileSystem(disk))
    await broker.parts.create_topic("t", 2)
    producer = await owner(broker, version=version)
    for number in range(2):
        assert await producer.send("t", number, b"x") is NONE
    disk.full.add(full)
    ended = await producer.end(commit=True)
    if full == "t-1/":
        assert ended is NONE
        assert await state_of(broker) is TransactionState.PREPARE_COMMIT
        assert await producer.add(("t", 0)) == [ErrorCode.CONCURRENT_TRANSACTIONS]
        # Older clients know only some errors in this place.
        assert await producer.produce("t", 0, b"y") is (
            ErrorCode.CONCURRENT_TRANSACTIONS if version else ErrorCode.NOT_ENOUGH_REPLICAS
        )
        await broker.advance(1000)
        assert await producer.init() is ErrorCode.CONCURRENT_TRANSACTIONS
        assert await committed_values(broker.parts, "t", 0) == [b"x"]
    else:
        assert ended is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await state_of(broker) is TransactionState.ONGOING
        assert await committed_values(broker.parts, "t", 0) == []
    assert await committed_values(broker.parts, "t", 1) == []
    disk.full.clear()
    await broker.advance(1000)
    if ended:
        assert await producer.end(commit=True) is NONE
    for number in range(2):
        assert await committed_values(broker.parts, "t", number) == [b"x"]
    assert await state_of(broker) is TransactionState.COMPLETE_COMMIT
    await broker.stop()


@VERSIONS
async def test_a_partition_that_takes_nothing_keeps_a_transaction_from_its_end(
    tmp_path: Path, version: int
) -> None:
    """TXN-3: its records were refused, so its marker may be missing; the other one counts."""
    disk = FailingDisk()
    broker = await transaction_broker(tmp_path, file_system=OsFileSystem(disk))
    await broker.parts.create_topic("t", 2)
    await broker.parts.create_topic("lonely", 1, {"min.insync.replicas": "2"})
    broker.parts.partition("lonely", 0).replicas = LaggingReplicas(in_sync_count=1)
    producer = await owner(broker, version=version)
    assert await producer.send("t", 0, b"x") is NONE
    assert await producer.send("lonely", 0, b"x") is ErrorCode.NOT_ENOUGH_REPLICAS
    disk.full.add("t-1/")
    assert await producer.send("t", 1, b"x") is ErrorCode.KAFKA_STORAGE_ERROR
    assert await producer.end(commit=False) is NONE
    assert await state_of(broker) is TransactionState.COMPLETE_ABORT
    disk.full.clear()
    for number in range(2):
        assert await producer.send("t", number, b"y") is NONE
    assert await producer.end(commit=True) is NONE
    for number in range(2):
        assert await committed_values(broker.parts, "t", number) == [b"y"]
    await broker.stop()


async def test_an_answer_is_given_before_the_disk_has_it(tmp_path: Path) -> None:
    """With flush.messages=1 each step waits for the sync of the one before."""
    broker = await transaction_broker(tmp_path, {"log.flush.interval.messages": "1"})
    await broker.parts.create_topic("t", 2)
    for version in (0, 2):
        producer = await owner(broker, f"v{version}", version)
        for number in range(2):
            assert await producer.send("t", number, b"x") is NONE
        assert await producer.end(commit=True) is NONE
        async with asyncio.timeout(10):
            while await state_of(broker, f"v{version}") is not TransactionState.COMPLETE_COMMIT:
                await broker.parts.quiet()
    offsets = [each.log.offsets for each in broker.parts.services.partitions.all()]
    async with asyncio.timeout(10):
        while any(each.recovery_point != each.log_end for each in offsets):
            await broker.parts.quiet()
    assert await committed_values(broker.parts, "t", 1) == [b"x", b"x"]
    await broker.stop()


async def test_a_transaction_is_lost_that_was_decided(broker: GroupBroker) -> None:
    """A start that finds a decision writes the markers that are missing, and no others."""
    producer = await owner(broker, version=2)
    for number in range(2):
        assert await producer.send("t", number, b"x") is NONE
    # As if the power had failed behind the first marker.
    transactions = broker.coordination.transactions
    real_write = transactions.markers.write
    written: list[tuple[str, int]] = []

    def write_one(place: tuple[str, int], *arguments: object, **options: object) -> object:
        if written:
            raise ConnectionAbortedError
        written.append(place)
        return real_write(place, *arguments, **options)  # type: ignore[arg-type] # passed on

    transactions.markers.write = write_one  # type: ignore[method-assign,assignment]
    with pytest.raises(ConnectionAbortedError):
        await producer.end(commit=True)
    successor = await restarted(broker, clean=False)
    await successor.parts.quiet()
    assert await state_of(successor) is TransactionState.COMPLETE_COMMIT
    for number in range(2):
        assert await committed_values(successor.parts, "t", number) == [b"x"]
        assert successor.parts.offsets("t", number) == (0, 2)
    producer.broker = successor
    assert await producer.end(commit=True) is NONE
    assert producer.epoch == 1
    await successor.stop()


async def test_a_transaction_over_many_partitions_stops_everybody(
    broker: GroupBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand markers take 40 ms: others get their turn, and the answer comes when all are."""
    monkeypatch.setattr(endings, "_SLICE", 1)
    await broker.parts.create_topic("wide", 20)
    producer, other = await owner(broker, version=2), await owner(broker, "other", version=2)
    for number in range(20):
        assert await producer.send("wide", number, b"value") is NONE
    ending = asyncio.ensure_future(producer.end(commit=True))
    for _ in range(2):
        await asyncio.sleep(0)
    assert [broker.parts.log("wide", number).offsets.last_stable for number in (0, 19)] == [2, 0]
    assert await state_of(broker) is TransactionState.PREPARE_COMMIT
    assert await TransactionalProducer(broker).init() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert await other.send("t", 0, b"other") is NONE
    assert not ending.done()
    assert await ending is NONE
    assert await state_of(broker) is TransactionState.COMPLETE_COMMIT
    for number in range(20):
        assert await committed_values(broker.parts, "wide", number) == [b"value"]
    assert await producer.send("wide", 0, b"next") is NONE


async def test_an_unused_id_is_kept_for_ever(tmp_path: Path) -> None:
    settings = {
        "transactional.id.expiration.ms": "5000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
    }
    broker = await transaction_broker(tmp_path, settings)
    await broker.parts.create_topic("t", 1)
    await owner(broker, "unused")
    busy = await owner(broker, "busy")
    await broker.advance(4000)
    assert await busy.send("t", 0, b"x") is NONE
    await broker.advance(4000)
    table = broker.coordination.transactions.table
    assert [each.metadata.transactional_id for each in table] == ["busy"]
    assert table.counters.expired_ids == 1
    successor = await restarted(broker, settings, clean=False)
    table = successor.coordination.transactions.table
    assert [each.metadata.transactional_id for each in table] == ["busy"]
    await successor.stop()


async def test_an_id_of_a_producer_is_given_again(tmp_path: Path) -> None:
    """Ids that only the log of transactions knows count where the catalog was lost."""
    broker = await transaction_broker(tmp_path)
    first = await owner(broker)
    await broker.stop()
    for path in broker.parts.log_dir.glob("seglog-catalog*"):
        path.unlink()
    successor = await transaction_broker(tmp_path, log_dir=broker.parts.log_dir)
    response = await successor.ask(InitProducerIdRequest())
    assert response.producer_id == first.producer_id + 1
    await successor.stop()


async def test_requests_are_answered_before_everything_is_read(tmp_path: Path) -> None:
    broker = await transaction_broker(tmp_path)
    producer = await owner(broker)
    await broker.stop()
    successor = await GroupBroker.start(tmp_path)
    producer.broker = successor
    requests = (
        InitProducerIdRequest("x"),
        EndTxnRequest("x", producer.producer_id, producer.epoch, commit=True),
        ListTransactionsRequest(),
    )
    answers = [successor.begin(request) for request in requests]
    for answer in answers:
        assert (await answer).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await successor.coordination.transactions.table.loaded()
    assert await producer.init() is NONE
    assert producer.epoch == 1
    await successor.stop()


async def test_an_id_that_two_partitions_know_stops_the_reading(broker: GroupBroker) -> None:
    """Files of a cluster may have come here with other partitions: the later word counts."""
    producer = await owner(broker)
    table = broker.coordination.transactions.table
    stored = table.metadata("x")
    assert stored is not None
    for number, epoch in ((0, 7), (1, 6)):
        later = replace(stored, producer_epoch=epoch, updated_ms=stored.updated_ms + epoch)
        batch = build_batch([(0, *transaction_record(later), ())])
        broker.parts.partition(TRANSACTION_TOPIC, number).append(
            memoryview(batch), Acks.ALL, stored.updated_ms, AppendOrigin.COORDINATOR
        )
    successor = await restarted(broker, clean=False)
    producer.broker = successor
    assert await producer.init() is NONE
    assert producer.epoch == 8
    await successor.stop()


async def test_a_hanging_transaction_cannot_be_ended(tmp_path: Path) -> None:
    """C052: an administrator finds it by its producer, and ends it with a marker."""
    settings = {"transaction.partition.verification.enable": "false"}
    broker = await transaction_broker(tmp_path, settings)
    await broker.parts.create_topic("t", 1)
    hanging = batch_of(
        b"h", producer_id=77, producer_epoch=3, base_sequence=0, is_transactional=True
    )
    await broker.parts.produce([("t", 0, hanging)], transactional_id="hangs")
    await broker.parts.produce([("t", 0, batch_of(b"plain"))])
    (found,) = (await broker.ask(DescribeProducersRequest([("t", 0)]))).partitions
    (producer,) = found.producers
    assert producer.transaction_start_offset == 0
    end = TransactionEnd(producer.producer_id, producer.producer_epoch, False, [("t", 0), ("t", 8)])
    response = await broker.ask(WriteTxnMarkersRequest([end]))
    (result,) = response.ends
    errors = [each.error for each in result.partitions]
    assert errors == [NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await committed_values(broker.parts, "t", 0) == [b"plain"]
    await broker.stop()


async def test_a_pattern_stops_the_broker(broker: GroupBroker) -> None:
    """C034: what tries every way one after the other takes longer than anybody waits."""
    for name in ("a" * 2_000, "a" * 30 + "b"):
        await owner(broker, name)
    answer = broker.begin(ListTransactionsRequest(transactional_id_pattern="(a+)+b"))
    assert not answer.done(), "others get their turn"
    assert [each.transactional_id for each in (await answer).transactions] == ["a" * 30 + "b"]


async def test_lists_show_what_was_not_asked_for(broker: GroupBroker) -> None:
    for name in ("a-1", "a-2", "b"):
        producer = await owner(broker, name)
    assert await producer.send("t", 0, b"x") is NONE
    broker.clock.advance(1000)
    every = ["a-1", "a-2", "b"]
    for request, names, unknown in (
        (ListTransactionsRequest(), every, []),
        (ListTransactionsRequest(["Ongoing", "Bogus"]), ["b"], ["Bogus"]),
        (ListTransactionsRequest(["Bogus"]), [], ["Bogus"]),
        (ListTransactionsRequest(producer_ids=[producer.producer_id]), ["b"], []),
        (ListTransactionsRequest(duration_ms=999), ["b"], []),
        (ListTransactionsRequest(duration_ms=1000), [], []),
        (ListTransactionsRequest(transactional_id_pattern="a-."), ["a-1", "a-2"], []),
    ):
        response = await broker.ask(request)
        assert [each.transactional_id for each in response.transactions] == names, request
        assert (response.unknown_states, response.error) == (unknown, NONE)
    for pattern in ("(", "(?=a)b", "(a)\\1", "((a{999}){999}){999}", "a" * 40_000):
        broken = await broker.ask(ListTransactionsRequest(transactional_id_pattern=pattern))
        assert broken.error is ErrorCode.INVALID_REGULAR_EXPRESSION, pattern[:40]
    assert (await described(broker, "nobody")).error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
