"""Encoding and decoding: what is malformed is refused by name, before anything is allocated."""

import random
import struct
import tracemalloc
from typing import Any

import pytest

from seglog.protocol import api
from seglog.protocol.api import (
    ApiKey,
    CreateTopicsRequest,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
)
from seglog.protocol.errors import ProtocolError
from seglog.protocol.kafka import codec
from seglog.protocol.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from seglog.protocol.kafka.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from seglog.protocol.kafka.messages.consumer_protocol import ConsumerProtocolSubscription
from seglog.protocol.kafka.operations import OPERATION_OF_KEY
from seglog.protocol.kafka.schema import Message
from seglog.protocol.limits import MAX_ARRAY_ELEMENTS, MAX_TAGGED_FIELDS
from support.kafka_messages import all_messages, filled, generic_of, random_message

EVERY_VERSION = [
    pytest.param(message, version, id=f"{message.__name__}-{version}")
    for message in all_messages()
    for version in message.versions.versions()
]


class FileLike:
    """Record bytes that are somewhere else."""

    def __init__(self, length: int) -> None:
        self.length = length


def decode(message: type[Any], version: int, data: bytes) -> Any:
    return codec.decode(message, version, memoryview(data))[0]


def heartbeat() -> api.HeartbeatRequest:
    return api.HeartbeatRequest("group", 3, "member")


@pytest.mark.parametrize(("message", "version"), EVERY_VERSION)
def test_message_changes_on_its_way(message: type[Message], version: int) -> None:
    """What is decoded encodes to the same bytes, and every cut-off of them is refused."""
    source = random.Random(f"{message.__name__} {version}")
    data = codec.encode_bytes(random_message(message, version, source), version)
    again = decode(message, version, data)
    assert codec.encode_bytes(again, version) == data
    for size in {len(data) - 1, len(data) // 2, 1, 0} - {len(data)}:
        if 0 <= size < len(data):
            with pytest.raises(ProtocolError, match=message.__name__):
                decode(message, version, data[:size])


def a_produce_request(records: bytes) -> api.ProduceRequest:
    return api.ProduceRequest(1, 1, [api.ProducePartition("t", 0, memoryview(records))])


def test_error_does_not_say_which_field_is_wrong() -> None:
    """Without the path a bug report about a foreign client is guesswork."""
    data = codec.encode_bytes(a_produce_request(b"abc"), 9)
    with pytest.raises(ProtocolError, match=r"ProduceRequest\.topic_data\.partition_data\.records"):
        codec.decode(api.ProduceRequest, 9, memoryview(data[:-4]))
    with pytest.raises(ProtocolError, match=r"HeartbeatRequest\.generation_id .*ends too early"):
        decode(api.HeartbeatRequest, 0, b"\0\1g\0\0")
    with pytest.raises(ProtocolError, match=r"HeartbeatRequest\.group_id .*not UTF-8"):
        decode(api.HeartbeatRequest, 0, b"\0\1\xff" + bytes(20))


def test_structs_of_one_name_are_confused_in_an_error() -> None:
    """Layouts may have the same name; each has its own lines to look up."""
    for key in (ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_TRANSACTIONS):
        message = generic_of(OPERATION_OF_KEY[key].response)
        data = codec.encode_bytes(random_message(message, 0, random.Random(8)), 0)
        for size in range(len(data)):
            with pytest.raises(ProtocolError, match=rf"{message.__name__}\.?\w* ?"):
                decode(message, 0, data[:size])


@pytest.mark.parametrize(
    ("version", "body"),
    [
        pytest.param(8, struct.pack(">i", 2**31 - 1), id="classic"),
        pytest.param(12, b"\xff\xff\xff\xff\x07", id="compact"),
        pytest.param(12, b"\xff\xff\xff\xff\x0f", id="compact, all bits"),
    ],
)
def test_array_count_decides_how_much_is_allocated(version: int, body: bytes) -> None:
    """C034: 2^31-1 elements in a five-byte body; another decoder aborts its process on it."""
    with pytest.raises(ProtocolError):
        decode(MetadataRequest, version, b"")  # the first call compiles the decoder
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match=r"MetadataRequest\.topics .*array elements"):
            decode(MetadataRequest, version, body + bytes(100))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_array_is_longer_than_the_limit_although_the_bytes_are_there() -> None:
    """More than a million elements are refused even where the frame could hold them."""
    body = struct.pack(">i", MAX_ARRAY_ELEMENTS + 1) + bytes(2 * MAX_ARRAY_ELEMENTS + 2)
    with pytest.raises(ProtocolError, match="at most 1000000"):
        decode(MetadataRequest, 1, body)


