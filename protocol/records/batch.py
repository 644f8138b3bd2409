"""The record batch, format version 2 ("magic 2"): its header, its bytes, and streams of batches.

A batch is a 61-byte header and a records area, big-endian throughout::

     0  base offset            int64     35  max timestamp    int64
     8  batch length           int32     43  producer id      int64
    12  partition leader epoch int32     51  producer epoch   int16
    16  magic                  int8      53  base sequence    int32
    17  crc                    uint32    57  record count     int32
    21  attributes             int16     61  records, or one compressed stream of them
    23  last offset delta      int32
    27  base timestamp         int64

The length counts what follows it. The checksum (CRC-32C) covers everything from the attributes
on, so base offset and leader epoch can be changed without touching it. Attribute bits: 0-2 codec,
3 timestamp type, 4 transactional, 5 control, 6 the base timestamp is a delete horizon.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from seglog.protocol.checksum import crc32c
from seglog.protocol.compression import Codec, decompress
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.limits import MAX_DECOMPRESSED_BYTES
from seglog.protocol.records import kernel
from seglog.protocol.records.record import Record
from seglog.protocol.types import INT32_MAX, NO_PRODUCER_ID, NO_SEQUENCE, Buffer, TimestampType

MAGIC: Final = 2
HEADER_BYTES: Final = 61
LOG_OVERHEAD: Final = 12
"""Bytes of a batch that its length field does not count: base offset and the length itself."""

MAGIC_END: Final = 17
"""Bytes that must be there before the format of an entry can be told."""

MIN_ENTRY_LENGTH: Final = 14
"""The smallest legal length field: that of an empty message of format version 0."""

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
OFFSET_POSITION: Final = 0
LENGTH_POSITION: Final = 8
LEADER_EPOCH_POSITION: Final = 12
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
MAX_TIMESTAMP_POSITION: Final = 35
PRODUCER_POSITION: Final = 43

_INT64: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")
_INT16: Final = struct.Struct(">h")
_UINT32: Final = struct.Struct(">I")
_PRODUCER: Final = struct.Struct(">qhi")
_CODECS: Final = tuple(Codec)


class BatchHeader(NamedTuple):
    """The 61 bytes in front of the records, in their order."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The last offset that the batch covers, whether or not that record is still there."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset behind the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        """How the records are compressed.

        Raises:
            RecordError: UNSUPPORTED_COMPRESSION_TYPE for the numbers that no codec has.
        """
        number = self.attributes & CODEC_MASK
        if number >= len(_CODECS):
            raise RecordError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"no compression codec has number {number}"
            )
        return _CODECS[number]

    @property
    def timestamp_type(self) -> TimestampType:
        """Whose clock stamped the records."""
        if self.attributes & LOG_APPEND_TIME_BIT:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a marker for the log itself instead of records of a client."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the base timestamp says when tombstones of the batch may go."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when on tombstones and markers of the batch may be removed, None if not set."""
        return self.base_timestamp if self.has_delete_horizon else None

    @property
    def has_producer(self) -> bool:
        """Whether an idempotent producer wrote the batch; a negative id is none, as in Kafka."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; after 2147483647 comes 0."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & INT32_MAX

    @property
    def append_time_ms(self) -> int | None:
        """The time that stamps every record of the batch, None if each has its own."""
        return self.max_timestamp if self.attributes & LOG_APPEND_TIME_BIT else None


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at ``position``, unchecked.

    Raises:
        RecordError: CORRUPT_MESSAGE where fewer than 61 bytes are left.
    """
    try:
        return BatchHeader._make(HEADER.unpack_from(buffer, position))
    except struct.error as error:
        raise RecordError(
            ErrorCode.CORRUPT_MESSAGE,
            f"{len(buffer) - position} bytes at {position} hold no batch header of {HEADER_BYTES}",
        ) from error


class RecordBatch:
    """One whole batch as a view of a buffer; making it copies and checks nothing.

    Args:
        buffer: starts with the batch; ``view`` leaves out the bytes behind it.

    Raises:
        RecordError: CORRUPT_MESSAGE where the buffer does not hold a whole batch,
            UNSUPPORTED_FOR_MESSAGE_FORMAT for the old formats 0 and 1.
    """

    __slots__ = ("header", "view")

    header: BatchHeader
    view: memoryview

    def __init__(self, buffer: Buffer) -> None:
        view = memoryview(buffer)
        if len(view) >= MAGIC_END:
            check_magic(view[MAGIC_POSITION])
        self.header = read_header(view)
        size = self.header.size_bytes
        if not HEADER_BYTES <= size <= len(view):
            raise RecordError(
                ErrorCode.CORRUPT_MESSAGE,
                f"a batch of {size} bytes does not fit into the {len(view)} bytes that are there",
            )
        self.view = view[:size]

    def __repr__(self) -> str:
        return f"RecordBatch({self.header})"

    def check(self) -> None:
        """Raise RecordError(CORRUPT_MESSAGE) unless the checksum is right."""
        computed = crc32c(self.view[ATTRIBUTES_POSITION:])
        if self.header.crc != computed:
            raise RecordError(
                ErrorCode.CORRUPT_MESSAGE,
                f"the batch at offset {self.header.base_offset} has checksum {computed:08x}, "
                f"its header says {self.header.crc:08x}",
            )

    def records_area(
        self, max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
    ) -> bytes | memoryview:
        """Return the records back to back, inflated if they are compressed.

        Raises:
            RecordError: the stream is corrupt, of an unknown codec, or inflates beyond the bound.
        """
        area = self.view[HEADER_BYTES:]
        codec = self.header.codec
        # A batch that lost all its records keeps no stream, with any codec in its header.
        if codec is Codec.NONE or (self.header.record_count == 0 and not area):
            return area
        return decompress(codec, area, max_decompressed_bytes)

    def records(
        self,
        topic: str = "",
        partition: int = -1,
        from_offset: int = 0,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> list[Record]:
        """Decode the records at ``from_offset`` and above; does not check the checksum.

        Raises:
            RecordError: as ``records_area``, or INVALID_RECORD where a record is not well formed.
        """
        header = self.header
        return kernel.decode_records(
            self.records_area(max_decompressed_bytes),
            header.record_count,
            Record,
            topic,
            partition,
            base_offset=header.base_offset,
            base_timestamp=header.base_timestamp,
            append_time=header.append_time_ms,
            from_offset=from_offset,
        )

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records())


def check_magic(magic: int) -> None:
    """Raise RecordError unless ``magic`` is 2: 0 and 1 are formats of the past, others none."""
    if magic == MAGIC:
        return
    if magic in {0, 1}:
        raise RecordError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"record format {magic} is not supported, only {MAGIC}",
        )
    raise RecordError(ErrorCode.CORRUPT_MESSAGE, f"there is no record format {magic}")


def iter_batches(buffer: Buffer, position: int = 0) -> Iterator[RecordBatch]:
    """Yield the whole batches from ``position`` on; a torn tail ends the walk and is no error.

    Checksums are not looked at.

    Raises:
        RecordError: CORRUPT_MESSAGE for a length or format that cannot be,
            UNSUPPORTED_FOR_MESSAGE_FORMAT for format 0 or 1.
    """
    view = memoryview(buffer)
    # Up to the format byte a batch can be judged; with fewer bytes left the tail is torn.
    while len(view) - position >= MAGIC_END:
        (length,) = _INT32.unpack_from(view, position + LENGTH_POSITION)
        # Check before the step: a length of zero or less would walk in place or backwards.
        if length < MIN_ENTRY_LENGTH:
            raise RecordError(
                ErrorCode.CORRUPT_MESSAGE,
                f"a batch at {position} claims to have {length} bytes",
            )
        check_magic(view[position + MAGIC_POSITION])
        # The length does not count itself and the offset before it: 12 bytes of overhead.
        if length + LOG_OVERHEAD > len(view) - position:
            return
        yield RecordBatch(view[position : position + length + LOG_OVERHEAD])
        position += length + LOG_OVERHEAD


def patch_offsets(view: memoryview, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch into a batch; its checksum does not cover them."""
    _INT64.pack_into(view, OFFSET_POSITION, base_offset)
    _INT32.pack_into(view, LEADER_EPOCH_POSITION, leader_epoch)


