"""What a transactional producer makes of the coordinator's answers."""

import asyncio

import pytest

from seglog.clients import (
    AsyncProducer,
    ClientError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionStateError,
)
from seglog.clients.errors import BrokerError
from seglog.protocol.api import (
    Coordinator,
    EndTxnRequest,
    EndTxnResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    OffsetCommitResult,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from seglog.protocol.errors import ErrorCode
from support.fake_broker import HANG_UP, FakeBroker

FENCED = ErrorCode.PRODUCER_FENCED
STALE = ErrorCode.INVALID_PRODUCER_EPOCH
UNMAPPED = ErrorCode.INVALID_PRODUCER_ID_MAPPING
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
MOVED = ErrorCode.NOT_COORDINATOR
BAD_STATE = ErrorCode.INVALID_TXN_STATE
ABORTABLE = ErrorCode.TRANSACTION_ABORTABLE
QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 2, "transactional_id": "tx"}


class FakeCoordinator:
    """Coordinates the transactions of one producer with the id 7; ``answers`` come before its own.

    An answer is an error code or ``HANG_UP``.
    """

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.epoch = 0
        self.answers: dict[type, list[object]] = {}
        broker.script = self.script
        broker.create("t", 2)

    def refuse(self, kind: type, *answers: object) -> None:
        self.answers.setdefault(kind, []).extend(answers)

    def script(self, request):
        waiting = self.answers.get(type(request))
        answer = waiting.pop(0) if waiting else ErrorCode.NONE
        if not isinstance(answer, ErrorCode):
            return answer
        match request:
            case FindCoordinatorRequest():
                found = Coordinator(request.keys[0], 0, self.broker.host, self.broker.port)
                return FindCoordinatorResponse([found])
            case InitProducerIdRequest():
                return InitProducerIdResponse(answer, 7, self.epoch)
            case EndTxnRequest():
                self.epoch += answer is ErrorCode.NONE
                return EndTxnResponse(answer, 7, self.epoch)
            case TxnOffsetCommitRequest():
                places = [(each.topic, each.partition) for each in request.partitions]
                return TxnOffsetCommitResponse(
                    [OffsetCommitResult(*place, answer) for place in places]
                )
            case ProduceRequest() if answer is not ErrorCode.NONE:
                places = [(each.topic, each.partition) for each in request.partitions]
                return ProduceResponse(
                    [ProducePartitionResult(*place, answer, error_message="no") for place in places]
                )
        return None

    def ends(self) -> list[tuple[int, bool]]:
        """Epoch and outcome of every request to end a transaction."""
        found = self.broker.requests_of(EndTxnRequest)
        assert all(request.bumps_epoch for request in found)
        return [(request.producer_epoch, request.commit) for request in found]


@pytest.fixture
def coordinator(broker):
    return FakeCoordinator(broker)


async def test_every_transaction_has_its_own_epoch_and_numbers_from_0(coordinator):
    """Numbers of a batch that was dropped before it left are not used again (the epoch is)."""
    async with AsyncProducer(coordinator.broker.address, **QUICK) as producer:
        for _ in range(2):
            async with producer.transaction():
                for _ in range(3):
                    await producer.send_and_wait("t", b"x", partition=0)
        await producer.begin_transaction()
        await producer.send("t", b"dropped", partition=0)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("t", b"y", partition=0)
    headers = [batch.header for batch in coordinator.broker.topics["t"][0].batches]
    found = [(each.producer_epoch, each.base_sequence) for each in headers]
    assert found[:6] == [(epoch, number) for epoch in (0, 1) for number in (0, 1, 2)]
    assert found[-1] == (coordinator.ends()[-1][0], 0)
    assert all(header.is_transactional for header in headers)
    requests = coordinator.broker.requests_of(ProduceRequest)
    assert {(request.transactional_id, request.may_add) for request in requests} == {("tx", True)}


async def test_a_record_that_slips_in_behind_the_end_is_in_no_transaction(coordinator):
    """Another thread was past the check: it leaves with the next one."""
    async with AsyncProducer(coordinator.broker.address, **QUICK) as producer:
        await write(producer)
        producer._transactions.progress.check_open = lambda: None
        await producer.send("t", b"late", partition=1)
        await producer.cluster.refresh(5)
        assert not coordinator.broker.topics["t"][1].batches
        async with producer.transaction():
            pass
    (batch,) = coordinator.broker.topics["t"][1].batches
    assert batch.header.producer_epoch == 1
    assert coordinator.ends() == [(0, True), (1, True)]


