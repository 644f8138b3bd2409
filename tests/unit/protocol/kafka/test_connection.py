"""One Kafka connection: headers, ApiVersions, what is refused and how."""

import struct
from typing import Any

import pytest

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.declaration.layout import WireMessage
from seglog.protocol.dialect import Reply
from seglog.protocol.errors import ErrorCode, FrameTooLargeError, ProtocolError
from seglog.protocol.kafka import codec
from seglog.protocol.kafka.connection import (
    KafkaRequest,
    KafkaServerConnection,
    UnsupportedApiError,
)
from seglog.protocol.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from seglog.protocol.kafka.operations import ALL_OPERATIONS, Offer
from support.kafka_messages import generic_of

EVERYTHING = Offer(operation.key for operation in ALL_OPERATIONS)
MAX_FRAME_BYTES = 1000


class FileLike:
    """Record bytes that are somewhere else."""

    def __init__(self, length: int) -> None:
        self.length = length


def connection(offer: Offer = EVERYTHING) -> KafkaServerConnection:
    return KafkaServerConnection(offer=offer, max_frame_bytes=MAX_FRAME_BYTES)


def frame(
    message: Any,
    version: int,
    *,
    key: int = -1,
    flexible: bool | None = None,
    client_id: str | None = "client",
    tags: bytes = b"\0",
) -> bytes:
    """A request as a client sends it, with correlation id 77."""
    if isinstance(message, bytes):
        body = message
        assert flexible is not None
    else:
        body = codec.encode_bytes(message, version)
        wire: WireMessage = message.__message__
        key = wire.api_key if key == -1 else key
        flexible = version in wire.flexible if flexible is None else flexible
    text = client_id.encode() if client_id is not None else b""
    size = len(text) if client_id is not None else -1
    header = struct.pack(">hhih", key, version, 77, size) + text + (tags if flexible else b"")
    return struct.pack(">i", len(header) + len(body)) + header + body


def receive(server: KafkaServerConnection, data: bytes) -> KafkaRequest | Reply:
    """Hand a frame over from the middle of a buffer."""
    buffer = memoryview(bytearray(b"before" + data + b"after"))
    size = server.frame_size(buffer, 6, len(buffer))
    assert size == len(data)
    return server.decode(buffer, 6, 6 + size)


def accept(server: KafkaServerConnection, data: bytes) -> KafkaRequest:
    incoming = receive(server, data)
    assert isinstance(incoming, KafkaRequest)
    return incoming


def reply(server: KafkaServerConnection, data: bytes) -> Reply:
    answer = receive(server, data)
    assert isinstance(answer, Reply)
    return answer


def body_of(parts: Any, *, flexible: bool) -> memoryview:
    """The body of an answer whose header is checked."""
    whole = b"".join(
        bytes(part.length) if isinstance(part, FileLike) else bytes(part) for part in parts
    )
    size, correlation_id = struct.unpack_from(">ii", whole)
    assert size == len(whole) - 4
    assert correlation_id == 77
    if flexible:
        assert whole[8] == 0
    return memoryview(whole)[9 if flexible else 8 :]


def produce_request(acks: int, records: bytes = b"batch") -> api.ProduceRequest:
    return api.ProduceRequest(acks, 5, [api.ProducePartition("t", 4, memoryview(records))])


