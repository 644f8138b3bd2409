# The key-offset map and the two passes of log compaction. The statements CMAP, KEEP and SEG that
# the comments cite are those of docs/log-cleaner.md; the twins are in records/_pure_compaction.py.

from libc.math cimport fabs, floor, sin
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memset

cdef enum:
    KEY_HASH_BYTES = 16
    MAP_ENTRY_BYTES = 24
    HASH_WINDOWS = 13  # 4-byte windows that start inside a 16-byte hash
    RECORD_GROWTH_BYTES = 24  # two varints that may get longer when timestamps are rebased

# Why a walk over batches stopped; the numbers are shared with the twin.
cdef enum:
    WALK_END = 0  # no whole batch is left
    WALK_SPECIAL = 1  # the next batch is compressed, transactional, a marker, empty or to be kept empty
    WALK_FULL = 2  # the map has no room for another key
    WALK_CORRUPT = 3  # the next batch contradicts its header or checksum
    WALK_NO_SPACE = 4  # the output buffer may be too small for the next batch

cdef extern from *:
    """
    #include <stdint.h>
    #include <stddef.h>
    #include <string.h>

    static uint32_t seglog_crc32c_table[8][256];

    /* CRC-32C, reflected polynomial 0x82F63B78: eight tables, so that eight bytes go at once. */
    static void seglog_crc32c_prepare(void) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t crc = byte;
            for (int bit = 0; bit < 8; bit++)
                crc = (crc >> 1) ^ (0x82F63B78u & (0u - (crc & 1u)));
            seglog_crc32c_table[0][byte] = crc;
        }
        for (int slice = 1; slice < 8; slice++)
            for (uint32_t byte = 0; byte < 256; byte++) {
                uint32_t before = seglog_crc32c_table[slice - 1][byte];
                seglog_crc32c_table[slice][byte] =
                    (before >> 8) ^ seglog_crc32c_table[0][before & 255];
            }
    }

    static uint32_t seglog_crc32c_tables(const unsigned char *data, size_t length) {
        uint32_t crc = 0xFFFFFFFFu;
        while (length >= 8) {
            crc ^= (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16
                | (uint32_t)data[3] << 24;
            crc = seglog_crc32c_table[7][crc & 255] ^ seglog_crc32c_table[6][(crc >> 8) & 255]
                ^ seglog_crc32c_table[5][(crc >> 16) & 255] ^ seglog_crc32c_table[4][crc >> 24]
                ^ seglog_crc32c_table[3][data[4]] ^ seglog_crc32c_table[2][data[5]]
                ^ seglog_crc32c_table[1][data[6]] ^ seglog_crc32c_table[0][data[7]];
            data += 8;
            length -= 8;
        }
        while (length--)
            crc = (crc >> 8) ^ seglog_crc32c_table[0][(crc ^ *data++) & 255];
        return crc ^ 0xFFFFFFFFu;
    }

    #if defined(__x86_64__) && defined(__GNUC__)
    __attribute__((target("sse4.2")))
    static uint32_t seglog_crc32c_instruction(const unsigned char *data, size_t length) {
        uint64_t crc = 0xFFFFFFFFu;
        while (length >= 8) {
            uint64_t word;
            memcpy(&word, data, 8);
            crc = __builtin_ia32_crc32di(crc, word);
            data += 8;
            length -= 8;
        }
        while (length--)
            crc = __builtin_ia32_crc32qi((uint32_t)crc, *data++);
        return (uint32_t)crc ^ 0xFFFFFFFFu;
    }

    static int seglog_crc32c_has_instruction(void) { return __builtin_cpu_supports("sse4.2"); }
    #else
    static uint32_t seglog_crc32c_instruction(const unsigned char *data, size_t length) {
        return seglog_crc32c_tables(data, length);
    }

    static int seglog_crc32c_has_instruction(void) { return 0; }
    #endif
    """
    void seglog_crc32c_prepare()
    uint32_t seglog_crc32c_tables(const unsigned char* data, size_t length) nogil
    uint32_t seglog_crc32c_instruction(const unsigned char* data, size_t length) nogil
    int seglog_crc32c_has_instruction()

seglog_crc32c_prepare()
cdef bint CRC32C_INSTRUCTION = seglog_crc32c_has_instruction()


cdef inline uint32_t crc32c_of(const unsigned char* data, size_t length) noexcept nogil:
    """CRC-32C without the GIL; everywhere else ``checksum.crc32c`` serves."""
    if CRC32C_INSTRUCTION:
        return seglog_crc32c_instruction(data, length)
    return seglog_crc32c_tables(data, length)