def assign_offsets(
    view: memoryview, header: BatchHeader, base_offset: int, leader_epoch: int
) -> BatchHeader:
    """``patch_offsets`` for a batch whose header is known; returns the new header."""
    # The checksum begins behind these two fields, so it stays valid.
    _INT64.pack_into(view, OFFSET_POSITION, base_offset)
    _INT32.pack_into(view, LEADER_EPOCH_POSITION, leader_epoch)
    # Saves the constructor of the named tuple, a Python call with 13 arguments, for each batch.
    return tuple.__new__(BatchHeader, (base_offset, header[1], leader_epoch, *header[3:]))


def patch_timestamps(
    view: memoryview, timestamp_type: TimestampType, max_timestamp_ms: int
) -> bool:
    """Write timestamp type and max timestamp into a batch, and its checksum if that changes it.

    Returns:
        Whether anything changed; if not, the checksum was not computed.
    """
    (attributes,) = _INT16.unpack_from(view, ATTRIBUTES_POSITION)
    (old_max_timestamp,) = _INT64.unpack_from(view, MAX_TIMESTAMP_POSITION)
    new_attributes = attributes & ~LOG_APPEND_TIME_BIT
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        new_attributes |= LOG_APPEND_TIME_BIT
    if new_attributes == attributes and old_max_timestamp == max_timestamp_ms:
        return False
    _INT16.pack_into(view, ATTRIBUTES_POSITION, new_attributes)
    _INT64.pack_into(view, MAX_TIMESTAMP_POSITION, max_timestamp_ms)
    # Last: the checksum covers both fields.
    write_checksum(view)
    return True


def patch_producer(
    view: memoryview, producer_id: int, producer_epoch: int, base_sequence: int
) -> None:
    """Write the producer of a batch, its first sequence number, and its checksum anew."""
    _PRODUCER.pack_into(view, PRODUCER_POSITION, producer_id, producer_epoch, base_sequence)
    write_checksum(view)


def write_checksum(view: memoryview) -> None:
    """Compute the checksum of the batch that fills ``view`` and write it into the header."""
    _UINT32.pack_into(view, CRC_POSITION, crc32c(view[ATTRIBUTES_POSITION:]))
