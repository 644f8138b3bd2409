# Columns in Arrow's layout out of the records of batches.
# The twins, which say the same in Python, are in records/_pure_arrow.py.

cdef enum:
    # Arrow's offsets of variable-length columns are int32.
    COLUMN_BYTES_MAX = 2147483647


cdef inline int64_t to_microseconds(int64_t milliseconds) noexcept nogil:
    # A time beyond int64 microseconds becomes the last representable moment.
    if milliseconds > INT64_MAX // 1000:
        return INT64_MAX
    if milliseconds < -(INT64_MAX // 1000):
        return INT64_MIN
    return milliseconds * 1000


cdef inline int64_t to_milliseconds(int64_t microseconds) noexcept nogil:
    # Rounds down, also before 1970: the module's division is C's, which rounds towards zero.
    cdef int64_t quotient = microseconds // 1000
    return quotient - 1 if microseconds % 1000 < 0 else quotient


cdef struct BinaryTarget:
    int32_t* offsets
    unsigned char* data
    unsigned char* validity
    Py_ssize_t data_bytes
    Py_ssize_t nulls


cdef struct ColumnTargets:
    BinaryTarget key
    BinaryTarget value
    BinaryTarget header_key
    BinaryTarget header_value
    int64_t* offsets
    int64_t* timestamps
    int32_t* timestamp_types
    int32_t* header_offsets
    unsigned char* header_validity
    Py_ssize_t rows
    Py_ssize_t header_rows
    Py_ssize_t header_rows_max
    Py_ssize_t header_nulls
    bint with_key
    bint with_value
    bint with_headers
    bint has_wide_header_keys


cdef struct AreaPlace:
    Py_ssize_t count
    int64_t base_offset
    int64_t base_timestamp
    int64_t append_time
    bint has_append_time
    int64_t from_offset
    int64_t end_offset


cdef inline void clear_bits_behind(object bits, Py_ssize_t rows):
    # A batch that was taken back may have left bits there.
    if rows & 7:
        PyByteArray_AS_STRING(bits)[rows >> 3] &= <char>((1 << (rows & 7)) - 1)


cdef inline void put_bit(unsigned char* bits, Py_ssize_t index, bint value) noexcept nogil:
    cdef unsigned char mask = <unsigned char>(1 << (index & 7))
    if (index & 7) == 0:
        bits[index >> 3] = value
    elif value:
        bits[index >> 3] |= mask
    else:
        # Not only left as it is: an area that turned out bad may have set it.
        bits[index >> 3] &= <unsigned char>~mask


cdef inline void put_binary(
    BinaryTarget* target, Py_ssize_t row, const unsigned char* start, int64_t length
) noexcept nogil:
    if length > 0:
        memcpy(target.data + target.data_bytes, start, length)
        target.data_bytes += length
    elif length < 0:
        target.nulls += 1
    put_bit(target.validity, row, length >= 0)
    target.offsets[row + 1] = <int32_t>target.data_bytes


cdef int put_headers(
    const unsigned char* data, Py_ssize_t position, Py_ssize_t end, int64_t count,
    ColumnTargets* targets
) noexcept nogil:
    # Bounds are checked again: the buffer may have changed since parse_record saw it.
    cdef int64_t index, length = 0, letter
    cdef int fault
    if count > targets.header_rows_max - targets.header_rows:
        return FAULT_CHANGED
    for index in range(count):
        fault = read_varint(data, &position, end, 32, &length)
        if fault:
            return fault
        if length < 0 or length > end - position:
            return FAULT_CHANGED
        for letter in range(length):
            if data[position + letter] > 127:
                targets.has_wide_header_keys = True
        put_binary(&targets.header_key, targets.header_rows, data + position, length)
        position += length
        fault = read_varint(data, &position, end, 32, &length)
        if fault:
            return fault
        if length > end - position:
            return FAULT_CHANGED
        put_binary(&targets.header_value, targets.header_rows, data + position, length)
        if length > 0:
            position += length
        targets.header_rows += 1
    return FAULT_NONE


cdef int count_headers(
    const unsigned char* data, Py_ssize_t size, Py_ssize_t count, Py_ssize_t* headers,
    Py_ssize_t* fault_index
) noexcept nogil:
    cdef RecordFields fields
    cdef Py_ssize_t position = 0, index
    cdef int fault
    headers[0] = 0
    for index in range(count):
        fault = parse_record(data, position, size, &fields)
        if fault:
            fault_index[0] = index
            return fault
        position = fields.end
        headers[0] += fields.header_count
    return FAULT_NONE


cdef int put_records(
    const unsigned char* data, Py_ssize_t size, AreaPlace* place, ColumnTargets* targets,
    Py_ssize_t* fault_index
) noexcept nogil:
    cdef RecordFields fields
    cdef Py_ssize_t position = 0, index, row
    cdef int64_t offset
    cdef int fault
    for index in range(place.count):
        fault_index[0] = index
        fault = parse_record(data, position, size, &fields)
        if fault:
            return fault
        position = fields.end
        offset = wrapping_add(place.base_offset, fields.offset_delta)
        if offset < place.from_offset or offset >= place.end_offset:
            continue
        row = targets.rows
        targets.offsets[row] = offset
        targets.timestamps[row] = to_microseconds(
            place.append_time if place.has_append_time
            else wrapping_add(place.base_timestamp, fields.timestamp_delta)
        )
        targets.timestamp_types[row] = place.has_append_time
        if targets.with_key:
            put_binary(&targets.key, row, data + fields.key, fields.key_length)
        if targets.with_value:
            put_binary(&targets.value, row, data + fields.value, fields.value_length)
        if targets.with_headers:
            if fields.header_count:
                fault = put_headers(
                    data, fields.headers, fields.end, fields.header_count, targets
                )
                if fault:
                    return fault
            else:
                targets.header_nulls += 1
            put_bit(targets.header_validity, row, fields.header_count != 0)
            targets.header_offsets[row + 1] = <int32_t>targets.header_rows
        targets.rows += 1
    fault_index[0] = place.count
    return FAULT_NONE if position == size else FAULT_BYTES_LEFT


cdef int grow(object array, Py_ssize_t needed) except -1:
    # Doubles, so that many small batches do not copy everything each time.
    if needed > len(array):
        PyByteArray_Resize(array, max(needed, min(2 * len(array), needed + (64 << 20))))
    return 0


cdef class GrowingBinary:
    # The buffers of one variable-length column while it is being filled.
    cdef object offsets, data, validity

    def __cinit__(self):
        self.offsets = bytearray(4)
        self.data = bytearray()
        self.validity = bytearray()

    cdef int reserve(self, BinaryTarget* target, Py_ssize_t rows, Py_ssize_t bytes_more) except -1:
        grow(self.offsets, 4 * (rows + 1))
        grow(self.validity, (rows + 7) // 8)
        grow(self.data, target.data_bytes + bytes_more)
        target.offsets = <int32_t*>PyByteArray_AS_STRING(self.offsets)
        target.data = <unsigned char*>PyByteArray_AS_STRING(self.data)
        target.validity = <unsigned char*>PyByteArray_AS_STRING(self.validity)
        return 0

    cdef tuple take(self, BinaryTarget* target, Py_ssize_t rows):
        PyByteArray_Resize(self.offsets, 4 * (rows + 1))
        PyByteArray_Resize(self.validity, (rows + 7) // 8)
        clear_bits_behind(self.validity, rows)
        PyByteArray_Resize(self.data, target.data_bytes)
        return target.nulls, self.validity, self.offsets, self.data


cdef class RecordColumns:
    """Records of batches as columns; the twin is in ``_pure_arrow.py``."""

    cdef ColumnTargets targets
    cdef GrowingBinary key, value, header_key, header_value
    cdef object offsets, timestamps, timestamp_types, header_offsets, header_validity

    def __init__(self, bint with_key=True, bint with_value=True, bint with_headers=False):
        self.targets.with_key = with_key
        self.targets.with_value = with_value
        self.targets.with_headers = with_headers
        self._begin()

    def _begin(self):
        cdef bint with_key = self.targets.with_key, with_value = self.targets.with_value
        cdef bint with_headers = self.targets.with_headers
        memset(&self.targets, 0, sizeof(ColumnTargets))
        self.targets.with_key = with_key
        self.targets.with_value = with_value
        self.targets.with_headers = with_headers
        self.key, self.value = GrowingBinary(), GrowingBinary()
        self.header_key, self.header_value = GrowingBinary(), GrowingBinary()
        self.offsets, self.timestamps = bytearray(), bytearray()
        self.timestamp_types = bytearray()
        self.header_offsets, self.header_validity = bytearray(4), bytearray()

    @property
    def rows(self):
        return self.targets.rows

    @property
    def data_bytes(self):
        return (
            self.targets.key.data_bytes + self.targets.value.data_bytes
            + self.targets.header_key.data_bytes + self.targets.header_value.data_bytes
        )

    cdef int _reserve(self, Py_ssize_t count, Py_ssize_t area_bytes) except -1:
        # All data of the records lies in their area, so it bounds each column.
        cdef Py_ssize_t rows = self.targets.rows + count
        if self.data_bytes + area_bytes > COLUMN_BYTES_MAX or rows > COLUMN_BYTES_MAX // 8:
            raise ValueError("the columns are full, take them first")
        grow(self.offsets, 8 * rows)
        grow(self.timestamps, 8 * rows)
        grow(self.timestamp_types, 4 * rows)
        self.targets.offsets = <int64_t*>PyByteArray_AS_STRING(self.offsets)
        self.targets.timestamps = <int64_t*>PyByteArray_AS_STRING(self.timestamps)
        self.targets.timestamp_types = <int32_t*>PyByteArray_AS_STRING(self.timestamp_types)
        if self.targets.with_key:
            self.key.reserve(&self.targets.key, rows, area_bytes)
        if self.targets.with_value:
            self.value.reserve(&self.targets.value, rows, area_bytes)
        return 0

    cdef int _reserve_headers(
        self, Py_ssize_t count, Py_ssize_t headers, Py_ssize_t area_bytes
    ) except -1:
        cdef Py_ssize_t rows = self.targets.rows + count
        self.targets.header_rows_max = self.targets.header_rows + headers
        grow(self.header_offsets, 4 * (rows + 1))
        grow(self.header_validity, (rows + 7) // 8)
        self.targets.header_offsets = <int32_t*>PyByteArray_AS_STRING(self.header_offsets)
        self.targets.header_validity = <unsigned char*>PyByteArray_AS_STRING(self.header_validity)
        self.header_key.reserve(
            &self.targets.header_key, self.targets.header_rows_max, area_bytes
        )
        self.header_value.reserve(
            &self.targets.header_value, self.targets.header_rows_max, area_bytes
        )
        return 0

    def append(
        self,
        data,
        Py_ssize_t record_count,
        int64_t base_offset,
        int64_t base_timestamp,
        *,
        append_time=None,
        int64_t from_offset=INT64_MIN,
        int64_t end_offset=INT64_MAX,
    ):
        """Add the records of an area; the twin is in ``_pure_arrow.py``."""
        cdef Py_buffer view
        cdef AreaPlace place
        cdef ColumnTargets before
        cdef const unsigned char* area
        cdef Py_ssize_t size, index = 0, headers = 0
        cdef int fault = FAULT_NONE
        place.count = record_count
        place.base_offset = base_offset
        place.base_timestamp = base_timestamp
        place.has_append_time = append_time is not None
        place.append_time = 0 if append_time is None else as_int64(append_time)
        place.from_offset = from_offset
        place.end_offset = end_offset
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            area = <const unsigned char*>view.buf
            size = view.len
            # A header may announce any number of records, the columns are not made that long.
            check_count(record_count, size)
            self._reserve(record_count, size)
            before = self.targets
            if self.targets.with_headers:
                with nogil:
                    fault = count_headers(area, size, record_count, &headers, &index)
                if fault:
                    raise_malformed(fault, index)
                self._reserve_headers(record_count, headers, size)
                before = self.targets
            with nogil:
                fault = put_records(area, size, &place, &self.targets, &index)
            if fault:
                self.targets = before
                raise_malformed(fault, index)
        finally:
            PyBuffer_Release(&view)
        return self.targets.rows - before.rows

    def take(self):
        """Return the columns and begin anew; the twin is in ``_pure_arrow.py``."""
        cdef Py_ssize_t rows = self.targets.rows, header_rows = self.targets.header_rows
        cdef object key = None, value = None, headers = None
        if self.targets.with_key:
            key = self.key.take(&self.targets.key, rows)
        if self.targets.with_value:
            value = self.value.take(&self.targets.value, rows)
        if self.targets.with_headers:
            PyByteArray_Resize(self.header_offsets, 4 * (rows + 1))
            PyByteArray_Resize(self.header_validity, (rows + 7) // 8)
            clear_bits_behind(self.header_validity, rows)
            headers = (
                self.targets.header_nulls, self.header_validity, self.header_offsets, header_rows,
                self.header_key.take(&self.targets.header_key, header_rows),
                self.header_value.take(&self.targets.header_value, header_rows),
                bool(self.targets.has_wide_header_keys),
            )
        PyByteArray_Resize(self.offsets, 8 * rows)
        PyByteArray_Resize(self.timestamps, 8 * rows)
        PyByteArray_Resize(self.timestamp_types, 4 * rows)
        taken = (
            rows, key, value, self.offsets, self.timestamps, self.timestamp_types, headers
        )
        self._begin()
        return taken
