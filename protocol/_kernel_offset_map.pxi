# The key-offset map of log compaction, and the MD5 by which it knows a key.
# The statements CMAP, KEEP and SEG that the comments cite are those of docs/log-cleaner.md; the
# twins are in records/_pure_compaction.py.

from libc.math cimport fabs, floor, sin
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memset

cdef enum:
    KEY_HASH_BYTES = 16
    MAP_ENTRY_BYTES = 24
    HASH_WINDOWS = 13  # 4-byte windows that start inside a 16-byte hash


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
