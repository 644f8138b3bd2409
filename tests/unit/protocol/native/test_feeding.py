"""Streams cut anywhere, and bytes that are no frames."""

import struct
import time
import tracemalloc
from typing import Any

import msgpack
import pytest

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.dialect import IncomingRequest, Reply
from seglog.protocol.errors import ErrorCode, FrameTooLargeError, ProtocolError
from seglog.protocol.native import (
    MAGIC,
    FrameAssembler,
    NativeClient,
    NativeServer,
    RequestRefusedError,
    VersionRefusedError,
    may_be_magic,
)
from seglog.protocol.native.operations import ALL_OPERATIONS
from support.native_pair import (
    MAX_FRAME_BYTES,
    decode,
    greeted_pair,
    joined,
    send_request,
    send_response,
)
from support.native_samples import samples
from support.processor_time import in_time


def fresh_server() -> NativeServer:
    return NativeServer(max_frame_bytes=MAX_FRAME_BYTES, max_in_flight=5, software_version="9")


def frame_of(header: Any, records: bytes = b"") -> bytes:
    packed = header if isinstance(header, bytes) else msgpack.packb(header)
    return struct.pack(">II", 4 + len(packed) + len(records), len(packed)) + packed + records


def pipelined_stream() -> tuple[bytes, list[Any]]:
    """A client's hello with one request of each operation right behind it."""
    client = NativeClient("app")
    requests = [request for request, _ in samples().values()]
    stream = client.hello()
    for request in requests:
        stream += joined(client.encode_request(request)[1])
    return stream, requests


@pytest.mark.parametrize("step", [1, 2, 3, 7, 64, 100_000])
def test_stream_is_cut_at_an_awkward_place(step: int) -> None:
    """Whatever arrives together, the same requests come out, the hello's answer first."""
    stream, requests = pipelined_stream()
    server = fresh_server()
    assembler = FrameAssembler(server.frame_size, scratch_bytes=128)
    decoded: list[Any] = []
    for position in range(0, len(stream), step):
        frames = assembler.feed(stream[position : position + step])
        decoded.extend(server.decode(*frame) for frame in frames)
    assert isinstance(decoded[0], Reply)
    assert [incoming.request for incoming in decoded[1:]] == requests


def test_frame_is_larger_than_the_receive_buffer() -> None:
    """A large frame is received into one buffer of its own, in steps of what really came."""
    client, server = greeted_pair()
    records = bytes(500_000)
    request = api.ProduceRequest(1, 1, [api.ProducePartition("a", 0, memoryview(records))])
    assembler = FrameAssembler(server.frame_size)
    frames = list(assembler.feed(joined(client.encode_request(request)[1])))
    assert [server.decode(*frame).request for frame in frames] == [request]
    assert assembler.get_buffer().nbytes >= 65536


def test_views_of_a_frame_change_when_more_arrives() -> None:
    """Record views stay what they were while later frames are received."""
    client, server = greeted_pair()
    assembler = FrameAssembler(server.frame_size, scratch_bytes=100)

    def sent(fill: bytes) -> memoryview:
        view = memoryview(fill * 20)
        request = api.ProduceRequest(1, 1, [api.ProducePartition("a", 0, view)])
        (frame,) = assembler.feed(joined(client.encode_request(request)[1]))
        records = server.decode(*frame).request.partitions[0].records
        assert records is not None
        return records

    views = [sent(fill) for fill in (b"x", b"y", b"z")]
    assert [bytes(view[:1]) for view in views] == [b"x", b"y", b"z"]


def test_bytes_behind_the_records_are_ignored() -> None:
    """A frame holds exactly what its header announces."""
    _, server = greeted_pair()
    header = [0, 0, 1, 1, 30000, [["a", 0, 3, None]], None]
    reply = decode(server, frame_of(header, b"1234"))
    assert reply.error is ErrorCode.INVALID_REQUEST
    reply = decode(server, frame_of([*header[:5], [["a", 0, 5, None]], None], b"1234"))
    assert reply.error is ErrorCode.INVALID_REQUEST


