"""Metrics of log compaction: how dirty the logs are, what the cleaner did, and what it gave up.

The first ones have the names of Kafka's ``LogCleaner`` and ``LogCleanerManager``.
"""

from collections.abc import Iterable, Mapping

from seglog.broker.cleaning.counters import CleanerCounters
from seglog.broker.cleaning.log_cleaner import LogCleaner
from seglog.broker.monitoring.families import Family, counter, gauge
from seglog.broker.storage.cleaner.candidates import CleanableLog
from seglog.broker.storage.log.log import Log
from seglog.protocol.types import TopicPartition


def cleaner_families(
    cleaner: LogCleaner, logs: Iterable[Log], *, per_partition: bool = True
) -> list[Family]:
    """Compaction in numbers.

    Args:
        logs: all logs; those that are not compacted are left out.
        per_partition: whether every compacted log gets series of its own.
    """
    looked_at = [
        (log, cleaner.look_at(log))
        for log in logs
        if log.config.compacts or log.topic_partition in cleaner.uncleanable
    ]
    dirtiest = max((cleanable.ratio for _, cleanable in looked_at), default=0.0)
    most_overdue_ms = max((cleanable.overdue_ms for _, cleanable in looked_at), default=0)
    stuck = [
        (log, cleanable) for log, cleanable in looked_at
        if log.topic_partition in cleaner.uncleanable
    ]  # fmt: skip
    families = [
        gauge(
            "kafka_log_logcleanermanager_max_dirty_percent", "Dirty share of the dirtiest log."
        ).add(round(100 * dirtiest)),
        gauge(
            "kafka_log_logcleanermanager_uncleanable_partitions_count",
            "Logs that failed to be cleaned and are left alone.",
        ).add(len(stuck)),
        gauge("kafka_log_logcleanermanager_uncleanable_bytes", "Dirty bytes in them.").add(
            sum(cleanable.cleanable_bytes for _, cleanable in stuck)
        ),
        gauge(
            "kafka_log_logcleaner_max_compaction_delay_secs",
            "By how much the longest waiting log has passed max.compaction.lag.ms.",
        ).add(most_overdue_ms / 1000),
        gauge("kafka_log_logcleaner_max_clean_time_secs", "Duration of the last pass.").add(
            cleaner.counters.last_pass_seconds
        ),
        *_counter_families(cleaner.counters),
        _reasons(cleaner.uncleanable),
    ]
    if per_partition:
        families += _log_families(looked_at)
    return families


def _counter_families(counters: CleanerCounters) -> list[Family]:
    return [
        counter("seglog_cleaner_passes", "Logs cleaned.").add(counters.passes),
        counter("seglog_cleaner_failures", "Passes that failed.").add(counters.failures),
        counter("seglog_cleaner_mapped_bytes", "Bytes read to build key maps.").add(
            counters.bytes_mapped
        ),
        counter("seglog_cleaner_read_bytes", "Bytes read to be copied.").add(counters.bytes_read),
        counter("seglog_cleaner_written_bytes", "Bytes written.").add(counters.bytes_written),
        counter(
            "seglog_cleaner_records_without_key", "Records dropped because they have no key."
        ).add(counters.records_without_key),
    ]


def _reasons(uncleanable: Mapping[TopicPartition, str]) -> Family:
    family = gauge(
        "seglog_log_uncleanable", "1, with the reason as a label.", "topic", "partition", "reason"
    )
    for (topic, partition), reason in uncleanable.items():
        family.add(1, topic, str(partition), reason)
    return family


def _log_families(looked_at: Iterable[tuple[Log, CleanableLog]]) -> list[Family]:
    labels = ("topic", "partition")
    ratio = gauge("seglog_log_dirty_ratio", "Dirty share of what may be cleaned.", *labels)
    overdue = gauge(
        "seglog_log_compaction_overdue_seconds", "Time past max.compaction.lag.ms.", *labels
    )
    for log, cleanable in looked_at:
        name = (log.topic_partition.topic, str(log.topic_partition.partition))
        ratio.add(cleanable.ratio, *name)
        overdue.add(cleanable.overdue_ms / 1000, *name)
    return [ratio, overdue]
