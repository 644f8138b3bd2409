"""A small broker in memory that speaks the native dialect, for tests of the clients.

It keeps whole batches, answers at once unless told otherwise, and lets a test look at every request
and put its own answer (or silence) in the place of the broker's.
"""

import asyncio
import os
import threading
from bisect import bisect_right
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from seglog.broker.storage.log.producer_state import AppendOrigin, ProducerState
from seglog.protocol import api
from seglog.protocol.dialect import IncomingRequest
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.native import FrameAssembler, NativeServer
from seglog.protocol.records.batch import RecordBatch, patch_offsets
from seglog.protocol.records.search import find_timestamp

SILENCE = object()
"""What a script returns where the broker shall not answer."""
HANG_UP = object()
"""What a script returns where the broker shall close the connection instead of answering."""

Script = Callable[[Any], Any]


@dataclass
class FakeLog:
    """One partition: its batches in order, and its first offset."""

    batches: list[RecordBatch] = field(default_factory=list)
    log_start_offset: int = 0
    next_offset: int = 0
    producers: ProducerState = field(default_factory=lambda: ProducerState("fake", 1 << 62))

    def append(self, data: bytes | bytearray | memoryview) -> int:
        copy = bytearray(data)
        header = RecordBatch(copy).header
        if header.has_producer:
            duplicate = self.producers.check_batch(header, AppendOrigin.CLIENT)
            if duplicate is not None:
                return duplicate.first_offset
            self.producers.record_batch(header._replace(base_offset=self.next_offset), 0)
        patch_offsets(memoryview(copy), self.next_offset, 0)
        base_offset = self.next_offset
        self.put(copy)
        return base_offset

    def put(self, data: bytearray | bytes) -> None:
        """Add a batch with the offsets it has."""
        batch = RecordBatch(data)
        self.batches.append(batch)
        self.next_offset = batch.header.next_offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        first = bisect_right(self.batches, offset, key=lambda batch: batch.header.last_offset)
        while first < len(self.batches) and self.batches[first].header.next_offset <= offset:
            first += 1
        if first and self.batches[first - 1].header.next_offset > offset:
            first -= 1
        chosen = bytearray()
        for batch in self.batches[first:]:
            if chosen and len(chosen) + batch.view.nbytes > max_bytes:
                break
            chosen += batch.view
        return bytes(chosen)


