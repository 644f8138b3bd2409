"""Everything the client library raises; ``retriable`` says whether trying again can help.

    ClientError
    +-- ConfigurationError        an argument that cannot be right (also a ValueError)
    +-- ClientClosedError         the client is closed, or was closed while this was under way
    +-- BrokerConnectionError     no connection; names host and port (also a ConnectionError)
    |   +-- BrokerUnreachableError    it could not be opened
    |   +-- ConnectionLostError       it broke; the request may or may not have been carried out
    +-- ClientTimeoutError        time is up (also a TimeoutError)
    |   +-- RequestTimeoutError       one request was not answered
    |   +-- MetadataTimeoutError      a topic did not become known
    |   +-- DeliveryTimeoutError      a record was not acknowledged within delivery_timeout_ms
    |   +-- BufferFullError           no room for a record within max_block_ms
    |   +-- FlushTimeoutError         flush() was given too little time
    +-- CorruptRecordError        fetched record bytes fail their checksum or make no sense
    +-- RecordsDroppedError       records were given up when a producer was closed
    +-- TransactionStateError     no transaction is open, or one is: out of turn
    +-- TransactionAbortedError   the transaction can only be aborted, or was; begin another
    +-- NoCommittedOffsetError    a group has no offset for a partition, and none is to be assumed
    +-- BrokerError               the broker refused; ``code`` is its answer
        +-- one class for each code that people handle, see BROKER_ERRORS

Wire codes become exceptions in ``broker_error`` only.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from seglog.protocol.errors import ErrorCode, SeglogError
from seglog.protocol.types import TopicPartition
from seglog.protocol.wording import count_text, naming


def address_text(host: str, port: int) -> str:
    """Host and port as ``bootstrap_servers`` takes them: IPv6 addresses in square brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class ClientError(SeglogError):
    """Base of all errors of the client library."""

    retriable: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        # The arguments of a constructor differ from ``args``, which is what pickle would pass.
        return _restore, (type(self), self.args, vars(self).copy())


def _restore(
    kind: type[ClientError], args: tuple[object, ...], attributes: dict[str, object]
) -> ClientError:
    error = kind.__new__(kind, *args)
    error.args = args
    vars(error).update(attributes)
    return error


class ConfigurationError(ClientError, ValueError):
    """An argument or a combination of arguments that cannot be right."""


class ClientClosedError(ClientError):
    """The client is closed, was closed meanwhile, or was not started."""


class BrokerConnectionError(ClientError, ConnectionError):
    """There is no connection to a broker.

    Args:
        host: where the broker was expected.
        port: its TCP port.
        reason: what happened, as part of a sentence.
    """

    retriable = True

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(f"{address_text(host, port)}: {reason}")
        self.host = host
        self.port = port
        self.reason = reason


class BrokerUnreachableError(BrokerConnectionError):
    """A connection could not be opened."""


class ConnectionLostError(BrokerConnectionError):
    """A connection broke; a request that was under way may or may not have been carried out."""


class ClientTimeoutError(ClientError, TimeoutError):
    """Something did not happen in time."""

    retriable = True


class RequestTimeoutError(ClientTimeoutError):
    """A broker did not answer a request in time; the connection was closed."""


class MetadataTimeoutError(ClientTimeoutError):
    """A topic or its leader did not become known in time."""


class DeliveryTimeoutError(ClientTimeoutError):
    """A record was not acknowledged in time; it may still have been stored."""


class BufferFullError(ClientTimeoutError):
    """The producer's buffer stayed full; records come faster than the broker takes them."""


class FlushTimeoutError(ClientTimeoutError):
    """Some records were not yet acknowledged when the time given to ``flush`` was up."""


class CorruptRecordError(ClientError):
    """Fetched bytes that cannot be read; all below ``offset`` was given out before.

    Args:
        partition: where they were read.
        offset: the first offset that cannot be read.
        reason: the fault.
        next_offset: where sound records go on, None if unknown: seek there to go on.
    """

    def __init__(
        self, partition: TopicPartition, offset: int, reason: str, next_offset: int | None = None
    ) -> None:
        way_out = (
            "" if next_offset is None else f"; seek to offset {next_offset} to go on behind it"
        )
        super().__init__(f"{partition} at offset {offset}: {reason}{way_out}")
        self.partition = partition
        self.offset = offset
        self.reason = reason
        self.next_offset = next_offset


class RecordsDroppedError(ClientError):
    """Records that were never acknowledged when a ``with`` block of a producer ended.

    Args:
        dropped: how many.
    """

    def __init__(self, dropped: int) -> None:
        super().__init__(f"{count_text(dropped, 'record')} not acknowledged and dropped")
        self.dropped = dropped


