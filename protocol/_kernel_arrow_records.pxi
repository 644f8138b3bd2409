# Records out of columns in Arrow's layout; see _kernel_arrow_columns.pxi.


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
    columns,
    order,
    Py_ssize_t first,
    Py_ssize_t end,
    Py_ssize_t max_bytes,
    Py_ssize_t reserve_bytes=0,
):
    """Encode rows of columns as records; the twin is in ``_pure_arrow.py``."""
    cdef RecordSource source = RecordSource(*columns)
    cdef Py_ssize_t rows = source.rows
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