async def test_nothing_is_said_of_a_transaction_without_anything_in_it(coordinator):
    """The broker could not commit it."""
    async with AsyncProducer(coordinator.broker.address, **QUICK) as producer:
        async with producer.transaction():
            await producer.send_offsets_to_transaction({}, "g")
        await producer.begin_transaction()
        await producer.abort_transaction()
    assert coordinator.ends() == []


async def write(producer):
    """A transaction with a record and an offset."""
    async with producer.transaction():
        await producer.send("t", b"x", partition=0)
        await producer.send_offsets_to_transaction({("t", 0): 1}, "g")


async def write_and_fail(producer):
    async with producer.transaction():
        await producer.send_and_wait("t", b"x")
        raise KeyError


async def test_records_come_again_soon_while_the_last_transaction_ends(coordinator, caplog):
    """Its markers take a sync or two: the pause for other failures would cost most of the time."""
    options = {**QUICK, "retry_backoff_ms": 30_000, "retry_backoff_max_ms": 30_000}
    async with AsyncProducer(coordinator.broker.address, **options) as producer:
        await producer.begin_transaction()
        coordinator.refuse(ProduceRequest, CONCURRENT, CONCURRENT)
        async with asyncio.timeout(20):
            await producer.send_and_wait("t", b"x", partition=0)
        await producer.commit_transaction()
    assert not caplog.records, "it is part of the protocol"


@pytest.mark.parametrize("answers", [(CONCURRENT, LOADING, MOVED), (HANG_UP,)])
async def test_what_passes_is_told_to_the_application(coordinator, answers):
    coordinator.refuse(EndTxnRequest, *answers)
    if HANG_UP not in answers:
        coordinator.refuse(InitProducerIdRequest, *answers)
        coordinator.refuse(TxnOffsetCommitRequest, *answers)
    async with AsyncProducer(coordinator.broker.address, **QUICK) as producer:
        await write(producer)
    assert coordinator.ends() == [(0, True)] * (len(answers) + 1)
    (commit,) = {
        (request.transactional_id, request.producer_id, request.may_add)
        for request in coordinator.broker.requests_of(TxnOffsetCommitRequest)
    }
    assert commit == ("tx", 7, True)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (ProduceRequest, FENCED),
        (TxnOffsetCommitRequest, FENCED),
        (TxnOffsetCommitRequest, STALE),
        (EndTxnRequest, FENCED),
        (EndTxnRequest, STALE),
    ],
)
async def test_a_producer_that_was_shut_out_goes_on(coordinator, kind, code):
    """Whatever it does after that has the same clear end, and it closes without hanging."""
    async with AsyncProducer(coordinator.broker.address, **QUICK) as producer:
        coordinator.refuse(kind, code)
        with pytest.raises(ProducerFencedError, match="transactional id tx"):
            await write(producer)
        for step in (
            producer.begin_transaction,
            producer.commit_transaction,
            producer.abort_transaction,
            lambda: producer.send("t", b"late"),
        ):
            with pytest.raises(ProducerFencedError, match="close this producer"):
                await step()


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (ProduceRequest, ABORTABLE),
        (ProduceRequest, BAD_STATE),
        (ProduceRequest, UNMAPPED),
        (ProduceRequest, STALE),
        (ProduceRequest, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (TxnOffsetCommitRequest, ABORTABLE),
        (TxnOffsetCommitRequest, ErrorCode.ILLEGAL_GENERATION),
        (TxnOffsetCommitRequest, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (EndTxnRequest, BAD_STATE),
        (EndTxnRequest, UNMAPPED),
    ],
)
async def test_a_transaction_that_has_failed_is_committed(coordinator, kind, code):
    """It is aborted, and the producer is as good as new."""
    async with AsyncProducer(coordinator.broker.address, **QUICK) as producer:
        coordinator.refuse(kind, code)
        with pytest.raises((TransactionAbortedError, BrokerError)) as caught:
            await write(producer)
        told = caught.value if kind is TxnOffsetCommitRequest else caught.value.__cause__
        assert isinstance(told, BrokerError)
        assert told.code is code
        async with producer.transaction():
            await producer.send("t", b"y", partition=0)
        assert coordinator.ends()[-1][1]
        asked = coordinator.broker.requests_of(InitProducerIdRequest)
        # Whether the id is still ours has to be found out, by who we were.
        claims = [(request.producer_id, request.producer_epoch) for request in asked]
        assert claims[0] == (-1, -1)
        assert (len(claims) == 2) == (code in {UNMAPPED, STALE})
        assert all(claim[0] == 7 for claim in claims[1:])


