"""Raw connections that speak either dialect, with the same questions and answers for both."""

import socket
import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from seglog.protocol.api import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from seglog.protocol.declaration.layout import WireMessage
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka import codec
from seglog.protocol.native import FrameAssembler, NativeClient
from seglog.protocol.records import RecordBatch, iter_batches
from seglog.protocol.records.record import Record
from seglog.protocol.types import INT32_MAX, IsolationLevel

WIRES = ("native", "kafka")
"""For ``pytest.mark.parametrize``; see ``open_wire``."""

AnswerT = TypeVar("AnswerT")


class Produced(NamedTuple):
    """The answer to a batch."""

    error: ErrorCode
    base_offset: int
    log_append_time_ms: int
    record_errors: Sequence[tuple[int, str]]
    message: str | None


class Fetched(NamedTuple):
    """The answer to a fetch of one partition."""

    error: ErrorCode
    high_watermark: int
    log_start_offset: int
    records: bytes

    @property
    def batches(self) -> list[RecordBatch]:
        """The whole batches."""
        return list(iter_batches(self.records))


class Found(NamedTuple):
    """The answer to a question about an offset; -1 where there is none."""

    error: ErrorCode
    offset: int
    timestamp_ms: int


class Wire(Protocol):
    """One connection to a broker."""

    socket: socket.socket

    def produce(
        self, topic: str, batch: Any, *, partition: int = 0, acks: int = -1
    ) -> Produced: ...

    def fetch(
        self,
        topic: str,
        offset: int,
        *,
        partition: int = 0,
        max_bytes: int = INT32_MAX,
        partition_max_bytes: int = 1 << 20,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> Fetched: ...

    def find(
        self,
        topic: str,
        timestamp_ms: int,
        *,
        partition: int = 0,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> Found: ...

    def delete_before(
        self, topic: str, offset: int, *, partition: int = 0
    ) -> tuple[ErrorCode, int]: ...

    def close(self) -> None: ...


class _Connection:
    def __init__(self, port: int, timeout: float) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise ConnectionResetError(f"the broker hung up after {len(data)} of {size} bytes")
            data += chunk
        return bytes(data)


class NativeWire(_Connection):
    """The native dialect."""

    def __init__(self, port: int, timeout: float = 20.0) -> None:
        super().__init__(port, timeout)
        self._client = NativeClient("test-wire")
        self._assembler = FrameAssembler(self._client.frame_size)
        self.socket.sendall(self._client.hello())
        self._next()

    def ask(self, request: Any) -> Any:
        """The response to a request."""
        self.send(request)
        return self._next().response

    def send(self, request: Any) -> None:
        """Send a request; its answer is left on the line."""
        self.socket.sendall(b"".join(map(bytes, self._client.encode_request(request)[1])))  # type: ignore[arg-type] # no files

    def _next(self) -> Any:
        while (frame := self._assembler.next_frame()) is None:
            count = self.socket.recv_into(self._assembler.get_buffer())
            if count == 0:
                raise ConnectionResetError("the broker hung up")
            self._assembler.advance(count)
        return self._client.decode(*frame)

    def produce(self, topic: str, batch: Any, *, partition: int = 0, acks: int = -1) -> Produced:
        """Append one batch."""
        view = memoryview(bytearray(batch))
        request = ProduceRequest(acks, 10_000, [ProducePartition(topic, partition, view)])
        if acks == 0:
            self.send(request)
            return Produced(ErrorCode.NONE, -1, -1, (), None)
        (result,) = self.ask(request).partitions
        return Produced(
            result.error,
            result.base_offset,
            result.log_append_time_ms,
            tuple(result.record_errors),
            result.error_message,
        )

    def fetch_request(self, topic: str, offset: int, **options: Any) -> FetchRequest:
        """The request that ``fetch`` sends."""
        options = {**_FETCH_DEFAULTS, **options}
        return FetchRequest(
            options["max_wait_ms"],
            options["min_bytes"],
            options["max_bytes"],
            [FetchPartition(topic, options["partition"], offset, options["partition_max_bytes"])],
            options["isolation"],
        )

    def fetch(self, topic: str, offset: int, **options: Any) -> Fetched:
        """Read one partition."""
        (result,) = self.ask(self.fetch_request(topic, offset, **options)).partitions
        return Fetched(
            result.error,
            result.high_watermark,
            result.log_start_offset,
            bytes(result.records or b""),
        )

    def find(
        self,
        topic: str,
        timestamp_ms: int,
        *,
        partition: int = 0,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> Found:
        """Look an offset up by time."""
        question = ListOffsetsPartition(topic, partition, timestamp_ms)
        (result,) = self.ask(ListOffsetsRequest([question], isolation)).partitions
        return Found(result.error, result.offset, result.timestamp_ms)

    def delete_before(
        self, topic: str, offset: int, *, partition: int = 0
    ) -> tuple[ErrorCode, int]:
        """Delete records; the error and the new start."""
        question = DeleteRecordsPartition(topic, partition, offset)
        (result,) = self.ask(DeleteRecordsRequest([question])).partitions
        return result.error, result.low_watermark


class KafkaWire(_Connection):
    """The Kafka dialect, in versions with topic names."""

    PRODUCE, FETCH, LIST_OFFSETS, DELETE_RECORDS = 9, 11, 7, 2

    def __init__(self, port: int, timeout: float = 20.0) -> None:
        super().__init__(port, timeout)
        self._correlation_id = 0

    def ask(self, request: Any, version: int, answer: type[AnswerT]) -> AnswerT:
        """The response to a request."""
        self.send(request, version)
        return self.receive(version, answer)

    def receive(self, version: int, answer: type[AnswerT]) -> AnswerT:
        """The response to the last request, which was only sent."""
        (size,) = struct.unpack(">i", self._receive(4))
        frame = memoryview(self._receive(size))
        assert struct.unpack_from(">i", frame)[0] == self._correlation_id
        wire: WireMessage = answer.__message__  # type: ignore[attr-defined]  # of all that is coded
        return codec.decode(answer, version, frame, 5 if version in wire.flexible else 4)[0]

    def send(self, request: Any, version: int) -> None:
        """Send a request; its answer is left on the line."""
        self._correlation_id += 1
        wire: WireMessage = request.__message__
        head = struct.pack(">hhih", wire.api_key, version, self._correlation_id, 4) + b"test"
        if version in wire.flexible:
            head += b"\0"
        body = codec.encode_bytes(request, version)
        self.socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)

    def produce(
        self,
        topic: str,
        batch: Any,
        *,
        partition: int = 0,
        acks: int = -1,
        transactional_id: str | None = None,
    ) -> Produced:
        """Append one batch."""
        request = ProduceRequest(
            acks,
            10_000,
            [ProducePartition(topic, partition, memoryview(bytes(batch)))],
            transactional_id,
        )
        if acks == 0:
            self.send(request, self.PRODUCE)
            return Produced(ErrorCode.NONE, -1, -1, (), None)
        (result,) = self.ask(request, self.PRODUCE, ProduceResponse).partitions
        return Produced(
            result.error,
            result.base_offset,
            result.log_append_time_ms,
            tuple(result.record_errors),
            result.error_message,
        )

    def fetch_request(self, topic: str, offset: int, **options: Any) -> FetchRequest:
        """The request that ``fetch`` sends."""
        options = {**_FETCH_DEFAULTS, **options}
        return FetchRequest(
            options["max_wait_ms"],
            options["min_bytes"],
            options["max_bytes"],
            [FetchPartition(topic, options["partition"], offset, options["partition_max_bytes"])],
            options["isolation"],
        )

    def fetch(self, topic: str, offset: int, **options: Any) -> Fetched:
        """Read one partition."""
        request = self.fetch_request(topic, offset, **options)
        (result,) = self.ask(request, self.FETCH, FetchResponse).partitions
        records = result.records
        assert isinstance(records, memoryview)
        return Fetched(result.error, result.high_watermark, result.log_start_offset, bytes(records))

    def find(
        self,
        topic: str,
        timestamp_ms: int,
        *,
        partition: int = 0,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> Found:
        """Look an offset up by time."""
        question = ListOffsetsPartition(topic, partition, timestamp_ms)
        request = ListOffsetsRequest([question], isolation)
        (result,) = self.ask(request, self.LIST_OFFSETS, ListOffsetsResponse).partitions
        return Found(result.error, result.offset, result.timestamp_ms)

    def delete_before(
        self, topic: str, offset: int, *, partition: int = 0
    ) -> tuple[ErrorCode, int]:
        """Delete records; the error and the new start."""
        request = DeleteRecordsRequest([DeleteRecordsPartition(topic, partition, offset)], 10_000)
        (result,) = self.ask(request, self.DELETE_RECORDS, DeleteRecordsResponse).partitions
        return result.error, result.low_watermark


_FETCH_DEFAULTS: dict[str, Any] = {
    "partition": 0,
    "max_bytes": INT32_MAX,
    "partition_max_bytes": 1 << 20,
    "max_wait_ms": 0,
    "min_bytes": 0,
    "isolation": IsolationLevel.READ_UNCOMMITTED,
}


def open_wire(dialect: str, port: int, timeout: float = 20.0) -> Any:
    """A ``Wire`` that speaks "native" or "kafka"; a context manager."""
    return {"native": NativeWire, "kafka": KafkaWire}[dialect](port, timeout)


def read_batches(
    wire: Wire, topic: str, *, partition: int = 0, start: int = -1
) -> list[RecordBatch]:
    """All batches of a partition, by fetches up to the high watermark.

    Fails if an answer below the high watermark holds no batch at or above the asked offset.
    """
    offset = wire.find(topic, -2, partition=partition).offset if start < 0 else start
    found: list[RecordBatch] = []
    while True:
        answer = wire.fetch(topic, offset, partition=partition)
        assert answer.error == ErrorCode.NONE, answer
        batches = answer.batches
        if offset >= answer.high_watermark:
            assert not batches
            return found
        assert batches, f"nothing at {offset}, although the high watermark is {answer}"
        assert batches[-1].header.last_offset >= offset
        found += batches
        offset = batches[-1].header.next_offset


def read_records(wire: Wire, topic: str, *, partition: int = 0, start: int = -1) -> list[Record]:
    """All data records of a partition from the log start (or ``start``) on."""
    if start < 0:
        start = wire.find(topic, -2, partition=partition).offset
    batches: Iterable[RecordBatch] = read_batches(wire, topic, partition=partition, start=start)
    return [
        record
        for batch in batches
        if not batch.header.is_control
        for record in batch.records(from_offset=start)
    ]
