"""Which partition a key belongs to: as Kafka's default partitioner decides."""

from collections.abc import Iterable

from seglog.protocol.records import kernel
from seglog.protocol.types import Buffer


def murmur2(key: Buffer) -> int:
    """Return the hash of a key, a signed int32."""
    return kernel.murmur2(key)


def partition_for_key(key: Buffer, partition_count: int) -> int:
    """Return the partition of a key: the hash without its sign bit, modulo the partitions."""
    return (kernel.murmur2(key) & 0x7FFFFFFF) % partition_count


def partition_keys(keys: Iterable[Buffer | None], partition_count: int) -> list[int]:
    """Return the partition of each key, -1 where there is no key."""
    return kernel.partition_keys(keys, partition_count)