class FakeBroker:
    """Listens on a free port; ``async with`` on a test's loop, or ``running_fake_broker``."""

    def __init__(self) -> None:
        self.host = "127.0.0.1"
        self.port = 0
        self.topics: dict[str, list[FakeLog]] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.auto_create_partitions = 0
        self.requests: list[Any] = []
        self.connection_count = 0
        self.producer_count = 0
        self.script: Script = lambda _: None
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self.appended = asyncio.Event()

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def create(self, name: str, partitions: int = 1) -> list[FakeLog]:
        self.topics[name] = [FakeLog() for _ in range(partitions)]
        self.topic_ids[name] = os.urandom(16)
        return self.topics[name]

    def requests_of(self, kind: type) -> list[Any]:
        return [request for request in self.requests if isinstance(request, kind)]

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def listen(self) -> None:
        """Accept connections, on the same port as before."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self), self.host, self.port, reuse_address=True
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and cut every connection, as a killed process does."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut_connections()
        await asyncio.sleep(0)

    def cut_connections(self) -> None:
        for connection in list(self._connections):
            connection.abort()

    # Operations.

    async def answer(self, request: Any) -> Any:
        self.requests.append(request)
        scripted = self.script(request)
        if asyncio.isfuture(scripted) or asyncio.iscoroutine(scripted):
            scripted = await scripted
        if scripted is not None:
            return scripted
        match request:
            case api.ProduceRequest():
                return self._produce(request)
            case api.FetchRequest():
                return await self._fetch(request)
            case api.ListOffsetsRequest():
                return self._list_offsets(request)
            case api.MetadataRequest():
                return self.metadata(request)
            case _:
                return self._administer(request)

    def _log(self, topic: str, partition: int) -> FakeLog | None:
        logs = self.topics.get(topic, [])
        return logs[partition] if partition < len(logs) else None

    def _produce(self, request: api.ProduceRequest) -> api.ProduceResponse:
        results = []
        for item in request.partitions:
            log = self._log(item.topic, item.partition)
            result = api.ProducePartitionResult(item.topic, item.partition)
            if log is None:
                result.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                assert item.records is not None
                try:
                    result.base_offset = log.append(item.records)
                except RecordError as error:
                    result.error, result.error_message = error.code, error.message
            results.append(result)
        self.appended.set()
        return api.ProduceResponse(results)

    async def _fetch(self, request: api.FetchRequest) -> api.FetchResponse:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.max_wait_ms / 1000
        while True:
            self.appended.clear()
            response = self.read(request)
            size = sum(len(result.records or b"") for result in response.partitions)
            failed = any(result.error for result in response.partitions)
            if failed or size >= request.min_bytes or loop.time() >= deadline:
                return response
            try:
                async with asyncio.timeout_at(deadline):
                    await self.appended.wait()
            except TimeoutError:
                pass

    def read(self, request: api.FetchRequest) -> api.FetchResponse:
        """What there is just now of what is asked for."""
        left = request.max_bytes
        results = []
        for item in request.partitions:
            log = self._log(item.topic, item.partition)
            result = api.FetchPartitionResult(item.topic, item.partition)
            results.append(result)
            if log is None:
                result.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            result.high_watermark = result.last_stable_offset = log.next_offset
            result.log_start_offset = log.log_start_offset
            if not log.log_start_offset <= item.fetch_offset <= log.next_offset:
                result.error = ErrorCode.OFFSET_OUT_OF_RANGE
                continue
            records = log.read(item.fetch_offset, min(item.max_bytes, max(left, 0)))
            if left > 0 or not any(result.records for result in results):
                result.records = memoryview(records)
                left -= len(records)
        return api.FetchResponse(results)

    def _list_offsets(self, request: api.ListOffsetsRequest) -> api.ListOffsetsResponse:
        results = []
        for item in request.partitions:
            log = self._log(item.topic, item.partition)
            result = api.ListOffsetsResult(item.topic, item.partition)
            results.append(result)
            if log is None:
                result.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif item.timestamp_ms == -2:
                result.offset = log.log_start_offset
            elif item.timestamp_ms == -1:
                result.offset = log.next_offset
            else:
                for batch in log.batches:
                    found = find_timestamp(batch.view, item.timestamp_ms)
                    if found is not None:
                        result.offset, result.timestamp_ms = found
                        break
        return api.ListOffsetsResponse(results)

    def metadata(self, request: api.MetadataRequest) -> api.MetadataResponse:
        names = list(self.topics) if request.topics is None else request.topics
        topics = []
        for name in names:
            may_create = request.allow_auto_topic_creation and self.auto_create_partitions
            if name not in self.topics and may_create:
                self.create(name, self.auto_create_partitions)
            if name not in self.topics:
                unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                topics.append(api.TopicMetadata(name, api.ZERO_TOPIC_ID, [], unknown))
                continue
            partitions = [
                api.PartitionMetadata(number, 0, 0, [0], [0])
                for number in range(len(self.topics[name]))
            ]
            topics.append(api.TopicMetadata(name, self.topic_ids[name], partitions))
        brokers = [api.BrokerMetadata(0, self.host, self.port)]
        return api.MetadataResponse(brokers, "fake", 0, topics)

    def _administer(self, request: Any) -> Any:
        match request:
            case api.CreateTopicsRequest():
                results = []
                for topic in request.topics:
                    result = api.CreateTopicResult(topic.name, partitions=topic.partitions)
                    if topic.name in self.topics:
                        result.error = ErrorCode.TOPIC_ALREADY_EXISTS
                    else:
                        self.create(topic.name, max(1, topic.partitions))
                    results.append(result)
                return api.CreateTopicsResponse(results)
            case api.DeleteTopicsRequest():
                answers = []
                for name in request.names:
                    answer = api.DeleteTopicResult(name)
                    if self.topics.pop(name, None) is None:
                        answer.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    answers.append(answer)
                return api.DeleteTopicsResponse(answers)
            case api.CreatePartitionsRequest():
                for growth in request.topics:
                    logs = self.topics[growth.name]
                    logs += [FakeLog() for _ in range(growth.count - len(logs))]
                return api.CreatePartitionsResponse(
                    [api.CreatePartitionsResult(growth.name) for growth in request.topics]
                )
            case api.DeleteRecordsRequest():
                return self._delete_records(request)
            case api.InitProducerIdRequest():
                self.producer_count += 1
                return api.InitProducerIdResponse(producer_id=self.producer_count, producer_epoch=0)
            case _:
                raise AssertionError(f"the fake broker cannot answer {request}")

    def _delete_records(self, request: api.DeleteRecordsRequest) -> api.DeleteRecordsResponse:
        results = []
        for item in request.partitions:
            log = self.topics[item.topic][item.partition]
            result = api.DeleteRecordsResult(item.topic, item.partition)
            offset = log.next_offset if item.offset == -1 else item.offset
            if offset > log.next_offset:
                result.error = ErrorCode.OFFSET_OUT_OF_RANGE
            else:
                log.log_start_offset = max(log.log_start_offset, offset)
                result.low_watermark = log.log_start_offset
            results.append(result)
        return api.DeleteRecordsResponse(results)


class _Connection(asyncio.BufferedProtocol):
    """One client; requests are answered one after another, except for fetches that wait."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker
        self._server = NativeServer(
            max_frame_bytes=100 * 1024 * 1024, max_in_flight=100, software_version="fake"
        )
        self._assembler = FrameAssembler(self._server.frame_size)
        self._tasks: set[asyncio.Task[None]] = set()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._broker.connection_count += 1
        self._broker._connections.add(self)

    def connection_lost(self, _: Exception | None) -> None:
        self._broker._connections.discard(self)
        for task in self._tasks:
            task.cancel()

    def abort(self) -> None:
        self._transport.abort()

    def get_buffer(self, _: int) -> memoryview:
        return self._assembler.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._assembler.advance(nbytes)
        while (frame := self._assembler.next_frame()) is not None:
            message = self._server.decode(*frame)
            if isinstance(message, IncomingRequest):
                task = asyncio.get_running_loop().create_task(self._handle(message))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            else:
                self._transport.writelines(message.parts)

    async def _handle(self, message: IncomingRequest) -> None:
        response = await self._broker.answer(message.request)
        if response is HANG_UP:
            self.abort()
        elif response is not SILENCE and message.expects_response:
            self._transport.writelines(self._server.encode(message, response))


@contextmanager
def running_fake_broker():
    """A fake broker on a thread of its own, for tests of the blocking clients."""
    broker = FakeBroker()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="fake-broker", daemon=True)
    thread.start()

    def run(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(10)

    run(broker.listen())
    broker.run = run
    try:
        yield broker
    finally:
        run(broker.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
