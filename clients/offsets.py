"""Finding offsets: the first, the last, at a time, so many before the end."""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, Literal, TypeVar

from seglog.clients.cluster import Cluster
from seglog.clients.errors import (
    BrokerError,
    ClientError,
    ClientTimeoutError,
    ConfigurationError,
    CorruptRecordError,
    RequestTimeoutError,
    UnknownTopicOrPartitionError,
    broker_error,
)
from seglog.clients.models import OffsetAndMetadata, OffsetAndTimestamp
from seglog.clients.session.retrying import Patience
from seglog.protocol.api import (
    FetchPartition,
    FetchRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.records.batch import iter_batches
from seglog.protocol.types import (
    EARLIEST_TIMESTAMP,
    INT64_MAX,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    IsolationLevel,
    TopicPartition,
)
from seglog.protocol.wording import count_text

TimeSpec = Literal["earliest", "latest", "max_timestamp"] | int | datetime
"""A question about offsets: a special one, or the first record at or after a time (int: ms)."""
PartitionLike = tuple[str, int]
"""A topic and a partition; a ``TopicPartition`` is one."""
_ValueT = TypeVar("_ValueT")
ByPartition = Mapping[tuple[str, int], _ValueT] | Mapping[TopicPartition, _ValueT]
"""Something for each of several partitions."""

_SPECIAL: Final[dict[str, int]] = {
    "earliest": EARLIEST_TIMESTAMP,
    "latest": LATEST_TIMESTAMP,
    "max_timestamp": MAX_TIMESTAMP,
}
_SCAN_BYTES: Final = 1_048_576


def timestamp_of(moment: datetime) -> int:
    """Milliseconds since the epoch, rounded up so that nothing before ``moment`` is found.

    Raises:
        ConfigurationError: ``moment`` has no time zone.
    """
    if moment.tzinfo is None:
        raise ConfigurationError(f"{moment!r} has no time zone")
    since_epoch = moment - datetime(1970, 1, 1, tzinfo=UTC)
    microseconds = (since_epoch.days * 86_400 + since_epoch.seconds) * 1_000_000
    return -(-(microseconds + since_epoch.microseconds) // 1000)


def wire_timestamp(spec: TimeSpec) -> int:
    """The timestamp that asks the broker for ``spec``.

    Raises:
        ConfigurationError: not one of the words, a time without time zone, or before 1970.
    """
    if isinstance(spec, datetime):
        timestamp_ms = timestamp_of(spec)
    elif type(spec) is int:
        timestamp_ms = spec
    elif spec in _SPECIAL:
        return _SPECIAL[spec]
    else:
        raise ConfigurationError(
            f"{spec!r}: expected {sorted(_SPECIAL)}, milliseconds since the epoch or a datetime"
        )
    if timestamp_ms < 0:
        raise ConfigurationError(f"{spec!r} is before 1970")
    return timestamp_ms


def as_partition(partition: object) -> TopicPartition:
    """A partition from a pair; raises ``ConfigurationError`` for anything else."""
    match partition:
        case (str() as topic, int() as number) if type(number) is int and number >= 0:
            return TopicPartition(topic, number)
    raise ConfigurationError(f"{partition!r}: expected (topic, partition)")


class OffsetFinder:
    """Asks the leaders of partitions for offsets, again where that can help.

    Args:
        cluster: whom to ask.
        isolation_level: what counts as the end.
    """

    def __init__(self, cluster: Cluster, isolation_level: IsolationLevel) -> None:
        self._cluster = cluster
        self._isolation_level = isolation_level

    async def find(
        self, questions: Mapping[TopicPartition, TimeSpec], timeout_s: float
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Answer all questions; None where no record is at or after the time.

        Raises:
            UnknownTopicOrPartitionError: a topic or partition does not exist.
            ClientTimeoutError, BrokerConnectionError: no answer in time.
        """
        wanted = {partition: wire_timestamp(spec) for partition, spec in questions.items()}
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        loop = asyncio.get_running_loop()
        patience = Patience(self._cluster.backoff.delay_s, timeout_s, loop.time())
        while wanted:
            error = await self._ask(wanted, found, patience.left_s(loop.time()))
            if not wanted:
                break
            if error is None:
                about = ", ".join(map(str, wanted))
                raise broker_error(ErrorCode.UNKNOWN_SERVER_ERROR, "no answer about them", about)
            pause_s = patience.pause_s(loop.time())
            if not error.retriable or pause_s is None:
                raise error
            if isinstance(error, BrokerError) and error.code.refreshes_metadata:
                self._cluster.refresh_soon()
            await asyncio.sleep(pause_s)
        return {partition: found[partition] for partition in questions}

    async def _ask(
        self,
        wanted: dict[TopicPartition, int],
        found: dict[TopicPartition, OffsetAndTimestamp | None],
        timeout_s: float,
    ) -> ClientError | None:
        """Move answered ones from ``wanted`` to ``found``; returns the worst of the rest."""
        errors: list[ClientError] = []
        for name in {partition.topic for partition in wanted}:
            await self._cluster.find_topic(name, timeout_s)
        by_leader: dict[int, list[ListOffsetsPartition]] = {}
        for partition, timestamp_ms in wanted.items():
            leader = self._cluster.leader_of(partition)
            if leader is None:
                errors.append(self._no_leader(partition))
            else:
                by_leader.setdefault(leader, []).append(
                    ListOffsetsPartition(*partition, timestamp_ms)
                )
        for leader, partitions in by_leader.items():
            request = ListOffsetsRequest(partitions, self._isolation_level)
            try:
                response = await self._cluster.request(request, timeout_s, leader)
            except ClientError as error:
                errors.append(error)
            else:
                errors += _take_over(response, wanted, found)
        return min(errors, key=lambda error: error.retriable, default=None)

    def _no_leader(self, partition: TopicPartition) -> BrokerError:
        known = self._cluster.topics.get(partition.topic)
        if known is not None and partition.partition >= known.partition_count:
            error = UnknownTopicOrPartitionError(
                f"topic {partition.topic} has {count_text(known.partition_count, 'partition')}, "
                f"no {partition.partition}"
            )
            # Not a matter of waiting, although the wire's code says so.
            error.retriable = False
            return error
        return broker_error(ErrorCode.LEADER_NOT_AVAILABLE, None, str(partition))

    async def find_last(self, partition: TopicPartition, count: int, timeout_s: float) -> int:
        """The offset from which on the partition has ``count`` records, or all it has.

        Offsets may have holes, so records are counted: first so many offsets before the end, then
        from further and further back.

        Raises:
            What ``find`` raises, and ``CorruptRecordError``.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await self._find_last(partition, count, timeout_s)
        except ClientTimeoutError:
            raise
        except TimeoutError as error:
            raise RequestTimeoutError(
                f"{partition}: the last {count_text(count, 'record')} not found "
                f"within {timeout_s:.3g} s"
            ) from error

    async def _find_last(self, partition: TopicPartition, count: int, timeout_s: float) -> int:
        first = await self._one(partition, "earliest", timeout_s)
        end = await self._one(partition, "latest", timeout_s)
        span = count
        while count:
            begin = max(first, end - span)
            newest = await self._offsets_between(partition, begin, end, count, timeout_s)
            if len(newest) == count:
                return newest[0]
            if begin == first:
                return first
            span *= 4
        return end

    async def _one(self, partition: TopicPartition, spec: TimeSpec, timeout_s: float) -> int:
        answer = (await self.find({partition: spec}, timeout_s))[partition]
        return 0 if answer is None else answer.offset

    async def _offsets_between(
        self, partition: TopicPartition, begin: int, end: int, count: int, timeout_s: float
    ) -> deque[int]:
        offsets: deque[int] = deque(maxlen=count)
        while begin < end:
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=_SCAN_BYTES,
                partitions=[FetchPartition(*partition, begin, _SCAN_BYTES)],
                isolation_level=self._isolation_level,
            )
            leader = self._cluster.leader_of(partition)
            (result,) = (await self._cluster.request(request, timeout_s, leader)).partitions
            if result.error is not ErrorCode.NONE:
                raise broker_error(result.error, result.error_message, str(partition))
            following = begin
            try:
                for batch in iter_batches(result.records or b""):
                    following = max(following, batch.header.next_offset)
                    if not batch.header.is_control:
                        offsets.extend(
                            record.offset
                            for record in batch.records(from_offset=begin)
                            if record.offset < end
                        )
            except RecordError as error:
                raise CorruptRecordError(partition, following, error.message) from error
            if following == begin:
                break
            begin = following
        return offsets


def _take_over(
    response: ListOffsetsResponse,
    wanted: dict[TopicPartition, int],
    found: dict[TopicPartition, OffsetAndTimestamp | None],
) -> Iterable[ClientError]:
    errors: list[ClientError] = []
    for result in response.partitions:
        partition = TopicPartition(result.topic, result.partition)
        if partition not in wanted:
            continue
        if result.error is not ErrorCode.NONE:
            errors.append(broker_error(result.error, result.error_message, str(partition)))
            continue
        del wanted[partition]
        found[partition] = (
            OffsetAndTimestamp(result.offset, result.timestamp_ms, result.leader_epoch)
            if result.offset >= 0
            else None
        )
    return errors


def checked_mapping(questions: ByPartition[TimeSpec]) -> dict[TopicPartition, TimeSpec]:
    """Questions by pairs, as callers write them, by ``TopicPartition``."""
    return {as_partition(partition): spec for partition, spec in questions.items()}


def checked_offsets(
    offsets: ByPartition[int | OffsetAndMetadata],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets to commit, as callers write them, by ``TopicPartition``.

    Raises:
        ConfigurationError: an offset that is none.
    """
    checked: dict[TopicPartition, OffsetAndMetadata] = {}
    for partition, each in offsets.items():
        committed = each if isinstance(each, OffsetAndMetadata) else OffsetAndMetadata(each)
        if type(committed.offset) is not int or abs(committed.offset) > INT64_MAX:
            raise ConfigurationError(f"{partition}: {each!r} is no offset")
        checked[as_partition(partition)] = committed
    return checked