@pytest.mark.slow
def test_nested_arrays_multiply_the_limit() -> None:
    """The limit holds for the message as a whole: 3 topics of 400,000 assignments are refused."""
    topic = struct.pack(">hihi", 0, 1, 1, 400_000) + bytes(8 * 400_000) + struct.pack(">i", 0)
    body = struct.pack(">i", 3) + 3 * topic + bytes(5)
    with pytest.raises(ProtocolError, match=r"CreateTopicsRequest\.topics\.assignments"):
        decode(CreateTopicsRequest, 2, body)


@pytest.mark.parametrize("length", [-2, -32768])
def test_negative_length_moves_the_position_back(length: int) -> None:
    """A decoder that adds it reads the same bytes again, for ever in an array."""
    with pytest.raises(ProtocolError, match=f"length {length}"):
        decode(api.HeartbeatRequest, 0, struct.pack(">h", length) + bytes(50))


def test_negative_count_is_an_empty_array() -> None:
    """Only -1 has a meaning."""
    with pytest.raises(ProtocolError, match="-2 array elements"):
        decode(MetadataRequest, 1, struct.pack(">i", -2) + bytes(50))


def test_null_is_taken_where_the_version_does_not_allow_it() -> None:
    """A handler must not meet None in a field that is declared without it."""
    with pytest.raises(ProtocolError, match="null is not allowed"):
        decode(MetadataRequest, 0, struct.pack(">i", -1))
    with pytest.raises(ProtocolError, match="null is not allowed"):
        decode(api.HeartbeatRequest, 0, struct.pack(">h", -1) + bytes(50))
    assert decode(MetadataRequest, 1, struct.pack(">i", -1)).topics is None


def test_varint_goes_on_for_ever() -> None:
    """More than five bytes are refused, not added up to a number of a thousand digits."""
    with pytest.raises(ProtocolError, match="longer than 32 bits"):
        decode(MetadataRequest, 12, b"\xff" * 1000)
    with pytest.raises(ProtocolError, match="longer than 32 bits"):
        decode(MetadataRequest, 12, b"\x80\x80\x80\x80\x10" + bytes(20))


def test_unknown_tag_is_an_error() -> None:
    """A client of tomorrow sends tags that we do not know, at any level."""
    plain = codec.encode_bytes(MetadataRequest(["t"]), 12)
    assert plain[-1] == 0
    tagged = plain[:-1] + b"\x02" + b"\x05\x03abc" + b"\xff\xff\x03\x80\x01" + bytes(128)
    assert decode(MetadataRequest, 12, tagged) == decode(MetadataRequest, 12, plain)


def test_known_tag_hides_behind_unknown_ones() -> None:
    """The block of a message with tags of its own."""
    response = ApiVersionsResponse(
        error_code=0, api_keys=[], throttle_time_ms=0, zk_migration_ready=True
    )
    data = codec.encode_bytes(response, 3)
    assert data.endswith(b"\x01\x03\x01\x01")
    foreign = data[:-4] + b"\x03" + b"\x03\x01\x01" + b"\x07\x02hi" + b"\x64\x00"
    assert decode(ApiVersionsResponse, 3, foreign) == response


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        pytest.param(b"\x01\x07\x64", "tagged field 7 of 100 bytes", id="size beyond the end"),
        pytest.param(b"\x01\x03\x02\x01\x01", "of 1 bytes was announced with 2", id="wrong size"),
        pytest.param(b"\x91\x4e", f"10001 tagged fields, at most {MAX_TAGGED_FIELDS}", id="many"),
        pytest.param(b"\x05\x07", "ends too early", id="cut off"),
    ],
)
def test_tagged_block_lies(block: bytes, reason: str) -> None:
    """Counts and sizes of tags are as untrusted as any other."""
    data = codec.encode_bytes(ApiVersionsResponse(error_code=0, api_keys=[], throttle_time_ms=0), 3)
    with pytest.raises(ProtocolError, match=reason):
        decode(ApiVersionsResponse, 3, data[:-1] + block)
    request = codec.encode_bytes(api.HeartbeatRequest("", 0, ""), 4)
    if block[1] != 3:
        with pytest.raises(ProtocolError, match=reason):
            decode(api.HeartbeatRequest, 4, request[:-1] + block)


