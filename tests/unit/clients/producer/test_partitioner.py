"""Which partition a record goes to."""

from collections import Counter

from seglog.clients.producer.partitioner import StickyPartitioner, partition_for_key


def test_keys_go_where_kafkas_clients_send_them():
    """The hashes are those of Kafka's own tests of murmur2."""
    hashes = {b"21": -973932308, b"foobar": -790332482, b"abc": 479470107}
    for key, value in hashes.items():
        assert partition_for_key(key, 7) == (value & 0x7FFFFFFF) % 7


def test_records_without_a_key_stay_together_until_a_batch_is_filled():
    sticky = StickyPartitioner(100, randrange=lambda count: count - 1)
    assert [sticky.partition_for(40, 3) for _ in range(8)] == [2, 2, 0, 0, 1, 1, 2, 2]


def test_every_partition_gets_the_same_share():
    sticky = StickyPartitioner(1000)
    shares = Counter(sticky.partition_for(100, 4) for _ in range(4 * 1000))
    assert set(shares.values()) == {1000}


def test_a_record_larger_than_a_batch_gets_a_turn_of_its_own():
    sticky = StickyPartitioner(100, randrange=lambda _: 0)
    assert [sticky.partition_for(size, 3) for size in (500, 10, 500, 10)] == [0, 1, 2, 0]


def test_a_topic_that_has_shrunk_does_not_get_records_for_a_lost_partition():
    sticky = StickyPartitioner(100, randrange=lambda count: count - 1)
    assert sticky.partition_for(10, 5) == 4
    assert sticky.partition_for(10, 2) in {0, 1}
