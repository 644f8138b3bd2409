# Pass two of log compaction: which records stay, and the batches that are left.
# The statements CMAP, KEEP and SEG that the comments cite are those of docs/log-cleaner.md; the
# twins are in records/_pure_compaction.py.

cdef enum:
    RECORD_GROWTH_BYTES = 24  # two varints that may get longer when timestamps are rebased


cdef struct FilterResult:
    int64_t total
    int64_t kept
    int64_t invalid  # without a key where the map reaches
    bint keeps_tombstones
    int64_t first_timestamp  # of the records that stay
    int64_t max_timestamp


cdef inline bint _stays(
    SkimpyOffsetMap keys, const unsigned char* p, RecordFields* record, int64_t base_offset,
    bint horizon_reached, FilterResult* result
) noexcept nogil:
    """KEEP-2..4, KEEP-11 for one record."""
    cdef int64_t offset = base_offset + record.offset_delta
    cdef int64_t last
    if offset > keys.latest_offset:
        return True
    if record.key_length < 0:
        result.invalid += 1
        return False
    last = keys._get(p + record.key, <Py_ssize_t>record.key_length)
    if last > offset:
        return False
    return record.value_length >= 0 or not horizon_reached


cdef bint _judge(
    SkimpyOffsetMap keys, const unsigned char* p, Py_ssize_t length, BatchFields* batch,
    int64_t now_ms, unsigned char* verdicts, FilterResult* result
) noexcept nogil:
    """Decide on each record of a records area; ``verdicts`` takes a byte for each. False: broken."""
    cdef RecordFields record
    cdef Py_ssize_t position = 0
    cdef int64_t i, timestamp, last_delta = -1
    cdef bint has_horizon = (batch.attributes & 0x40) != 0
    cdef bint horizon_reached = has_horizon and now_ms >= batch.base_timestamp
    cdef bint broker_stamped = (batch.attributes & 0x08) != 0
    result.total = 0
    result.kept = 0
    result.invalid = 0
    result.keeps_tombstones = False
    result.first_timestamp = -1
    result.max_timestamp = -1
    for i in range(batch.record_count):
        if parse_record(p, position, length, &record) != FAULT_NONE:
            return False
        if not _follows(batch, &record, &last_delta):
            return False
        position = record.end
        result.total += 1
        verdicts[i] = _stays(keys, p, &record, batch.base_offset, horizon_reached, result)
        if not verdicts[i]:
            continue
        timestamp = (
            batch.max_timestamp if broker_stamped else wrapping_add(batch.base_timestamp, record.timestamp_delta)
        )
        if result.kept == 0:
            result.first_timestamp = timestamp
        if timestamp > result.max_timestamp:
            result.max_timestamp = timestamp
        result.kept += 1
        if record.value_length < 0 and _is_mapped(keys, batch, &record):
            result.keeps_tombstones = True
    return position == length


cdef inline bint _is_mapped(
    SkimpyOffsetMap keys, BatchFields* batch, RecordFields* record
) noexcept nogil:
    """Whether this pass reached the record; a tombstone above it keeps its clock unset."""
    return batch.base_offset + record.offset_delta <= keys.latest_offset


cdef Py_ssize_t _rebuild(
    const unsigned char* p, Py_ssize_t length, BatchFields* batch, const unsigned char* verdicts,
    int64_t base_timestamp, unsigned char* out
) noexcept nogil:
    """Write the records that stay with their timestamps relative to a new base; returns the size."""
    cdef RecordFields record
    cdef Py_ssize_t position = 0, written = 0, tail_bytes
    cdef int64_t i, delta
    cdef bint broker_stamped = (batch.attributes & 0x08) != 0
    for i in range(batch.record_count):
        if parse_record(p, position, length, &record) != FAULT_NONE:
            break  # cannot be: _judge has read the same bytes
        position = record.end
        if not verdicts[i]:
            continue
        delta = (
            batch.max_timestamp if broker_stamped else wrapping_add(batch.base_timestamp, record.timestamp_delta)
        )
        delta = wrapping_subtract(delta, base_timestamp)
        tail_bytes = record.end - record.tail
        written += write_varint(
            out + written,
            1 + varint_bytes(delta) + varint_bytes(record.offset_delta) + tail_bytes,
        )
        out[written] = p[record.body]
        written += 1
        written += write_varint(out + written, delta)
        written += write_varint(out + written, record.offset_delta)
        memcpy(out + written, p + record.tail, tail_bytes)
        written += tail_bytes
    return written


