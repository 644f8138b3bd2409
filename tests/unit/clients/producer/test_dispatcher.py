"""What leaves when, and what becomes of it: decided without a broker and without a clock."""

import os
from typing import Any

import pytest

from seglog.clients.config import ProducerConfig
from seglog.clients.errors import (
    AuthorizationError,
    BrokerUnreachableError,
    ConnectionLostError,
    DeliveryTimeoutError,
    RequestTimeoutError,
)
from seglog.clients.producer.accumulator import RecordAccumulator, Target
from seglog.clients.producer.dispatcher import Departure, Dispatcher
from seglog.clients.producer.identity import ProducerIdentity
from seglog.clients.session.metadata import Metadata
from seglog.protocol.api import (
    BrokerMetadata,
    MetadataResponse,
    PartitionMetadata,
    ProducePartitionResult,
    ProduceResponse,
    TopicMetadata,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.batch import RecordBatch

BACKOFF_S, BACKOFF_MAX_S = 0.1, 1.0
LOST = ConnectionLostError("host", 9092, "closed by the broker")


class Case:
    """A producer of one topic at a time that the test moves on."""

    def __init__(self, partitions: int = 1, leaders: int = 1, **options: Any) -> None:
        config = ProducerConfig(batch_bytes=200, **options)
        self.now_s = 1000.0
        self.partitions, self.leaders = partitions, leaders
        self.warnings: list[str] = []
        self.accumulator = RecordAccumulator(config, lambda: self.now_s, lambda: 0, lambda: None)
        self.identity = ProducerIdentity(is_idempotent=config.is_idempotent)
        self.metadata = Metadata()
        self.dispatcher = Dispatcher(
            config, self.metadata, self.accumulator, self.identity, self._warn
        )
        self.stored: list[list[bytes]] = [[] for _ in range(partitions)]

    def _warn(self, message: str, *values: object) -> None:
        self.warnings.append(message % values)

    def know(self) -> None:
        """Metadata and a producer id have come."""
        partitions = [
            PartitionMetadata(number, number % self.leaders, 0, [], [])
            for number in range(self.partitions)
        ]
        topic = TopicMetadata("topic", os.urandom(16), partitions)
        brokers = [BrokerMetadata(number, "host", 9092) for number in range(self.leaders)]
        self.metadata.learn(MetadataResponse(brokers, "c", 0, [topic]), ["topic"])
        if self.dispatcher.wants_identity:
            self.dispatcher.introduced(7, 0)

    def send(self, *values: bytes, partition: int = 0) -> None:
        for value in values:
            target = Target("topic", self.partitions, partition)
            assert self.accumulator.append(target, (0, None, value, ()), len(value)) is not None

    def leave(self) -> list[Departure]:
        departures, self.look_again_at_s = self.dispatcher.departures(self.now_s)
        return departures

    def answer(self, departure: Departure, code: ErrorCode = ErrorCode.NONE) -> None:
        results = []
        for item in departure.request.partitions:
            if code is ErrorCode.NONE:
                assert item.records is not None
                batch = RecordBatch(item.records)
                self.stored[item.partition] += [record.value or b"" for record in batch.records()]
            results.append(ProducePartitionResult("topic", item.partition, code, 0))
        self.dispatcher.answered(departure, ProduceResponse(results), self.now_s)


@pytest.fixture
def case() -> Case:
    made = Case(partitions=2)
    made.know()
    return made


def test_nothing_leaves_before_there_is_a_producer_id_and_a_leader() -> None:
    case = Case()
    case.send(b"value")
    assert case.dispatcher.wants_identity
    assert case.leave() == []
    case.dispatcher.introduced(7, 0)
    assert case.leave() == []
    assert case.dispatcher.takes_metadata()
    assert not case.dispatcher.takes_metadata()
    assert case.now_s < case.look_again_at_s <= case.now_s + 2 * BACKOFF_S * 1.2
    case.know()
    (departure,) = case.leave()
    assert departure.leader == 0
    case.answer(departure)
    assert case.stored == [[b"value"]]
    assert case.accumulator.is_empty


def test_without_numbers_no_producer_id_is_wanted() -> None:
    case = Case(acks=1)
    assert not case.dispatcher.wants_identity


def test_a_producer_id_that_is_refused_for_good_fails_what_waits_and_is_asked_for_again() -> None:
    case = Case()
    case.send(b"value")
    case.dispatcher.not_introduced(LOST)
    assert case.dispatcher.wants_identity
    assert case.dispatcher.last_trouble is LOST
    case.dispatcher.not_introduced(AuthorizationError("no", ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert not case.dispatcher.wants_identity
    assert case.accumulator.is_empty
    assert [type(each.error) for each in case.dispatcher.outcomes.failed_batches] == [
        AuthorizationError
    ]
    case.send(b"value")
    case.leave()
    assert case.dispatcher.wants_identity


def test_partitions_of_one_leader_share_a_request() -> None:
    case = Case(partitions=4, leaders=2)
    case.know()
    for number in range(4):
        case.send(b"value", partition=number)
    departures = case.leave()
    assert sorted(
        (each.leader, [item.partition for item in each.request.partitions]) for each in departures
    ) == [(0, [0, 2]), (1, [1, 3])]


def test_a_batch_that_failed_leaves_again_after_its_pause_and_before_those_behind_it(
    case: Case,
) -> None:
    case.send(b"1" * 100, b"2" * 100, b"3" * 100)
    (first,) = case.leave()
    case.dispatcher.failed(first, LOST, case.now_s)
    assert case.leave() == []
    assert case.look_again_at_s == pytest.approx(case.now_s + BACKOFF_S, rel=0.3)
    case.now_s = case.look_again_at_s
    while not case.accumulator.is_empty:
        for departure in case.leave():
            case.answer(departure)
    assert case.stored[0] == [b"1" * 100, b"2" * 100, b"3" * 100]
    assert case.warnings == [f"producer: topic-0: {LOST}; trying again"]


def test_pauses_grow_with_each_failure_up_to_their_maximum(case: Case) -> None:
    case.send(b"value")
    pauses = []
    for _ in range(8):
        (departure,) = case.leave()
        case.dispatcher.failed(departure, LOST, case.now_s)
        assert case.leave() == []
        pauses.append(case.look_again_at_s - case.now_s)
        case.now_s = case.look_again_at_s
    assert pauses[0] < pauses[2] < pauses[-1] <= BACKOFF_MAX_S


def test_a_leader_that_is_not_there_puts_the_metadata_in_doubt(case: Case) -> None:
    case.send(b"value")
    (departure,) = case.leave()
    case.dispatcher.failed(departure, BrokerUnreachableError("host", 1, "refused"), case.now_s)
    assert case.dispatcher.takes_metadata()
    case.now_s += BACKOFF_MAX_S
    (departure,) = case.leave()
    case.answer(departure, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert case.dispatcher.takes_metadata()


def test_a_batch_is_given_up_when_its_time_is_over_with_the_last_error(case: Case) -> None:
    case.send(b"value")
    (departure,) = case.leave()
    case.dispatcher.failed(departure, RequestTimeoutError("no answer"), case.now_s)
    case.now_s += 121.0
    assert case.leave() == []
    (batch,) = case.dispatcher.outcomes.failed_batches
    assert isinstance(batch.error, DeliveryTimeoutError)
    assert str(batch.error).endswith("within 120000 ms; last error: no answer")


def test_a_request_with_an_unforeseen_end_is_not_sent_again_at_once(case: Case) -> None:
    case.send(b"value")
    (departure,) = case.leave()
    case.dispatcher.abandoned(departure, case.now_s)
    assert case.leave() == []
    assert case.look_again_at_s == case.now_s + BACKOFF_MAX_S


def test_a_leader_has_so_many_requests_under_way_and_no_more() -> None:
    case = Case(max_in_flight_requests=2, max_request_bytes=210, partitions=3)
    case.know()
    for number in range(3):
        case.send(b"1" * 100, partition=number)
    first, second = case.leave()
    assert case.leave() == []
    case.answer(first)
    (third,) = case.leave()
    for departure in (second, third):
        case.answer(departure)
    assert case.stored == [[b"1" * 100]] * 3


def test_a_batch_that_is_too_large_for_the_broker_is_divided(case: Case) -> None:
    case.send(b"1", b"2", b"3", b"4")
    (departure,) = case.leave()
    case.answer(departure, ErrorCode.MESSAGE_TOO_LARGE)
    while not case.accumulator.is_empty:
        for departure in case.leave():
            case.answer(departure)
    assert case.stored[0] == [b"1", b"2", b"3", b"4"]
