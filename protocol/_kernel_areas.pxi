# Checking, searching and rewriting the records area of a batch, without the GIL where it is large.
# The twins, which say the same in Python, are in records/_pure.py.

# --- checking ---------------------------------------------------------------------------------


cdef struct AreaSummary:
    Py_ssize_t index            # of the record at fault
    int64_t max_timestamp
    int64_t offset_delta_of_max
    int64_t last_offset_delta
    Py_ssize_t null_keys
    Py_ssize_t bad_timestamps
    bint consecutive


cdef int summarize(
    const unsigned char* data, Py_ssize_t size, Py_ssize_t count, int64_t base_timestamp,
    int64_t earliest, int64_t latest, AreaSummary* summary
) noexcept nogil:
    cdef RecordFields fields
    cdef Py_ssize_t position = 0, index
    cdef int64_t timestamp
    cdef int fault
    summary.index = 0
    summary.max_timestamp = -1
    summary.offset_delta_of_max = -1
    summary.last_offset_delta = -1
    summary.null_keys = 0
    summary.bad_timestamps = 0
    summary.consecutive = True
    for index in range(count):
        fault = parse_record(data, position, size, &fields)
        if fault:
            summary.index = index
            return fault
        position = fields.end
        timestamp = wrapping_add(base_timestamp, fields.timestamp_delta)
        if index == 0 or timestamp > summary.max_timestamp:
            summary.max_timestamp = timestamp
            summary.offset_delta_of_max = fields.offset_delta
        if timestamp != -1 and (timestamp < earliest or timestamp > latest):
            summary.bad_timestamps += 1
        if fields.offset_delta != index:
            summary.consecutive = False
        if fields.key_length < 0:
            summary.null_keys += 1
        summary.last_offset_delta = fields.offset_delta
    summary.index = count
    return FAULT_NONE if position == size else FAULT_BYTES_LEFT


cdef tuple collect_offenders(
    const unsigned char* data, Py_ssize_t size, Py_ssize_t count, int64_t base_timestamp,
    int64_t earliest, int64_t latest, Py_ssize_t offenders_max
):
    # The rare second pass that names the records without key and those out of the time bounds.
    cdef RecordFields fields
    cdef Py_ssize_t position = 0, index
    cdef int64_t timestamp
    cdef list null_keys = [], bad_timestamps = []
    for index in range(count):
        if parse_record(data, position, size, &fields):
            break
        position = fields.end
        timestamp = wrapping_add(base_timestamp, fields.timestamp_delta)
        if fields.key_length < 0 and len(null_keys) < offenders_max:
            null_keys.append(index)
        if timestamp != -1 and (timestamp < earliest or timestamp > latest):
            if len(bad_timestamps) < offenders_max:
                bad_timestamps.append(index)
    return tuple(null_keys), tuple(bad_timestamps)


def scan_records(
    data,
    Py_ssize_t record_count,
    int64_t base_timestamp,
    bint require_keys=False,
    int64_t earliest_timestamp=INT64_MIN,
    int64_t latest_timestamp=INT64_MAX,
    *,
    Py_ssize_t offenders_max=1000,
):
    """Check the structure of a records area and sum it up; the twin is in ``_pure.py``."""
    cdef Py_buffer view
    cdef AreaSummary summary
    cdef const unsigned char* area
    cdef int fault
    cdef tuple null_keys = (), bad_timestamps = ()
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        check_count(record_count, view.len)
        area = <const unsigned char*>view.buf
        if view.len < NOGIL_BYTES_MIN:
            fault = summarize(
                area, view.len, record_count, base_timestamp, earliest_timestamp,
                latest_timestamp, &summary,
            )
        else:
            with nogil:
                fault = summarize(
                    area, view.len, record_count, base_timestamp, earliest_timestamp,
                    latest_timestamp, &summary,
                )
        if fault:
            raise_malformed(fault, summary.index)
        if summary.bad_timestamps or (require_keys and summary.null_keys):
            null_keys, bad_timestamps = collect_offenders(
                area, view.len, record_count, base_timestamp, earliest_timestamp,
                latest_timestamp, offenders_max,
            )
    finally:
        PyBuffer_Release(&view)
    return (
        summary.max_timestamp, summary.offset_delta_of_max, summary.last_offset_delta,
        bool(summary.consecutive), null_keys if require_keys else (), bad_timestamps,
    )