class TestFrames:
    """C034: what is not Kafka is seen by its first four bytes."""

    @pytest.mark.parametrize(
        ("first", "hint"),
        [
            (b"GET ", "looks like an HTTP request"),
            (b"HEAD", "looks like an HTTP request"),
            (b"\x16\x03\x01\x00", "looks like a TLS handshake"),
            (b"\x7f\xff\xff\xff", "limit is 1000"),
            (struct.pack(">i", MAX_FRAME_BYTES + 1), "frame of 1001 bytes"),
        ],
    )
    def test_foreign_protocol_is_taken_for_a_large_frame(self, first: bytes, hint: str) -> None:
        """Nothing is allocated, and the log gets a hint."""
        with pytest.raises(FrameTooLargeError, match=hint):
            connection().frame_size(memoryview(first), 0, 4)

    @pytest.mark.parametrize("size", [-1, -(2**31), 0, 3, 9])
    def test_frame_without_a_header_is_waited_for(self, size: int) -> None:
        """Negative, empty and tiny frames are malformed, not incomplete."""
        with pytest.raises(ProtocolError, match=f"frame of {size} bytes"):
            connection().frame_size(memoryview(struct.pack(">i", size)), 0, 4)

    @pytest.mark.parametrize(
        "first",
        [
            bytes.fromhex("0300002f2ae00000000000"),  # remote desktop: TPKT
            bytes.fromhex("0400000005000000"),  # Cassandra
            bytes.fromhex("001d1f3a01000001"),  # DNS over TCP
            bytes.fromhex("00000085ff534d42"),  # SMB
            struct.pack(">ihh", 900, 0, 99),
        ],
    )
    def test_stranger_with_a_fitting_size_is_waited_for(self, first: bytes) -> None:
        """C034: its key says that the rest would never come."""
        server = KafkaServerConnection(offer=EVERYTHING, max_frame_bytes=100_000_000)
        view = memoryview(first)
        assert server.frame_size(view, 0, 7) > 0
        with pytest.raises(UnsupportedApiError):
            server.frame_size(view, 0, len(first))

    @pytest.mark.parametrize(("key", "version"), [(0, 9), (0, 0), (18, 99), (29, 1), (12, 4)])
    def test_request_that_is_on_its_way_is_refused(self, key: int, version: int) -> None:
        """Whatever would be answered is waited for."""
        view = memoryview(struct.pack(">ihh", 900, key, version))
        assert connection().frame_size(view, 0, 8) == 904

    def test_incomplete_size_is_read(self) -> None:
        """Three bytes say nothing yet; a full one includes its own four bytes."""
        server = connection()
        buffer = memoryview(b"xx" + struct.pack(">i", MAX_FRAME_BYTES))
        assert server.frame_size(buffer, 2, 5) == 0
        assert server.frame_size(buffer, 2, 6) == MAX_FRAME_BYTES + 4


class TestHeaders:
    """Version 1 and 2 of request headers, 0 and 1 of response headers."""

    @pytest.mark.parametrize("version", range(5))
    @pytest.mark.parametrize("client_id", [None, "", "größer"])
    def test_header_version_is_mixed_up(self, version: int, client_id: str | None) -> None:
        """Heartbeat is flexible from version 4 on; the client id never is."""
        server = connection()
        message = api.HeartbeatRequest("g", 1, "m")
        incoming = accept(server, frame(message, version, client_id=client_id))
        assert incoming.client_id == (client_id or "")
        assert server.client_id == (client_id or "")
        assert (incoming.api_key, incoming.form.version) == (ApiKey.HEARTBEAT, version)
        assert incoming.request == api.HeartbeatRequest("g", 1, "m")
        assert incoming.expects_response
        parts = server.encode(incoming, api.HeartbeatResponse(ErrorCode.ILLEGAL_GENERATION))
        body = body_of(parts, flexible=version >= 4)
        answer, position = codec.decode(api.HeartbeatResponse, version, body)
        assert answer.error == ErrorCode.ILLEGAL_GENERATION
        assert position == len(body)

    def test_tags_in_the_header_are_refused(self) -> None:
        """A newer client may put some there."""
        message = api.HeartbeatRequest("g", 1, "m")
        data = frame(message, 4, tags=b"\x01\x05\x02ab")
        assert accept(connection(), data).request.group_id == "g"

    @pytest.mark.parametrize("tags", [b"\x01\x05\x64", b"\xff\xff\xff\xff\xff\x0f", b"\x01"])
    def test_bad_tags_in_the_header_raise_something_else(self, tags: bytes) -> None:
        """They come before anything else that is compiled."""
        with pytest.raises(ProtocolError):
            receive(connection(), frame(b"", 4, key=12, flexible=True, tags=tags))

    @pytest.mark.parametrize(
        "header",
        [
            struct.pack(">hhih", 12, 0, 77, 5) + b"four",
            struct.pack(">hhih", 12, 0, 77, -2),
        ],
    )
    def test_bad_client_id_raises_something_else(self, header: bytes) -> None:
        """Too long, or negative."""
        with pytest.raises(ProtocolError, match="client id"):
            receive(connection(), struct.pack(">i", len(header)) + header)

    @pytest.mark.parametrize(
        ("name", "shown"),
        [(b"caf\xe9", "caf\ufffd"), (b"\xff" * 32_767, "\ufffd" * 1000), (b"x" * 1001, "x" * 1000)],
    )
    def test_a_client_is_cut_off_for_its_name(self, name: bytes, shown: str) -> None:
        """It may be what a computer is called, in whatever encoding; Kafka bears it, too."""
        body = codec.encode_bytes(api.HeartbeatRequest("g", 1, "m"), 0)
        header = struct.pack(">hhih", 12, 0, 77, len(name)) + name
        server = KafkaServerConnection(offer=EVERYTHING, max_frame_bytes=40_000)
        incoming = accept(server, struct.pack(">i", len(header + body)) + header + body)
        assert (incoming.client_id, incoming.request.group_id) == (shown, "g")

    def test_malformed_body_is_answered(self) -> None:
        """As in Kafka the connection closes: nobody knows what else is wrong."""
        with pytest.raises(ProtocolError, match=r"HeartbeatRequest\.group_id"):
            receive(connection(), frame(b"\x7f\xff", 0, key=12, flexible=False))


