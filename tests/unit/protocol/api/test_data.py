"""Produce and Fetch: what versions, sessions and followers say differently."""

import pytest

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode, ProtocolError
from seglog.protocol.kafka import codec
from seglog.protocol.kafka.operations import OPERATION_OF_KEY
from seglog.protocol.types import IsolationLevel
from support.kafka_messages import read_request, written_response

VERSIONS = OPERATION_OF_KEY[ApiKey.FETCH].served.versions()
TOPIC_ID = bytes(range(16))


class FileLike:
    """Record bytes that are somewhere else."""

    def __init__(self, length: int) -> None:
        self.length = length


@pytest.mark.parametrize("version", [7, 11, 12, 13, 17])
def test_forgotten_topics_and_followers_are_read(version: int) -> None:
    """Sessions change by what is forgotten; a follower says its id in a tag from version 15 on."""
    forgotten = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": "gone"}
    follower = (
        {"replica_state": {"replica_id": 4, "replica_epoch": 9}}
        if version >= 15
        else {"replica_id": 4}
    )
    request = read_request(
        ApiKey.FETCH,
        version,
        forgotten_topics_data=[{**forgotten, "partitions": [1, 2]}],
        **follower,
    )
    assert request.forgotten == [
        (TOPIC_ID, "", [1, 2]) if version >= 13 else (bytes(16), "gone", [1, 2])
    ]
    assert request.replica_id == 4
    assert request.uses_topic_ids == (version >= 13)


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_isolation_level_that_does_not_exist_is_refused(version: int) -> None:
    """It is the reader's right to see or not to see aborted records: no guessing."""
    with pytest.raises(ProtocolError, match="2 is no IsolationLevel"):
        read_request(ApiKey.FETCH, version, isolation_level=2)
    request = read_request(ApiKey.FETCH, version, isolation_level=1)
    assert request.isolation_level is IsolationLevel.READ_COMMITTED


@pytest.mark.parametrize("version", VERSIONS)
def test_no_records_are_sent_as_zero_bytes(version: int) -> None:
    """kafka-python 3 fails on null; a source of nothing must not reach the file."""
    for nothing in (None, FileLike(0)):
        result = api.FetchPartitionResult(
            "t", 0, ErrorCode.NONE, 5, 5, 0, nothing, [], topic_id=TOPIC_ID
        )
        message = written_response(ApiKey.FETCH, api.FetchResponse([result]), version)
        partition = message.responses[0].partitions[0]
        assert bytes(partition.records) == b""
        assert partition.aborted_transactions == []


@pytest.mark.parametrize("version", VERSIONS)
def test_sources_of_many_partitions_stay_in_their_places(version: int) -> None:
    """Each source is a part of its own, in the order of the partitions."""
    sources = [FileLike(size) for size in (5, 127, 9999) for _ in range(50)]
    results = [
        api.FetchPartitionResult(f"topic-{index // 9}", index, records=source, topic_id=TOPIC_ID)
        for index, source in enumerate(sources)
    ]
    parts = codec.encode(api.FetchResponse(results), version)
    assert [part for part in parts if isinstance(part, FileLike)] == sources


def test_diverging_epoch_is_a_tag_of_its_own() -> None:
    """FETCH-9."""
    result = api.FetchPartitionResult("t", 0, diverging_epoch=(3, 77))
    message = written_response(ApiKey.FETCH, api.FetchResponse([result]), 12)
    diverging = message.responses[0].partitions[0].diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (3, 77)


@pytest.mark.parametrize(
    ("error", "version", "expected"),
    [
        (ErrorCode.KAFKA_STORAGE_ERROR, 5, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.KAFKA_STORAGE_ERROR, 6, ErrorCode.KAFKA_STORAGE_ERROR),
        (ErrorCode.UNKNOWN_TOPIC_ID, 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ErrorCode.UNKNOWN_TOPIC_ID, 13, ErrorCode.UNKNOWN_TOPIC_ID),
        (ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE, 13, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_fetching_client_gets_errors_that_it_knows(
    error: ErrorCode, version: int, expected: ErrorCode
) -> None:
    """FETCH-10 and its like."""
    response = api.FetchResponse([api.FetchPartitionResult("t", 0, error)])
    message = written_response(ApiKey.FETCH, response, version)
    assert message.responses[0].partitions[0].error_code == expected


def test_records_of_a_transaction_add_their_partition_from_version_12_on() -> None:
    """Kafka's TV2; without a transaction there is nothing to add to."""
    for version in range(3, 14):
        request = read_request(ApiKey.PRODUCE, version, transactional_id="x", acks=-1)
        assert request.may_add == (version >= 12)
        assert not read_request(ApiKey.PRODUCE, version, acks=-1).may_add


def test_absent_records_stay_absent() -> None:
    """Null is not the same as no bytes: the log refuses the one in other words."""
    entry = {"index": 3, "records": None}
    topics = [{"name": "t", "partition_data": [entry]}]
    request = read_request(ApiKey.PRODUCE, 9, acks=1, topic_data=topics)
    assert request.partitions == [api.ProducePartition("t", 3, None)]
