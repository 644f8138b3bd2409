# Columns in Arrow's layout out of the records of batches, and records out of such columns.
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


# --- records to columns -----------------------------------------------------------------------


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


# --- columns to records -----------------------------------------------------------------------


cdef class BinarySource:
    # One variable-length column from an Arrow library: (rows, offset, validity, offsets, data).
    cdef Py_buffer validity_view, offsets_view, data_view
    cdef const unsigned char* validity
    cdef const unsigned char* data
    cdef const int32_t* offsets
    cdef Py_ssize_t rows, data_bytes
    cdef Py_ssize_t offset

    def __cinit__(self, column):
        rows, offset, validity, offsets, data = column
        self.rows = rows
        self.offset = offset
        if self.rows < 0 or self.offset < 0:
            raise ValueError("a column cannot have a negative length or offset")
        PyObject_GetBuffer(b"" if data is None else data, &self.data_view, PyBUF_SIMPLE)
        self.data = <const unsigned char*>self.data_view.buf
        self.data_bytes = self.data_view.len
        PyObject_GetBuffer(b"" if offsets is None else offsets, &self.offsets_view, PyBUF_SIMPLE)
        self.offsets = <const int32_t*>self.offsets_view.buf
        if self.rows and self.offsets_view.len < 4 * (self.offset + self.rows + 1):
            raise ValueError("the offsets of a column are shorter than the column")
        self.validity = NULL
        if validity is not None:
            PyObject_GetBuffer(validity, &self.validity_view, PyBUF_SIMPLE)
            self.validity = <const unsigned char*>self.validity_view.buf
            if 8 * self.validity_view.len < self.offset + self.rows:
                raise ValueError("the validity of a column is shorter than the column")

    def __dealloc__(self):
        PyBuffer_Release(&self.data_view)
        PyBuffer_Release(&self.offsets_view)
        PyBuffer_Release(&self.validity_view)

    cdef inline int64_t cell(self, Py_ssize_t row, const unsigned char** start) noexcept nogil:
        # The length of a cell: -1 for null, -2 for offsets that point outside.
        cdef Py_ssize_t place = self.offset + row
        cdef int32_t begin, end
        if self.validity != NULL and not (self.validity[place >> 3] >> (place & 7)) & 1:
            return -1
        begin = self.offsets[place]
        end = self.offsets[place + 1]
        if begin < 0 or end < begin or end > self.data_bytes:
            return -2
        start[0] = self.data + begin
        return end - begin


cdef class NumberSource:
    # One column of int32 or int64, from (rows, offset, validity, values).
    cdef Py_buffer validity_view, values_view
    cdef const unsigned char* validity
    cdef const void* values
    cdef Py_ssize_t rows, offset

    def __cinit__(self, column, Py_ssize_t width):
        rows, offset, validity, values = column
        self.rows = rows
        self.offset = offset
        if self.rows < 0 or self.offset < 0:
            raise ValueError("a column cannot have a negative length or offset")
        PyObject_GetBuffer(b"" if values is None else values, &self.values_view, PyBUF_SIMPLE)
        self.values = self.values_view.buf
        if self.values_view.len < width * (self.offset + self.rows):
            raise ValueError("the values of a column are shorter than the column")
        self.validity = NULL
        if validity is not None:
            PyObject_GetBuffer(validity, &self.validity_view, PyBUF_SIMPLE)
            self.validity = <const unsigned char*>self.validity_view.buf
            if 8 * self.validity_view.len < self.offset + self.rows:
                raise ValueError("the validity of a column is shorter than the column")

    def __dealloc__(self):
        PyBuffer_Release(&self.values_view)
        PyBuffer_Release(&self.validity_view)

    cdef inline bint is_null(self, Py_ssize_t row) noexcept nogil:
        cdef Py_ssize_t place = self.offset + row
        return self.validity != NULL and not (self.validity[place >> 3] >> (place & 7)) & 1


