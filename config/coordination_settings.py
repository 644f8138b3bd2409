"""Keys of consumer groups, transactions and replication.

Defaults are Kafka's, but for a single node: internal topics have one replica, and a new group does
not wait for further members.
"""

from dataclasses import dataclass

from seglog.config.keys import boolean, integer, long_integer, string, string_list
from seglog.config.values import INT32_MAX, INT64_MAX


@dataclass(frozen=True, init=False, repr=False, eq=False)
class GroupSettings:
    """Consumer groups and their offsets."""

    group_coordinator_rebalance_protocols: tuple[str, ...] = string_list(
        ("classic", "consumer", "streams"), "Group protocols that are served."
    )
    group_coordinator_append_linger_ms: int = integer(
        -1, "How long coordinator writes are gathered; -1 is adaptive.", low=-1
    )
    group_min_session_timeout_ms: int = integer(
        6_000, "Shortest session a member of a classic group may ask for.", low=0
    )
    group_max_session_timeout_ms: int = integer(
        1_800_000, "Longest session a member of a classic group may ask for.", low=0
    )
    group_initial_rebalance_delay_ms: int = integer(
        0, "How long a new group waits for more members; 3000 in Kafka.", low=0
    )
    group_max_size: int = integer(INT32_MAX, "Members of a classic group.", low=1)
    group_consumer_session_timeout_ms: int = integer(
        45_000, "Session of a member of a consumer group.", low=1
    )
    group_consumer_min_session_timeout_ms: int = integer(
        45_000, "Shortest session of a member of a consumer group.", low=1
    )
    group_consumer_max_session_timeout_ms: int = integer(
        60_000, "Longest session of a member of a consumer group.", low=1
    )
    group_consumer_heartbeat_interval_ms: int = integer(
        5_000, "Heartbeat interval told to members of a consumer group.", low=1
    )
    group_consumer_min_heartbeat_interval_ms: int = integer(
        5_000, "Shortest heartbeat interval of a consumer group.", low=1
    )
    group_consumer_max_heartbeat_interval_ms: int = integer(
        15_000, "Longest heartbeat interval of a consumer group.", low=1
    )
    group_consumer_max_size: int = integer(INT32_MAX, "Members of a consumer group.", low=1)
    group_consumer_assignors: tuple[str, ...] = string_list(
        ("uniform", "range"), "Assignors of the broker; the first is the default."
    )
    group_consumer_migration_policy: str = string(
        "bidirectional",
        "Which way a group may change between the classic and the consumer protocol.",
        choices=("disabled", "upgrade", "downgrade", "bidirectional"),
    )
    offsets_retention_minutes: int = integer(
        10_080, "How long the offsets of an empty group are kept.", low=1
    )
    offsets_retention_ms: int | None = long_integer(
        None,
        "The same in milliseconds; wins over offsets.retention.minutes. Not a key of Kafka's.",
        low=1,
    )
    offsets_retention_check_interval_ms: int = long_integer(
        600_000, "Time between two searches for expired offsets.", low=1
    )
    offset_metadata_max_bytes: int = integer(
        4096, "Largest text that may be committed with an offset.", low=0
    )
    offsets_commit_timeout_ms: int = integer(5_000, "How long a commit waits to be stored.", low=1)
    offsets_load_buffer_size: int = integer(
        5_242_880, "Bytes read at a time when offsets are loaded.", low=1
    )
    offsets_topic_num_partitions: int = integer(50, "Partitions of __consumer_offsets.", low=1)
    offsets_topic_replication_factor: int = integer(
        1, "Replicas of __consumer_offsets; 3 in Kafka.", low=1
    )
    offsets_topic_segment_bytes: int = integer(
        104_857_600, "Segment size of __consumer_offsets.", low=1
    )
    offsets_topic_compression_codec: int = integer(
        0, "Codec number of __consumer_offsets.", low=0, high=4
    )


@dataclass(frozen=True, init=False, repr=False, eq=False)
class TransactionSettings:
    """Transactions and producer ids."""

    transaction_max_timeout_ms: int = integer(
        900_000, "Longest timeout a transactional producer may ask for.", low=1
    )
    transactional_id_expiration_ms: int = integer(
        604_800_000, "How long an unused transactional id is remembered.", low=1
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = integer(
        10_000, "Time between two searches for transactions that took too long.", low=1
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = integer(
        3_600_000, "Time between two searches for expired transactional ids.", low=1
    )
    transaction_partition_verification_enable: bool = boolean(
        True, "Ask the coordinator before the first write of a transaction.", dynamic=True
    )
    transaction_two_phase_commit_enable: bool = boolean(
        False, "Allow transactions that an outside coordinator decides."
    )
    transaction_state_log_num_partitions: int = integer(
        50, "Partitions of __transaction_state.", low=1
    )
    transaction_state_log_replication_factor: int = integer(
        1, "Replicas of __transaction_state; 3 in Kafka.", low=1
    )
    transaction_state_log_min_isr: int = integer(
        1, "Replicas of __transaction_state that must have a write; 2 in Kafka.", low=1
    )
    transaction_state_log_segment_bytes: int = integer(
        104_857_600, "Segment size of __transaction_state.", low=1
    )
    transaction_state_log_load_buffer_size: int = integer(
        5_242_880, "Bytes read at a time when transactions are loaded.", low=1
    )
    producer_id_expiration_ms: int = integer(
        86_400_000, "How long a log remembers a producer that is silent.", low=1, dynamic=True
    )
    producer_id_expiration_check_interval_ms: int = integer(
        600_000, "Time between two searches for expired producers.", low=1
    )


@dataclass(frozen=True, init=False, repr=False, eq=False)
class ReplicationSettings:
    """Replicas."""

    replica_lag_time_max_ms: int = long_integer(
        30_000, "A follower that lags this long is no longer in sync."
    )
    replica_fetch_wait_max_ms: int = integer(500, "How long a follower's fetch may wait.")
    replica_fetch_min_bytes: int = integer(1, "Bytes a follower's fetch waits for.")
    replica_fetch_max_bytes: int = integer(
        1_048_576, "Bytes of one partition in a follower's fetch.", low=0
    )
    replica_fetch_response_max_bytes: int = integer(
        10_485_760, "Bytes of all partitions in a follower's fetch.", low=0
    )
    replica_fetch_backoff_ms: int = integer(
        1_000, "How long a follower rests after a failed fetch.", low=0
    )
    replica_socket_timeout_ms: int = integer(30_000, "How long a follower waits for an answer.")
    replica_socket_receive_buffer_bytes: int = integer(
        65_536, "Receive buffer of a follower's connection."
    )
    num_replica_fetchers: int = integer(
        1, "Fetchers for each leader that is followed.", low=1, dynamic=True
    )
    replica_high_watermark_checkpoint_interval_ms: int = long_integer(
        5_000, "Time between two writes of the high watermarks.", low=1
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = long_integer(
        INT64_MAX,
        "Bytes a second for moving replicas between data directories.",
        low=0,
        dynamic=True,
    )