def test_unknown_operation_ends_the_connection() -> None:
    """C042: an unknown key or version is answered, by number, and the next request is served."""
    client, server = greeted_pair()
    for header in ([999, 0, 5], [0, 1, 5, "from the future"], [0, -1, 5], [1999, 0, 5]):
        client._in_flight[5] = ALL_OPERATIONS[0]
        answer = decode(client, joined(decode(server, frame_of(header)).parts))
        assert isinstance(answer.response, RequestRefusedError)
        assert answer.response.code is ErrorCode.UNSUPPORTED_VERSION
        assert answer.correlation_id == 5
    request, response = samples()[ApiKey.METADATA]
    incoming = send_request(client, server, request)
    assert send_response(client, server, incoming, response).response == response


def test_field_of_the_wrong_type_ends_the_connection() -> None:
    """It is answered with the path of the field."""
    client, server = greeted_pair()
    client._in_flight[6] = ALL_OPERATIONS[0]
    reply = decode(server, frame_of([3, 0, 6, ["flights", 17]]))
    refusal = decode(client, joined(reply.parts)).response
    assert refusal.code is ErrorCode.INVALID_REQUEST
    assert "MetadataRequest.topics: 17" in refusal.message


@pytest.mark.parametrize(
    "header",
    [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\x97\x00\x00\x01\x01\x01\xdd\xff\xff\xff\xff",
        b"\x91" * 100_000,
        b"\x93\x00\x00",
        b"\x93\x00\x00\x01\x01",
        b"\xc1",
        b"\x90",
        b"\x91\x00",
        b"\x93\x00\x00\xc0",
        b"\x80",
        b"\xa3abc",
        b"\x94\x03\x00\x01\x91\xa2\xff\xfe",
    ],
)
def test_hostile_header_costs_memory_or_is_accepted(header: bytes) -> None:
    """C034: claims of 4294967295 elements and 100000 nested arrays are refused, and cheaply."""
    _, server = greeted_pair()
    frame = frame_of(header)
    tracemalloc.start()
    started = time.perf_counter()
    with pytest.raises(ProtocolError):
        decode(server, frame)
    elapsed = time.perf_counter() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert in_time(elapsed, 1)
    assert peak < 1_000_000


def test_arrays_in_the_place_of_a_name_are_refused_at_any_depth() -> None:
    """No depth that can be unpacked is too deep for the message that refuses it."""
    head = b"".join(msgpack.packb(number) for number in (int(ApiKey.METADATA), 0, 7))
    for depth in (1, 500, 1000, 1020):
        server = greeted_pair()[1]
        refusal = decode(server, frame_of(b"\x94" + head + b"\x91" * depth + b"\x90"))
        assert isinstance(refusal, Reply)
        assert refusal.error is ErrorCode.INVALID_REQUEST


def test_nested_claims_cost_seconds() -> None:
    """msgpack reserves what each level of nesting claims; it never touches it, but counts it."""
    _, server = greeted_pair()
    claim = b"\xdd" + struct.pack(">I", 60_000)
    frame = frame_of(claim * 900 + b"\xc0" * 60_000)
    started = time.perf_counter()
    with pytest.raises(ProtocolError):
        decode(server, frame)
    assert in_time(time.perf_counter() - started, 1)


def test_header_is_longer_than_its_frame() -> None:
    """The inner length is checked against the outer one."""
    _, server = greeted_pair()
    with pytest.raises(ProtocolError, match="does not fit"):
        decode(server, struct.pack(">II", 10, 7) + b"\x91\x00\x00\x00\x00\x00")


@pytest.mark.parametrize("length", [MAX_FRAME_BYTES + 1, 2**32 - 1])
def test_frame_over_the_limit_is_waited_for(length: int) -> None:
    """It is known from its first four bytes."""
    _, server = greeted_pair()
    view = memoryview(struct.pack(">I", length))
    with pytest.raises(FrameTooLargeError):
        server.frame_size(view, 0, 4)
    assert server.frame_size(view, 0, 3) == 0


@pytest.mark.parametrize("length", [0, 3, 4])
def test_frame_without_header_is_waited_for(length: int) -> None:
    """No frame is that small."""
    _, server = greeted_pair()
    with pytest.raises(ProtocolError):
        server.frame_size(memoryview(struct.pack(">I", length)), 0, 4)