cdef inline int64_t _new_base(BatchFields* batch, FilterResult* result, int64_t horizon_ms) noexcept nogil:
    """The base timestamp of a rebuilt batch: KEEP-7, KEEP-11; a horizon that was set never moves."""
    if batch.attributes & 0x40:
        return batch.base_timestamp
    if result.keeps_tombstones:
        return horizon_ms
    return result.first_timestamp


def filter_records(
    SkimpyOffsetMap keys, const unsigned char[::1] area, header, int64_t now_ms, int64_t horizon_ms
):
    """Pass two over the decompressed records of one batch.

    Args:
        keys: the map of pass one.
        area: the records area, not compressed.
        header: the batch's ``BatchHeader``.
        now_ms: the time of the pass; decides whether tombstones with a horizon go.
        horizon_ms: the delete horizon for tombstones that get one in this pass.

    Returns:
        ``(kept, total, invalid, has_horizon, base_timestamp, max_timestamp, records)``; ``records``
        is None where the batch stays as it is, else the records area that stays. None if it is
        broken.
    """
    cdef BatchFields batch
    cdef FilterResult result
    cdef bint sound
    cdef int64_t base_timestamp
    cdef Py_ssize_t written
    cdef const unsigned char* p = &area[0] if area.shape[0] else NULL
    _copy_header(header, &batch)
    if not _holds(&batch, area.shape[0]):
        return None
    verdicts = bytearray(max(1, batch.record_count))
    cdef unsigned char[::1] verdict_view = verdicts
    with nogil:
        sound = _judge(keys, p, area.shape[0], &batch, now_ms, &verdict_view[0], &result)
    if not sound:
        return None
    base_timestamp = _new_base(&batch, &result, horizon_ms)
    has_horizon = bool(batch.attributes & 0x40) or result.keeps_tombstones
    if result.kept == result.total and has_horizon == bool(batch.attributes & 0x40):
        return (
            result.kept, result.total, result.invalid, has_horizon,
            batch.base_timestamp, batch.max_timestamp, None,
        )
    out = bytearray(area.shape[0] + result.kept * RECORD_GROWTH_BYTES + 1)
    cdef unsigned char[::1] out_view = out
    with nogil:
        written = _rebuild(
            p, area.shape[0], &batch, &verdict_view[0], base_timestamp, &out_view[0]
        )
    del out_view
    return (
        result.kept, result.total, result.invalid, has_horizon, base_timestamp,
        batch.max_timestamp if batch.attributes & 0x08 else result.max_timestamp,
        bytes(memoryview(out)[:written]),
    )