class TransactionStateError(ClientError):
    """A step that is out of turn, such as sending while no transaction is open."""


class TransactionAbortedError(ClientError):
    """The transaction can only be aborted, or was; ``__cause__`` is what went wrong first."""


class NoCommittedOffsetError(ClientError):
    """Nothing is committed for a partition, and ``offset_reset`` is "error".

    Args:
        group: whose offset is missing.
        partition: for which partition; ``seek`` says where to begin.
    """

    def __init__(self, group: str, partition: TopicPartition) -> None:
        super().__init__(f"group {group} has no committed offset for {partition}")
        self.group = group
        self.partition = partition


class BrokerError(ClientError):
    """The broker refused a request.

    Args:
        code: its answer.
        message: what it said, and about what.
    """

    code: ErrorCode
    default_code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init__(self, message: str, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = self.default_code if code is None else code
        self.retriable = self.code.retriable


class UnknownTopicOrPartitionError(BrokerError):
    """The topic or the partition does not exist."""

    default_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class TopicAlreadyExistsError(BrokerError):
    """A topic of this name exists."""

    default_code = ErrorCode.TOPIC_ALREADY_EXISTS


class InvalidTopicError(BrokerError):
    """The topic name is not allowed, or the topic may not be used this way."""

    default_code = ErrorCode.INVALID_TOPIC_EXCEPTION


class InvalidPartitionsError(BrokerError):
    """A partition count that is not possible."""

    default_code = ErrorCode.INVALID_PARTITIONS


class InvalidConfigError(BrokerError):
    """A configuration key or value that is not allowed."""

    default_code = ErrorCode.INVALID_CONFIG


class InvalidRequestError(BrokerError):
    """A request that makes no sense to the broker."""

    default_code = ErrorCode.INVALID_REQUEST


class PolicyViolationError(BrokerError):
    """The request goes against a policy of the topic."""

    default_code = ErrorCode.POLICY_VIOLATION


class OffsetOutOfRangeError(BrokerError):
    """An offset below the start of a log or beyond its end.

    Args:
        message: the request.
        partition: of which partition; None where the error is not about reading.
        offset: the offset that was asked for, -1 where it is not known.
        log_start_offset: the first readable offset, -1 where the broker did not say.
        end_offset: the first offset beyond the readable ones, -1 where the broker did not say.
    """

    default_code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(
        self,
        message: str,
        code: ErrorCode | None = None,
        *,
        partition: TopicPartition | None = None,
        offset: int = -1,
        log_start_offset: int = -1,
        end_offset: int = -1,
    ) -> None:
        super().__init__(message, code)
        self.partition = partition
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.end_offset = end_offset


class RecordTooLargeError(BrokerError):
    """A record or a batch over the limit of the client, the topic or the broker."""

    default_code = ErrorCode.MESSAGE_TOO_LARGE


class CorruptMessageError(BrokerError):
    """A batch arrived damaged."""

    default_code = ErrorCode.CORRUPT_MESSAGE


class InvalidTimestampError(BrokerError):
    """A timestamp outside the range that the topic accepts."""

    default_code = ErrorCode.INVALID_TIMESTAMP


class InvalidRecordError(BrokerError):
    """A record the topic does not accept, for example one without a key on a compacted topic.

    The broker refuses the whole batch. The records at fault get its words about them, the others
    in the batch are told that they fell with it; sending those again is safe.

    Args:
        message: the broker's words.
        record_errors: ``(index in batch, message)`` of each record at fault.
    """

    default_code = ErrorCode.INVALID_RECORD

    def __init__(
        self,
        message: str,
        code: ErrorCode | None = None,
        *,
        record_errors: Sequence[tuple[int, str]] = (),
    ) -> None:
        super().__init__(message, code)
        self.record_errors = tuple(record_errors)


class OutOfOrderSequenceError(BrokerError):
    """The broker misses records that it has acknowledged, so it does not take those behind them."""

    default_code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class UnknownProducerIdError(BrokerError):
    """The broker has forgotten the producer, and cannot tell whether it has these records."""

    default_code = ErrorCode.UNKNOWN_PRODUCER_ID


class ProducerFencedError(BrokerError):
    """Another producer has the id of this one, or its transaction took too long: close it."""

    default_code = ErrorCode.INVALID_PRODUCER_EPOCH


class CommitFailedError(BrokerError):
    """Offsets are not committed: the consumer is no member of its group (any more).

    Its partitions may be with others, which begin at the last committed offsets.
    """

    default_code = ErrorCode.ILLEGAL_GENERATION


class RebalanceInProgressError(BrokerError):
    """The group is just dividing its partitions; read on, and try again."""

    default_code = ErrorCode.REBALANCE_IN_PROGRESS


class OffsetCommitError(BrokerError):
    """Some offsets are not committed, the others are.

    Args:
        errors: why not, by partition.
    """

    def __init__(
        self,
        message: str,
        code: ErrorCode | None = None,
        *,
        errors: Mapping[TopicPartition, BrokerError] | None = None,
    ) -> None:
        super().__init__(message, code)
        self.errors = dict(errors or {})


class OffsetMetadataTooLargeError(BrokerError):
    """The text that goes with an offset is over the broker's limit."""

    default_code = ErrorCode.OFFSET_METADATA_TOO_LARGE


class FencedInstanceIdError(BrokerError):
    """Another consumer has joined the group under the same ``group_instance_id``."""

    default_code = ErrorCode.FENCED_INSTANCE_ID


class GroupFullError(BrokerError):
    """The group has as many members as the broker allows."""

    default_code = ErrorCode.GROUP_MAX_SIZE_REACHED


class InconsistentGroupProtocolError(BrokerError):
    """The members of the group have no assignor in common with this one."""

    default_code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


class InvalidSessionTimeoutError(BrokerError):
    """The broker does not allow a session of this length."""

    default_code = ErrorCode.INVALID_SESSION_TIMEOUT


class InvalidGroupIdError(BrokerError):
    """The broker does not allow a group of this name."""

    default_code = ErrorCode.INVALID_GROUP_ID


class GroupNotEmptyError(BrokerError):
    """The group has members, so it can neither be deleted nor have its offsets changed."""

    default_code = ErrorCode.NON_EMPTY_GROUP


class GroupNotFoundError(BrokerError):
    """There is no such group."""

    default_code = ErrorCode.GROUP_ID_NOT_FOUND


class TransactionalIdNotFoundError(BrokerError):
    """The broker does not know the transactional id."""

    default_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


class StorageError(BrokerError):
    """The broker cannot write or read its disk."""

    default_code = ErrorCode.KAFKA_STORAGE_ERROR


class NotEnoughReplicasError(BrokerError):
    """Too few replicas are in sync for acks=all."""

    default_code = ErrorCode.NOT_ENOUGH_REPLICAS


class AuthorizationError(BrokerError):
    """The principal may not do this."""

    default_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class UnsupportedVersionError(BrokerError):
    """The broker does not know this operation."""

    default_code = ErrorCode.UNSUPPORTED_VERSION


def _by_code(*kinds: type[BrokerError]) -> dict[ErrorCode, type[BrokerError]]:
    table: dict[ErrorCode, type[BrokerError]] = {}
    for kind in kinds:
        assert kind.default_code not in table, f"{kind.__name__}: {kind.default_code} is taken"
        table[kind.default_code] = kind
    return table


BROKER_ERRORS: Final = _by_code(
    UnknownTopicOrPartitionError,
    TopicAlreadyExistsError,
    InvalidTopicError,
    InvalidPartitionsError,
    InvalidConfigError,
    InvalidRequestError,
    PolicyViolationError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    CorruptMessageError,
    InvalidTimestampError,
    InvalidRecordError,
    OutOfOrderSequenceError,
    UnknownProducerIdError,
    ProducerFencedError,
    CommitFailedError,
    RebalanceInProgressError,
    OffsetMetadataTooLargeError,
    FencedInstanceIdError,
    GroupFullError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    InvalidGroupIdError,
    GroupNotEmptyError,
    GroupNotFoundError,
    TransactionalIdNotFoundError,
    StorageError,
    NotEnoughReplicasError,
    AuthorizationError,
    UnsupportedVersionError,
)
"""The class of each wire code that has one of its own."""

_RELATIVES: Final = {
    ErrorCode.RECORD_LIST_TOO_LARGE: RecordTooLargeError,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: NotEnoughReplicasError,
    ErrorCode.UNKNOWN_TOPIC_ID: UnknownTopicOrPartitionError,
    ErrorCode.PRODUCER_FENCED: ProducerFencedError,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: AuthorizationError,
}


def broker_error(code: ErrorCode, message: str | None, about: str = "") -> BrokerError:
    """Return the exception for a wire code.

    Args:
        code: anything but ``NONE``.
        message: the broker's sentence, if it sent one.
        about: the topic, partition or resource concerned; it begins the text unless that has it.
    """
    kind = BROKER_ERRORS.get(code) or _RELATIVES.get(code) or BrokerError
    words = message or f"the broker answered {code.name}"
    return kind(naming(about, words) if about else words, code)
