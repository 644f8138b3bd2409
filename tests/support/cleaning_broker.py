"""A broker's parts with a cleaner over them."""

from seglog.broker.cleaning.log_cleaner import LogCleaner
from seglog.broker.runtime.traffic import Traffic
from seglog.broker.storage.directories.log_dir import LogDir
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.log.log import FetchIsolation, Log
from seglog.protocol.records.batch import iter_batches
from seglog.protocol.types import TopicPartition
from support.broker_parts import BrokerParts, batch_of

COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}


class Cleaning:
    """A broker's parts with a cleaner over them."""

    def __init__(self, parts: BrokerParts) -> None:
        self.parts = parts
        self.clock = parts.services.clock
        self.failed: list[StorageError] = []
        parts.services.logs.failures.report = self._note_failure  # type: ignore[method-assign]
        self.traffic = Traffic()
        self.cleaner = LogCleaner(
            parts.services.config,
            parts.services.logs,
            parts.file_system,
            parts.services.clock,
            run_in_directory=lambda _path, job: parts.services.workers.background.run(job),
            roll_if_overdue=parts.services.background.roll_if_overdue,
            begin_retention=parts.services.background.begin_retention,
            traffic=self.traffic,
        )

    def _note_failure(self, _log_dir: LogDir, error: StorageError, _log: Log | None = None) -> None:
        self.failed.append(error)

    async def topic(self, name: str = "t", **configs: str) -> Log:
        settings = COMPACT | {key.replace("_", "."): value for key, value in configs.items()}
        await self.parts.create_topic(name, 1, settings)
        return self.parts.log(name, 0)

    async def put(self, key: str, value: str | None, topic: str = "t", **options) -> None:
        encoded = None if value is None else value.encode()
        batch = batch_of(encoded, key=key.encode(), **({"timestamp_ms": self.now_ms} | options))
        (result,) = await self.parts.produce([(topic, 0, batch)])
        assert result.error == 0, result

    @property
    def now_ms(self) -> int:
        return self.clock.time_ms()

    def roll(self, topic: str = "t") -> None:
        self.parts.partition(topic, 0).roll(self.now_ms)

    async def clean(self, topic: str = "t"):
        await self.parts.quiet()  # what was rolled has to be on disk
        outcome = await self.cleaner.clean_now(TopicPartition(topic, 0))
        await self.parts.quiet()
        return outcome

    def content(self, topic: str = "t") -> list[tuple[int, str, str | None]]:
        log = self.parts.log(topic, 0)
        offset, found = log.offsets.log_start, []
        while True:
            data = log.read(offset, 1 << 20, isolation=FetchIsolation.HIGH_WATERMARK)
            if data.slice is None or not data.slice.length:
                return found
            for batch in iter_batches(data.slice.read()):
                for record in batch.records(from_offset=offset):
                    value = None if record.value is None else record.value.decode()
                    found.append((record.offset, record.key.decode(), value))
                offset = batch.header.next_offset
            data.slice.release()
