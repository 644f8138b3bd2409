# Encoding, decoding, checking, searching and rewriting the records area of a batch.
# The twins, which say the same in Python, are in records/_pure.py.

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_CheckExact
from cpython.number cimport PyNumber_Index
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8

cdef extern from "Python.h":
    bytearray PyByteArray_FromStringAndSize(const char* string, Py_ssize_t length)
    int PyByteArray_Resize(object array, Py_ssize_t length) except -1
    char* PyByteArray_AS_STRING(object array)
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    void PyObject_GC_UnTrack(void* object)

cdef extern from *:
    """
    static PyObject *seglog_allocate(PyTypeObject *type, Py_ssize_t items) {
        return type->tp_alloc(type, items);
    }
    """
    object seglog_allocate(PyTypeObject* cls, Py_ssize_t items)

cdef enum:
    RECORD_FIELDS = 7
    # Most that the fixed fields of a record take: three lengths, two deltas, attributes, a count.
    RECORD_OVERHEAD_BYTES_MAX = 5 + 1 + 10 + 5 + 5 + 5 + 5

cdef int64_t AREA_BYTES_MAX = 2147483647


cdef int raise_malformed(int fault, Py_ssize_t record_index) except -1:
    # Imported when needed: `records` imports this module while it is being imported itself.
    from seglog.protocol.records.faults import malformed_records

    raise malformed_records(fault, record_index)


cdef int raise_too_large() except -1:
    from seglog.protocol.records.faults import records_too_large

    raise records_too_large()


cdef int check_count(Py_ssize_t record_count) except -1:
    if record_count < 0:
        raise_malformed(FAULT_NEGATIVE_COUNT, record_count)
    return 0


cdef inline object as_bytes(object data):
    # memoryview() refuses str and int, which bytes() would take for something else.
    return data if isinstance(data, bytes) else bytes(memoryview(data))


cdef inline int64_t as_int64(object number) except? -1:
    # A cast alone would take a float and cut it off.
    return <int64_t>(number if PyLong_CheckExact(number) else PyNumber_Index(number))


# --- encoding ---------------------------------------------------------------------------------


cdef tuple exact_headers(object headers):
    # Pairs of str and bytes that nothing can change between measuring and writing them.
    cdef list pairs = []
    for name, value in headers:
        if not isinstance(name, str):
            raise TypeError(f"a header's key must be str, not {type(name).__name__}")
        pairs.append((name, None if value is None else as_bytes(value)))
    return tuple(pairs)


cdef Py_ssize_t measure_headers(tuple headers) except -1:
    cdef Py_ssize_t total = 0, size = 0
    cdef tuple pair
    for pair in headers:
        PyUnicode_AsUTF8AndSize(pair[0], &size)
        total += varint_bytes(size) + size
        if pair[1] is None:
            total += 1
        else:
            size = PyBytes_GET_SIZE(pair[1])
            total += varint_bytes(size) + size
    return total


cdef Py_ssize_t write_headers(unsigned char* target, tuple headers) except -1:
    cdef Py_ssize_t position = 0, size = 0
    cdef const char* text
    cdef tuple pair
    for pair in headers:
        text = PyUnicode_AsUTF8AndSize(pair[0], &size)
        position += write_varint(target + position, size)
        memcpy(target + position, text, size)
        position += size
        if pair[1] is None:
            position += write_varint(target + position, -1)
        else:
            size = PyBytes_GET_SIZE(pair[1])
            position += write_varint(target + position, size)
            memcpy(target + position, PyBytes_AS_STRING(pair[1]), size)
            position += size
    return position


