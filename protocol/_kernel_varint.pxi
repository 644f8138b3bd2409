# Bytes of the record format: variable-length integers and the fields of one record.
#
# The module is compiled with bounds checks off. All reads of bytes go through the functions of this
# file: each takes the end of the readable bytes and never reads at or beyond it. They are safe for
# a buffer that another thread changes, since they copy a value first, then check and use the copy.

from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef enum:
    # The numbers of seglog.protocol.records.faults.RecordFault.
    FAULT_NONE = 0
    FAULT_TRUNCATED = 1
    FAULT_VARINT_TOO_LONG = 2
    FAULT_BAD_LENGTH = 3
    FAULT_BAD_KEY_LENGTH = 4
    FAULT_BAD_VALUE_LENGTH = 5
    FAULT_BAD_HEADER_COUNT = 6
    FAULT_BAD_HEADER_KEY = 7
    FAULT_BAD_HEADER_VALUE = 8
    FAULT_LENGTH_MISMATCH = 9
    FAULT_MISSING_RECORDS = 10
    FAULT_BYTES_LEFT = 11
    FAULT_CHANGED = 12
    FAULT_NEGATIVE_COUNT = 13
    FAULT_COUNT_TOO_LARGE = 14

    # Fewest bytes after the length field: attributes, two deltas, two lengths, the header count.
    MIN_RECORD_BODY_BYTES = 6

    # Below this size giving up the GIL costs more than it frees.
    NOGIL_BYTES_MIN = 8192


cdef struct RecordFields:
    # Positions count from the start of the records area; a length of -1 means null.
    Py_ssize_t body          # first byte after the length field: the attributes
    Py_ssize_t tail          # first byte after the offset delta: the key's length field
    Py_ssize_t key
    Py_ssize_t value
    Py_ssize_t headers       # first byte after the header count
    Py_ssize_t end           # first byte after the record
    int64_t timestamp_delta
    int64_t offset_delta
    int64_t key_length
    int64_t value_length
    int64_t header_count


cdef inline int64_t wrapping_add(int64_t left, int64_t right) noexcept nogil:
    # Java's addition: an overflow wraps around instead of being undefined.
    return <int64_t>(<uint64_t>left + <uint64_t>right)


cdef inline int64_t wrapping_subtract(int64_t left, int64_t right) noexcept nogil:
    return <int64_t>(<uint64_t>left - <uint64_t>right)


cdef inline int64_t zigzag_decode(uint64_t encoded) noexcept nogil:
    return <int64_t>((encoded >> 1) ^ (0 - (encoded & 1)))


cdef inline uint64_t zigzag_encode(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ (0 - (<uint64_t>value >> 63))


cdef inline int varint_bytes(int64_t value) noexcept nogil:
    # Bytes that `value` takes as zig-zag varint; the same for int32 and int64 values.
    cdef uint64_t rest = zigzag_encode(value)
    cdef int size = 1
    while rest > 127:
        rest >>= 7
        size += 1
    return size


cdef inline int write_varint(unsigned char* target, int64_t value) noexcept nogil:
    # Writes at most 10 bytes (5 for an int32) and returns how many.
    cdef uint64_t rest = zigzag_encode(value)
    cdef int size = 0
    while rest > 127:
        target[size] = <unsigned char>((rest & 127) | 128)
        rest >>= 7
        size += 1
    target[size] = <unsigned char>rest
    return size + 1


cdef int read_long_varint(
    const unsigned char* data, Py_ssize_t* position, Py_ssize_t end, int bits, int64_t* value
) noexcept nogil:
    cdef uint64_t encoded = 0
    cdef uint64_t group
    cdef int shift = 0
    while True:
        if position[0] >= end:
            return FAULT_TRUNCATED
        group = data[position[0]]
        position[0] += 1
        if shift + 7 > bits and (group >> (bits - shift)) != 0:
            return FAULT_VARINT_TOO_LONG
        encoded |= (group & 127) << shift
        if group < 128:
            break
        shift += 7
    value[0] = zigzag_decode(encoded)
    return FAULT_NONE


cdef inline int read_varint(
    const unsigned char* data, Py_ssize_t* position, Py_ssize_t end, int bits, int64_t* value
) noexcept nogil:
    # Reads a zig-zag varint of at most `bits` (32 or 64) bits and moves the position behind it.
    cdef uint64_t first
    if position[0] >= end:
        return FAULT_TRUNCATED
    first = data[position[0]]
    if first < 128:
        position[0] += 1
        value[0] = zigzag_decode(first)
        return FAULT_NONE
    return read_long_varint(data, position, end, bits, value)


cdef int skip_headers(
    const unsigned char* data, Py_ssize_t position, Py_ssize_t end, int64_t count
) noexcept nogil:
    # Checks that `count` headers fill the bytes up to `end` exactly.
    cdef int64_t index
    cdef int64_t length = 0
    cdef int fault
    for index in range(count):
        fault = read_varint(data, &position, end, 32, &length)
        if fault:
            return fault
        if length < 0:
            return FAULT_BAD_HEADER_KEY
        if length > end - position:
            return FAULT_TRUNCATED
        position += length
        fault = read_varint(data, &position, end, 32, &length)
        if fault:
            return fault
        if length < -1:
            return FAULT_BAD_HEADER_VALUE
        if length > end - position:
            return FAULT_TRUNCATED
        if length > 0:
            position += length
    return FAULT_NONE if position == end else FAULT_LENGTH_MISMATCH


cdef inline int parse_record(
    const unsigned char* data, Py_ssize_t position, Py_ssize_t end, RecordFields* record
) noexcept nogil:
    # Checks the whole record that starts at `position` and notes where its fields lie.
    cdef int64_t length = 0
    cdef int fault
    if position >= end:
        return FAULT_MISSING_RECORDS
    fault = read_varint(data, &position, end, 32, &length)
    if fault:
        return fault
    if length < MIN_RECORD_BODY_BYTES:
        return FAULT_BAD_LENGTH
    if length > end - position:
        return FAULT_TRUNCATED
    record.body = position
    record.end = end = position + length
    position += 1
    fault = read_varint(data, &position, end, 64, &record.timestamp_delta)
    if fault:
        return fault
    fault = read_varint(data, &position, end, 32, &record.offset_delta)
    if fault:
        return fault
    record.tail = position
    fault = read_varint(data, &position, end, 32, &record.key_length)
    if fault:
        return fault
    if record.key_length < -1:
        return FAULT_BAD_KEY_LENGTH
    if record.key_length > end - position:
        return FAULT_TRUNCATED
    record.key = position
    if record.key_length > 0:
        position += record.key_length
    fault = read_varint(data, &position, end, 32, &record.value_length)
    if fault:
        return fault
    if record.value_length < -1:
        return FAULT_BAD_VALUE_LENGTH
    if record.value_length > end - position:
        return FAULT_TRUNCATED
    record.value = position
    if record.value_length > 0:
        position += record.value_length
    fault = read_varint(data, &position, end, 32, &record.header_count)
    if fault:
        return fault
    if record.header_count < 0 or record.header_count > end - position:
        return FAULT_BAD_HEADER_COUNT
    record.headers = position
    if record.header_count == 0:
        return FAULT_NONE if position == end else FAULT_LENGTH_MISMATCH
    return skip_headers(data, position, end, record.header_count)
