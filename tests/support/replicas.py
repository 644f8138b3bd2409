"""Replicas beside the broker that a test has, as a leader knows them."""


class LaggingReplicas:
    """Two replicas, one of which has everything below ``follower_end``.

    Args:
        in_sync_count: how many of them have kept up.
    """

    def __init__(self, in_sync_count: int = 2) -> None:
        self.in_sync_count = in_sync_count
        self.follower_end = 0
        self.replica_ids = [0, 1]
        self.in_sync_ids = self.replica_ids[:in_sync_count]

    def high_watermark(self, log_end_offset: int) -> int:
        """What both have, where both count."""
        if self.in_sync_count == 1:
            return log_end_offset
        return min(self.follower_end, log_end_offset)
