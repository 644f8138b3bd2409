"""The content of segment files as lines, in the words of Kafka's dump tool."""

from collections.abc import Iterator
from typing import Any, Final

from seglog.broker.storage.errors import CorruptIndexError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    SegmentFileName,
)
from seglog.broker.storage.segment.transaction_index import TransactionIndex
from seglog.broker.tools.findings import Findings
from seglog.broker.tools.index_file import read_offset_index, read_time_index
from seglog.broker.tools.log_scan import LogScan, ScannedBatch, TailKind
from seglog.broker.tools.small_files import Line
from seglog.protocol.errors import RecordError
from seglog.protocol.records.batch import BatchHeader, RecordBatch
from seglog.protocol.records.control import read_control_type, read_marker
from seglog.protocol.records.record import Record
from seglog.protocol.types import INT32_MAX, TimestampType

RECORD: Final = "record"
_TIMESTAMP_NAMES: Final = {
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


class LogDump:
    """What of a data file is shown.

    Args:
        with_records: one line for each record, too.
        with_metadata: of each record more than its key and value.
        max_bytes: of the file, None for all of it.
    """

    def __init__(
        self, *, with_records: bool, with_metadata: bool = True, max_bytes: int | None = None
    ) -> None:
        self._with_records = with_records
        self._with_metadata = with_metadata
        self._max_bytes = max_bytes

    def lines(
        self, file_system: FileSystem, path: str, base_offset: int, findings: Findings
    ) -> Iterator[Line]:
        """A line for each batch; faults go to ``findings``.

        Raises:
            FileError: the file cannot be read.
        """
        yield Line("log", {"Log starting offset": base_offset})
        file = file_system.open_log(path)
        scan = LogScan(file, base_offset, self._max_bytes)
        try:
            for scanned in scan:
                yield _batch_line(scanned)
                if scanned.fault is not None:
                    findings.fault(path, scanned.fault, scanned.position)
                if self._with_records and scanned.batch is not None:
                    yield from self._record_lines(scanned.batch)
        finally:
            file.close()
        tail = scan.tail
        if tail is not None and self._max_bytes is None:
            is_normal = tail.kind is TailKind.ZEROS
            findings.fault_unless(is_normal, path, tail.text, tail.position)

    def _record_lines(self, batch: RecordBatch) -> Iterator[Line]:
        try:
            records = batch.records()
        except RecordError:
            return  # The batch's fault says it.
        for record in records:
            fields: dict[str, Any] = {}
            if self._with_metadata:
                fields = _metadata_of(record, batch.header)
            if batch.header.is_control:
                fields.update(_control_fields(batch, record))
            else:
                fields["key"] = record.key
                fields["payload"] = record.value
            yield Line(RECORD, fields)


def _batch_line(scanned: ScannedBatch) -> Line:
    header = scanned.header
    horizon = header.delete_horizon_ms
    return Line(
        "batch",
        {
            "baseOffset": header.base_offset,
            "lastOffset": header.last_offset,
            "count": header.record_count,
            "baseSequence": header.base_sequence,
            "lastSequence": header.last_sequence,
            "producerId": header.producer_id,
            "producerEpoch": header.producer_epoch,
            "partitionLeaderEpoch": header.partition_leader_epoch,
            "isTransactional": header.is_transactional,
            "isControl": header.is_control,
            "deleteHorizonMs": "OptionalLong.empty" if horizon is None else horizon,
            "position": scanned.position,
            _TIMESTAMP_NAMES[header.timestamp_type]: header.max_timestamp,
            "size": header.size_bytes,
            "magic": header.magic,
            "compresscodec": _codec_name(header),
            "crc": header.crc,
            "isvalid": scanned.has_right_checksum,
        },
    )


def _codec_name(header: BatchHeader) -> str:
    try:
        return header.codec.name_of()
    except RecordError:
        return "unknown"


def _metadata_of(record: Record, header: BatchHeader) -> dict[str, Any]:
    sequence = -1
    if header.base_sequence >= 0:
        sequence = (header.base_sequence + record.offset - header.base_offset) & INT32_MAX
    return {
        "offset": record.offset,
        _TIMESTAMP_NAMES[header.timestamp_type]: record.timestamp_ms,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": sequence,
        "headerKeys": "[" + ",".join(name for name, _ in record.headers) + "]",
    }


def _control_fields(batch: RecordBatch, record: Record) -> dict[str, Any]:
    try:
        marker = read_marker(batch)
        if marker is not None:
            return {
                "endTxnMarker": marker.control_type.name,
                "coordinatorEpoch": marker.coordinator_epoch,
            }
        control_type = read_control_type(record.key)
    except RecordError as error:
        return {"controlRecord": f"unreadable: {error.message}"}
    return {"controlRecord": "unknown" if control_type is None else control_type.name}


def index_lines(
    file_system: FileSystem, path: str, name: SegmentFileName, findings: Findings
) -> Iterator[Line]:
    """A line for each entry of an offset, time or transaction index.

    Raises:
        FileError: the file cannot be read.
    """
    if name.suffix == OFFSET_INDEX_SUFFIX:
        content = read_offset_index(file_system, path, name.base_offset)
        for offset, position in content.entries:
            yield Line("entry", {"offset": offset, "position": position})
    elif name.suffix == TIME_INDEX_SUFFIX:
        content = read_time_index(file_system, path, name.base_offset)
        for timestamp_ms, offset in content.entries:
            yield Line("entry", {"timestamp": timestamp_ms, "offset": offset})
    else:
        assert name.suffix != LOG_SUFFIX, name
        try:
            entries = TransactionIndex(file_system, path, name.base_offset).all()
        except CorruptIndexError as error:
            findings.fault(path, error.reason)
            return
        for entry in entries:
            yield Line(
                "entry",
                {
                    "version": 0,
                    "producerId": entry.producer_id,
                    "firstOffset": entry.first_offset,
                    "lastOffset": entry.last_offset,
                    "lastStableOffset": entry.last_stable_offset,
                },
            )
        return
    if content.odd_bytes:
        findings.fault(path, f"it ends with {content.odd_bytes} bytes of an entry")