@pytest.mark.parametrize(
    "first_bytes",
    [b"GET / HTTP/1.1", b"\x16\x03\x01\x00", b"\xdd\xff\xff\xff\xff", MAGIC[:4] + b"X"],
)
def test_other_protocols_are_taken_for_a_hello(first_bytes: bytes) -> None:
    """They are told apart by their first byte, or as soon as they differ."""
    assert not may_be_magic(first_bytes)
    with pytest.raises(ProtocolError):
        fresh_server().frame_size(memoryview(first_bytes), 0, len(first_bytes))


def test_part_of_the_magic_is_refused() -> None:
    """Any beginning of the magic may become one."""
    for length in range(len(MAGIC) + 1):
        assert may_be_magic(MAGIC[:length])
        assert fresh_server().frame_size(memoryview(MAGIC), 0, length) == 0


@pytest.mark.parametrize(
    "hello",
    [
        struct.pack(">8sHHHH", MAGIC, 1, 1, 0, 1) + b"\xc1",
        struct.pack(">8sHHHH", MAGIC, 1, 1, 0, 1) + b"\x90",
        struct.pack(">8sHHHH", MAGIC, 1, 1, 0, 4) + b"\x93\x00\x00\x00",
        struct.pack(">8sHHHH", MAGIC, 2, 1, 0, 0),
        struct.pack(">8sHHHH", MAGIC, 0, 1, 0, 0),
    ],
)
def test_malformed_hello_is_accepted(hello: bytes) -> None:
    """Details that are no array of three strings, and version ranges that are none."""
    with pytest.raises(ProtocolError):
        decode(fresh_server(), hello)


def test_hello_with_huge_details_is_waited_for() -> None:
    """Its size is bounded before its details arrive."""
    hello = struct.pack(">8sHHHH", MAGIC, 1, 1, 0, 4097)
    with pytest.raises(ProtocolError):
        fresh_server().frame_size(memoryview(hello), 0, len(hello))


def test_client_without_a_common_version_is_left_in_the_dark() -> None:
    """The server says which versions it speaks, then closes; the client raises it."""
    newer = struct.pack(">8sHHHH", MAGIC, 5, 9, 0, 4) + b"\x93\xa0\xa0\xa0"
    reply = decode(fresh_server(), newer)
    assert reply.closes
    assert reply.error is ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(VersionRefusedError, match="1 to 1"):
        decode(NativeClient("app"), joined(reply.parts))


def test_hello_of_a_newer_peer_is_refused() -> None:
    """More details than are known, and a range that reaches beyond ours, are fine."""
    server = fresh_server()
    details = msgpack.packb(["app", "x", "2", "new", 5])
    hello = struct.pack(">8sHHHH", MAGIC, 1, 9, 0, len(details)) + details
    reply = decode(server, hello)
    assert not reply.closes
    assert server.client_id == "app"
    assert server.software == ("x", "2")


def test_unacknowledged_produce_waits_for_an_answer() -> None:
    """acks=0: neither side keeps anything for the request."""
    client, server = greeted_pair()
    request = api.ProduceRequest(0, 1, [api.ProducePartition("a", 0, memoryview(b"x"))])
    assert not send_request(client, server, request).expects_response
    assert client.in_flight == 0


def test_answer_to_nothing_is_accepted() -> None:
    """A client that cannot place an answer must not go on."""
    client, _ = greeted_pair()
    for header in ([77, 0, []], ["x", 0], [1]):
        with pytest.raises(ProtocolError):
            decode(client, frame_of(header))


def test_answers_out_of_order_are_mixed_up() -> None:
    """Each answer finds its request by correlation id."""
    client, server = greeted_pair()
    keys = [ApiKey.METADATA, ApiKey.FETCH, ApiKey.LIST_OFFSETS]
    incoming: list[IncomingRequest] = [
        send_request(client, server, samples()[key][0]) for key in keys
    ]
    for key, request in reversed(list(zip(keys, incoming, strict=True))):
        response = samples()[key][1]
        answer = send_response(client, server, request, response)
        assert answer.correlation_id == request.correlation_id
        assert answer.response == response
    assert client.in_flight == 0


def test_error_code_of_a_newer_server_breaks_the_client() -> None:
    """A code without a name is an unknown error, not a crash."""
    client, _ = greeted_pair()
    client.encode_request(api.MetadataRequest())
    answer = decode(client, frame_of([0, 30_000, "new"]))
    assert answer.response.code is ErrorCode.UNKNOWN_SERVER_ERROR