class TestApiVersions:
    """C042: the first request of every connection."""

    @pytest.mark.parametrize("version", range(5))
    def test_table_lists_what_is_not_there(self, version: int) -> None:
        """Exactly what has a handler, and ApiVersions itself."""
        offer = Offer([ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.RUN_RETENTION])
        server = connection(offer)
        message = ApiVersionsRequest(client_software_name="kcat", client_software_version="1.7.0")
        answer = reply(server, frame(message, version))
        assert not answer.closes
        assert answer.error is ErrorCode.NONE
        table, _ = codec.decode(ApiVersionsResponse, version, body_of(answer.parts, flexible=False))
        assert table.error_code == 0
        assert [(each.api_key, each.min_version, each.max_version) for each in table.api_keys] == [
            (0, 0, 13),
            (3, 0, 13),
            (18, 0, 4),
        ]
        assert server.software == (("kcat", "1.7.0") if version >= 3 else ("", ""))

    @pytest.mark.parametrize("version", [5, 99, 32767, -1])
    def test_newer_client_is_cut_off(self, version: int) -> None:
        """Version 0 with error 35 and the full table, however the body looks."""
        header = struct.pack(">hhih", 18, version, 77, 1) + b"c" + b"\0\x05kcat\x7f\xff"
        answer = reply(connection(), struct.pack(">i", len(header)) + header)
        assert answer.error is ErrorCode.UNSUPPORTED_VERSION
        body = body_of(answer.parts, flexible=False)
        table, position = codec.decode(ApiVersionsResponse, 0, body)
        assert position == len(body)
        assert table.error_code == 35
        assert len(table.api_keys) == len(ALL_OPERATIONS) + 1

    @pytest.mark.parametrize(
        ("name", "release"), [("", "1"), ("kcat", ""), ("-kcat", "1"), ("kc at", "1"), ("k", "1.")]
    )
    def test_odd_software_name_reaches_metrics(self, name: str, release: str) -> None:
        """KIP-511: INVALID_REQUEST in the version that was asked, without a table."""
        server = connection()
        message = ApiVersionsRequest(client_software_name=name, client_software_version=release)
        answer = reply(server, frame(message, 3))
        assert answer.error is ErrorCode.INVALID_REQUEST
        table, _ = codec.decode(ApiVersionsResponse, 3, body_of(answer.parts, flexible=False))
        assert table.error_code == ErrorCode.INVALID_REQUEST
        assert table.api_keys == []
        assert server.software == ("", "")

    def test_malformed_api_versions_is_answered(self) -> None:
        """A body that cannot be read is no request."""
        with pytest.raises(ProtocolError, match="ApiVersionsRequest"):
            receive(connection(), frame(b"\x09ab", 3, key=18, flexible=True))

    def test_table_of_everything_has_wrong_ranges(self) -> None:
        """The ranges of docs/kafka-dialect.md."""
        answer = EVERYTHING.answer(ErrorCode.NONE, 4)
        ranges = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        assert ranges[ApiKey.PRODUCE] == (0, 13)
        assert ranges[ApiKey.FETCH] == (4, 17)
        assert ranges[ApiKey.LIST_OFFSETS] == (1, 11)
        assert ranges[ApiKey.INIT_PRODUCER_ID] == (0, 5)
        assert ranges[ApiKey.OFFSET_DELETE] == (0, 0)

    @pytest.mark.parametrize(("version", "lowest"), [(3, 1), (4, 0)])
    def test_clients_do_not_learn_which_transactions_there_are(
        self, version: int, lowest: int
    ) -> None:
        """Java clients of version 4 look for the feature; older ones choke on a level of 0."""
        message = ApiVersionsRequest(client_software_name="kcat", client_software_version="1.7.0")
        answer = reply(connection(EVERYTHING), frame(message, version))
        table, _ = codec.decode(ApiVersionsResponse, version, body_of(answer.parts, flexible=False))
        (supported,) = table.supported_features
        (finalized,) = table.finalized_features
        assert (supported.name, supported.min_version, supported.max_version) == (
            "transaction.version",
            lowest,
            2,
        )
        assert (finalized.name, finalized.max_version_level) == ("transaction.version", 2)
        assert table.finalized_features_epoch >= 0

    def test_transactions_are_promised_that_nobody_coordinates(self) -> None:
        """The feature comes with the operation."""
        assert not Offer([ApiKey.PRODUCE]).answer(ErrorCode.NONE, 4).finalized_features


