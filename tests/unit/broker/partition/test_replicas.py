from seglog.broker.partition.replicas import SoleReplica


def test_one_replica_has_what_is_written() -> None:
    replica = SoleReplica(7)
    assert replica.high_watermark(42) == 42
    assert (replica.replica_ids, replica.in_sync_ids, replica.in_sync_count) == ([7], [7], 1)
