"""Errors of the client library."""

import copy
import pickle

import pytest

from seglog.clients import errors
from seglog.protocol.errors import ErrorCode, SeglogError
from seglog.protocol.types import TopicPartition
from seglog.protocol.wording import naming


def test_every_wire_code_becomes_an_error_with_the_code_and_its_retriable_flag():
    for code in ErrorCode:
        if code is ErrorCode.NONE:
            continue
        error = errors.broker_error(code, None, "topic t")
        assert error.code is code
        assert error.retriable == code.retriable
        assert str(error) == f"topic t: the broker answered {code.name}"


def test_people_can_catch_what_they_handle():
    error = errors.broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic", "t-0")
    assert isinstance(error, errors.UnknownTopicOrPartitionError)
    assert isinstance(error, errors.BrokerError)
    assert isinstance(error, errors.ClientError)
    assert isinstance(error, SeglogError)
    assert str(error) == "t-0: no such topic"
    relative = errors.broker_error(ErrorCode.RECORD_LIST_TOO_LARGE, "too much")
    assert isinstance(relative, errors.RecordTooLargeError)
    assert relative.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_text_says_what_it_is_about_once():
    words = "there is no partition t-1"
    assert str(errors.broker_error(ErrorCode.UNKNOWN_SERVER_ERROR, words, "t-1")) == words
    assert naming(TopicPartition("t", 1), f"t-1: {words}") == f"t-1: {words}"
    assert naming(TopicPartition("t", 1), "t-10 is full") == "t-1: t-10 is full"
    for words in ("topic 'flights' exists already", "topic name 'flights' is too short"):
        assert naming("topic flights", words) == words
    assert naming("topic f", "topic 'fl' is new") == "topic f: topic 'fl' is new"
    assert str(errors.RecordsDroppedError(1)).startswith("1 record not")
    assert naming("t.a", "not.t.a, nor t.a.b") == "t.a: not.t.a, nor t.a.b"


def test_python_programs_may_catch_the_built_in_kinds():
    assert issubclass(errors.DeliveryTimeoutError, TimeoutError)
    assert issubclass(errors.BrokerUnreachableError, ConnectionError)
    assert issubclass(errors.ConfigurationError, ValueError)


@pytest.mark.parametrize(
    "error",
    [
        errors.BrokerUnreachableError("host", 9092, "cannot connect: refused"),
        errors.CorruptRecordError(TopicPartition("t", 1), 42, "bad checksum"),
        errors.RecordsDroppedError(3),
        errors.broker_error(ErrorCode.INVALID_CONFIG, "no"),
        errors.OffsetOutOfRangeError("gone", partition=TopicPartition("t", 1), offset=7),
        errors.InvalidRecordError("no key", record_errors=[(1, "no key")]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_the_way_to_another_process(error):
    """Spark sends what a worker raises to the driver."""
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)
