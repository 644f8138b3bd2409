"""Connections over real sockets, with handlers made for the occasion."""

import asyncio
import logging
import struct
from pathlib import Path
from typing import Any

import pytest

from seglog.broker.listeners import connection as connection_module
from seglog.broker.requests.context import Pending
from seglog.protocol import api
from seglog.protocol.dialect import IncomingRequest
from seglog.protocol.errors import ErrorCode
from seglog.protocol.native import MAGIC, NativeServer, RequestRefusedError
from support.listener_harness import TemporaryRange, connect, running_listener, until


def produce_request(size: int = 10, acks: int = 1, topic: str = "a") -> api.ProduceRequest:
    return api.ProduceRequest(acks, 1000, [api.ProducePartition(topic, 0, memoryview(bytes(size)))])


def produced(
    request: Any, offset: int = 0, error: ErrorCode = ErrorCode.NONE
) -> api.ProduceResponse:
    return api.ProduceResponse(
        [
            api.ProducePartitionResult(entry.topic, entry.partition, error, offset)
            for entry in request.partitions
        ]
    )


class LaterHandler:
    """Answers when the test says so."""

    def __init__(self, *, holds_input: bool = False) -> None:
        self.holds_input = holds_input
        self.waiting: list[tuple[Any, asyncio.Future[Any]]] = []

    def __call__(self, request: Any, _context: Any) -> Pending[Any]:
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((request, future))
        return Pending(future, holds_input=self.holds_input)

    def answer(self, index: int, offset: int = 0) -> None:
        request, future = self.waiting[index]
        future.set_result(produced(request, offset))


async def test_request_is_not_answered() -> None:
    """Hello, a request pipelined behind it, and what the handler is told of the client."""
    async with running_listener(lambda request, _: produced(request, 7)) as (listener, handler):
        client = await connect(listener.port, greet=False)
        _, parts = client.native.encode_request(produce_request())
        await client.send(client.native.hello() + b"".join(map(bytes, parts)))  # type: ignore[arg-type] # all parts are bytes here
        hello = await client.receive()
        assert hello.version == 1
        answer = await client.receive()
        assert answer.response.partitions[0].base_offset == 7
        context = handler.contexts[0]
        assert context.client_id == "test-client"
        assert context.listener_name == "PLAINTEXT"
        assert (context.host, context.port) == ("127.0.0.1", listener.port)
        assert [one.software for one in listener.connections] == [("tests", "1")]
        client.close()


