"""The hand-written way reads and writes what the compiled codec reads and writes."""

import random
from typing import Any

import pytest

from seglog.protocol import api
from seglog.protocol.errors import ErrorCode, ProtocolError
from seglog.protocol.kafka import codec, fast_produce
from seglog.protocol.kafka.messages import produce as wire
from seglog.protocol.kafka.translate import produce

VERSIONS = list(wire.ProduceRequest.versions.versions())
FAST_REQUESTS = range(3, 14)
FAST_RESPONSES = range(5, 14)


def a_request(version: int, source: random.Random, *, topics: int, partitions: int) -> Any:
    return wire.ProduceRequest(
        acks=source.choice((-1, 0, 1)),
        timeout_ms=source.randrange(100_000),
        topic_data=[
            wire.TopicProduceData(
                name=f"topic-{number}-ü" if version < 13 else "",
                topic_id=source.randbytes(16) if version >= 13 else bytes(16),
                partition_data=[
                    wire.PartitionProduceData(
                        index=index,
                        records=source.randbytes(source.choice((0, 61, 126, 127, 128, 20_000))),
                    )
                    for index in range(partitions)
                ],
            )
            for number in range(topics)
        ],
    )


def by_compiled_codec(data: bytes, version: int) -> api.ProduceRequest:
    message, _ = codec.decode(wire.ProduceRequest, version, memoryview(data))
    return produce.read_request(message, version)


@pytest.mark.parametrize("version", FAST_REQUESTS)
@pytest.mark.parametrize(("topics", "partitions"), [(0, 0), (1, 1), (1, 5), (3, 4), (2, 0)])
def test_fast_way_reads_another_request(version: int, topics: int, partitions: int) -> None:
    """All versions and shapes that clients send."""
    source = random.Random(version)
    data = codec.encode_bytes(
        a_request(version, source, topics=topics, partitions=partitions), version
    )
    fast = fast_produce.decode_request(memoryview(b"header" + data), 6, version)
    assert fast is not None
    assert fast == by_compiled_codec(data, version)


@pytest.mark.parametrize("version", FAST_REQUESTS)
def test_cut_or_damaged_request_is_read_all_the_same(version: int) -> None:
    """Whatever the fast way accepts, the compiled codec accepts and reads alike."""
    source = random.Random(version)
    data = codec.encode_bytes(a_request(version, source, topics=2, partitions=2), version)
    for _ in range(600):
        damaged = bytearray(data)
        damaged[source.randrange(min(len(data), 60))] = source.randrange(256)
        del damaged[source.randrange(len(damaged)) :]
        fast = fast_produce.decode_request(memoryview(damaged), 0, version)
        if fast is not None:
            assert fast == by_compiled_codec(bytes(damaged), version)


@pytest.mark.parametrize("version", [9, 13])
def test_endless_varint_takes_quadratic_time(version: int) -> None:
    """A megabyte of 0xff must not become one number; the compiled codec then refuses it."""
    data = codec.encode_bytes(a_request(version, random.Random(1), topics=1, partitions=1), version)
    start = data.index(b"\0\0\0\0", 8) + 4
    hostile = data[:start] + b"\xff" * 1_000_000
    assert fast_produce.decode_request(memoryview(hostile), 0, version) is None
    with pytest.raises(ProtocolError, match="longer than 32 bits"):
        by_compiled_codec(hostile, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_transactional_or_null_records_are_lost(version: int) -> None:
    """What the fast way does not know goes the other way; the operation gets it right."""
    request = wire.ProduceRequest(
        transactional_id="tx" if version >= 3 else None,
        acks=-1,
        timeout_ms=5,
        topic_data=[
            wire.TopicProduceData(
                name="t" if version < 13 else "",
                partition_data=[wire.PartitionProduceData(index=1, records=None)],
            )
        ],
    )
    data = codec.encode_bytes(request, version)
    decoded = produce.PRODUCE.decode(memoryview(data), 0, version)
    assert decoded.transactional_id == ("tx" if version >= 3 else None)
    assert decoded.partitions[0].records is None


def a_response(source: random.Random, shape: list[int], version: int) -> api.ProduceResponse:
    results = []
    for number, partitions in enumerate(shape):
        topic_id = bytes([number + 1]) * 16 if version >= 13 else bytes(16)
        results += [
            api.ProducePartitionResult(
                f"topic-{number}",
                index,
                ErrorCode.NONE,
                source.randrange(2**60),
                source.choice((-1, 1_700_000_000_000)),
                source.randrange(1000),
                topic_id=topic_id,
            )
            for index in range(partitions)
        ]
    return api.ProduceResponse(results, source.choice((0, 100)))


@pytest.mark.parametrize("version", FAST_RESPONSES)
@pytest.mark.parametrize("shape", [[], [1], [5], [1, 1, 3], [126], [1] * 126])
def test_fast_way_writes_another_response(version: int, shape: list[int]) -> None:
    """Byte by byte."""
    response = a_response(random.Random(version), shape, version)
    fast = fast_produce.encode_response(response, version)
    assert fast is not None
    assert fast == codec.encode(produce.write_response(response, version), version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("shape", [[1], [200], [1] * 200])
def test_error_or_large_response_is_written_wrong(version: int, shape: list[int]) -> None:
    """Errors carry messages and record indexes from version 8 on."""
    response = a_response(random.Random(version), shape, version)
    response.partitions[0].error = ErrorCode.INVALID_RECORD
    response.partitions[0].record_errors = [(3, "no key"), (4, "no key")]
    response.partitions[0].error_message = "bad"
    parts = produce.PRODUCE.encode(response, version)
    assert parts == codec.encode(produce.write_response(response, version), version)
    message, _ = codec.decode(wire.ProduceResponse, version, memoryview(parts[0]))  # type: ignore[arg-type]
    first = message.responses[0].partition_responses[0]
    assert first.error_code == ErrorCode.INVALID_RECORD
    assert (first.error_message == "bad") == (version >= 8)
    assert len(first.record_errors) == (2 if version >= 8 else 0)
    assert sum(len(topic.partition_responses) for topic in message.responses) == sum(shape)