# --- searching --------------------------------------------------------------------------------


cdef int search_timestamp(
    const unsigned char* data, Py_ssize_t size, Py_ssize_t count, int64_t base_timestamp,
    int64_t target, int64_t from_delta, Py_ssize_t* index, int64_t* offset_delta,
    int64_t* timestamp
) noexcept nogil:
    # Stops at the first hit; index is then below count.
    cdef RecordFields fields
    cdef Py_ssize_t position = 0
    cdef int fault
    index[0] = 0
    while index[0] < count:
        fault = parse_record(data, position, size, &fields)
        if fault:
            return fault
        position = fields.end
        timestamp[0] = wrapping_add(base_timestamp, fields.timestamp_delta)
        offset_delta[0] = fields.offset_delta
        if timestamp[0] >= target and offset_delta[0] >= from_delta:
            return FAULT_NONE
        index[0] += 1
    return FAULT_NONE


def find_timestamp(
    data,
    Py_ssize_t record_count,
    int64_t base_timestamp,
    int64_t target,
    int64_t from_delta=INT64_MIN,
):
    """Find the first record stamped ``target`` or later; the twin is in ``_pure.py``."""
    cdef Py_buffer view
    cdef Py_ssize_t index = 0
    cdef int64_t offset_delta = 0, timestamp = 0
    cdef int fault
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        check_count(record_count, view.len)
        with nogil:
            fault = search_timestamp(
                <const unsigned char*>view.buf, view.len, record_count, base_timestamp, target,
                from_delta, &index, &offset_delta, &timestamp,
            )
        if fault:
            raise_malformed(fault, index)
    finally:
        PyBuffer_Release(&view)
    return None if index >= record_count else (offset_delta, timestamp)


cdef int largest_timestamp(
    const unsigned char* data, Py_ssize_t size, Py_ssize_t count, int64_t base_timestamp,
    int64_t from_delta, Py_ssize_t* index, Py_ssize_t* found, int64_t* largest
) noexcept nogil:
    cdef RecordFields fields
    cdef Py_ssize_t position = 0
    cdef int64_t timestamp
    cdef int fault
    found[0] = 0
    for index[0] in range(count):
        fault = parse_record(data, position, size, &fields)
        if fault:
            return fault
        position = fields.end
        if fields.offset_delta < from_delta:
            continue
        timestamp = wrapping_add(base_timestamp, fields.timestamp_delta)
        if found[0] == 0 or timestamp > largest[0]:
            largest[0] = timestamp
        found[0] += 1
    return FAULT_NONE


def greatest_timestamp(
    data, Py_ssize_t record_count, int64_t base_timestamp, int64_t from_delta=INT64_MIN
):
    """The greatest timestamp from an offset delta on; the twin is in ``_pure.py``."""
    cdef Py_buffer view
    cdef Py_ssize_t index = 0, found = 0
    cdef int64_t largest = -1
    cdef int fault
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        check_count(record_count, view.len)
        with nogil:
            fault = largest_timestamp(
                <const unsigned char*>view.buf, view.len, record_count, base_timestamp, from_delta,
                &index, &found, &largest,
            )
        if fault:
            raise_malformed(fault, index)
    finally:
        PyBuffer_Release(&view)
    return largest if found else None


# --- rewriting --------------------------------------------------------------------------------


cdef struct RewritePlan:
    Py_ssize_t index            # of the record at fault
    Py_ssize_t kept
    Py_ssize_t out_bytes
    int64_t base_timestamp      # of the rewritten records
    int64_t max_timestamp
    bint has_base               # whether base_timestamp was given instead of taken from the records
    bint renumber


cdef inline Py_ssize_t rewritten_body_bytes(
    RecordFields* fields, int64_t timestamp_delta, int64_t offset_delta
) noexcept nogil:
    return (
        1 + varint_bytes(timestamp_delta) + varint_bytes(offset_delta)
        + (fields.end - fields.tail)
    )