class TestRefusals:
    """What is not offered is said, where it can be read."""

    @pytest.mark.parametrize("operation", ALL_OPERATIONS, ids=lambda operation: operation.key.name)
    def test_known_operation_without_a_handler_is_dropped(self, operation: Any) -> None:
        """Every operation in every version can be refused as a whole, and is readable."""
        server = connection(Offer([]))
        for version in operation.versions.versions():
            request = generic_of(operation.request)()
            if operation.key is ApiKey.PRODUCE:
                request.acks = 1
            answer = receive(server, frame(request, version))
            assert isinstance(answer, Reply)
            assert answer.error is ErrorCode.UNSUPPORTED_VERSION
            assert not answer.closes
            flexible = version in operation.response.flexible
            body = body_of(answer.parts, flexible=flexible)
            _, position = codec.decode(generic_of(operation.response), version, body)
            assert position == len(body)

    @pytest.mark.parametrize(
        ("key", "version"),
        [(999, 0), (-1, 0), (4, 0), (17, 2), (0, 14), (1, 19), (3, 14), (12, 5), (1000, 0)],
    )
    def test_unknown_operation_is_answered_with_garbage(self, key: int, version: int) -> None:
        """The sender expects a layout that we do not know: closing is all that is left."""
        with pytest.raises(UnsupportedApiError, match=f"{key} version {version}") as error:
            receive(connection(), frame(bytes(50), version, key=key, flexible=False))
        assert (error.value.api_key, error.value.api_version) == (key, version)

    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_old_produce_reaches_a_handler(self, version: int) -> None:
        """Listed for librdkafka's sake, refused in its own layout."""
        answer = reply(connection(), frame(produce_request(acks=1), version))
        body = body_of(answer.parts, flexible=False)
        message, position = codec.decode(api.ProduceResponse, version, body)
        assert position == len(body)
        (result,) = message.partitions
        assert (result.topic, result.partition) == ("t", 4)
        assert result.error is ErrorCode.UNSUPPORTED_VERSION

    def test_old_produce_without_acks_is_answered(self) -> None:
        """It expects no answer and would read one as that of its next request."""
        with pytest.raises(UnsupportedApiError):
            receive(connection(), frame(produce_request(acks=0), 2))