def test_records_are_copied() -> None:
    """Decoding gives views of the buffer, which the broker writes offsets into."""
    data = bytearray(codec.encode_bytes(a_produce_request(b"batch"), 9))
    request, _ = codec.decode(api.ProduceRequest, 9, memoryview(data))
    records = request.partitions[0].records
    assert isinstance(records, memoryview)
    assert records.obj is data
    assert not records.readonly
    records[0] = 0x42
    assert b"Batch" in data


def test_record_source_is_read_or_copied() -> None:
    """A source has a length and nothing else, and comes out as it went in."""
    source = FileLike(1000)
    result = api.FetchPartitionResult("t", 0, high_watermark=1, records=source)
    response = api.FetchResponse([result])
    for version in api.FetchResponse.__message__.versions.versions():  # type: ignore[attr-defined]  # made by ``Operation``
        parts = codec.encode(response, version)
        assert [part for part in parts if part is source] == [source]
        assert parts[1] is source
        whole = b"".join(bytes(1000) if part is source else bytes(part) for part in parts)  # type: ignore[arg-type]
        assert sum(codec.length_of(part) for part in parts) == len(whole)
        again, _ = codec.decode(api.FetchResponse, version, memoryview(whole))
        records = again.partitions[0].records
        assert isinstance(records, memoryview)
        assert bytes(records) == bytes(1000)


def test_value_is_dropped_that_the_version_cannot_carry() -> None:
    """Static membership in a version without it would silently join as a dynamic member."""
    request = api.JoinGroupRequest(
        group_id="g",
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
        member_id="",
        group_instance_id="static",
        protocol_type="consumer",
        protocols=[],
    )
    with pytest.raises(ProtocolError, match=r"JoinGroupRequest\.group_instance_id .*'static'"):
        codec.encode(request, 4)
    codec.encode(request, 5)
    request.group_instance_id = None
    codec.encode(request, 0)  # rebalance_timeout_ms is ignorable


def test_tagged_struct_is_dropped_where_it_is_not_carried() -> None:
    """A leader is left out where it says nothing; an epoch that diverges is refused."""
    result = api.ProducePartitionResult("t", 0)
    response = api.ProduceResponse([result])
    without = codec.encode_bytes(response, 10)
    result.current_leader = (-1, -1)
    assert codec.encode_bytes(response, 10) == without
    result.current_leader = (3, -1)
    assert len(codec.encode_bytes(response, 10)) == len(without) + 11
    codec.encode(response, 9)
    diverging = api.FetchPartitionResult("t", 0, diverging_epoch=(3, 5))
    with pytest.raises(ProtocolError, match=r"responses\.partitions\.diverging_epoch"):
        codec.encode(api.FetchResponse([diverging]), 11)


def test_empty_list_is_refused_where_it_is_not_carried() -> None:
    """It is the default, and unlike null (all topics) or a filled list it says nothing."""
    kind = generic_of(OPERATION_OF_KEY[ApiKey.DELETE_TOPICS].request)
    deletion = filled(kind, topics=[{"name": "t"}], topic_names=[], timeout_ms=1)
    with pytest.raises(ProtocolError, match=r"DeleteTopicsRequest\.topics .*cannot carry"):
        codec.encode(deletion, 5)


def test_nullable_struct_is_confused_with_an_absent_one() -> None:
    """One byte says whether it is there."""
    request = DescribeTopicPartitionsRequest(topics=[])
    assert decode(DescribeTopicPartitionsRequest, 0, codec.encode_bytes(request, 0)) == request
    request.cursor = ("t", 7)
    assert decode(DescribeTopicPartitionsRequest, 0, codec.encode_bytes(request, 0)) == request


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"group_id": None}, "group_id", id="null"),
        pytest.param({"generation_id": 2**31}, "generation_id", id="number too large"),
        pytest.param({"generation_id": "3"}, "generation_id", id="wrong type"),
        pytest.param({"group_id": "x" * 32768}, "group_id", id="text too long"),
        pytest.param({"member_id": "\ud800"}, "member_id", id="text without encoding"),
    ],
)
def test_value_that_does_not_fit_raises_something_else(change: dict[str, Any], reason: str) -> None:
    """Encoding errors name the field too."""
    request = heartbeat()
    for name, value in change.items():
        setattr(request, name, value)
    with pytest.raises(ProtocolError, match=rf"HeartbeatRequest\.{reason} "):
        codec.encode(request, 0)


