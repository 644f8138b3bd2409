"""Plain numbers that the hot paths add to; a collector reads them when metrics are scraped.

Everything here only grows, but for the sessions and waits of the moment. One owner, the event-loop
thread, so an increment is an addition and nothing else. Listeners count durations, sizes of
connections and the like; the figures of a log come from the log itself.
"""

from collections.abc import ItemsView

from seglog.broker.runtime.durations import Durations


class TopicCounters:
    """What went in and out of one topic.

    Attributes:
        messages_in: records appended.
        bytes_in: bytes of appended batches.
        bytes_out: bytes of batches handed to consumers.
        bytes_rejected: bytes of batches that were refused.
        produce_requests: partition entries of produce requests, failed ones too.
        failed_produce_requests: partition entries that were answered with an error.
        fetch_requests: partition entries of answered fetch requests, failed ones too.
        failed_fetch_requests: partition entries that were answered with an error.
        invalid_records: batches refused for their contents (checksum, structure, timestamps).
        future_records: records of batches whose greatest timestamp lay ahead of the broker's clock;
            retention by time keeps them longer than expected.
        expired_records: records of batches that were past ``retention.ms`` when they arrived, for
            example because their timestamps are in seconds; the next retention pass may take them.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "expired_records",
        "failed_fetch_requests",
        "failed_produce_requests",
        "fetch_requests",
        "future_records",
        "invalid_records",
        "messages_in",
        "produce_requests",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.produce_requests = 0
        self.failed_produce_requests = 0
        self.fetch_requests = 0
        self.failed_fetch_requests = 0
        self.invalid_records = 0
        self.future_records = 0
        self.expired_records = 0


class BrokerCounters:
    """All counters of a broker.

    Attributes:
        segment_rolls: segments closed because of their size, age or indexes, or on request.
        group_commits: syncs that acknowledgements waited for.
        grouped_appends: appends that waited for one of those syncs; divided by ``group_commits`` it
            is the size of the average group.
        flushes: syncs of all kinds that succeeded.
        flush_failures: syncs that failed.
        flush_durations: how long the successful ones took, without the wait for a thread.
        unacknowledged_failures: appends with acks=0 that failed; they have no answer.
        parked_fetches: fetch requests that had to wait for data.
        cold_fetches: fetch requests that had to wait for a disk.
        damaged_reads: reads of partitions that met damaged records.
        expired_fetches: of those, the ones that were answered because their time was up.
        fetch_session_evictions: fetch sessions that had to make room for others.
        fetch_sessions: how many there are now.
        fetch_session_partitions: partitions that they remember now.
        waiting_fetches: fetch requests that wait for data now.
        waiting_produces: produce requests that wait for their acknowledgement now.
        validation_bytes: memory reserved for batches that workers inflate and check now.
        deleted_topics: what went in and out of topics that exist no more; the totals of all topics
            must not fall when one is deleted.
    """

    __slots__ = (
        "_topics",
        "cold_fetches",
        "damaged_reads",
        "deleted_topics",
        "expired_fetches",
        "fetch_session_evictions",
        "fetch_session_partitions",
        "fetch_sessions",
        "flush_durations",
        "flush_failures",
        "flushes",
        "group_commits",
        "grouped_appends",
        "parked_fetches",
        "segment_rolls",
        "unacknowledged_failures",
        "validation_bytes",
        "waiting_fetches",
        "waiting_produces",
    )

    def __init__(self) -> None:
        self._topics: dict[str, TopicCounters] = {}
        self.deleted_topics = TopicCounters()
        self.segment_rolls = 0
        self.group_commits = 0
        self.grouped_appends = 0
        self.flushes = 0
        self.flush_failures = 0
        self.flush_durations = Durations()
        self.unacknowledged_failures = 0
        self.cold_fetches = 0
        self.damaged_reads = 0
        self.parked_fetches = 0
        self.expired_fetches = 0
        self.fetch_session_evictions = 0
        self.fetch_sessions = 0
        self.fetch_session_partitions = 0
        self.waiting_fetches = 0
        self.waiting_produces = 0
        self.validation_bytes = 0

    def topic(self, name: str) -> TopicCounters:
        """The counters of one topic, made on first use."""
        counters = self._topics.get(name)
        if counters is None:
            counters = self._topics[name] = TopicCounters()
        return counters

    def forget_topic(self, name: str) -> None:
        """Drop the counters of a deleted topic, so that its series end."""
        counters = self._topics.pop(name, None)
        if counters is not None:
            for attribute in TopicCounters.__slots__:
                total = getattr(self.deleted_topics, attribute) + getattr(counters, attribute)
                setattr(self.deleted_topics, attribute, total)

    def topics(self) -> ItemsView[str, TopicCounters]:
        """Every topic with its counters."""
        return self._topics.items()