class TestAnswers:
    """From a handler's response to bytes."""

    @pytest.mark.parametrize("version", [7, 9])
    def test_produce_without_acks_is_answered(self, version: int) -> None:
        """The connection must know that nothing is expected."""
        incoming = accept(connection(), frame(produce_request(acks=0), version))
        assert not incoming.expects_response
        assert accept(connection(), frame(produce_request(acks=1), version)).expects_response

    def test_records_are_copied_out_of_the_receive_buffer(self) -> None:
        """The broker writes from it."""
        buffer = bytearray(frame(produce_request(acks=1), 9))
        server = connection()
        incoming = server.decode(memoryview(buffer), 0, len(buffer))
        assert isinstance(incoming, KafkaRequest)
        records = incoming.request.partitions[0].records
        assert records.obj is buffer
        records[:5] = b"BATCH"
        assert b"BATCH" in buffer

    def test_size_leaves_out_the_records(self) -> None:
        """A source is counted with its length and sent by whoever can read it."""
        server = connection()
        fetch = next(each for each in ALL_OPERATIONS if each.key is ApiKey.FETCH)
        incoming = accept(server, frame(generic_of(fetch.request)(), 12))
        source = FileLike(100_000)
        result = api.FetchPartitionResult("t", 0, records=source)
        parts = server.encode(incoming, api.FetchResponse([result]))
        assert [part for part in parts if isinstance(part, FileLike)] == [source]
        body = body_of(parts, flexible=True)
        message, _ = codec.decode(generic_of(fetch.response), 12, body)
        assert len(message.responses[0].partitions[0].records) == 100_000

    def test_zstd_of_an_old_client_reaches_the_log(self) -> None:
        """APP-8: refused by the dialect, beside what the handler says about the rest."""
        batch = bytearray(61)
        batch[22] = 4
        request = produce_request(acks=1, records=bytes(batch))
        request.partitions.append(api.ProducePartition("u", 0, memoryview(bytes(61))))
        server = connection()
        incoming = accept(server, frame(request, 6))
        assert [entry.topic for entry in incoming.request.partitions] == ["u"]
        parts = server.encode(
            incoming, api.ProduceResponse([api.ProducePartitionResult("u", 0, base_offset=8)])
        )
        message, _ = codec.decode(api.ProduceResponse, 6, body_of(parts, flexible=False))
        codes = {each.topic: each.error for each in message.partitions}
        assert codes == {"u": 0, "t": ErrorCode.UNSUPPORTED_COMPRESSION_TYPE}
        assert len(accept(server, frame(request, 7)).request.partitions) == 2

    @pytest.mark.parametrize(
        ("timestamp", "first_version"), [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11)]
    )
    def test_special_timestamp_is_served_in_an_old_version(
        self, timestamp: int, first_version: int
    ) -> None:
        """LIST-3, LIST-4: UNSUPPORTED_VERSION for the partition."""
        server = connection()
        request = api.ListOffsetsRequest(
            [
                api.ListOffsetsPartition("t", index, value)
                for index, value in enumerate((5, timestamp, -7))
            ]
        )
        for version in range(1, 12):
            incoming = accept(server, frame(request, version))
            asked = [entry.timestamp_ms for entry in incoming.request.partitions]
            served = [5, timestamp] if version >= first_version else [5]
            assert asked == served
            results = [
                api.ListOffsetsResult(entry.topic, entry.partition, offset=1, leader_epoch=2)
                for entry in incoming.request.partitions
            ]
            parts = server.encode(incoming, api.ListOffsetsResponse(results))
            body = body_of(parts, flexible=version >= 6)
            answer, _ = codec.decode(api.ListOffsetsResponse, version, body)
            codes = [each.error for each in answer.partitions]
            assert codes == [0] * len(served) + [35] * (3 - len(served))

    def test_failure_of_a_handler_is_a_closed_connection(self) -> None:
        """Any request can be refused as a whole, in its own layout."""
        server = connection()
        incoming = accept(server, frame(produce_request(acks=1), 9))
        parts = server.encode_error(incoming, ErrorCode.UNKNOWN_SERVER_ERROR, "broken")
        message, _ = codec.decode(api.ProduceResponse, 9, body_of(parts, flexible=True))
        (result,) = message.partitions
        assert (result.partition, result.error, result.error_message) == (4, -1, "broken")

    def test_response_over_two_gigabytes_wraps_its_size(self) -> None:
        """The size field is an int32."""
        server = connection()
        fetch = next(each for each in ALL_OPERATIONS if each.key is ApiKey.FETCH)
        incoming = accept(server, frame(generic_of(fetch.request)(), 11))
        response = api.FetchResponse(
            [api.FetchPartitionResult("t", 0, records=FileLike(2**31 - 20))]
        )
        with pytest.raises(FrameTooLargeError):
            server.encode(incoming, response)

    def test_answers_may_leave_in_any_order(self) -> None:
        """The listener asks the dialect."""
        assert connection().ordered
        assert connection().name == "kafka"