def filter_batches(
    SkimpyOffsetMap keys, const unsigned char[::1] data, Py_ssize_t position,
    unsigned char[::1] out, Py_ssize_t written, *, int64_t now_ms, int64_t horizon_ms,
    const int64_t[::1] protected_offsets
):
    """Pass two over the plain batches of a chunk: copy or rebuild remaining records into ``out``.

    Args:
        keys: the map of pass one.
        data: file bytes that begin with a whole batch at ``position``.
        position: where to begin in ``data``.
        out: takes the batches that stay.
        written: how much of ``out`` is taken already.
        now_ms: the time of the pass.
        horizon_ms: the delete horizon for tombstones that get one in this pass.
        protected_offsets: ascending; a batch that ends at one of them may not vanish (KEEP-9, 10).

    Returns:
        ``(position, written, why, total, kept, invalid)``: where the walk stopped, how much of
        ``out`` is taken then, one of the WALK numbers, and the records read, kept and found without
        a key.
    """
    cdef const unsigned char* p = &data[0] if data.shape[0] else NULL
    cdef unsigned char* o = &out[0]
    cdef Py_ssize_t end = data.shape[0], room = out.shape[0], size, area_bytes
    cdef BatchFields batch
    cdef FilterResult result
    cdef int64_t total = 0, kept = 0, invalid = 0
    cdef int why = WALK_END
    cdef unsigned char* verdicts = NULL
    cdef int64_t verdict_room = 0
    cdef bint is_out_of_memory
    with nogil:
        while end - position >= 61:
            size = _whole_batch(p, position, end, &batch)
            if size <= 0:
                why = WALK_CORRUPT if size < 0 else WALK_END
                break
            if batch.attributes & 0x37 or p[position + 16] != 2 or batch.record_count == 0:
                why = WALK_SPECIAL
                break
            # Check before the room: a damaged count would ask for a larger buffer without end.
            if not _holds(&batch, size - 61) or not _is_sound(p + position, size):
                why = WALK_CORRUPT
                break
            if room - written < size + batch.record_count * RECORD_GROWTH_BYTES:
                why = WALK_NO_SPACE
                break
            if batch.record_count > verdict_room:
                free(verdicts)
                verdict_room = 2 * batch.record_count
                verdicts = <unsigned char*>calloc(verdict_room, 1)
                if verdicts == NULL:
                    break
            if not _judge(keys, p + position + 61, size - 61, &batch, now_ms, verdicts, &result):
                why = WALK_CORRUPT
                break
            if result.kept == 0:
                if _is_protected(
                    protected_offsets, batch.base_offset + batch.last_offset_delta
                ):
                    why = WALK_SPECIAL
                    break
                total += result.total
                invalid += result.invalid
                position += size
                continue
            total += result.total
            kept += result.kept
            invalid += result.invalid
            if result.kept == result.total and (
                not result.keeps_tombstones or batch.attributes & 0x40
            ):
                memcpy(o + written, p + position, size)
                written += size
            else:
                area_bytes = _rebuild(
                    p + position + 61, size - 61, &batch, verdicts,
                    _new_base(&batch, &result, horizon_ms), o + written + 61,
                )
                _finish_batch(p + position, o + written, area_bytes, &batch, &result, horizon_ms)
                written += 61 + area_bytes
            position += size
        is_out_of_memory = verdicts == NULL and verdict_room > 0
        free(verdicts)
    if is_out_of_memory:
        raise MemoryError(f"no {verdict_room} bytes for the verdicts on the records of a batch")
    return position, written, why, total, kept, invalid


cdef bint _is_protected(const int64_t[::1] protected_offsets, int64_t offset) noexcept nogil:
    cdef Py_ssize_t low = 0, high = protected_offsets.shape[0], middle
    while low < high:
        middle = (low + high) // 2
        if protected_offsets[middle] < offset:
            low = middle + 1
        else:
            high = middle
    return low < protected_offsets.shape[0] and protected_offsets[low] == offset


cdef void _finish_batch(
    const unsigned char* source, unsigned char* out, Py_ssize_t area_bytes, BatchFields* batch,
    FilterResult* result, int64_t horizon_ms
) noexcept nogil:
    """The header of a rebuilt batch: KEEP-5..7."""
    cdef int64_t attributes = batch.attributes
    memcpy(out, source, 61)
    if result.keeps_tombstones:
        attributes |= 0x40
    store_big_endian(out + 8, 4, 49 + area_bytes)
    store_big_endian(out + 21, 2, attributes)
    store_big_endian(out + 27, 8, _new_base(batch, result, horizon_ms))
    if not attributes & 0x08:
        store_big_endian(out + 35, 8, result.max_timestamp)
    store_big_endian(out + 57, 4, result.kept)
    store_big_endian(out + 17, 4, crc32c_of(out + 21, 40 + area_bytes))
