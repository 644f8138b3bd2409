# Placing keys in partitions. The twins are in records/_pure.py.

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
