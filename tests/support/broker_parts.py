"""A broker without sockets: real logs in a temporary folder, requests as typed objects."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seglog.broker.api.operations import build_handlers
from seglog.broker.partition.partition import Partition
from seglog.broker.requests.context import Pending, RequestContext
from seglog.broker.requests.handlers import Handlers
from seglog.broker.requests.services import Services
from seglog.broker.runtime.broker_workers import Workers
from seglog.broker.runtime.workers import run_parallel
from seglog.broker.storage.directories.log_manager import LogManager
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.file_system import FileSystem, OsFileSystem
from seglog.broker.storage.identifiers import random_id
from seglog.broker.storage.log.log import Log
from seglog.broker.storage.log.producer_state import AppendOrigin
from seglog.config import load_broker_config
from seglog.protocol.api import (
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResult,
    DeleteTopicsRequest,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    NewTopic,
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.batch import iter_batches
from seglog.protocol.records.builder import build_batch
from seglog.protocol.types import IsolationLevel
from support.fake_clock import FakeClock

NOW_MS = 1_700_000_000_000
CONTEXT = RequestContext("test-client", "PLAINTEXT", "broker.example", 19092, "127.0.0.1:50000")


def batch_of(
    *values: bytes | None,
    key: bytes | None = b"k",
    timestamp_ms: int | Sequence[int] = NOW_MS,
    **options: Any,
) -> memoryview:
    """A writable batch; ``timestamp_ms`` is one for all records or one for each."""
    stamps = [timestamp_ms] * len(values) if isinstance(timestamp_ms, int) else timestamp_ms
    records = [(stamp, key, value, ()) for stamp, value in zip(stamps, values, strict=True)]
    return memoryview(build_batch(records, **options))


class BrokerParts:
    """All of a broker but its sockets and its timers."""

    def __init__(
        self,
        services: Services,
        log_dir: Path,
        settings: Mapping[str, str],
        file_system: FileSystem | None = None,
    ) -> None:
        self.services = services
        self.file_system = file_system or OsFileSystem()
        self.handlers: Handlers = build_handlers(services)
        self.log_dir = log_dir
        self.fatal_errors: list[StorageError] = []
        self._settings = dict(settings)
        self._successor: BrokerParts | None = None
        self._is_stopped = False

    @classmethod
    async def start(
        cls,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        *,
        log_dir: Path | None = None,
        file_system: FileSystem | None = None,
        clock: FakeClock | None = None,
    ) -> "BrokerParts":
        """A broker over ``log_dir``, by default ``folder``/data."""
        log_dir = log_dir or folder / "data"
        given = {"log.dirs": str(log_dir), **(settings or {})}
        config = load_broker_config(None, {}, [f"{key}={value}" for key, value in given.items()])
        clock = clock or FakeClock(NOW_MS)
        file_system = file_system or OsFileSystem()
        logs = LogManager(config, file_system)
        catalog = logs.open()
        config = config.with_dynamic(catalog.dynamic_defaults, cluster_default=True)
        config = config.with_dynamic(catalog.dynamic)
        logs.load(lambda jobs: run_parallel(jobs, threads=2), clock.time_ms(), config)
        workers = Workers(asyncio.get_running_loop())
        fatal_errors: list[StorageError] = []
        services = Services.build(config, clock, logs, catalog, workers, fatal_errors.append)
        parts = cls(services, log_dir, given, file_system)
        parts.fatal_errors = fatal_errors
        return parts

    async def stop(self, *, clean: bool = True) -> None:
        """Stop it, or the broker that it was restarted as."""
        if self._successor is not None:
            await self._successor.stop(clean=clean)
        if self._is_stopped:
            return
        self._is_stopped = True
        self.services.partitions.close()
        assert await self.services.workers.stop(5)
        self.services.logs.close(lambda jobs: [job() for job in jobs], clean=clean)

    async def restart(
        self, settings: Mapping[str, str] | None = None, *, clean: bool = True
    ) -> "BrokerParts":
        """Stop it and start another one over the same folder."""
        await self.stop(clean=clean)
        self._successor = await BrokerParts.start(
            self.log_dir.parent, {**self._settings, **(settings or {})}, log_dir=self.log_dir
        )
        return self._successor

    async def ask(self, request: object, context: RequestContext = CONTEXT) -> Any:
        """The response to a request, whenever it comes."""
        response = self.handlers.handle(request, context)
        return await response.future if isinstance(response, Pending) else response

    async def quiet(self) -> None:
        """Let everything run that is ready to, syncs in workers included."""
        for _ in range(3):
            await asyncio.sleep(0)
            for pool in self.services.workers.pools:
                await pool.idle()

    # ---- requests in short

    async def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> bytes:
        """Create a topic; its id."""
        topic = NewTopic(name, partitions, 1, dict(configs or {}))
        (result,) = (await self.ask(CreateTopicsRequest([topic]))).topics
        assert result.error == ErrorCode.NONE, result
        topic_id: bytes = result.topic_id
        return topic_id

    async def create_internal_topic(self, name: str) -> None:
        """Create a topic of one partition that clients may not create."""
        services = self.services
        configs = {"cleanup.policy": "compact"}
        async with services.changing:
            await services.topics.create(
                name, random_id(), 1, configs, services.config.log_config(configs)
            )

    async def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        (result,) = (await self.ask(DeleteTopicsRequest([name]))).topics
        assert result.error == ErrorCode.NONE, result

    async def produce(
        self,
        batches: Sequence[tuple[str, int, memoryview | None]],
        acks: int = 1,
        context: RequestContext = CONTEXT,
        transactional_id: str | None = None,
    ) -> list[ProducePartitionResult]:
        """Append batches; one result for each."""
        request = ProduceRequest(
            acks, 5000, [ProducePartition(*entry) for entry in batches], transactional_id
        )
        response = await self.ask(request, context)
        results: list[ProducePartitionResult] = response.partitions
        return results

    def begin_fetch(
        self,
        positions: Sequence[tuple[str, int, int]],
        *,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 50_000_000,
        partition_max_bytes: int = 1_000_000,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> Any:
        """What the handler returns for a fetch."""
        entries = [FetchPartition(*position, partition_max_bytes) for position in positions]
        request = FetchRequest(max_wait_ms, min_bytes, max_bytes, entries, isolation)
        return self.handlers.handle(request, CONTEXT)

    async def fetch(
        self, positions: Sequence[tuple[str, int, int]], **options: Any
    ) -> FetchResponse:
        """The response to a fetch, whenever it comes."""
        response = self.begin_fetch(positions, **options)
        if isinstance(response, Pending):
            return await response.future
        assert isinstance(response, FetchResponse)
        return response

    async def delete_records(self, topic: str, partition: int, offset: int) -> DeleteRecordsResult:
        """Raise the log start of one partition."""
        request = DeleteRecordsRequest([DeleteRecordsPartition(topic, partition, offset)])
        (result,) = (await self.ask(request)).partitions
        assert isinstance(result, DeleteRecordsResult)
        return result

    # ---- looking into it

    def partition(self, topic: str, number: int) -> Partition:
        """A partition."""
        return self.services.partitions.get(topic, number)

    def log(self, topic: str, number: int) -> Log:
        """The log of a partition."""
        return self.partition(topic, number).log

    def offsets(self, topic: str, number: int) -> tuple[int, int]:
        """Log start and log end."""
        offsets = self.log(topic, number).offsets
        return offsets.log_start, offsets.log_end

    def append_marker(self, topic: str, number: int, marker: bytearray) -> None:
        """End a transaction as a coordinator does."""
        self.partition(topic, number).append(
            memoryview(marker), 1, self.services.clock.time_ms(), AppendOrigin.COORDINATOR
        )

    def bytes_of(self, result: FetchPartitionResult) -> bytes:
        """The batches of a result, which is released."""
        records: Any = result.records
        if records is None:
            return b""
        content: bytes = records.read()
        records.release()
        return content

    def values_of(self, result: FetchPartitionResult) -> list[bytes | None]:
        """The values of the whole batches of a result, which is released."""
        return [
            record.value
            for batch in iter_batches(self.bytes_of(result))
            for record in batch.records()
        ]

    def read_bytes(self, topic: str, number: int, offset: int) -> bytes:
        """The stored bytes from the batch of an offset on."""
        entry = FetchPartition(topic, number, offset, 50_000_000)
        response = self.handlers.handle(FetchRequest(0, 1, 50_000_000, [entry]), CONTEXT)
        assert isinstance(response, FetchResponse)
        return self.bytes_of(response.partitions[0])

    def values(self, topic: str, number: int) -> list[bytes | None]:
        """The values of all records of a partition that a reader may see, in order."""
        offsets = self.log(topic, number).offsets
        offset, end = offsets.log_start, offsets.high_watermark
        found: list[bytes | None] = []
        while offset < end:
            for batch in iter_batches(self.read_bytes(topic, number, offset)):
                found += [each.value for each in batch.records() if each.offset >= offset]
                offset = batch.header.last_offset + 1
        return found
