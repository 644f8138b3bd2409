"""What the clients can be told, with defaults and ranges; checked once, when a client is made.

Each client takes these names as keyword arguments. The ``...Options`` dictionaries say the same to
type checkers; a test holds the two together.
"""

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypedDict, TypeVar

from seglog.clients.errors import ConfigurationError, address_text
from seglog.protocol.compression import Codec
from seglog.protocol.limits import MAX_BATCH_BYTES, MAX_DECOMPRESSED_BYTES
from seglog.protocol.types import INT32_MAX, Acks, IsolationLevel

DEFAULT_PORT: Final = 9092
MAX_FETCH_BYTES: Final = 2**31 - 1
REMEMBERED_BATCHES: Final = 5
"""How many batches of a producer a partition recognizes when they are sent again."""

AcksOption = Literal[0, 1, -1, "all"]
CompressionOption = Literal["none", "gzip", "snappy", "lz4", "zstd"]
IsolationOption = Literal["read_uncommitted", "read_committed"]
ResetOption = Literal["earliest", "latest", "error"]
AssignorOption = Literal["range", "roundrobin", "sticky", "cooperative-sticky"]


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return address_text(self.host, self.port)


def parse_addresses(bootstrap_servers: str | Sequence[str]) -> tuple[Address, ...]:
    """Read ``host:port``, several with commas between them or in a sequence.

    The port may be left out (9092); an IPv6 address with a port stands in square brackets.

    Raises:
        ConfigurationError: no address, or one that is none.
    """
    if isinstance(bootstrap_servers, str):
        bootstrap_servers = bootstrap_servers.split(",")
    for text in bootstrap_servers:
        if type(text) is not str:
            raise ConfigurationError(f"bootstrap_servers: {text!r} is not host:port in a string")
    texts = [text.strip() for text in bootstrap_servers]
    addresses = tuple(_parse_address(text) for text in texts if text)
    if not addresses:
        raise ConfigurationError("bootstrap_servers names no broker, expected host:port")
    return addresses


def _parse_address(text: str) -> Address:
    if "://" in text:
        raise ConfigurationError(f"bootstrap_servers: {text!r}: expected host:port without ://")
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        colon, port = rest[:1], rest[1:]
        if not bracket or (rest and colon != ":"):
            raise ConfigurationError(f"bootstrap_servers: {text!r} is not [address]:port")
    elif text.count(":") > 1:
        host, port = text, ""
    else:
        host, _, port = text.partition(":")
    if not port:
        port = str(DEFAULT_PORT)
    if not host or not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise ConfigurationError(f"bootstrap_servers: {text!r} is not host:port")
    return Address(host, int(port))


class ClientOptions(TypedDict, total=False):
    """Keyword arguments of every client; see ``ClientConfig``."""

    client_id: str
    connect_timeout_ms: int
    request_timeout_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int


class ProducerOptions(ClientOptions, total=False):
    """Keyword arguments of a producer; see ``ProducerConfig``."""

    acks: AcksOption
    linger_ms: int
    batch_bytes: int
    compression: CompressionOption | None
    compression_level: int | None
    buffer_bytes: int
    max_block_ms: int
    max_request_bytes: int
    max_in_flight_requests: int
    delivery_timeout_ms: int
    enable_idempotence: bool | None
    transactional_id: str | None
    transaction_timeout_ms: int