@pytest.mark.parametrize("size", [10, 70_000, 900_000])
async def test_records_reach_the_handler_damaged(size: int) -> None:
    """Small frames in the shared buffer and large ones in their own, many in a row."""
    sums: list[tuple[int, int]] = []

    def handle(request: Any, _context: Any) -> Any:
        records = request.partitions[0].records
        assert not records.readonly
        sums.append((records.nbytes, sum(records[:: max(1, size // 10)])))
        return produced(request)

    async with running_listener(handle) as (listener, _):
        client = await connect(listener.port)
        requests = []
        for fill in range(1, 6):
            request = produce_request(size)
            request.partitions[0].records = memoryview(bytes([fill]) * size)
            requests.append(request)
        sending = asyncio.ensure_future(client.request(*requests))
        for _ in requests:
            await client.receive()
        await sending
        steps = len(range(0, size, max(1, size // 10)))
        assert sums == [(size, fill * steps) for fill in range(1, 6)]
        client.close()


async def test_slow_request_stops_the_others() -> None:
    """Native answers leave when they are ready, in any order."""
    later = LaterHandler()
    async with running_listener(later) as (listener, _):
        client = await connect(listener.port)
        ids = await client.request(*(produce_request() for _ in range(3)))
        await until(lambda: len(later.waiting) == 3)
        later.answer(2, 22)
        later.answer(0, 20)
        first, second = await client.receive(), await client.receive()
        assert [first.correlation_id, second.correlation_id] == [ids[2], ids[0]]
        client.close()
        await until(lambda: not listener.connections)
        assert later.waiting[1][1].cancelled()


class OrderedServer(NativeServer):
    """A dialect whose answers must keep the order of the requests."""

    ordered = True


async def test_ordered_answers_overtake_each_other() -> None:
    """An answer that is ready early waits for those before it."""
    later = LaterHandler()

    def make() -> NativeServer:
        return OrderedServer(max_frame_bytes=1000, max_in_flight=5, software_version="")

    async with running_listener(later, make_dialect=make) as (listener, _):
        client = await connect(listener.port)
        ids = await client.request(*(produce_request() for _ in range(4)))
        await until(lambda: len(later.waiting) == 4)
        for index in (2, 1, 3, 0):
            later.answer(index, index)
        answers = [await client.receive() for _ in ids]
        assert [answer.correlation_id for answer in answers] == ids
        assert [answer.response.partitions[0].base_offset for answer in answers] == [0, 1, 2, 3]
        client.close()


async def test_ordered_dialect_queues_answers_without_end() -> None:
    """Answers that wait for a slow one before them count as requests in flight."""
    later = LaterHandler()
    answered = 0

    def handle(request: Any, context: Any) -> Any:
        nonlocal answered
        if not later.waiting:
            return later(request, context)
        answered += 1
        return produced(request)

    def make() -> NativeServer:
        return OrderedServer(max_frame_bytes=1000, max_in_flight=5, software_version="")

    limit = "max.inflight.requests.per.connection=10"
    async with running_listener(handle, limit, make_dialect=make) as (listener, _):
        client = await connect(listener.port)
        await client.request(*(produce_request() for _ in range(50)))
        await until(lambda: listener.services.counters.input_pauses == 1)
        assert answered == 9
        later.answer(0)
        for _ in range(50):
            assert await client.receive() is not None
        client.close()


async def test_buffer_changes_under_a_worker() -> None:
    """holds_input: nothing is read, and the records stay, until the request is done."""
    later = LaterHandler(holds_input=True)
    async with running_listener(later) as (listener, _):
        client, other = await connect(listener.port), await connect(listener.port)
        request = produce_request(50)
        request.partitions[0].records = memoryview(b"A" * 50)
        await client.request(request, produce_request(50))
        await until(lambda: len(later.waiting) == 1)
        await other.request(produce_request(60_000, topic="b"))
        await until(lambda: len(later.waiting) == 2)
        held = later.waiting[0][0].partitions[0].records
        assert bytes(held) == b"A" * 50
        assert later.waiting[1][0].partitions[0].topic == "b"
        later.answer(0)
        await until(lambda: len(later.waiting) == 3)
        later.answer(1)
        later.answer(2)
        assert await client.receive() is not None
        assert await client.receive() is not None
        assert await other.receive() is not None
        client.close()
        other.close()


async def test_buffer_of_a_lost_connection_is_reused_under_a_worker() -> None:
    """holds_input: the worker reads on although the client is gone; others receive elsewhere."""
    later = LaterHandler(holds_input=True)
    async with running_listener(later) as (listener, _):
        client, other = await connect(listener.port), await connect(listener.port)
        request = produce_request(50)
        request.partitions[0].records = memoryview(b"A" * 50)
        await client.request(request)
        await until(lambda: len(later.waiting) == 1)
        held = later.waiting[0][0].partitions[0].records
        for connection in list(listener.connections):
            if not connection.is_idle:
                connection.close("test")
        await other.request(produce_request(60_000))
        await until(lambda: len(later.waiting) == 2)
        assert bytes(held) == b"A" * 50
        client.close()
        other.close()


async def test_connection_lost_while_answering_gives_its_buffer_away() -> None:
    """The same where closing comes before the input was set aside."""

    def handle(request: Any, _context: Any) -> Any:
        held.append(request.partitions[0].records)
        (connection,) = (one for one in listener.connections if one.software[0])
        asyncio.get_running_loop().call_soon(connection.close, "test")
        return Pending(asyncio.get_running_loop().create_future(), holds_input=True)

    held: list[memoryview] = []
    async with running_listener(handle) as (listener, _):
        client = await connect(listener.port)
        request = produce_request(50)
        request.partitions[0].records = memoryview(b"A" * 50)
        shared = listener.services.shared_buffer.view
        await client.request(request)
        await until(lambda: not listener.connections)
        assert held[0].obj is shared.obj
        assert listener.services.shared_buffer.view is not shared
        client.close()


async def test_pipelining_client_has_unbounded_requests_in_flight() -> None:
    """Beyond the limit nothing is read; the rest is served as answers leave."""
    later = LaterHandler()
    limit = "max.inflight.requests.per.connection=10"
    async with running_listener(later, limit) as (listener, _):
        client = await connect(listener.port)
        await client.request(*(produce_request() for _ in range(100)))
        await until(lambda: listener.services.counters.input_pauses == 1)
        assert len(later.waiting) == 10
        for index in range(100):
            await until(lambda index=index: len(later.waiting) > index)
            later.answer(index, index)
        offsets = [(await client.receive()).response.partitions[0].base_offset for _ in range(100)]
        assert offsets == list(range(100))
        client.close()


async def test_slow_reader_costs_memory_without_bound() -> None:
    """It is not served further until it takes what waits for it; then everything comes."""
    message = "x" * 100_000

    def handle(request: Any, _context: Any) -> Any:
        response = produced(request, error=ErrorCode.INVALID_RECORD)
        response.partitions[0].error_message = message
        return response

    limit = "connection.output.buffer.bytes=300000"
    async with running_listener(handle, limit) as (listener, handler):
        client = await connect(listener.port, receive_buffer_bytes=4096)
        requests = [produce_request() for _ in range(300)]
        sending = asyncio.ensure_future(client.request(*requests))
        await until(lambda: listener.services.counters.input_pauses > 0)
        served = len(handler.seen)
        assert served < 150
        (connection,) = listener.connections
        assert 300_000 <= connection.queued_bytes < 500_000
        for _ in range(300):
            answer = await client.receive()
            assert answer.response.partitions[0].error_message == message
        await sending
        assert len(handler.seen) == 300
        client.close()


async def test_fetch_answer_is_not_what_is_in_the_file(tmp_path: Path) -> None:
    """Headers by send, records by sendfile, many pipelined, all files let go."""
    path = tmp_path / "segment"
    content = bytes(range(256)) * 8192
    path.write_bytes(content)
    ranges: list[TemporaryRange] = []

    def handle(request: Any, _context: Any) -> Any:
        results = []
        for entry in request.partitions:
            source = TemporaryRange(path, entry.fetch_offset, entry.max_bytes)
            ranges.append(source)
            results.append(api.FetchPartitionResult("a", entry.partition, records=source))
        return api.FetchResponse(results)

    async with running_listener(handle) as (listener, _):
        client = await connect(listener.port)
        entries = [(0, 100), (5, 1_000_000), (77, 65_536), (1_000_000, 500_000)]
        request = api.FetchRequest(
            0, 1, 1, [api.FetchPartition("a", index, *entry) for index, entry in enumerate(entries)]
        )
        await client.request(*[request] * 10)
        for _ in range(10):
            answer = await client.receive()
            for (position, length), result in zip(entries, answer.response.partitions, strict=True):
                assert result.records == content[position : position + length]
        assert {source.released for source in ranges} == {1}
        client.close()


async def test_client_leaves_and_files_stay_open(tmp_path: Path) -> None:
    """Whatever was queued for it is let go, and requests in flight are cancelled."""
    path = tmp_path / "segment"
    path.write_bytes(bytes(10_000_000))
    ranges: list[TemporaryRange] = []
    later = LaterHandler()

    def handle(request: Any, context: Any) -> Any:
        if isinstance(request, api.ProduceRequest):
            return later(request, context)
        ranges.append(TemporaryRange(path, 0, 10_000_000))
        return api.FetchResponse([api.FetchPartitionResult("a", 0, records=ranges[-1])])

    fetch = api.FetchRequest(0, 1, 1, [api.FetchPartition("a", 0, 0, 1)])
    async with running_listener(handle) as (listener, _):
        client = await connect(listener.port, receive_buffer_bytes=4096)
        await client.request(produce_request(), fetch, fetch)
        await until(lambda: listener.services.counters.input_pauses > 0)
        client.close()
        await until(lambda: not listener.connections)
        assert later.waiting[0][1].cancelled()
        assert {source.released for source in ranges} == {1}


async def test_answer_of_a_closed_connection_keeps_its_file(tmp_path: Path) -> None:
    """A future that was resolved in the same moment is not forgotten."""
    path = tmp_path / "segment"
    path.write_bytes(bytes(100))
    source = TemporaryRange(path, 0, 100)
    later = LaterHandler()
    async with running_listener(later) as (listener, _):
        client = await connect(listener.port)
        await client.request(produce_request())
        await until(lambda: len(later.waiting) == 1)
        (connection,) = listener.connections
        result = api.FetchPartitionResult("a", 0, records=source)
        later.waiting[0][1].set_result(api.FetchResponse([result]))
        connection.close("test")
        await until(lambda: source.released > 0)
        client.close()


async def test_defect_of_a_handler_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    """It is answered, logged with its traceback and counted; the next request is served."""

    def handle(request: Any, _context: Any) -> Any:
        if request.timeout_ms == 13:
            raise ZeroDivisionError("a defect")
        if request.timeout_ms == 14:
            future = asyncio.get_running_loop().create_future()
            future.set_exception(ZeroDivisionError("a later defect"))
            return Pending(future)
        if request.timeout_ms == 15:
            return "no response at all"
        return produced(request)

    async with running_listener(handle) as (listener, _):
        client = await connect(listener.port)
        for timeout_ms in (13, 14, 15):
            request = produce_request()
            request.timeout_ms = timeout_ms
            refusal = await client.ask(request)
            assert isinstance(refusal, RequestRefusedError)
            assert refusal.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert (await client.ask(produce_request())).partitions[0].base_offset == 0
        assert listener.services.counters.handler_failures == 3
        statistics = listener.services.requests.of(0)
        assert statistics.errors[-1] == 3
        assert statistics.count == 4
        client.close()
    records = [record for record in caplog.records if "request-failed" in record.message]
    assert len(records) == 3
    assert all(record.exc_info for record in records)


async def test_acks_zero_is_answered() -> None:
    """No response if it worked; if it failed the connection closes, and the error is counted."""

    def handle(request: Any, _context: Any) -> Any:
        bad = request.partitions[0].topic == "bad"
        return produced(request, 5, ErrorCode.INVALID_RECORD if bad else ErrorCode.NONE)

    async with running_listener(handle) as (listener, handler):
        client = await connect(listener.port)
        await client.request(produce_request(acks=0), produce_request(acks=1))
        answer = await client.receive()
        assert answer.correlation_id == 1
        await client.request(produce_request(acks=0, topic="bad"))
        assert await client.receive() is None
        assert len(handler.seen) == 3
        assert listener.services.counters.closed == {"unacknowledged-failure": 1}
        assert listener.services.requests.of(0).errors == {0: 2, 87: 1}
        client.close()


@pytest.mark.parametrize(
    ("first_bytes", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "http"),
        (b"\x16\x03\x01\x00\xf4\x01\x00", "tls"),
        (b"SSH-2.0-x\r\n", "ssh"),
        (b"PROXY TCP4 192.0.2.1", "proxy"),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x11", "proxy"),
        (b"PRI * HTTP/2.0\r\n", "http"),
        (b"\xff\xff\xff\xff", "malformed"),
        (b"\x00\x00\x00\x00", "malformed"),
        (b"\x00\x00\x00\x03", "malformed"),
        (b"\x7f\xff\xff\xff", "malformed"),
        (b"\xdd\xff\xff\xff\xff", "malformed"),
        (b"\x8bseglog\r", "malformed"),
    ],
)
async def test_stranger_is_kept_waiting(
    first_bytes: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """C034: closed at once, counted, one log line for many, with a hint where one can be given."""
    async with running_listener(lambda request, _: produced(request)) as (listener, _):
        clients = [await connect(listener.port, greet=False) for _ in range(10)]
        for client in clients:
            await client.send(first_bytes)
        assert all([await client.is_closed_by_peer() for client in clients])
        assert listener.services.counters.rejected_frames == {reason: 10}
        for client in clients:
            client.close()
    lines = [record.message for record in caplog.records if "frame-rejected" in record.message]
    assert len(lines) == 1
    assert ("hint=" in lines[0]) == (reason != "malformed")


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">I", 1_000_001),
        struct.pack(">IIB", 5, 1, 0xC1),
        struct.pack(">II", 9, 5) + b"\xdd\xff\xff\xff\xff",
        struct.pack(">II", 100_004, 100_000) + b"\x91" * 100_000,
        struct.pack(">II", 4, 0),
    ],
)
async def test_malformed_frame_is_waited_out(frame: bytes) -> None:
    """C034: after a proper hello too; the answers to earlier requests still arrive."""
    async with running_listener(lambda request, _: produced(request)) as (listener, _):
        client = await connect(listener.port)
        _, parts = client.native.encode_request(produce_request())
        await client.send(b"".join(map(bytes, parts)) + frame)  # type: ignore[arg-type] # all parts are bytes here
        assert (await client.receive()).response.partitions[0].base_offset == 0
        assert await client.is_closed_by_peer()
        client.close()


async def test_malformed_frame_takes_the_answers_before_it_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C034: what was asked before is answered, for a bounded time; what comes after is not read."""
    later = LaterHandler()
    garbage = struct.pack(">II", 4, 0)
    async with running_listener(later) as (listener, _):
        counters = listener.services.counters
        client = await connect(listener.port)
        await client.request(produce_request(), produce_request())
        await client.send(garbage)
        await until(lambda: counters.rejected_frames == {"malformed": 1})
        await client.request(produce_request())
        for index in (1, 0):
            later.answer(index, index)
            assert (await client.receive()).response.partitions[0].base_offset == index
        assert await client.is_closed_by_peer()
        client.close()
        await until(lambda: not listener.connections)
        assert len(later.waiting) == 2
        monkeypatch.setattr(connection_module, "LAST_ANSWERS_SECONDS", 0.01)
        client = await connect(listener.port)
        await client.request(produce_request())
        await client.send(garbage)
        assert await client.is_closed_by_peer()
        assert later.waiting[2][1].cancelled()
        assert counters.closed == {"protocol-error": 2}
        client.close()


async def test_unknown_version_is_cut_off_without_a_word() -> None:
    """The hello is answered, and the answer arrives although the connection ends."""
    async with running_listener(lambda request, _: produced(request)) as (listener, _):
        client = await connect(listener.port, greet=False)
        await client.send(struct.pack(">8sHHHH", MAGIC, 7, 9, 0, 4) + b"\x93\xa0\xa0\xa0" + b"more")
        loop = asyncio.get_running_loop()
        answer = await loop.sock_recv(client.socket, 16)
        assert answer[:10] == MAGIC + b"\0\0"
        assert await client.is_closed_by_peer()
        client.close()
        await until(lambda: not listener.connections)


async def test_defect_of_a_dialect_leaves_the_connection_hanging(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An unforeseen exception while decoding ends this connection and no other."""

    class Broken(NativeServer):
        def decode(self, view: memoryview, start: int, end: int) -> IncomingRequest | Any:
            if self.client_id:
                raise IndexError("a defect")
            return super().decode(view, start, end)

    def make() -> NativeServer:
        return Broken(max_frame_bytes=1000, max_in_flight=5, software_version="")

    async with running_listener(lambda r, _: produced(r), make_dialect=make) as (listener, _):
        client = await connect(listener.port)
        await client.request(produce_request())
        assert await client.is_closed_by_peer()
        assert listener.services.counters.closed == {"defect": 1}
        client.close()
    assert any(record.levelno == logging.ERROR for record in caplog.records)


async def test_half_closed_client_gets_no_answer() -> None:
    """A client that only stops sending still reads what is ready for it."""

    def handle(request: Any, _context: Any) -> Any:
        response = produced(request, error=ErrorCode.INVALID_RECORD)
        response.partitions[0].error_message = "x" * 3_000_000
        return response

    async with running_listener(handle) as (listener, _):
        client = await connect(listener.port, receive_buffer_bytes=4096)
        await client.request(produce_request())
        await until(lambda: listener.services.requests.of(0).count == 1)
        client.socket.shutdown(1)
        answer = await client.receive()
        assert len(answer.response.partitions[0].error_message) == 3_000_000
        assert await client.is_closed_by_peer()
        client.close()


async def test_cleaner_does_not_learn_of_requests() -> None:
    """Its threads rest while there are some."""
    async with running_listener(lambda request, _: produced(request)) as (listener, _):
        traffic = listener.services.traffic
        assert traffic.last_work_ns == 0
        client = await connect(listener.port)
        greeted_ns = traffic.last_work_ns
        assert greeted_ns > 0
        await client.ask(produce_request())
        assert traffic.last_work_ns > greeted_ns
        client.close()


async def test_stop_cuts_requests_off() -> None:
    """finish: no new requests, those in flight are answered, then the connection ends."""
    later = LaterHandler()
    async with running_listener(later) as (listener, _):
        client, idle = await connect(listener.port), await connect(listener.port)
        await client.request(produce_request())
        await until(lambda: len(later.waiting) == 1)
        listener.stop_accepting()
        listener.finish_connections()
        await client.request(produce_request())
        assert await idle.receive() is None
        idle.close()
        later.answer(0, 3)
        assert (await client.receive()).response.partitions[0].base_offset == 3
        assert await client.receive() is None
        client.close()
        assert await listener.wait_closed(5) == 0
        assert len(later.waiting) == 1


async def test_connections_take_turns_of_a_few_milliseconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A3: hundreds of requests in one segment, each answered at once, do not hold the others up."""
    now_ns = 0
    order: list[str] = []

    def work(request: Any, _context: Any) -> Any:
        nonlocal now_ns
        now_ns += 500_000
        order.append(request.partitions[0].topic)
        return produced(request)

    async with running_listener(work, "connection.turn.ms=2") as (listener, _):
        busy, other = await connect(listener.port), await connect(listener.port)
        monkeypatch.setattr(connection_module, "_now_ns", lambda: now_ns)
        await busy.request(*(produce_request(topic="busy") for _ in range(400)))
        await other.request(produce_request(topic="other"))
        await other.receive()
        for _ in range(400):
            assert await busy.receive() is not None
        assert order.count("busy") == 400
        # Four requests of half a millisecond are one turn; the other client then had its own.
        assert order.index("other") <= 8
        busy.close()
        other.close()


async def test_a_turn_is_at_least_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 0

    def work(request: Any, _context: Any) -> Any:
        nonlocal now_ns
        now_ns += 50_000_000
        return produced(request)

    async with running_listener(work) as (listener, _):
        client = await connect(listener.port)
        monkeypatch.setattr(connection_module, "_now_ns", lambda: now_ns)
        await client.request(*(produce_request(70_000) for _ in range(5)))
        for _ in range(5):
            assert await client.receive() is not None
        client.close()


async def test_answers_that_become_ready_give_a_connection_no_further_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A busy client has its one turn in each round, whatever it waits for besides."""
    now_ns = 0
    busy_in_round = 0
    most_in_round = 0
    loop = asyncio.get_running_loop()

    def begin_round() -> None:
        nonlocal busy_in_round
        busy_in_round = 0
        # As a callback of every round of the loop, like that of each connection with requests left.
        rounds.append(loop.call_soon(begin_round))

    def work(request: Any, _context: Any) -> Any:
        nonlocal now_ns, busy_in_round, most_in_round
        now_ns += 500_000
        busy_in_round += 1
        most_in_round = max(most_in_round, busy_in_round)
        if request.acks == -1:
            future = loop.create_future()
            loop.call_soon(future.set_result, produced(request))
            return Pending(future)
        return produced(request)

    rounds: list[asyncio.Handle] = []
    async with running_listener(work, "connection.turn.ms=2") as (listener, _):
        busy = await connect(listener.port)
        monkeypatch.setattr(connection_module, "_now_ns", lambda: now_ns)
        begin_round()
        acks = [-1 if number % 4 == 0 else 1 for number in range(400)]
        await busy.request(*(produce_request(acks=each) for each in acks))
        for _ in acks:
            assert await busy.receive() is not None
        rounds[-1].cancel()
        busy.close()
    assert most_in_round <= 4
