# Encoding and decoding the records area of a batch.
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


cdef int check_count(Py_ssize_t record_count, Py_ssize_t area_bytes) except -1:
    if record_count < 0:
        raise_malformed(FAULT_NEGATIVE_COUNT, record_count)
    if record_count > area_bytes // (MIN_RECORD_BODY_BYTES + 1):
        raise_malformed(FAULT_COUNT_TOO_LARGE, record_count)
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


cdef Py_ssize_t write_record(
    unsigned char* target,
    int64_t timestamp_delta,
    int64_t offset_delta,
    object key,
    object value,
    tuple headers,
    Py_ssize_t header_bytes,
) except -1:
    # Writes at most RECORD_OVERHEAD_BYTES_MAX, key, value and headers; returns how much it was.
    cdef Py_ssize_t key_bytes = -1 if key is None else PyBytes_GET_SIZE(key)
    cdef Py_ssize_t value_bytes = -1 if value is None else PyBytes_GET_SIZE(value)
    cdef Py_ssize_t header_count = 0 if headers is None else len(headers)
    cdef Py_ssize_t position
    position = write_varint(
        target,
        1 + varint_bytes(timestamp_delta) + varint_bytes(offset_delta)
        + varint_bytes(key_bytes) + max(key_bytes, 0)
        + varint_bytes(value_bytes) + max(value_bytes, 0)
        + varint_bytes(header_count) + header_bytes,
    )
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
    return position


cdef inline Py_ssize_t enlarged(
    Py_ssize_t position, Py_ssize_t needed, Py_ssize_t records_left
) noexcept:
    # Room as if all records to come were like the next one, but a quarter more at the least.
    return max(
        needed + needed // 4, min(position + (needed - position) * records_left, 4 * needed)
    )


def encode_records(records, Py_ssize_t reserve_bytes=0, offset_deltas=None, base_timestamp=None):
    """Encode ``(timestamp_ms, key, value, headers)`` tuples; the twin is in ``_pure.py``."""
    cdef tuple items = tuple(records)  # a copy: another thread cannot shorten it meanwhile
    cdef tuple deltas = None if offset_deltas is None else tuple(offset_deltas)
    cdef tuple item, headers
    cdef object key, value
    cdef Py_ssize_t count = len(items), index, header_bytes, needed
    cdef Py_ssize_t position = reserve_bytes, capacity = reserve_bytes + 64 * count
    cdef int64_t base = -1, largest = -1, timestamp, offset_delta
    if deltas is not None and len(deltas) != count:
        raise ValueError(f"{len(deltas)} offset deltas for {count} records")
    if base_timestamp is not None:
        base = as_int64(base_timestamp)
    elif count:
        base = as_int64(items[0][0])
    out = PyByteArray_FromStringAndSize(NULL, capacity)
    for index in range(count):
        item = items[index] if type(items[index]) is tuple else tuple(items[index])
        if len(item) != 4:
            raise ValueError(f"record {index} has {len(item)} fields instead of 4")
        timestamp = as_int64(item[0])
        offset_delta = index if deltas is None else <int32_t>PyNumber_Index(deltas[index])
        key = None if item[1] is None else as_bytes(item[1])
        value = None if item[2] is None else as_bytes(item[2])
        headers = None
        header_bytes = 0
        if type(item[3]) is not tuple or len(<tuple>item[3]) != 0:
            headers = exact_headers(item[3])
            header_bytes = measure_headers(headers)
        needed = position + RECORD_OVERHEAD_BYTES_MAX + header_bytes
        needed += 0 if key is None else PyBytes_GET_SIZE(key)
        needed += 0 if value is None else PyBytes_GET_SIZE(value)
        if needed > AREA_BYTES_MAX:
            raise_too_large()
        if needed > capacity:
            capacity = enlarged(position, needed, count - index)
            PyByteArray_Resize(out, capacity)
        position += write_record(
            <unsigned char*>PyByteArray_AS_STRING(out) + position,
            wrapping_subtract(timestamp, base), offset_delta, key, value, headers, header_bytes,
        )
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


cdef inline object make_record(
    type record_type, object topic, object partition, object offset, object timestamp,
    object key, object value, object headers
):
    # Fills the named tuple directly: calling the type would take four times as long.
    record = seglog_allocate(<PyTypeObject*>record_type, RECORD_FIELDS)
    # Its fields cannot refer back to it, so the cycle collector need not look at it.
    PyObject_GC_UnTrack(<void*>record)
    set_field(record, 0, topic)
    set_field(record, 1, partition)
    set_field(record, 2, offset)
    set_field(record, 3, timestamp)
    set_field(record, 4, key)
    set_field(record, 5, value)
    set_field(record, 6, headers)
    return record


cdef inline object optional_bytes(const unsigned char* start, int64_t length):
    return None if length < 0 else PyBytes_FromStringAndSize(<const char*>start, length)


cdef int check_record_type(type record_type) except -1:
    if (
        not issubclass(record_type, tuple)
        or len(getattr(record_type, "_fields", ())) != RECORD_FIELDS
    ):
        raise TypeError(f"{record_type} is not a named tuple of {RECORD_FIELDS} fields")
    return 0


def decode_records(
    data,
    Py_ssize_t record_count,
    type record_type,
    str topic,
    partition,
    *,
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
    cdef tuple headers, no_headers = ()
    cdef list out = []
    check_record_type(record_type)
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        check_count(record_count, view.len)
        area = <const unsigned char*>view.buf
        for index in range(record_count):
            fault = parse_record(area, position, view.len, &fields)
            if fault:
                raise_malformed(fault, index)
            position = fields.end
            offset = wrapping_add(base_offset, fields.offset_delta)
            if offset < from_offset:
                continue
            headers = no_headers
            if fields.header_count:
                headers = decode_headers(
                    area, fields.headers, fields.end, fields.header_count, &fault
                )
                if fault:
                    raise_malformed(fault, index)
            timestamp = append_time
            if timestamp is None:
                timestamp = wrapping_add(base_timestamp, fields.timestamp_delta)
            out.append(
                make_record(
                    record_type, topic, partition, offset, timestamp,
                    optional_bytes(area + fields.key, fields.key_length),
                    optional_bytes(area + fields.value, fields.value_length),
                    headers,
                )
            )
        if position != view.len:
            raise_malformed(FAULT_BYTES_LEFT, record_count)
    finally:
        PyBuffer_Release(&view)
    return out