def encode_records(records, Py_ssize_t reserve_bytes=0, offset_deltas=None, base_timestamp=None):
    """Encode ``(timestamp_ms, key, value, headers)`` tuples; the twin is in ``_pure.py``."""
    cdef tuple items = tuple(records)
    cdef tuple deltas = None if offset_deltas is None else tuple(offset_deltas)
    cdef tuple item
    cdef tuple headers
    cdef object key, value
    cdef Py_ssize_t count = len(items), index
    cdef Py_ssize_t key_bytes, value_bytes, header_bytes, header_count
    cdef Py_ssize_t position = reserve_bytes, capacity, needed
    cdef int64_t base = -1, largest = -1, timestamp, timestamp_delta, offset_delta, body
    cdef unsigned char* target
    if deltas is not None and len(deltas) != count:
        raise ValueError(f"{len(deltas)} offset deltas for {count} records")
    if base_timestamp is not None:
        base = as_int64(base_timestamp)
    elif count:
        base = as_int64(items[0][0])
    capacity = reserve_bytes + 64 * count
    out = PyByteArray_FromStringAndSize(NULL, capacity)
    target = <unsigned char*>PyByteArray_AS_STRING(out)
    for index in range(count):
        item = items[index] if type(items[index]) is tuple else tuple(items[index])
        if len(item) != 4:
            raise ValueError(f"record {index} has {len(item)} fields instead of 4")
        timestamp = as_int64(item[0])
        key = item[1]
        value = item[2]
        offset_delta = index if deltas is None else <int32_t>PyNumber_Index(deltas[index])
        key_bytes = value_bytes = -1
        header_bytes = header_count = 0
        if key is not None:
            key = as_bytes(key)
            key_bytes = PyBytes_GET_SIZE(key)
        if value is not None:
            value = as_bytes(value)
            value_bytes = PyBytes_GET_SIZE(value)
        headers = None
        if type(item[3]) is not tuple or len(<tuple>item[3]) != 0:
            headers = exact_headers(item[3])
            header_count = len(headers)
            header_bytes = measure_headers(headers)
        needed = (
            position + RECORD_OVERHEAD_BYTES_MAX + header_bytes
            + (key_bytes if key_bytes > 0 else 0) + (value_bytes if value_bytes > 0 else 0)
        )
        if needed > AREA_BYTES_MAX:
            raise_too_large()
        if needed > capacity:
            # Room for what is left, as if the rest were like this one, but at least a quarter more.
            capacity = max(
                needed + needed // 4,
                min(position + (needed - position) * (count - index), 4 * needed),
            )
            PyByteArray_Resize(out, capacity)
            target = <unsigned char*>PyByteArray_AS_STRING(out)
        timestamp_delta = wrapping_subtract(timestamp, base)
        body = (
            1 + varint_bytes(timestamp_delta) + varint_bytes(offset_delta)
            + varint_bytes(key_bytes) + varint_bytes(value_bytes) + varint_bytes(header_count)
            + (key_bytes if key_bytes > 0 else 0) + (value_bytes if value_bytes > 0 else 0)
            + header_bytes
        )
        position += write_varint(target + position, body)
        target[position] = 0
        position += 1
        position += write_varint(target + position, timestamp_delta)
        position += write_varint(target + position, offset_delta)
        position += write_varint(target + position, key_bytes)
        if key_bytes > 0:
            memcpy(target + position, PyBytes_AS_STRING(key), key_bytes)
            position += key_bytes
        position += write_varint(target + position, value_bytes)
        if value_bytes > 0:
            memcpy(target + position, PyBytes_AS_STRING(value), value_bytes)
            position += value_bytes
        position += write_varint(target + position, header_count)
        if headers is not None:
            position += write_headers(target + position, headers)
        if index == 0 or timestamp > largest:
            largest = timestamp
    PyByteArray_Resize(out, position)
    memset(PyByteArray_AS_STRING(out), 0, reserve_bytes)
    return out, base, largest


# --- decoding ---------------------------------------------------------------------------------


cdef tuple decode_headers(
    const unsigned char* data, Py_ssize_t position, Py_ssize_t end, int64_t count, int* fault
):
    # Bounds are checked again: the buffer may have changed since parse_record saw it.
    cdef list headers = []
    cdef int64_t index, length = 0
    for index in range(count):
        fault[0] = read_varint(data, &position, end, 32, &length)
        if fault[0] == FAULT_NONE and (length < 0 or length > end - position):
            fault[0] = FAULT_CHANGED
        if fault[0]:
            return None
        name = PyUnicode_DecodeUTF8(<const char*>data + position, length, "replace")
        position += length
        fault[0] = read_varint(data, &position, end, 32, &length)
        if fault[0] == FAULT_NONE and length > end - position:
            fault[0] = FAULT_CHANGED
        if fault[0]:
            return None
        if length < 0:
            headers.append((name, None))
        else:
            headers.append((name, PyBytes_FromStringAndSize(<const char*>data + position, length)))
            position += length
    return tuple(headers)


cdef inline void set_field(object record, Py_ssize_t index, object value):
    Py_INCREF(value)
    PyTuple_SET_ITEM(record, index, value)