cdef inline int64_t big_endian(const unsigned char* p, int size) noexcept nogil:
    """A signed big-endian integer of 2, 4 or 8 bytes."""
    cdef uint64_t value = 0 if p[0] < 128 else <uint64_t>-1
    cdef int i
    for i in range(size):
        value = (value << 8) | p[i]
    return <int64_t>value


cdef inline void store_big_endian(unsigned char* p, int size, int64_t value) noexcept nogil:
    cdef int i
    for i in range(size):
        p[i] = <unsigned char>((<uint64_t>value >> (8 * (size - 1 - i))) & 255)


cdef uint32_t MD5_SINES[64]
cdef int MD5_SHIFTS[16]


cdef void _prepare_md5() noexcept:
    """The constants of RFC 1321: 2**32 * |sin(i + 1)|, and the four shifts of each round."""
    cdef int i
    for i in range(64):
        MD5_SINES[i] = <uint32_t>floor(4294967296.0 * fabs(sin(<double>(i + 1))))
    for i, shift in enumerate((7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21)):
        MD5_SHIFTS[i] = shift


_prepare_md5()


cdef inline uint32_t _little_endian_32(const unsigned char* p) noexcept nogil:
    return (<uint32_t>p[0]) | (<uint32_t>p[1] << 8) | (<uint32_t>p[2] << 16) | (<uint32_t>p[3] << 24)


cdef void _md5_block(uint32_t* state, const unsigned char* block) noexcept nogil:
    cdef uint32_t a = state[0], b = state[1], c = state[2], d = state[3], f, t
    cdef uint32_t words[16]
    cdef int i, g, s
    for i in range(16):
        words[i] = _little_endian_32(block + 4 * i)
    for i in range(64):
        if i < 16:
            f = d ^ (b & (c ^ d))
            g = i
        elif i < 32:
            f = c ^ (d & (b ^ c))
            g = (5 * i + 1) & 15
        elif i < 48:
            f = b ^ c ^ d
            g = (3 * i + 5) & 15
        else:
            f = c ^ (b | ~d)
            g = (7 * i) & 15
        t = a + f + MD5_SINES[i] + words[g]
        s = MD5_SHIFTS[((i >> 4) << 2) | (i & 3)]
        a = d
        d = c
        c = b
        b = b + ((t << s) | (t >> (32 - s)))
    state[0] += a
    state[1] += b
    state[2] += c
    state[3] += d


cdef void _md5(const unsigned char* data, Py_ssize_t length, unsigned char* digest) noexcept nogil:
    """MD5 (RFC 1321). It is a hash of keys here, not a protection against attacks."""
    cdef uint32_t state[4]
    cdef unsigned char tail[128]
    cdef Py_ssize_t whole = length & ~63, rest = length - whole, padded, i
    cdef uint64_t bits = <uint64_t>length << 3
    state[0] = 0x67452301
    state[1] = 0xEFCDAB89
    state[2] = 0x98BADCFE
    state[3] = 0x10325476
    for i in range(0, whole, 64):
        _md5_block(state, data + i)
    memset(tail, 0, 128)
    memcpy(tail, data + whole, rest)
    tail[rest] = 0x80
    padded = 64 if rest < 56 else 128
    for i in range(8):
        tail[padded - 8 + i] = <unsigned char>((bits >> (8 * i)) & 255)
    _md5_block(state, tail)
    if padded == 128:
        _md5_block(state, tail + 64)
    for i in range(16):
        digest[i] = <unsigned char>((state[i >> 2] >> (8 * (i & 3))) & 255)


def key_hash(const unsigned char[::1] key):
    """The 16 bytes under which the map knows a key."""
    cdef unsigned char digest[16]
    _md5(&key[0] if key.shape[0] else NULL, key.shape[0], digest)
    return bytes(digest[:16])


