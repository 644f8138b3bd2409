"""Keys of the storage layer: segments, retention, directories, flushing, compaction.

Names, defaults and bounds are Apache Kafka's; deviations: ``log.segment.bytes`` may be as small as
Kafka 3 allowed, and some keys are not Kafka's, which their texts say.
"""

from dataclasses import dataclass

from seglog.config.keys import (
    ValueType,
    boolean,
    double,
    integer,
    long_integer,
    parsed,
    string,
    string_list,
)
from seglog.config.values import INT64_MAX, MAX_DOUBLE, parse_integer, parse_paths

CLEANUP_POLICIES = ("delete", "compact")
COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")

GZIP_LEVEL_MAX = 9
SEGMENT_BYTES_MIN = 14
"""Kafka 3's floor: the size of the smallest message of the oldest format."""


def _parse_gzip_level(text: str) -> int:
    level = parse_integer(text)
    if level != -1 and not 1 <= level <= GZIP_LEVEL_MAX:
        raise ValueError("it is out of range")
    return level


@dataclass(frozen=True, init=False, repr=False, eq=False)
class TopicDefaults:
    """Defaults of topics."""

    log_cleanup_policy: tuple[str, ...] = string_list(
        ("delete",),
        "Ways to remove old data: delete (by age, size and start offset), compact (keep the latest "
        "record of each key), both, or none when empty.",
        choices=CLEANUP_POLICIES,
        dynamic=True,
    )
    compression_type: str = string(
        "producer",
        "Codec of stored batches; producer keeps the codec of the producer.",
        choices=COMPRESSION_TYPES,
        dynamic=True,
    )
    compression_gzip_level: int = parsed(
        -1,
        "Level when a batch is compressed with gzip; -1 is the library's.",
        value_type=ValueType.INT,
        parse=_parse_gzip_level,
        allowed="-1 or a whole number from 1 to 9",
        dynamic=True,
    )
    compression_lz4_level: int = integer(
        9, "Level when a batch is compressed with lz4.", low=1, high=17, dynamic=True
    )
    compression_zstd_level: int = integer(
        3, "Level when a batch is compressed with zstd.", low=-131072, high=22, dynamic=True
    )
    log_cleaner_delete_retention_ms: int = long_integer(
        86_400_000,
        "How long a tombstone or transaction marker outlives the pass that first kept it.",
        low=0,
        dynamic=True,
    )
    log_segment_delete_delay_ms: int = long_integer(
        60_000,
        "Time between the renaming of a file to .deleted and its removal.",
        low=0,
        dynamic=True,
    )
    log_flush_interval_messages: int = long_integer(
        INT64_MAX,
        "Sync to disk after so many records. With 1 an acknowledgement means on disk.",
        low=1,
        dynamic=True,
    )
    log_flush_interval_ms: int | None = long_integer(
        None,
        "Sync records to disk after this time; not set: as log.flush.scheduler.interval.ms.",
        low=0,
        dynamic=True,
    )
    log_index_interval_bytes: int = integer(
        4096, "Log bytes between two entries of the offset index.", low=0, dynamic=True
    )
    log_cleaner_max_compaction_lag_ms: int = long_integer(
        INT64_MAX,
        "Age at which a record must become eligible for compaction, however clean the log is.",
        low=1,
        dynamic=True,
    )
    message_max_bytes: int = integer(
        1_048_588, "Largest record batch that is accepted, as stored.", low=0, dynamic=True
    )
    max_decompressed_message_bytes: int = integer(
        64 * 1024 * 1024,
        "Largest inflated size of the records of one compressed batch; a larger batch is refused. "
        "Kafka's default is 2147483639, for a record.",
        low=0,
        dynamic=True,
    )
    log_message_timestamp_type: str = string(
        "CreateTime",
        "Clock that stamps records: the producer's or, at the append, the broker's.",
        choices=TIMESTAMP_TYPES,
        dynamic=True,
    )
    log_message_timestamp_before_max_ms: int = long_integer(
        INT64_MAX,
        "How far in the past a producer's timestamp may lie.",
        low=0,
        dynamic=True,
    )
    log_message_timestamp_after_max_ms: int = long_integer(
        3_600_000,
        "How far in the future a producer's timestamp may lie.",
        low=0,
        dynamic=True,
    )
    log_cleaner_min_cleanable_ratio: float = double(
        0.5,
        "Share of not yet compacted bytes that makes a log worth a pass.",
        high=1.0,
        dynamic=True,
    )
    log_cleaner_min_compaction_lag_ms: int = long_integer(
        0, "Age that a record must reach before it may be compacted away.", low=0, dynamic=True
    )
    min_insync_replicas: int = integer(
        1, "Replicas that must have a batch before acks=all is answered.", low=1, dynamic=True
    )
    log_preallocate: bool = boolean(
        False, "Give a new segment file its full size on disk at once.", dynamic=True
    )
    log_retention_bytes: int = long_integer(
        -1, "Bytes kept of each partition; a negative value is no limit.", dynamic=True
    )
    log_retention_bytes_total: int = long_integer(
        -1,
        "Bytes kept of a topic over all its partitions, the oldest segments going first; -1 is no "
        "limit. Kafka has no such key.",
        low=-1,
        dynamic=True,
    )
    log_retention_ms: int | None = long_integer(
        None, "Age kept; -1 is no limit; wins over minutes and hours.", low=-1, dynamic=True
    )
    log_retention_minutes: int | None = integer(
        None, "Age kept, in minutes; wins over hours. A negative value is no limit."
    )
    log_retention_hours: int = integer(168, "Age kept, in hours. A negative value is no limit.")
    log_segment_bytes: int = integer(
        1_073_741_824,
        "Size at which a segment is closed and a new one begun.",
        low=SEGMENT_BYTES_MIN,
        dynamic=True,
    )
    log_index_size_max_bytes: int = integer(
        10_485_760, "Size of a new index file.", low=4, dynamic=True
    )
    log_roll_jitter_ms: int | None = long_integer(
        None,
        "A random time up to this is taken off log.roll.ms, so that logs do not all roll at once.",
        low=0,
        dynamic=True,
    )
    log_roll_jitter_hours: int = integer(0, "As log.roll.jitter.ms, in hours.", low=0)
    log_roll_ms: int | None = long_integer(
        None,
        "Age, by its records' timestamps, at which a segment is closed; wins over hours.",
        low=1,
        dynamic=True,
    )
    log_roll_hours: int = integer(168, "As log.roll.ms, in hours.", low=1)
    log_roll_min_interval_ms: int = long_integer(
        1000,
        "Least time by the broker's clock between two rolls of a log for age, so that odd "
        "timestamps cannot make a segment of every batch. Kafka has no such key.",
        low=0,
        dynamic=True,
    )
    unclean_leader_election_enable: bool = boolean(
        False, "Whether a replica that lags may lead when no other is left.", dynamic=True
    )
    log_local_retention_ms: int = long_integer(
        -2,
        "Age kept on local disk of a tiered topic; -2 is as log.retention.ms.",
        low=-2,
        dynamic=True,
    )
    log_local_retention_bytes: int = long_integer(
        -2,
        "Bytes kept on local disk of a tiered topic; -2 is as log.retention.bytes.",
        low=-2,
        dynamic=True,
    )
    log_remote_copy_lag_ms: int = long_integer(
        0, "Age from which a segment of a tiered topic is uploaded.", low=-1, dynamic=True
    )
    log_remote_copy_lag_bytes: int = long_integer(
        -1, "Bytes after which a segment of a tiered topic is uploaded.", low=-1, dynamic=True
    )


