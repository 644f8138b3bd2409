"""Compaction in numbers."""

from dataclasses import replace
from pathlib import Path

from seglog.broker.cleaning.counters import CleanerCounters
from seglog.broker.monitoring.cleaner_families import cleaner_families
from seglog.broker.storage.cleaner.candidates import CleanableLog, look_at
from seglog.broker.storage.log.log import Log
from seglog.protocol.types import TopicPartition
from support.log_builder import KEEP, NOW_MS, PARTITION, append, flush_log, open_log

COMPACTED = replace(KEEP, cleanup_policy=frozenset({"compact"}), max_compaction_lag_ms=10_000)


class Figures:
    """What a cleaner shows."""

    def __init__(self) -> None:
        self.counters = CleanerCounters(passes=3, failures=1, records_without_key=7)
        self.uncleanable: dict[TopicPartition, str] = {}

    def look_at(self, log: Log) -> CleanableLog:
        return look_at(log, None, NOW_MS + 15_000)


def values(figures: Figures, logs: list[Log], **options: bool) -> dict[tuple[str, ...], object]:
    return {
        (family.name, *labels): value
        for family in cleaner_families(figures, logs, **options)
        for labels, value in family.samples
    }


def test_overdue_or_uncleanable_log_is_not_seen(tmp_path: Path) -> None:
    """C024, CLN-8: the longest overdue lag, and the reason of a log that was given up."""
    log = open_log(tmp_path / "log", COMPACTED)
    append(log)
    log.roll(NOW_MS)
    flush_log(log)  # what is not on disk is left alone
    figures = Figures()
    found = values(figures, [log])
    assert found[("kafka_log_logcleaner_max_compaction_delay_secs",)] == 5
    assert found[("kafka_log_logcleanermanager_max_dirty_percent",)] == 100
    assert found[("kafka_log_logcleanermanager_uncleanable_partitions_count",)] == 0
    assert found[("seglog_cleaner_records_without_key",)] == 7
    assert found[("seglog_log_dirty_ratio", "flights", "0")] == 1
    assert found[("seglog_log_compaction_overdue_seconds", "flights", "0")] == 5
    figures.uncleanable[PARTITION] = "rotten"
    found = values(figures, [log])
    assert found[("kafka_log_logcleanermanager_uncleanable_partitions_count",)] == 1
    assert found[("kafka_log_logcleanermanager_uncleanable_bytes",)] == log.segment_bytes_total
    assert found[("seglog_log_uncleanable", "flights", "0", "rotten")] == 1


def test_logs_that_are_not_compacted_get_series(tmp_path: Path) -> None:
    """And without per-partition detail no log does."""
    plain = open_log(tmp_path / "log", KEEP)
    compacted = open_log(tmp_path / "compacted", COMPACTED)
    assert not [key for key in values(Figures(), [plain]) if len(key) > 1]
    assert not [key for key in values(Figures(), [compacted], per_partition=False) if len(key) > 1]
