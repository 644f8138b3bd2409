"""Logs for tests: opened in a folder, written to batch by batch, read back record by record."""

import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from seglog.broker.storage.errors import DeferredReadError
from seglog.broker.storage.files.file_system import FileSystem, OsFileSystem
from seglog.broker.storage.log.append import AppendInfo
from seglog.broker.storage.log.loader import load_log
from seglog.broker.storage.log.log import FetchIsolation, Log
from seglog.broker.storage.log.producer_state import AppendOrigin
from seglog.config.log_config import LogConfig
from seglog.protocol.compression import Codec
from seglog.protocol.records.batch import iter_batches
from seglog.protocol.records.builder import build_batch
from seglog.protocol.records.control import ControlType, build_marker
from seglog.protocol.records.record import Record
from seglog.protocol.types import INT32_MAX, TopicPartition

ResultT = TypeVar("ResultT")

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
PARTITION = TopicPartition("flights", 0)
KEEP = LogConfig(retention_ms=-1)

_opened: weakref.WeakSet[Log] = weakref.WeakSet()


def open_log(
    directory: Path,
    config: LogConfig = KEEP,
    *,
    file_system: FileSystem | None = None,
    clean: bool = False,
    recovery_point: int | None = 0,
    log_start: int = 0,
    leader_epoch_floor: int | None = None,
    now_ms: int = NOW_MS,
) -> Log:
    """The log in a folder, which is made if need be; as after a crash unless ``clean``."""
    directory.mkdir(exist_ok=True)
    log = load_log(
        file_system or OsFileSystem(),
        str(directory),
        PARTITION,
        config,
        now_ms=now_ms,
        clean_shutdown=clean,
        recovery_point=recovery_point,
        log_start_checkpoint=log_start,
        leader_epoch_floor=leader_epoch_floor,
    )
    _opened.add(log)
    return log


def at_once(read: Callable[[], ResultT]) -> ResultT:
    """The result of a read; what it would wait for in another thread is done here."""
    while True:
        try:
            return read()
        except DeferredReadError as deferred:
            deferred.work()()


def abandon_opened_logs() -> None:
    """Let the files of all logs go that tests left open: a suite has thousands of them."""
    for log in list(_opened):
        log.abandon()
    _opened.clear()


def reopen(log: Log, *, clean: bool, now_ms: int = NOW_MS) -> Log:
    """The same log after a clean stop, or after the process was killed."""
    recovery_point = log.offsets.recovery_point
    if clean:
        log.close()
        recovery_point = log.offsets.recovery_point
    else:
        log.abandon()
    return open_log(
        Path(log.directory),
        log.config,
        clean=clean,
        recovery_point=recovery_point,
        log_start=log.offsets.log_start,
        now_ms=now_ms,
    )


def flush_log(log: Log) -> None:
    """Put everything on disk, a part of it after the other, as a broker does."""
    up_to: int | None = log.offsets.log_end
    while up_to is not None:
        ticket = log.begin_flush(up_to)
        try:
            ticket.run()
        finally:
            is_on_disk = log.finish_flush(ticket)
        up_to = ticket.continues_to if is_on_disk else None


def append(
    log: Log,
    values: Sequence[bytes | None] = (b"value",),
    *,
    keys: Sequence[bytes | None] | None = None,
    timestamps_ms: Sequence[int] | int = NOW_MS,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = 0,
    sequence: int = -1,
    transactional: bool = False,
    leader_epoch: int = 0,
    now_ms: int = NOW_MS,
    committed: bool = True,
) -> AppendInfo:
    """Append one batch as a client does; the high watermark follows if ``committed``."""
    stamps = [timestamps_ms] * len(values) if isinstance(timestamps_ms, int) else timestamps_ms
    batch = build_batch(
        [
            (stamp, b"key" if keys is None else keys[index], value, ())
            for index, (stamp, value) in enumerate(zip(stamps, values, strict=True))
        ],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch if producer_id >= 0 else -1,
        base_sequence=sequence,
        is_transactional=transactional,
    )
    info = log.append(memoryview(batch), now_ms=now_ms, leader_epoch=leader_epoch)
    if committed:
        log.set_high_watermark(log.offsets.log_end)
    return info


def append_many(log: Log, count: int, *, value_bytes: int = 100, step_ms: int = 0) -> None:
    """Append single-record batches with values that tell their offsets."""
    for _ in range(count):
        offset = log.offsets.log_end
        value = b"%d" % offset
        append(log, [value.ljust(value_bytes, b".")], timestamps_ms=NOW_MS + step_ms * offset)


def end_transaction(
    log: Log,
    producer_id: int,
    *,
    commit: bool,
    producer_epoch: int = 0,
    leader_epoch: int = 0,
    committed: bool = True,
    now_ms: int = NOW_MS,
) -> AppendInfo:
    """Append a marker as the coordinator does."""
    marker = build_marker(
        ControlType.COMMIT if commit else ControlType.ABORT,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=0,
        timestamp_ms=now_ms,
    )
    info = log.append(
        memoryview(marker),
        now_ms=now_ms,
        leader_epoch=leader_epoch,
        origin=AppendOrigin.COORDINATOR,
    )
    if committed:
        log.set_high_watermark(log.offsets.log_end)
    return info


def truncate(log: Log, offset: int) -> bool:
    """Cut a log so that it ends at an offset, as a follower does; whether records went."""
    truncation = log.begin_truncation(offset, NOW_MS)
    truncation.run()
    log.finish_truncation(truncation)
    return truncation.cuts_records


def restart(log: Log, offset: int) -> None:
    """Drop everything, so that the next record gets an offset."""
    truncation = log.begin_restart(offset, NOW_MS)
    truncation.run()
    log.finish_truncation(truncation)


def read_bytes(
    log: Log,
    offset: int,
    max_bytes: int = INT32_MAX,
    *,
    isolation: FetchIsolation = FetchIsolation.LOG_END,
    min_one_message: bool = True,
) -> bytes:
    """What one read returns."""
    data = at_once(
        lambda: log.read(offset, max_bytes, isolation=isolation, min_one_message=min_one_message)
    )
    if data.slice is None:
        return b""
    try:
        return data.slice.read()
    finally:
        data.slice.release()


def read_all(
    log: Log,
    offset: int | None = None,
    *,
    max_bytes: int = INT32_MAX,
    isolation: FetchIsolation = FetchIsolation.LOG_END,
) -> list[Record]:
    """All records from an offset (the log start) on, as a consumer that polls gets them."""
    position = log.offsets.log_start if offset is None else offset
    records: list[Record] = []
    while content := read_bytes(log, position, max_bytes, isolation=isolation):
        for batch in iter_batches(content):
            batch.check()
            if batch.header.last_offset < position:
                continue
            if not batch.header.is_control:
                records += batch.records(from_offset=position)
            position = batch.header.next_offset
    return records


def offsets_of(records: Iterable[Record]) -> list[int]:
    """Their offsets."""
    return [record.offset for record in records]


def base_offsets(log: Log) -> list[int]:
    """The base offsets of the log's segments."""
    return log.segments.base_offsets


def names_in(directory: Path | str, suffix: str = "") -> list[str]:
    """The files of a folder, sorted."""
    return sorted(path.name for path in Path(directory).iterdir() if path.name.endswith(suffix))
