# Pass one of log compaction: which batches a chunk holds, and their keys in the map; and the entries
# of sparse indexes.
# The statements CMAP, KEEP and SEG that the comments cite are those of docs/log-cleaner.md; the
# twins are in records/_pure_compaction.py.


# Why a walk over batches stopped; the numbers are shared with the twin.
cdef enum:
    WALK_END = 0  # no whole batch is left
    WALK_SPECIAL = 1  # the next batch is compressed, transactional, a marker, empty or to be kept empty
    WALK_FULL = 2  # the map has no room for another key
    WALK_CORRUPT = 3  # the next batch contradicts its header or checksum
    WALK_NO_SPACE = 4  # the output buffer may be too small for the next batch


cdef struct BatchFields:
    int64_t base_offset
    int64_t batch_length
    int64_t attributes
    int64_t last_offset_delta
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int64_t record_count


cdef inline void _read_batch(const unsigned char* p, BatchFields* batch) noexcept nogil:
    batch.base_offset = big_endian(p, 8)
    batch.batch_length = big_endian(p + 8, 4)
    batch.attributes = big_endian(p + 21, 2)
    batch.last_offset_delta = big_endian(p + 23, 4)
    batch.base_timestamp = big_endian(p + 27, 8)
    batch.max_timestamp = big_endian(p + 35, 8)
    batch.producer_id = big_endian(p + 43, 8)
    batch.record_count = big_endian(p + 57, 4)


def frame_batches(
    const unsigned char[::1] data, Py_ssize_t position, int64_t next_offset, int64_t end_offset
):
    """How far a chunk holds whole batches of format 2 with ascending offsets; checks no checksums.

    Args:
        data: file bytes that begin with a batch at ``position``.
        position: where to begin.
        next_offset: no batch begins below it.
        end_offset: no batch ends at it or above.

    Returns:
        ``(position, why, next_offset)``: where it stopped, END where no whole batch is left or
        CORRUPT, and the offset behind the last batch.
    """
    cdef const unsigned char* p = &data[0] if data.shape[0] else NULL
    cdef Py_ssize_t end = data.shape[0], size
    cdef BatchFields batch
    cdef int why = WALK_END
    with nogil:
        while end - position >= 61:
            size = _whole_batch(p, position, end, &batch)
            # Judge a batch that reaches beyond the chunk too: a damaged length would make the
            # caller read on for an end that never comes.
            if (
                size < 0
                or p[position + 16] != 2
                or batch.base_offset < next_offset
                or batch.base_offset >= end_offset
                or not 0 <= batch.last_offset_delta < end_offset - batch.base_offset
            ):
                why = WALK_CORRUPT
                break
            if size == 0:
                break
            next_offset = batch.base_offset + batch.last_offset_delta + 1
            position += size
    return position, why, next_offset


def map_batches(
    SkimpyOffsetMap keys, const unsigned char[::1] data, Py_ssize_t position, int64_t start_offset
):
    """Pass one over the plain batches of a chunk: remember the last offset of each key.

    Args:
        keys: the map; its ``latest_offset`` follows (CMAP-8).
        data: file bytes that begin with a whole batch at ``position``.
        position: where to begin.
        start_offset: the first dirty offset; records below it are passed over.

    Returns:
        ``(position, why)``: where the walk stopped and one of the WALK numbers.
    """
    cdef const unsigned char* p = &data[0] if data.shape[0] else NULL
    cdef Py_ssize_t end = data.shape[0], size
    cdef BatchFields batch
    cdef int why = WALK_END
    with nogil:
        while end - position >= 61:
            size = _whole_batch(p, position, end, &batch)
            if size <= 0:
                why = WALK_CORRUPT if size < 0 else WALK_END
                break
            if batch.attributes & 0x37 or p[position + 16] != 2:
                why = WALK_SPECIAL
                break
            if not _is_sound(p + position, size):
                why = WALK_CORRUPT
                break
            why = _map_area(keys, p + position + 61, size - 61, &batch, start_offset)
            if why != WALK_END:
                break
            position += size
    return position, why


cdef Py_ssize_t _whole_batch(
    const unsigned char* p, Py_ssize_t position, Py_ssize_t end, BatchFields* batch
) noexcept nogil:
    """The size of the batch at ``position``: 0 if it reaches beyond the end, -1 if it is no batch."""
    _read_batch(p + position, batch)
    if batch.batch_length < 49:
        return -1
    if batch.batch_length + 12 > end - position:
        return 0
    return <Py_ssize_t>batch.batch_length + 12


cdef inline bint _holds(BatchFields* batch, Py_ssize_t area_bytes) noexcept nogil:
    """Whether an area of that size can hold as many records as the batch says."""
    return 0 <= batch.record_count <= area_bytes // (MIN_RECORD_BODY_BYTES + 1)