cdef int plan_rewrite(
    const unsigned char* data, Py_ssize_t size, Py_ssize_t count, int64_t base_timestamp,
    const unsigned char* mask, RewritePlan* plan
) noexcept nogil:
    cdef RecordFields fields
    cdef Py_ssize_t position = 0, index, body
    cdef int64_t timestamp
    cdef int fault
    plan.kept = plan.out_bytes = 0
    plan.max_timestamp = -1
    for index in range(count):
        fault = parse_record(data, position, size, &fields)
        if fault:
            plan.index = index
            return fault
        position = fields.end
        if mask != NULL and not mask[index]:
            continue
        timestamp = wrapping_add(base_timestamp, fields.timestamp_delta)
        if plan.kept == 0 and not plan.has_base:
            plan.base_timestamp = timestamp
        if plan.kept == 0 or timestamp > plan.max_timestamp:
            plan.max_timestamp = timestamp
        body = rewritten_body_bytes(
            &fields, wrapping_subtract(timestamp, plan.base_timestamp),
            plan.kept if plan.renumber else fields.offset_delta,
        )
        plan.out_bytes += varint_bytes(body) + body
        plan.kept += 1
    plan.index = count
    return FAULT_NONE if position == size else FAULT_BYTES_LEFT


cdef int write_rewritten(
    const unsigned char* data, Py_ssize_t size, Py_ssize_t count, int64_t base_timestamp,
    const unsigned char* mask, RewritePlan* plan, unsigned char* target
) noexcept nogil:
    cdef RecordFields fields
    cdef Py_ssize_t position = 0, written = 0, kept = 0, index, body
    cdef int64_t timestamp_delta, offset_delta
    cdef int fault
    for index in range(count):
        plan.index = index
        fault = parse_record(data, position, size, &fields)
        if fault:
            return fault
        position = fields.end
        if mask != NULL and not mask[index]:
            continue
        timestamp_delta = wrapping_subtract(
            wrapping_add(base_timestamp, fields.timestamp_delta), plan.base_timestamp
        )
        offset_delta = kept if plan.renumber else fields.offset_delta
        body = rewritten_body_bytes(&fields, timestamp_delta, offset_delta)
        if written + varint_bytes(body) + body > plan.out_bytes:
            return FAULT_CHANGED  # the buffer or the mask has changed since it was measured
        written += write_varint(target + written, body)
        target[written] = data[fields.body]
        written += 1
        written += write_varint(target + written, timestamp_delta)
        written += write_varint(target + written, offset_delta)
        memcpy(target + written, data + fields.tail, fields.end - fields.tail)
        written += fields.end - fields.tail
        kept += 1
    return FAULT_NONE if written == plan.out_bytes else FAULT_CHANGED


def rewrite_records(
    data,
    Py_ssize_t record_count,
    int64_t base_timestamp,
    new_base_timestamp=None,
    keep_mask=None,
    *,
    bint renumber=False,
    Py_ssize_t reserve_bytes=0,
):
    """Copy the records that ``keep_mask`` names to a new area; the twin is in ``_pure.py``."""
    cdef Py_buffer view
    cdef const unsigned char* mask = NULL
    cdef bytes mask_bytes
    cdef RewritePlan plan
    cdef unsigned char* target
    cdef int fault
    if keep_mask is not None:
        mask_bytes = bytes(memoryview(keep_mask))  # a private copy: another thread cannot shrink it
        if len(mask_bytes) != record_count:
            raise ValueError(f"a mask of {len(mask_bytes)} bytes for {record_count} records")
        mask = <const unsigned char*>PyBytes_AS_STRING(mask_bytes)
    plan.has_base = new_base_timestamp is not None
    plan.base_timestamp = -1 if new_base_timestamp is None else new_base_timestamp
    plan.renumber = renumber
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        check_count(record_count, view.len)
        with nogil:
            fault = plan_rewrite(
                <const unsigned char*>view.buf, view.len, record_count, base_timestamp, mask, &plan
            )
        if fault:
            raise_malformed(fault, plan.index)
        if plan.out_bytes + reserve_bytes > AREA_BYTES_MAX:
            raise_too_large()
        out = PyByteArray_FromStringAndSize(NULL, reserve_bytes + plan.out_bytes)
        target = <unsigned char*>PyByteArray_AS_STRING(out)
        with nogil:
            memset(target, 0, reserve_bytes)
            fault = write_rewritten(
                <const unsigned char*>view.buf, view.len, record_count, base_timestamp, mask,
                &plan, target + reserve_bytes,
            )
        if fault:
            raise_malformed(fault, plan.index)
    finally:
        PyBuffer_Release(&view)
    return out, plan.kept, plan.base_timestamp, plan.max_timestamp
