# CRC-32C and big-endian integers without the GIL: for batches that a kernel reads or writes whole.


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