cdef inline bint _follows(
    BatchFields* batch, RecordFields* record, int64_t* last_delta
) noexcept nogil:
    """Whether a record lies behind the one before it and within the batch."""
    if not last_delta[0] < record.offset_delta <= batch.last_offset_delta:
        return False
    last_delta[0] = record.offset_delta
    return True


cdef inline bint _is_sound(const unsigned char* p, Py_ssize_t size) noexcept nogil:
    return <uint32_t>big_endian(p + 17, 4) == crc32c_of(p + 21, size - 21)


cdef int _map_area(
    SkimpyOffsetMap keys, const unsigned char* p, Py_ssize_t length, BatchFields* batch,
    int64_t start_offset
) noexcept nogil:
    cdef RecordFields record
    cdef Py_ssize_t position = 0
    cdef int64_t i, offset, last_delta = -1
    if not _holds(batch, length):
        return WALK_CORRUPT
    if batch.base_offset + batch.last_offset_delta >= start_offset:
        for i in range(batch.record_count):
            if parse_record(p, position, length, &record) != FAULT_NONE:
                return WALK_CORRUPT
            if not _follows(batch, &record, &last_delta):
                return WALK_CORRUPT
            position = record.end
            offset = batch.base_offset + record.offset_delta
            if record.key_length < 0 or offset < start_offset:
                continue
            if keys.size >= keys.usable_slots:
                return WALK_FULL
            keys._put(p + record.key, <Py_ssize_t>record.key_length, offset)
            keys.latest_offset = offset
        if position != length:
            return WALK_CORRUPT
    if batch.base_offset + batch.last_offset_delta > keys.latest_offset:
        keys.latest_offset = batch.base_offset + batch.last_offset_delta
    return WALK_END


def map_records(
    SkimpyOffsetMap keys, const unsigned char[::1] area, header, int64_t start_offset
):
    """Pass one over the decompressed records of one batch; returns one of the WALK numbers.

    ``header`` is the batch's ``BatchHeader``.
    """
    cdef BatchFields batch
    cdef int why
    cdef const unsigned char* p = &area[0] if area.shape[0] else NULL
    _copy_header(header, &batch)
    with nogil:
        why = _map_area(keys, p, area.shape[0], &batch, start_offset)
    return why


cdef int _copy_header(header, BatchFields* batch) except -1:
    batch.base_offset = header.base_offset
    batch.batch_length = header.batch_length
    batch.attributes = header.attributes
    batch.last_offset_delta = header.last_offset_delta
    batch.base_timestamp = header.base_timestamp
    batch.max_timestamp = header.max_timestamp
    batch.producer_id = header.producer_id
    batch.record_count = header.record_count
    return 0


def index_batches(
    const unsigned char[::1] data, Py_ssize_t end, int64_t file_position, int64_t interval_bytes,
    *, int64_t bytes_since_entry, int64_t max_timestamp, int64_t offset_of_max_timestamp
):
    """The entries of the sparse indexes of a segment for a chunk of whole batches (IDX-1, TIX-1).

    Args:
        data: whole batches.
        end: how many of its bytes count.
        file_position: where the chunk begins in the segment.
        interval_bytes: ``index.interval.bytes``.
        bytes_since_entry: how many bytes the segment took since its last entry.
        max_timestamp: the greatest timestamp of the segment so far, -1 for none.
        offset_of_max_timestamp: the last offset of the batch that carries it.

    Returns:
        ``(entries, bytes_since_entry, max_timestamp, offset_of_max_timestamp, first_offset,
        last_offset)`` where an entry is ``(last offset, position, max timestamp, its offset)``.
    """
    cdef const unsigned char* p = &data[0] if end else NULL
    cdef Py_ssize_t position = 0, size
    cdef int64_t last_offset = -1, first_offset = -1
    cdef BatchFields batch
    entries = []
    while end - position >= 61:
        size = _whole_batch(p, position, end, &batch)
        if size <= 0:
            raise ValueError(f"no whole batch at byte {position} of {end}")
        last_offset = batch.base_offset + batch.last_offset_delta
        if position == 0:
            first_offset = batch.base_offset
        if batch.max_timestamp > max_timestamp:
            max_timestamp = batch.max_timestamp
            offset_of_max_timestamp = last_offset
        if bytes_since_entry > interval_bytes:
            entries.append(
                (last_offset, file_position + position, max_timestamp, offset_of_max_timestamp)
            )
            bytes_since_entry = 0
        bytes_since_entry += size
        position += size
    return (
        entries, bytes_since_entry, max_timestamp, offset_of_max_timestamp, first_offset, last_offset,
    )