class ConsumerOptions(ClientOptions, total=False):
    """Keyword arguments of a consumer; see ``ConsumerConfig``."""

    offset_reset: ResetOption
    isolation: IsolationOption
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    partition_fetch_bytes: int
    prefetch_bytes: int
    check_crcs: bool
    max_decompressed_bytes: int
    group: str | None
    group_instance_id: str | None
    assignors: Sequence[AssignorOption]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    auto_commit: bool
    auto_commit_interval_ms: int


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """What all clients have in common.

    Attributes:
        client_id: the name by which the broker's log and metrics know this client.
        connect_timeout_ms: time for opening a connection and the handshake.
        request_timeout_ms: time until a request must be answered; then its connection is closed.
        reconnect_backoff_ms: pause after a first failed attempt to connect; it doubles up to
            ``reconnect_backoff_max_ms`` and is never below 500 (two attempts a second).
        retry_backoff_ms: pause before a failed request is sent again; doubles up to
            ``retry_backoff_max_ms``.
        metadata_max_age_ms: metadata is asked for again after this time, which is how new
            partitions are found.
    """

    client_id: str = "seglog"
    connect_timeout_ms: int = 10_000
    request_timeout_ms: int = 30_000
    reconnect_backoff_ms: int = 500
    reconnect_backoff_max_ms: int = 3_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 60_000

    def __post_init__(self) -> None:
        if type(self.client_id) is not str:
            raise ConfigurationError(f"client_id={self.client_id!r}: expected a string")
        _check_range(self, "connect_timeout_ms", 1)
        _check_range(self, "request_timeout_ms", 1)
        _check_range(self, "reconnect_backoff_ms", 500)
        _check_range(self, "reconnect_backoff_max_ms", self.reconnect_backoff_ms)
        _check_range(self, "retry_backoff_ms", 0)
        _check_range(self, "retry_backoff_max_ms", self.retry_backoff_ms)
        _check_range(self, "metadata_max_age_ms", 10)


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """What a producer can be told.

    Attributes:
        acks: 0 (do not answer), 1 (leader has it) or "all" (all in-sync replicas have it).
        linger_ms: how long a batch waits for more records. With 0 it leaves at once unless a
            batch of its partition is under way, so that batches grow by themselves under load.
        batch_bytes: a batch is full at this size before compression.
        compression: "gzip", "snappy", "lz4", "zstd" or "none".
        compression_level: of the codec; None takes its default.
        buffer_bytes: bound on the keys, values and headers of all unacknowledged records.
        max_block_ms: how long sending waits for room in the buffer or for a topic's metadata.
        max_request_bytes: bound on a produce request and on a single record.
        max_in_flight_requests: requests under way to a broker at a time. Of a partition five full
            batches may be under way, and one without idempotence: more could change the order.
        delivery_timeout_ms: time from ``send`` to acknowledgement, retries included.
        enable_idempotence: whether batches are numbered, so that the broker stores each once,
            however often it is sent. None: as with True, unless ``acks`` is 0 or 1.
        transactional_id: the lasting name under which records are sent in transactions: all of one
            are seen by readers of decided records, or none. A producer that starts with the name
            of another shuts that one out and ends what it left open.
        transaction_timeout_ms: the broker aborts a transaction that is open for longer.
    """

    acks: AcksOption = "all"
    linger_ms: int = 0
    batch_bytes: int = 131_072
    compression: CompressionOption | None = "none"
    compression_level: int | None = None
    buffer_bytes: int = 33_554_432
    max_block_ms: int = 60_000
    max_request_bytes: int = 1_048_576
    max_in_flight_requests: int = 5
    delivery_timeout_ms: int = 120_000
    enable_idempotence: bool | None = None
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_choice("acks", self.acks, (0, 1, -1, "all"))
        _check_range(self, "linger_ms", 0)
        _check_range(self, "batch_bytes", 1)
        _check_choice("compression", self.compression, (None, *CODECS))
        _check_range(self, "buffer_bytes", 1)
        _check_range(self, "max_block_ms", 0)
        _check_range(self, "max_request_bytes", 1)
        _check_range(self, "max_in_flight_requests", 1)
        _check_range(self, "delivery_timeout_ms", max(1, self.linger_ms))
        _check_choice("enable_idempotence", self.enable_idempotence, (None, True, False))
        if self.enable_idempotence and self.wire_acks is not Acks.ALL:
            raise ConfigurationError(
                f"enable_idempotence=True needs acks='all', not acks={self.acks!r}: only then are "
                "the stored records known"
            )
        _check_name(self, "transactional_id")
        _check_range(self, "transaction_timeout_ms", 1, INT32_MAX)
        if self.transactional_id is not None and not self.is_idempotent:
            raise ConfigurationError(
                "transactional_id needs acks='all' and batches that are numbered: leave "
                "enable_idempotence alone"
            )

    @property
    def wire_acks(self) -> Acks:
        """``acks`` as it travels."""
        return Acks.ALL if self.acks == "all" else Acks(self.acks)

    @property
    def is_idempotent(self) -> bool:
        """Whether batches are numbered."""
        return self.enable_idempotence is not False and self.wire_acks is Acks.ALL

    @property
    def batches_in_flight_max(self) -> int:
        """How many batches of a partition may be under way: a broker remembers the last five."""
        return min(REMEMBERED_BATCHES, self.max_in_flight_requests) if self.is_idempotent else 1

    @property
    def codec(self) -> Codec:
        """The codec that ``compression`` names."""
        return CODECS[self.compression or "none"]


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """What a consumer can be told.

    Attributes:
        offset_reset: where to go on if the position does not exist (any more): "earliest",
            "latest", or "error" to raise ``OffsetOutOfRangeError``; in a group also where to
            begin if nothing is committed, with "error" that raises ``NoCommittedOffsetError``.
        isolation: "read_committed" leaves out records of aborted and undecided transactions.
        fetch_min_bytes: the broker waits for so much, up to ``fetch_max_wait_ms``.
        fetch_max_wait_ms: longest wait of the broker.
        fetch_max_bytes: bound on one answer; a larger first batch is still sent whole.
        partition_fetch_bytes: the same for one partition.
        prefetch_bytes: bound on bytes fetched ahead of the application; exceeded by at most
            one answer for each request that is under way.
        check_crcs: whether the checksum of every batch is verified.
        max_decompressed_bytes: what the records of one compressed batch may inflate to; beyond,
            ``CorruptRecordError`` says where to go on. Batches are inflated one at a time.
        group: of consumers that share the partitions of their topics, and remember how far they
            have come. A consumer of chosen partitions only uses its committed offsets.
        group_instance_id: the lasting name of a static member: when it comes back within its
            session it gets its partitions again, without a rebalance.
        assignors: they assign partitions to members, the preferred one first. With
            "cooperative-sticky" alone members read on through a rebalance.
        session_timeout_ms: how long a member may not be heard of before it counts as dead.
        heartbeat_interval_ms: pause between two signs of life; they are given in the background.
        max_poll_interval_ms: how long the application may take until it reads on; then its
            partitions go to others. A rebalance waits for a member as long.
        auto_commit: whether positions are committed by themselves. Only what the application has
            done with counts: a record is, once the next one is asked for.
        auto_commit_interval_ms: pause between two such commits.
    """

    offset_reset: ResetOption = "earliest"
    isolation: IsolationOption = "read_uncommitted"
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 16_777_216
    partition_fetch_bytes: int = 1_048_576
    prefetch_bytes: int = 16_777_216
    check_crcs: bool = True
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
    group: str | None = None
    group_instance_id: str | None = None
    assignors: Sequence[AssignorOption] = ("range", "cooperative-sticky")
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_choice("offset_reset", self.offset_reset, ("earliest", "latest", "error"))
        _check_choice("isolation", self.isolation, tuple(_ISOLATION_LEVELS))
        _check_range(self, "fetch_min_bytes", 1, MAX_FETCH_BYTES)
        _check_range(self, "fetch_max_wait_ms", 0, self.request_timeout_ms)
        _check_range(self, "fetch_max_bytes", 1, MAX_FETCH_BYTES)
        _check_range(self, "partition_fetch_bytes", 1, MAX_FETCH_BYTES)
        _check_range(self, "prefetch_bytes", 1)
        _check_range(self, "max_decompressed_bytes", 1, MAX_BATCH_BYTES)
        _check_group(self)

    @property
    def isolation_level(self) -> IsolationLevel:
        """``isolation`` as it travels."""
        return _ISOLATION_LEVELS[self.isolation]