@pytest.mark.parametrize("answer", [FENCED, STALE, HANG_UP, CONCURRENT])
async def test_one_that_took_too_long_is_closed_and_one_that_was_replaced_goes_on(
    coordinator, answer
):
    """The refused records do not tell which it is; who asks with its own id and epoch is told."""
    async with AsyncProducer(coordinator.broker.address, **QUICK) as producer:
        await producer.begin_transaction()
        coordinator.refuse(ProduceRequest, STALE)
        with pytest.raises(BrokerError, match="transaction_timeout_ms=60000, or another") as caught:
            await producer.send_and_wait("t", b"x")
        assert not isinstance(caught.value, ProducerFencedError)
        for step in (producer.commit_transaction, lambda: producer.send("t", b"late")):
            with pytest.raises(TransactionAbortedError, match="can only be aborted"):
                await step()
        coordinator.epoch = 5
        coordinator.refuse(InitProducerIdRequest, answer)
        if answer in {FENCED, STALE}:
            for step in (producer.abort_transaction, producer.begin_transaction):
                with pytest.raises(ProducerFencedError, match="close this producer"):
                    await step()
            return
        await producer.abort_transaction()
        await write(producer)
    assert coordinator.ends() == [(5, True)]
    claims = coordinator.broker.requests_of(InitProducerIdRequest)[1:]
    assert [(each.producer_id, each.producer_epoch) for each in claims] == [(7, 0)] * 2


async def test_one_that_was_replaced_is_said_to_time_out(coordinator, caplog):
    """Whoever took its place has ended its transaction."""

    async def fail(producer):
        async with producer.transaction():
            await producer.send_and_wait("t", b"x", partition=0)
            raise ValueError("of the application")

    async with AsyncProducer(coordinator.broker.address, **QUICK) as producer:
        coordinator.refuse(EndTxnRequest, FENCED)
        with pytest.raises(ValueError, match="of the application"):
            await fail(producer)
    (warning,) = [line for line in caplog.messages if "its transaction" in line]
    assert warning.endswith("its transaction was aborted then")
    assert "another producer has taken it over" in warning


async def test_a_commit_of_unknown_outcome_is_taken_for_a_failed_one(coordinator):
    """Only the same question again can tell; an abort is refused."""
    async with AsyncProducer(coordinator.broker.address, **QUICK, max_block_ms=500) as producer:
        coordinator.refuse(EndTxnRequest, *[LOADING] * 10_000)
        with pytest.raises(ClientError) as caught:
            await write(producer)
        assert caught.value.retriable
        for step in (producer.begin_transaction, producer.abort_transaction):
            with pytest.raises(TransactionStateError, match="is being committed"):
                await step()
        coordinator.answers.clear()
        await producer.commit_transaction()
        await producer.begin_transaction()
    assert coordinator.ends()[-1] == (0, True)


async def test_an_error_in_the_block_hides_behind_that_of_the_abort(coordinator):
    async with AsyncProducer(coordinator.broker.address, **QUICK, max_block_ms=500) as producer:
        coordinator.refuse(EndTxnRequest, *[CONCURRENT] * 10_000)
        with pytest.raises(KeyError):
            await write_and_fail(producer)
        with pytest.raises(TransactionStateError, match="is being aborted"):
            await producer.begin_transaction()
        coordinator.answers.clear()
        await producer.abort_transaction()
        await producer.begin_transaction()


async def test_a_producer_that_is_closed_leaves_its_transaction_open(coordinator):
    producer = await AsyncProducer(coordinator.broker.address, **QUICK).start()
    await producer.begin_transaction()
    await producer.send_and_wait("t", b"x")
    future = await producer.send("t", b"y")
    await producer.close()
    assert isinstance(future.exception(), TransactionAbortedError)
    assert coordinator.ends() == [(0, False)]
    with pytest.raises(ClientError, match="closed"):
        await producer.begin_transaction()