@dataclass(frozen=True, init=False, repr=False, eq=False)
class StorageSettings:
    """Directories, background work on logs, and topics by default."""

    log_dirs: tuple[str, ...] = string_list(
        ("./seglog-data",), "Data directories.", may_be_empty=False, split=parse_paths
    )
    log_dir: str | None = string(None, "The one data directory, where log.dirs is not set.")
    cordoned_log_dirs: tuple[str, ...] = string_list(
        (),
        "Data directories that get no new partitions; * is all.",
        dynamic=True,
        split=parse_paths,
    )
    log_dir_bytes_max: int = long_integer(
        -1,
        "Bytes of segments a data directory may hold; above it the oldest deletable segments go, "
        "then produce is refused. -1 is no limit. Kafka has no such key.",
        low=-1,
        dynamic=True,
    )
    log_dir_free_bytes_min: int = long_integer(
        0,
        "Free space a data directory's file system must keep; below it the oldest deletable "
        "segments go, then produce is refused. 0 is off. Kafka has no such key.",
        low=0,
        dynamic=True,
    )
    num_recovery_threads_per_data_dir: int = integer(
        2,
        "Threads for each data directory that load logs at start and flush them at stop.",
        low=1,
        dynamic=True,
    )
    log_initial_task_delay_ms: int = long_integer(
        30_000, "Time from the start to the first run of the background tasks.", low=0
    )
    log_retention_check_interval_ms: int = long_integer(
        300_000, "Time between two retention passes.", low=1
    )
    log_flush_scheduler_interval_ms: int = long_integer(
        INT64_MAX,
        "Time between two checks for logs whose flush.ms has passed. Its default is also the "
        "default of log.flush.interval.ms.",
        low=1,
    )
    log_flush_offset_checkpoint_interval_ms: int = integer(
        60_000, "Time between two writes of the recovery points.", low=0
    )
    log_flush_start_offset_checkpoint_interval_ms: int = integer(
        60_000, "Time between two writes of the log start offsets.", low=0
    )
    log_dir_failure_timeout_ms: int = long_integer(
        30_000, "How long a failed data directory may stay unreported.", low=1
    )
    num_partitions: int = integer(
        1, "Partitions of a topic that is created without a number.", low=1
    )
    default_replication_factor: int = integer(
        1, "Replicas of a topic that is created without a number.", low=1
    )
    auto_create_topics_enable: bool = boolean(
        True, "Create a topic when a client that wants to write asks for it."
    )
    delete_topic_enable: bool = boolean(True, "Allow clients to delete topics.")


@dataclass(frozen=True, init=False, repr=False, eq=False)
class CleanerSettings:
    """Log compaction."""

    log_cleaner_enable: bool = boolean(True, "Run the log cleaner.")
    log_cleaner_threads: int = integer(
        1,
        "Cleaner threads; a change at run time may at most halve or double them.",
        low=0,
        dynamic=True,
    )
    log_cleaner_io_max_bytes_per_second: float = double(
        MAX_DOUBLE,
        "Bytes a second that all cleaner threads together may read and write.",
        low=1.0,
        dynamic=True,
    )
    log_cleaner_dedupe_buffer_size: int = long_integer(
        134_217_728, "Memory for key maps, shared by the cleaner threads.", low=0, dynamic=True
    )
    log_cleaner_io_buffer_size: int = integer(
        524_288,
        "Memory for reading and writing, shared by the cleaner threads.",
        low=0,
        dynamic=True,
    )
    log_cleaner_io_buffer_load_factor: float = double(
        0.9, "Share of its slots to which a key map is filled.", high=1.0, dynamic=True
    )
    log_cleaner_backoff_ms: int = long_integer(
        15_000, "How long a cleaner thread rests when no log needs it.", low=0, dynamic=True
    )