def _check_group(config: ConsumerConfig) -> None:
    _check_name(config, "group")
    _check_name(config, "group_instance_id")
    if config.group_instance_id is not None and config.group is None:
        raise ConfigurationError("group_instance_id names a member of a group: which one?")
    assignors = config.assignors
    if isinstance(assignors, str) or not assignors or len(set(assignors)) < len(assignors):
        raise ConfigurationError(f"assignors={assignors!r}: expected different names in a sequence")
    for name in assignors:
        _check_choice("assignors", name, typing.get_args(AssignorOption))
    _check_range(config, "session_timeout_ms", 1, INT32_MAX)
    _check_range(config, "heartbeat_interval_ms", 1, max(1, config.session_timeout_ms - 1))
    _check_range(config, "max_poll_interval_ms", 1, INT32_MAX)
    _check_choice("auto_commit", config.auto_commit, (True, False))
    _check_range(config, "auto_commit_interval_ms", 1)


CODECS: Final[dict[CompressionOption, Codec]] = {
    "none": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
_ISOLATION_LEVELS: Final[dict[str, IsolationLevel]] = {
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
    "read_committed": IsolationLevel.READ_COMMITTED,
}

_ConfigT = TypeVar("_ConfigT", bound=ClientConfig)


def make_config(kind: type[_ConfigT], options: Mapping[str, Any]) -> _ConfigT:
    """Return the checked configuration for keyword arguments.

    Raises:
        ConfigurationError: a name that does not exist, a wrong type or a value out of range.
    """
    known = {field.name for field in dataclasses.fields(kind)}
    unknown = sorted(set(options) - known)
    if unknown:
        raise ConfigurationError(f"unknown option {', '.join(unknown)}; there are {sorted(known)}")
    return kind(**options)


def _check_range(config: ClientConfig, name: str, low: int, high: int | None = None) -> None:
    value = getattr(config, name)
    if type(value) is not int or value < low or (high is not None and value > high):
        allowed = f"at least {low}" if high is None else f"from {low} to {high}"
        raise ConfigurationError(f"{name}={value!r}: expected an integer, {allowed}")


def _check_name(config: ClientConfig, name: str) -> None:
    value = getattr(config, name)
    if value is not None and (type(value) is not str or not value):
        raise ConfigurationError(f"{name}={value!r}: expected a name, or None")


def _check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    if value not in choices:
        raise ConfigurationError(f"{name}={value!r}: expected one of {list(choices)}")
