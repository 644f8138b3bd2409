# The whole check of an ordinary client batch in one call. The twin is in records/_pure_batches.py.


def header_if_ordinary(
    data, type header_type, bint require_keys, int64_t earliest_timestamp, int64_t latest_timestamp
):
    """The header of a batch that may be appended unchanged, None if anything about it is special.

    Ordinary is: one whole batch of format 2 with base offset 0, not compressed, no control batch,
    stamped by the client, offsets 0, 1, 2, ..., checksum, counts, producer fields, every record,
    every timestamp and the header's maximum right. None does not mean a fault: the full inspection
    decides.
    """
    cdef Py_buffer view
    cdef const unsigned char* p
    cdef int64_t size, attributes, count
    cdef int64_t producer_id
    cdef AreaSummary summary
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        p = <const unsigned char*>view.buf
        size = view.len
        if size <= 61 or p[16] != 2:
            return None
        attributes = big_endian(p + 21, 2)
        count = big_endian(p + 57, 4)
        producer_id = big_endian(p + 43, 8)
        if (
            big_endian(p, 8) != 0
            or big_endian(p + 8, 4) != size - 12
            or attributes & ~0x10
            or count < 1
            or count != big_endian(p + 23, 4) + 1
            or (producer_id >= 0 and big_endian(p + 53, 4) < 0)
            or (producer_id < 0 and attributes != 0)
            or <uint32_t>big_endian(p + 17, 4) != crc32c_of(p + 21, size - 21)
        ):
            return None
        if size >= NOGIL_BYTES_MIN:
            with nogil:
                fault = summarize(
                    p + 61, size - 61, count, big_endian(p + 27, 8),
                    earliest_timestamp, latest_timestamp, &summary,
                )
        else:
            fault = summarize(
                p + 61, size - 61, count, big_endian(p + 27, 8),
                earliest_timestamp, latest_timestamp, &summary,
            )
        if (
            fault != FAULT_NONE
            or not summary.consecutive
            or summary.bad_timestamps
            or (require_keys and summary.null_keys)
            or summary.max_timestamp != big_endian(p + 35, 8)
        ):
            return None
        return make_header(header_type, p)
    finally:
        PyBuffer_Release(&view)


cdef object make_header(type header_type, const unsigned char* p):
    # Fills the named tuple directly, as make_record does.
    header = seglog_allocate(<PyTypeObject*>header_type, 13)
    PyObject_GC_UnTrack(<void*>header)
    set_field(header, 0, big_endian(p, 8))
    set_field(header, 1, big_endian(p + 8, 4))
    set_field(header, 2, big_endian(p + 12, 4))
    set_field(header, 3, <int>p[16])
    set_field(header, 4, <uint32_t>big_endian(p + 17, 4))
    set_field(header, 5, big_endian(p + 21, 2))
    set_field(header, 6, big_endian(p + 23, 4))
    set_field(header, 7, big_endian(p + 27, 8))
    set_field(header, 8, big_endian(p + 35, 8))
    set_field(header, 9, big_endian(p + 43, 8))
    set_field(header, 10, big_endian(p + 51, 2))
    set_field(header, 11, big_endian(p + 53, 4))
    set_field(header, 12, big_endian(p + 57, 4))
    return header