cdef class SkimpyOffsetMap:
    """The last offset of each key in fixed memory: 16 bytes of MD5 and 8 bytes of offset an entry.

    Two keys with the same MD5 are one key to it (CMAP-5). ``slots`` fit into the memory,
    ``usable_slots`` of them may be filled before probing gets slow.

    Args:
        memory_bytes: how much memory to take; touched only as it fills.
        load_factor: the part of the slots that may be filled, above 0 and at most 1.
    """

    cdef unsigned char* entries
    cdef readonly int64_t slots
    cdef readonly int64_t usable_slots
    cdef readonly int64_t size
    cdef public int64_t latest_offset
    cdef readonly int64_t probes
    cdef readonly int64_t lookups

    def __cinit__(self, memory_bytes, double load_factor):
        self.slots = <int64_t>memory_bytes // MAP_ENTRY_BYTES
        self.usable_slots = <int64_t>(self.slots * load_factor)
        if not 0 < load_factor <= 1 or self.usable_slots < 2:
            raise ValueError(
                f"a key map of {memory_bytes} bytes at load factor {load_factor} holds fewer than 2 keys"
            )
        self.entries = NULL
        self.clear()

    def __dealloc__(self):
        free(self.entries)

    def clear(self):
        """Forget every key."""
        free(self.entries)
        self.entries = <unsigned char*>calloc(self.slots, MAP_ENTRY_BYTES)
        if self.entries == NULL:
            raise MemoryError(f"no {self.slots * MAP_ENTRY_BYTES} bytes for the key map")
        self.size = 0
        self.latest_offset = -1
        self.probes = 0
        self.lookups = 0

    @property
    def is_full(self):
        """Whether no further key may be put."""
        return self.size >= self.usable_slots

    def put(self, const unsigned char[::1] key, int64_t offset):
        """Remember ``offset`` as the last of ``key``; raises ValueError where the map is full."""
        cdef const unsigned char* start = &key[0] if key.shape[0] else NULL
        if not self._put(start, key.shape[0], offset):
            raise ValueError(f"the key map is full: {self.size} of {self.slots} slots are taken")
        self.latest_offset = offset

    def get(self, const unsigned char[::1] key):
        """The last offset of ``key``, -1 where it is not known."""
        cdef const unsigned char* start = &key[0] if key.shape[0] else NULL
        return self._get(start, key.shape[0])

    cdef unsigned char* _find(self, const unsigned char* hash_bytes) noexcept nogil:
        """The entry of a hash, or the empty one where it belongs; NULL if the map is full."""
        cdef int64_t attempt, slot = 0
        cdef const unsigned char* window
        cdef unsigned char* entry
        self.lookups += 1
        for attempt in range(self.slots + HASH_WINDOWS):
            self.probes += 1
            if attempt < HASH_WINDOWS:
                window = hash_bytes + attempt
                slot = (
                    (<uint32_t>window[0] << 24) | (<uint32_t>window[1] << 16)
                    | (<uint32_t>window[2] << 8) | <uint32_t>window[3]
                ) & 0x7FFFFFFF
                slot %= self.slots
            else:
                slot = slot + 1 if slot + 1 < self.slots else 0
            entry = self.entries + slot * MAP_ENTRY_BYTES
            if memcmp(entry, hash_bytes, KEY_HASH_BYTES) == 0 or _is_empty(entry):
                return entry
        return NULL

    cdef bint _put(self, const unsigned char* key, Py_ssize_t length, int64_t offset) noexcept nogil:
        cdef unsigned char hash_bytes[16]
        cdef unsigned char* entry
        _md5(key, length, hash_bytes)
        entry = self._find(hash_bytes)
        if entry == NULL:
            return False
        if _is_empty(entry):
            memcpy(entry, hash_bytes, KEY_HASH_BYTES)
            self.size += 1
        memcpy(entry + KEY_HASH_BYTES, &offset, 8)
        return True

    cdef int64_t _get(self, const unsigned char* key, Py_ssize_t length) noexcept nogil:
        cdef unsigned char hash_bytes[16]
        cdef unsigned char* entry
        cdef int64_t offset
        _md5(key, length, hash_bytes)
        entry = self._find(hash_bytes)
        if entry == NULL or _is_empty(entry):
            return -1
        memcpy(&offset, entry + KEY_HASH_BYTES, 8)
        return offset


cdef inline bint _is_empty(const unsigned char* entry) noexcept nogil:
    cdef uint64_t words[3]
    memcpy(words, entry, MAP_ENTRY_BYTES)
    return (words[0] | words[1] | words[2]) == 0


cdef struct FilterResult:
    int64_t total
    int64_t kept
    int64_t invalid  # without a key where the map reaches
    bint keeps_tombstones
    int64_t first_timestamp  # of the records that stay
    int64_t max_timestamp


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
    unsigned char[::1] out, Py_ssize_t written, int64_t now_ms, int64_t horizon_ms,
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


def index_batches(
    const unsigned char[::1] data, Py_ssize_t end, int64_t file_position, int64_t interval_bytes,
    int64_t bytes_since_entry, int64_t max_timestamp, int64_t offset_of_max_timestamp
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
