"""Metrics of topics, partitions, logs, requests that wait, and data directories.

Names and meanings are those of Kafka's exporter where it has one, so that dashboards which exist
show something; the others begin with ``seglog_``.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from seglog.broker.monitoring.families import HISTOGRAM, Family, counter, gauge, histogram_of
from seglog.broker.partition.counters import BrokerCounters, TopicCounters
from seglog.broker.partition.partition import Partition
from seglog.broker.runtime.line_output import STANDARD_ERROR

_TOPIC_METRICS: Final = (
    ("messagesin", "messages_in", "Records appended."),
    ("bytesin", "bytes_in", "Bytes of appended batches."),
    ("bytesout", "bytes_out", "Bytes of batches handed to consumers."),
    ("totalproducerequests", "produce_requests", "Partition entries of produce requests."),
    ("totalfetchrequests", "fetch_requests", "Partition entries of fetch requests."),
)
_TOPIC_FAULTS: Final = (
    ("bytesrejected", "bytes_rejected", "Bytes of refused batches."),
    ("failedproducerequests", "failed_produce_requests", "Of those, failed ones."),
    ("failedfetchrequests", "failed_fetch_requests", "Of those, failed ones."),
    ("invalidmagicnumberrecords", "invalid_records", "Batches refused for their contents."),
)
_OWN_TOPIC_FAULTS: Final = (
    ("seglog_future_records", "future_records", "Records stamped later than the broker's clock."),
    ("seglog_expired_records", "expired_records", "Records older than retention on arrival."),
)
_BROKER_METRICS: Final = (
    ("seglog_segment_rolls", "segment_rolls", "Segments closed, and new ones begun."),
    ("seglog_flushes", "flushes", "Syncs of logs."),
    ("seglog_flush_failures", "flush_failures", "Syncs that failed."),
    ("seglog_group_commits", "group_commits", "Syncs that acknowledgements waited for."),
    ("seglog_grouped_appends", "grouped_appends", "Appends that waited for such a sync."),
    ("seglog_cold_fetches", "cold_fetches", "Fetch requests that had to wait for a disk."),
    ("seglog_damaged_reads", "damaged_reads", "Reads that met damaged records."),
    ("seglog_parked_fetches", "parked_fetches", "Fetch requests that had to wait for data."),
    ("seglog_expired_fetches", "expired_fetches", "Of those, the ones whose time was up."),
    (
        "seglog_unacknowledged_failures",
        "unacknowledged_failures",
        "Appends with acks=0 that failed.",
    ),
    (
        "kafka_server_fetchsessioncache_incrementalfetchsessionevictions",
        "fetch_session_evictions",
        "Fetch sessions that had to make room for others.",
    ),
)
_BROKER_GAUGES: Final = (
    (
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        "fetch_sessions",
        "Fetch sessions.",
    ),
    (
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
        "fetch_session_partitions",
        "Partitions in fetch sessions.",
    ),
)

_IO_FILE: Final = "/proc/self/io"
_DISK_FIGURES: Final = (
    ("read_bytes", "linux_disk_read_bytes", "Bytes that disks had to read for the process."),
    ("write_bytes", "linux_disk_write_bytes", "Bytes that the process has made disks write."),
)


class LogDirFigures(NamedTuple):
    """The figures of one data directory; None where it is offline."""

    path: str
    total_bytes: int | None
    free_bytes: int | None
    refuses_records: bool = False


def topic_families(counters: BrokerCounters, *, per_topic: bool = True) -> list[Family]:
    """What went in and out, by topic and in all.

    Faults are shown for the topics that have some: for all others they would be thousands of zeros.
    """
    families = []
    prefix = "kafka_server_brokertopicmetrics_"
    named = [(prefix + n, a, d, False) for n, a, d in _TOPIC_METRICS]
    named += [(prefix + n, a, d, True) for n, a, d in _TOPIC_FAULTS]
    named += [(n, a, d, True) for n, a, d in _OWN_TOPIC_FAULTS]
    for name, attribute, documentation, is_fault in named:
        family = counter(name, documentation, "topic")
        total = getattr(counters.deleted_topics, attribute)
        for topic, topic_counters in counters.topics():
            value = _value(topic_counters, attribute)
            total += value
            if per_topic and (value or not is_fault):
                family.add(value, topic)
        # The total of all topics is the series without the label, as in Kafka.
        family.samples.append(((), total))
        families.append(family)
    return families


def _value(counters: TopicCounters, attribute: str) -> int:
    value: int = getattr(counters, attribute)
    return value


def broker_counter_families(counters: BrokerCounters) -> list[Family]:
    """What the broker has counted besides."""
    return [
        make(name, documentation).add(getattr(counters, attribute))
        for make, figures in ((counter, _BROKER_METRICS), (gauge, _BROKER_GAUGES))
        for name, attribute, documentation in figures
    ]


def partition_families(partitions: Iterable[Partition]) -> list[Family]:
    """Sizes and offsets of every partition."""
    labels = ("topic", "partition")
    size = gauge("kafka_log_log_size", "Bytes of all segments.", *labels)
    start = gauge("kafka_log_log_logstartoffset", "First offset.", *labels)
    end = gauge("kafka_log_log_logendoffset", "Next offset to be written.", *labels)
    segments = gauge("kafka_log_log_numlogsegments", "Segments.", *labels)
    current = gauge("kafka_topic_partition_current_offset", "High watermark.", *labels)
    oldest = gauge("kafka_topic_partition_oldest_offset", "First offset.", *labels)
    for partition in partitions:
        log = partition.log
        name = (log.topic_partition.topic, str(log.topic_partition.partition))
        offsets = log.offsets
        size.samples.append((name, log.segment_bytes_total))
        start.samples.append((name, offsets.log_start))
        end.samples.append((name, offsets.log_end))
        segments.samples.append((name, len(log.segments)))
        current.samples.append((name, offsets.high_watermark))
        oldest.samples.append((name, offsets.log_start))
    return [size, start, end, segments, current, oldest]


def waiting_families(counters: BrokerCounters) -> list[Family]:
    """Requests that wait, and how long syncs take."""
    waiting = gauge(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "Requests that wait: for data, or for their acknowledgement.",
        "delayedOperation",
    )
    waiting.add(counters.waiting_fetches, "Fetch").add(counters.waiting_produces, "Produce")
    durations = counters.flush_durations
    quantiles = gauge(
        "kafka_log_logflushstats_logflushrateandtimems",
        "Time of a sync, estimated from the histogram.",
        "quantile",
    )
    for quantile, milliseconds in durations.quantiles_ms():
        quantiles.add(milliseconds, quantile)
    seconds = Family("seglog_flush_seconds", HISTOGRAM, "Time of a sync.")
    validation = gauge(
        "seglog_validation_reserved_bytes",
        "Memory that batches which workers inflate and check may take now.",
    ).add(counters.validation_bytes)
    return [waiting, quantiles, seconds.add(histogram_of(durations)), validation]


def dropped_line_families() -> list[Family]:
    """Lines of the log that were not read in time."""
    return [
        counter("seglog_log_lines_dropped", "Lines of the log that were not written.").add(
            STANDARD_ERROR.dropped_lines
        )
    ]


def disk_families(io_file: str = _IO_FILE) -> list[Family]:
    """The bytes that went past the page cache; no series where the system does not tell them."""
    try:
        with open(io_file, encoding="ascii") as file:
            text = file.read()
    except OSError:
        text = ""
    figures = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    families = []
    for key, name, documentation in _DISK_FIGURES:
        family = gauge(f"kafka_server_kafkaserver_{name}", documentation)
        if key in figures:
            family.add(int(figures[key]))
        families.append(family)
    return families


def log_dir_families(log_dirs: Iterable[LogDirFigures]) -> list[Family]:
    """Space of the data directories, and how many have failed."""
    offline = 0
    total = gauge("seglog_log_dir_total_bytes", "Size of the file system.", "path")
    free = gauge("seglog_log_dir_free_bytes", "Free for the broker.", "path")
    refusing = gauge("seglog_log_dir_refuses_records", "Whether it takes no records.", "path")
    for log_dir in log_dirs:
        if log_dir.total_bytes is None or log_dir.free_bytes is None:
            offline += 1
        else:
            total.add(log_dir.total_bytes, log_dir.path)
            free.add(log_dir.free_bytes, log_dir.path)
            refusing.add(int(log_dir.refuses_records), log_dir.path)
    failed = gauge(
        "kafka_log_logmanager_offlinelogdirectorycount", "Data directories that failed."
    ).add(offline)
    return [failed, total, free, refusing]