def place_rows(Py_ssize_t rows, key, chosen, int32_t partition_count, int32_t keyless_partition):
    """Group rows by partition; the twin is in ``_pure_arrow.py``."""
    cdef BinarySource keys = None if key is None else BinarySource(key)
    cdef NumberSource choices = None if chosen is None else NumberSource(chosen, 4)
    cdef Py_ssize_t row, bad_row = -1
    cdef int64_t length
    cdef int32_t partition = -1
    cdef int32_t* places
    cdef int32_t* grouped
    cdef int64_t* starts
    cdef const unsigned char* start = NULL
    if partition_count < 1:
        raise ValueError(f"a topic has at least one partition, not {partition_count}")
    if not 0 <= keyless_partition < partition_count:
        raise ValueError(f"there is no partition {keyless_partition} of {partition_count}")
    if rows < 0 or (keys is not None and keys.rows != rows):
        raise ValueError("the key column has another length")
    if choices is not None and choices.rows != rows:
        raise ValueError("the partition column has another length")
    place_array = PyByteArray_FromStringAndSize(NULL, 4 * rows)
    group_array = PyByteArray_FromStringAndSize(NULL, 4 * rows)
    start_array = bytearray(8 * (partition_count + 2))
    places = <int32_t*>PyByteArray_AS_STRING(place_array)
    grouped = <int32_t*>PyByteArray_AS_STRING(group_array)
    starts = <int64_t*>PyByteArray_AS_STRING(start_array)
    with nogil:
        for row in range(rows):
            if choices is not None and not choices.is_null(row):
                partition = (<const int32_t*>choices.values)[choices.offset + row]
                if partition < 0 or partition >= partition_count:
                    bad_row = row
                    break
            else:
                length = -1 if keys is None else keys.cell(row, &start)
                if length == -1:
                    partition = keyless_partition
                elif length < 0:
                    bad_row = row
                    partition = -1
                    break
                else:
                    partition = <int32_t>(
                        (hash_key(start, length) & 0x7FFFFFFF) % <uint32_t>partition_count
                    )
            places[row] = partition
            starts[partition + 2] += 1
        if bad_row < 0:
            # Counting sort: starts[p + 1] runs from where p begins to where it ends.
            for row in range(partition_count):
                starts[row + 2] += starts[row + 1]
            for row in range(rows):
                grouped[starts[places[row] + 1]] = <int32_t>row
                starts[places[row] + 1] += 1
    if bad_row >= 0:
        if partition == -1 and (choices is None or choices.is_null(bad_row)):
            raise ValueError(f"the key of row {bad_row} lies outside of its column")
        raise ValueError(
            f"row {bad_row} asks for partition {partition}, there are {partition_count}"
        )
    return group_array, [starts[row] for row in range(partition_count + 1)]


cdef class RecordSource:
    # The columns of the records that are to be encoded.
    cdef BinarySource key, value, header_key, header_value
    cdef NumberSource timestamps
    cdef NumberSource header_lists
    cdef Py_ssize_t rows
    cdef int64_t default_timestamp

    def __cinit__(self, Py_ssize_t rows, key, value, timestamps, headers, default_timestamp):
        self.rows = rows
        self.key = None if key is None else BinarySource(key)
        self.value = None if value is None else BinarySource(value)
        self.timestamps = None if timestamps is None else NumberSource(timestamps, 8)
        self.default_timestamp = default_timestamp
        if self.key is not None and self.key.rows != rows:
            raise ValueError("the key column has another length")
        if self.value is not None and self.value.rows != rows:
            raise ValueError("the value column has another length")
        if self.timestamps is not None and self.timestamps.rows != rows:
            raise ValueError("the timestamp column has another length")
        if headers is not None:
            (list_rows, list_offset, list_validity, list_offsets), header_key, header_value = headers
            if list_rows != rows:
                raise ValueError("the headers column has another length")
            # One more than there are rows: the offset behind the last one; nulls are per row.
            self.header_lists = NumberSource((rows + 1, list_offset, None, list_offsets), 4)
            if list_validity is not None:
                self.header_lists = NumberSource(
                    (rows, list_offset, list_validity, list_offsets), 4
                )
                if self.header_lists.values_view.len < 4 * (list_offset + rows + 1):
                    raise ValueError("the offsets of a column are shorter than the column")
            self.header_key = BinarySource(header_key)
            self.header_value = BinarySource(header_value)

    cdef inline int64_t timestamp(self, Py_ssize_t row) noexcept nogil:
        if self.timestamps is None or self.timestamps.is_null(row):
            return self.default_timestamp
        return to_milliseconds(
            (<const int64_t*>self.timestamps.values)[self.timestamps.offset + row]
        )

    cdef inline int header_range(self, Py_ssize_t row, int32_t* first, int32_t* end) noexcept nogil:
        # Which rows of the header columns belong to a record; -1 where they do not exist.
        cdef const int32_t* offsets
        first[0] = end[0] = 0
        if self.header_lists is None or self.header_lists.is_null(row):
            return 0
        offsets = <const int32_t*>self.header_lists.values + self.header_lists.offset
        first[0] = offsets[row]
        end[0] = offsets[row + 1]
        if (
            first[0] < 0 or end[0] < first[0]
            or end[0] > self.header_key.rows or end[0] > self.header_value.rows
        ):
            return -1
        return 0

    cdef int64_t header_bytes(self, int32_t first, int32_t end) noexcept nogil:
        # Bytes of the headers in a record; -1 for a null key or cells that do not exist.
        cdef const unsigned char* start = NULL
        cdef int64_t total = 0, length
        cdef int32_t index
        for index in range(first, end):
            length = self.header_key.cell(index, &start)
            if length < 0:
                return -1
            total += varint_bytes(length) + length
            length = self.header_value.cell(index, &start)
            if length < -1:
                return -1
            total += varint_bytes(length) + max(length, 0)
        return total

    cdef int64_t body_bytes(
        self, Py_ssize_t row, int64_t timestamp_delta, int64_t offset_delta
    ) noexcept nogil:
        # Bytes of a record behind its length; -1 for cells that do not exist.
        cdef const unsigned char* start = NULL
        cdef int64_t key = -1 if self.key is None else self.key.cell(row, &start)
        cdef int64_t value = -1 if self.value is None else self.value.cell(row, &start)
        cdef int64_t headers
        cdef int32_t first = 0, end = 0
        if key < -1 or value < -1 or self.header_range(row, &first, &end) < 0:
            return -1
        headers = self.header_bytes(first, end)
        if headers < 0:
            return -1
        return (
            1 + varint_bytes(timestamp_delta) + varint_bytes(offset_delta)
            + varint_bytes(key) + max(key, 0) + varint_bytes(value) + max(value, 0)
            + varint_bytes(end - first) + headers
        )

    cdef Py_ssize_t put(
        self, unsigned char* target, BinarySource column, Py_ssize_t row
    ) noexcept nogil:
        cdef const unsigned char* start = NULL
        cdef int64_t length = -1 if column is None else column.cell(row, &start)
        cdef Py_ssize_t position = write_varint(target, length)
        if length > 0:
            memcpy(target + position, start, length)
            position += length
        return position

    cdef Py_ssize_t write(
        self, unsigned char* target, Py_ssize_t row, int64_t body, int64_t timestamp_delta,
        int64_t offset_delta
    ) noexcept nogil:
        cdef Py_ssize_t position = write_varint(target, body)
        cdef int32_t index, first = 0, end = 0
        target[position] = 0
        position += 1
        position += write_varint(target + position, timestamp_delta)
        position += write_varint(target + position, offset_delta)
        position += self.put(target + position, self.key, row)
        position += self.put(target + position, self.value, row)
        self.header_range(row, &first, &end)
        position += write_varint(target + position, end - first)
        for index in range(first, end):
            position += self.put(target + position, self.header_key, index)
            position += self.put(target + position, self.header_value, index)
        return position