def decode_records(
    data,
    Py_ssize_t record_count,
    type record_type,
    str topic,
    partition,
    int64_t base_offset,
    int64_t base_timestamp,
    append_time=None,
    int64_t from_offset=INT64_MIN,
):
    """Decode a records area into ``record_type`` tuples; the twin is in ``_pure.py``."""
    cdef Py_buffer view
    cdef RecordFields fields
    cdef const unsigned char* area
    cdef Py_ssize_t position = 0, index
    cdef int64_t offset
    cdef int fault = FAULT_NONE
    cdef bint stamped = append_time is not None
    cdef tuple no_headers = ()
    cdef object record, key, value
    cdef tuple headers
    cdef list out = []
    check_count(record_count)
    if (
        not issubclass(record_type, tuple)
        or len(getattr(record_type, "_fields", ())) != RECORD_FIELDS
    ):
        raise TypeError(f"{record_type} is not a named tuple of {RECORD_FIELDS} fields")
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        area = <const unsigned char*>view.buf
        for index in range(record_count):
            fault = parse_record(area, position, view.len, &fields)
            if fault:
                raise_malformed(fault, index)
            position = fields.end
            offset = wrapping_add(base_offset, fields.offset_delta)
            if offset < from_offset:
                continue
            key = value = None
            if fields.key_length >= 0:
                key = PyBytes_FromStringAndSize(<const char*>area + fields.key, fields.key_length)
            if fields.value_length >= 0:
                value = PyBytes_FromStringAndSize(
                    <const char*>area + fields.value, fields.value_length
                )
            headers = no_headers
            if fields.header_count:
                headers = decode_headers(
                    area, fields.headers, fields.end, fields.header_count, &fault
                )
                if fault:
                    raise_malformed(fault, index)
            record = seglog_allocate(<PyTypeObject*>record_type, RECORD_FIELDS)
            # Its fields cannot refer back to it, so the cycle collector need not look at it.
            PyObject_GC_UnTrack(<void*>record)
            set_field(record, 0, topic)
            set_field(record, 1, partition)
            set_field(record, 2, offset)
            if stamped:
                set_field(record, 3, append_time)
            else:
                set_field(record, 3, wrapping_add(base_timestamp, fields.timestamp_delta))
            set_field(record, 4, key)
            set_field(record, 5, value)
            set_field(record, 6, headers)
            out.append(record)
        if position != view.len:
            raise_malformed(FAULT_BYTES_LEFT, record_count)
    finally:
        PyBuffer_Release(&view)
    return out


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
    Py_ssize_t offenders_max=1000,
):
    """Check the structure of a records area and sum it up; the twin is in ``_pure.py``."""
    cdef Py_buffer view
    cdef AreaSummary summary
    cdef const unsigned char* area
    cdef int fault
    cdef tuple null_keys = (), bad_timestamps = ()
    check_count(record_count)
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
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
    check_count(record_count)
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
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
            return FAULT_CHANGED  # the buffer or the mask is not what it was when it was measured
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
    check_count(record_count)
    if keep_mask is not None:
        mask_bytes = bytes(memoryview(keep_mask))  # a private copy that nobody can shrink
        if len(mask_bytes) != record_count:
            raise ValueError(f"a mask of {len(mask_bytes)} bytes for {record_count} records")
        mask = <const unsigned char*>PyBytes_AS_STRING(mask_bytes)
    plan.has_base = new_base_timestamp is not None
    plan.base_timestamp = -1 if new_base_timestamp is None else new_base_timestamp
    plan.renumber = renumber
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
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


# --- partitioning -----------------------------------------------------------------------------


cdef inline uint32_t hash_key(const unsigned char* data, Py_ssize_t size) noexcept nogil:
    # MurmurHash2 by Austin Appleby (public domain), 32 bits, with the seed of Kafka's producers.
    cdef uint32_t multiplier = 0x5BD1E995
    cdef uint32_t digest = <uint32_t>0x9747B28C ^ <uint32_t>size
    cdef uint32_t word
    cdef Py_ssize_t position = 0
    while size - position >= 4:
        word = (
            <uint32_t>data[position] | (<uint32_t>data[position + 1] << 8)
            | (<uint32_t>data[position + 2] << 16) | (<uint32_t>data[position + 3] << 24)
        )
        word *= multiplier
        word ^= word >> 24
        word *= multiplier
        digest *= multiplier
        digest ^= word
        position += 4
    if size - position >= 3:
        digest ^= <uint32_t>data[position + 2] << 16
    if size - position >= 2:
        digest ^= <uint32_t>data[position + 1] << 8
    if size - position >= 1:
        digest ^= <uint32_t>data[position]
        digest *= multiplier
    digest ^= digest >> 13
    digest *= multiplier
    digest ^= digest >> 15
    return digest


def murmur2(key):
    """Hash a key as Kafka's producers do, to a signed int32; the twin is in ``_pure.py``."""
    data = as_bytes(key)
    return <int32_t>hash_key(<const unsigned char*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


def partition_keys(keys, int32_t partition_count):
    """Name the partition of each key, -1 for None; the twin is in ``_pure.py``."""
    cdef list partitions = []
    cdef uint32_t digest
    if partition_count < 1:
        raise ValueError(f"a topic has at least one partition, not {partition_count}")
    for key in keys:
        if key is None:
            partitions.append(-1)
            continue
        data = as_bytes(key)
        digest = hash_key(<const unsigned char*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
        partitions.append(<int32_t>((digest & 0x7FFFFFFF) % <uint32_t>partition_count))
    return partitions
