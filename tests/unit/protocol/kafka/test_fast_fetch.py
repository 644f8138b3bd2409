"""The hand-written way reads and writes what the compiled codec reads and writes."""

import random
from typing import Any

import pytest

from seglog.protocol import api
from seglog.protocol.errors import ErrorCode, ProtocolError
from seglog.protocol.kafka import codec, fast_fetch
from seglog.protocol.kafka.messages import fetch as wire
from seglog.protocol.kafka.translate import fetch
from seglog.protocol.types import IsolationLevel

VERSIONS = list(wire.FetchRequest.versions.versions())
FAST = range(11, 18)


class FileLike:
    """Record bytes that are somewhere else."""

    def __init__(self, length: int) -> None:
        self.length = length


def a_request(version: int, source: random.Random, *, topics: int, partitions: int) -> Any:
    return wire.FetchRequest(
        replica_id=source.choice((-1, -2, 3)) if version < 15 else -1,
        max_wait_ms=source.randrange(1000),
        min_bytes=source.randrange(1000),
        max_bytes=source.randrange(2**31) if version >= 3 else 2**31 - 1,
        isolation_level=source.randrange(2),
        session_id=source.choice((0, 5)),
        session_epoch=source.choice((-1, 0, 7)),
        topics=[
            wire.FetchTopic(
                topic=f"topic-{number}-ü" if version < 13 else "",
                topic_id=source.randbytes(16) if version >= 13 else bytes(16),
                partitions=[
                    wire.FetchPartition(
                        partition=index,
                        current_leader_epoch=source.randrange(9),
                        fetch_offset=source.randrange(2**40),
                        last_fetched_epoch=source.randrange(9) if version >= 12 else -1,
                        log_start_offset=source.randrange(100),
                        partition_max_bytes=source.randrange(2**31),
                    )
                    for index in range(partitions)
                ],
            )
            for number in range(topics)
        ],
        forgotten_topics_data=[],
        rack_id=source.choice(("", "rack-1")),
    )


def by_compiled_codec(data: bytes, version: int) -> api.FetchRequest:
    message, _ = codec.decode(wire.FetchRequest, version, memoryview(data))
    request = fetch.read_request(message, version)
    assert isinstance(request, api.FetchRequest)
    return request


@pytest.mark.parametrize("version", FAST)
@pytest.mark.parametrize(("topics", "partitions"), [(0, 0), (1, 1), (1, 9), (3, 4), (2, 0)])
def test_fast_way_reads_another_request(version: int, topics: int, partitions: int) -> None:
    """All versions and shapes that clients send."""
    source = random.Random(version)
    data = codec.encode_bytes(
        a_request(version, source, topics=topics, partitions=partitions), version
    )
    fast = fast_fetch.decode_request(memoryview(b"header" + data), 6, version)
    assert fast is not None
    assert fast == by_compiled_codec(data, version)


@pytest.mark.parametrize("version", FAST)
def test_cut_or_damaged_request_is_read_all_the_same(version: int) -> None:
    """Whatever the fast way accepts, the compiled codec accepts and reads alike."""
    source = random.Random(version)
    data = codec.encode_bytes(a_request(version, source, topics=2, partitions=2), version)
    for _ in range(800):
        damaged = bytearray(data)
        damaged[source.randrange(len(data))] = source.randrange(256)
        if source.random() < 0.5:
            del damaged[source.randrange(len(damaged)) :]
        fast = fast_fetch.decode_request(memoryview(damaged), 0, version)
        if fast is not None:
            assert fast == by_compiled_codec(bytes(damaged), version)


@pytest.mark.parametrize("version", [7, 11, 12, 13, 17])
def test_forgotten_topics_or_tags_are_lost(version: int) -> None:
    """Sessions and followers take the compiled way."""
    request = a_request(version, random.Random(3), topics=1, partitions=1)
    if version < 11:
        request.rack_id = ""
    request.forgotten_topics_data = [
        wire.ForgottenTopic(
            topic="gone" if version < 13 else "",
            topic_id=bytes(range(16)) if version >= 13 else bytes(16),
            partitions=[1, 2],
        )
    ]
    if version >= 15:
        request.replica_state = wire.ReplicaState(replica_id=4, replica_epoch=9)
    data = codec.encode_bytes(request, version)
    decoded = fetch.FETCH.decode(memoryview(data), 0, version)
    assert decoded.forgotten == [
        (bytes(range(16)), "", [1, 2]) if version >= 13 else (bytes(16), "gone", [1, 2])
    ]
    assert decoded.replica_id == (4 if version >= 15 else request.replica_id)


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_isolation_level_does_not_exist(version: int) -> None:
    """It is the reader's right to see or not to see aborted records: no guessing."""
    request = a_request(version, random.Random(3), topics=0, partitions=0)
    if version < 11:
        request.rack_id = ""
    request.isolation_level = 2
    data = codec.encode_bytes(request, version)
    with pytest.raises(ProtocolError, match="isolation level 2"):
        fetch.FETCH.decode(memoryview(data), 0, version)