def encode_columns(
    Py_ssize_t rows,
    key,
    value,
    timestamps,
    headers,
    int64_t default_timestamp,
    order,
    Py_ssize_t first,
    Py_ssize_t end,
    Py_ssize_t max_bytes,
    Py_ssize_t reserve_bytes=0,
):
    """Encode rows of columns as records; the twin is in ``_pure_arrow.py``."""
    cdef RecordSource source = RecordSource(
        rows, key, value, timestamps, headers, default_timestamp
    )
    cdef Py_buffer view
    cdef const int32_t* indexes
    cdef unsigned char* target
    cdef Py_ssize_t index, count = 0, area_bytes = 0, written = 0, row = 0
    cdef int64_t body, base = -1, largest = -1, timestamp
    cdef int failure = 0
    PyObject_GetBuffer(order, &view, PyBUF_SIMPLE)
    try:
        indexes = <const int32_t*>view.buf
        if not 0 <= first <= end <= view.len // 4:
            raise ValueError(f"rows {first} to {end} of {view.len // 4}")
        with nogil:
            for index in range(first, end):
                row = indexes[index]
                if row < 0 or row >= rows:
                    failure = 1
                    break
                timestamp = source.timestamp(row)
                if count == 0:
                    base = largest = timestamp
                body = source.body_bytes(row, wrapping_subtract(timestamp, base), count)
                if body < 0:
                    failure = 2
                    break
                body += varint_bytes(body)
                if count and area_bytes + body > max_bytes:
                    break
                if area_bytes + body + reserve_bytes > AREA_BYTES_MAX:
                    failure = 3
                    break
                area_bytes += body
                count += 1
                if timestamp > largest:
                    largest = timestamp
        if failure == 1:
            raise ValueError(f"there is no row {row} in {rows}")
        if failure == 2:
            raise ValueError(f"row {row} has a header without a key or lies outside of its column")
        if failure == 3:
            raise_too_large()
        out = PyByteArray_FromStringAndSize(NULL, reserve_bytes + area_bytes)
        target = <unsigned char*>PyByteArray_AS_STRING(out)
        with nogil:
            memset(target, 0, reserve_bytes)
            target += reserve_bytes
            for index in range(count):
                row = indexes[first + index]
                if row < 0 or row >= rows:
                    failure = 4
                    break
                timestamp = wrapping_subtract(source.timestamp(row), base)
                body = source.body_bytes(row, timestamp, index)
                if body < 0 or written + varint_bytes(body) + body > area_bytes:
                    failure = 4  # another thread changes the columns while they are read
                    break
                written += source.write(target + written, row, body, timestamp, index)
        if failure or written != area_bytes:
            raise ValueError("the columns changed while they were read")
    finally:
        PyBuffer_Release(&view)
    return out, first + count, base, largest