def test_uuid_of_the_wrong_size_shifts_what_follows() -> None:
    """The type is bytes; only the encoder can see the length."""
    request = MetadataRequest([], [b"short"])
    with pytest.raises(ProtocolError, match=r"topics\.topic_id .*16 bytes, not 5"):
        codec.encode(request, 12)


def test_unknown_version_is_coded_as_some_other() -> None:
    """There is no declaration to go by."""
    with pytest.raises(ProtocolError, match="versions 0-4, not version 5"):
        codec.encode(heartbeat(), 5)
    with pytest.raises(ProtocolError, match="versions 0-4, not version -1"):
        decode(api.HeartbeatRequest, -1, b"")


def test_trailing_bytes_are_taken_for_part_of_the_message() -> None:
    """The position tells where the message ends; Kafka ignores what is behind."""
    data = codec.encode_bytes(heartbeat(), 0)
    message, position = codec.decode(api.HeartbeatRequest, 0, memoryview(data + b"junk"))
    assert (message, position) == (heartbeat(), len(data))


def test_message_is_only_decoded_at_the_start_of_a_buffer() -> None:
    """A request body comes behind its header."""
    data = codec.encode_bytes(heartbeat(), 4)
    message, position = codec.decode(api.HeartbeatRequest, 4, memoryview(b"header" + data), 6)
    assert (message, position) == (heartbeat(), 6 + len(data))


class TestInternalTopics:
    """Keys and values with an int16 before them."""

    def test_key_is_read_by_the_wrong_declaration(self) -> None:
        """The int16 of a key says what kind of record it is."""
        offset_key = OffsetCommitKey(group="g", topic="t", partition=5)
        data = codec.encode_record_key(offset_key)
        assert data == b"\0\1\0\1g\0\1t\0\0\0\5"
        kinds = (OffsetCommitKey, LegacyOffsetCommitKey, GroupMetadataKey)
        assert codec.decode_record_key(data, *kinds) == offset_key
        legacy = codec.decode_record_key(b"\0\0" + data[2:], *kinds)
        assert isinstance(legacy, LegacyOffsetCommitKey)
        assert codec.decode_record_key(b"\0\2\0\1g", *kinds) == GroupMetadataKey(group="g")

    def test_key_of_a_newer_kafka_stops_the_load(self) -> None:
        """Other kinds of records are skipped by whoever reads the topic."""
        assert codec.decode_record_key(b"\0\3\0\1g", OffsetCommitKey) is None

    def test_damaged_key_or_value_raises_something_else(self) -> None:
        """The topic is a file like any other and may be damaged."""
        for data in (b"", b"\0", b"\0\1\0\5g"):
            with pytest.raises(ProtocolError):
                codec.decode_record_key(data, OffsetCommitKey)
            with pytest.raises(ProtocolError):
                codec.decode_versioned(OffsetCommitValue, data)
        with pytest.raises(ProtocolError, match="version -1"):
            codec.decode_versioned(OffsetCommitValue, b"\xff\xff" + bytes(50))

    def test_value_has_the_bytes_of_kafka(self) -> None:
        """A committed offset as Kafka writes it in version 3."""
        value = OffsetCommitValue(
            offset=42, leader_epoch=7, metadata="m", commit_timestamp=1000, topic_id=bytes(16)
        )
        data = codec.encode_versioned(value, 3)
        assert data == struct.pack(">hqih", 3, 42, 7, 1) + b"m" + struct.pack(">q", 1000)
        assert codec.decode_versioned(OffsetCommitValue, data) == value

    def test_value_of_a_newer_version_is_refused(self) -> None:
        """Newer versions only add; what is known of them can be read."""
        value = GroupMetadataValue(
            protocol_type="consumer", generation=1, protocol="range", leader="m", members=[]
        )
        data = codec.encode_versioned(value, 4)
        newer = struct.pack(">h", 9) + data[2:] + b"more"
        assert codec.decode_versioned(GroupMetadataValue, newer) == value

    def test_subscription_of_a_newer_client_is_refused(self) -> None:
        """The same for what consumers tell each other."""
        subscription = ConsumerProtocolSubscription(topics=["t"], owned_partitions=[])
        data = codec.encode_versioned(subscription, 3)
        newer = struct.pack(">h", 5) + data[2:] + b"more"
        assert codec.decode_versioned(ConsumerProtocolSubscription, newer) == subscription


def test_ignorable_field_is_refused_in_an_old_version() -> None:
    """A client's software name is dropped where there is no room for it."""
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    assert codec.encode_bytes(request, 0) == b""
