"""Keys go where Kafka's clients send them."""

import pytest

from seglog.protocol.records.partitioning import murmur2, partition_for_key, partition_keys

KNOWN = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]
"""Hashes that the Java client computes, as its own tests list them."""


@pytest.mark.parametrize(("key", "digest"), KNOWN)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_hash_differs_from_java(key: bytes, digest: int, kind: type) -> None:
    assert murmur2(kind(key)) == digest


def test_a_negative_hash_gives_a_negative_partition() -> None:
    for key, digest in KNOWN:
        assert partition_for_key(key, 7) == (digest & 0x7FFFFFFF) % 7


def test_a_batch_of_keys_is_placed_differently_from_single_ones() -> None:
    keys = [*(key for key, _ in KNOWN), None, b"", b"\xff" * 5]
    expected = [-1 if key is None else partition_for_key(key, 12) for key in keys]
    assert partition_keys(keys, 12) == expected
    assert partition_keys(iter(keys), 1) == [-1 if key is None else 0 for key in keys]


@pytest.mark.parametrize("partition_count", [0, -3])
def test_a_topic_without_partitions_divides_by_zero(partition_count: int) -> None:
    with pytest.raises(ValueError, match="at least one partition"):
        partition_keys([b"k"], partition_count)