def a_response(source: random.Random, shape: list[int], version: int) -> api.FetchResponse:
    results = []
    for number, partitions in enumerate(shape):
        topic_id = bytes([number + 1]) * 16 if version >= 13 else bytes(16)
        results += [
            api.FetchPartitionResult(
                f"topic-{number}",
                index,
                source.choice((ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE)),
                source.randrange(2**60),
                source.randrange(2**60),
                source.randrange(1000),
                source.choice((None, b"x", *(FileLike(size) for size in (0, 5, 127, 9999)))),
                source.choice((None, [], [(1, 2)], [(1, 2), (3, 4)])),
                topic_id=topic_id,
            )
            for index in range(partitions)
        ]
    return api.FetchResponse(results, ErrorCode.NONE, source.choice((0, 9)), 0)


def flat(parts: Any) -> bytes:
    return b"".join(
        bytes([part.length % 251]) * part.length if isinstance(part, FileLike) else bytes(part)
        for part in parts
    )


@pytest.mark.parametrize("version", FAST)
@pytest.mark.parametrize("shape", [[], [1], [30], [1, 1, 3], [200], [1] * 200])
def test_fast_way_writes_another_response(version: int, shape: list[int]) -> None:
    """Byte by byte, and with the sources at the same places."""
    source = random.Random(version)
    response = a_response(source, shape, version)
    fast = fast_fetch.encode_response(response, version)
    assert fast is not None
    assert flat(fast) == flat(codec.encode(fetch.write_response(response, version), version))
    sources = [each.records for each in response.partitions if isinstance(each.records, FileLike)]
    assert [part for part in fast if isinstance(part, FileLike)] == [
        each for each in sources if each.length
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_empty_records_are_sent_as_null(version: int) -> None:
    """kafka-python 3 fails on null; Kafka sends zero bytes."""
    result = api.FetchPartitionResult(
        "t", 0, ErrorCode.NONE, 5, 5, 0, None, [], topic_id=bytes(range(16))
    )
    parts = fetch.FETCH.encode(api.FetchResponse([result]), version)
    message, _ = codec.decode(wire.FetchResponse, version, memoryview(flat(parts)))
    partition = message.responses[0].partitions[0]
    assert partition.records is not None
    assert len(memoryview(partition.records)) == 0  # type: ignore[arg-type]
    assert partition.aborted_transactions == []


def test_diverging_epoch_is_lost() -> None:
    """FETCH-9: it is a tag of its own."""
    result = api.FetchPartitionResult("t", 0, diverging_epoch=(3, 77))
    (part,) = fetch.FETCH.encode(api.FetchResponse([result]), 12)
    message, _ = codec.decode(wire.FetchResponse, 12, memoryview(part))  # type: ignore[arg-type]
    assert message.responses[0].partitions[0].diverging_epoch == wire.EpochEndOffset(
        epoch=3, end_offset=77
    )


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
def test_client_gets_an_error_it_does_not_know(
    error: ErrorCode, version: int, expected: ErrorCode
) -> None:
    """FETCH-10 and its like."""
    parts = fetch.FETCH.encode(
        api.FetchResponse([api.FetchPartitionResult("t", 0, error)]), version
    )
    message, _ = codec.decode(wire.FetchResponse, version, memoryview(flat(parts)))
    assert message.responses[0].partitions[0].error_code == expected


def test_isolation_level_becomes_a_bare_number() -> None:
    """Handlers compare it with the enum."""
    data = codec.encode_bytes(a_request(12, random.Random(2), topics=0, partitions=0), 12)
    request = fetch.FETCH.decode(memoryview(data), 0, 12)
    assert isinstance(request.isolation_level, IsolationLevel)
