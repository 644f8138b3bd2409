"""From options to offsets: which partitions are meant, and where reading begins and ends."""

import logging
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Final

from seglog.clients.errors import ClientError, ConfigurationError, UnknownTopicOrPartitionError
from seglog.clients.session.metadata import KnownTopic
from seglog.clients.spark.cluster import Cluster
from seglog.clients.spark.offset_maps import Offsets, describe
from seglog.clients.spark.source_options import Bound, SourceOptions
from seglog.protocol.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

LOG: Final = logging.getLogger("seglog.spark")


class DataLossError(ClientError):
    """Records that a query was to read are not there any more (``failOnDataLoss=true``)."""


def report_loss(message: str, *, fail: bool) -> None:
    """Raise ``DataLossError``, or only warn."""
    if fail:
        raise DataLossError(
            f"{message}. Set failOnDataLoss to false to go on without the lost records."
        )
    LOG.warning("%s; going on without it", message)


class Planner:
    """Answers what the options leave open, by asking the cluster.

    Args:
        options: of the source.
    """

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.cluster = Cluster(options.servers, options.connection)

    def topics(self, *, may_miss: Collection[str] = ()) -> dict[str, KnownTopic]:
        """The topics that are subscribed to and exist now.

        Args:
            may_miss: names that need not exist; every other one that is named must.

        Raises:
            UnknownTopicOrPartitionError: one that is named, or assigned, does not exist, also
                after the time that a broker needs which has just started.
        """
        subscription = self.options.subscription
        if subscription.pattern:
            found = self.cluster.topics(None)
            return {name: topic for name, topic in found.items() if self._matches(topic)}
        names = subscription.topics or {each.topic for each in subscription.partitions}

        def ask() -> dict[str, KnownTopic]:
            found = self.cluster.topics(names)
            missing = set(names) - set(found) - set(may_miss)
            if missing:
                raise UnknownTopicOrPartitionError(f"topic {describe(missing)} does not exist")
            return found

        return self.cluster.retry(ask)

    def _matches(self, topic: KnownTopic) -> bool:
        pattern = self.options.subscription.pattern
        return (
            not topic.is_internal
            and not _is_ours(topic.name)
            and re.fullmatch(pattern, topic.name) is not None
        )

    def is_subscribed(self, partition: TopicPartition) -> bool:
        """Whether the options ask for it, if it exists."""
        subscription = self.options.subscription
        if subscription.pattern:
            return re.fullmatch(subscription.pattern, partition.topic) is not None
        return partition.topic in subscription.topics or partition in subscription.partitions

    def partitions(
        self, topics: Mapping[str, KnownTopic], *, may_miss: Collection[TopicPartition] = ()
    ) -> list[TopicPartition]:
        """The partitions of these topics that are subscribed to, in order.

        Args:
            topics: as ``topics`` has found them.
            may_miss: partitions that need not exist; every other assigned one must.

        Raises:
            UnknownTopicOrPartitionError: one that is assigned does not exist.
        """
        existing = sorted(each for topic in topics.values() for each in topic.partitions)
        assigned = self.options.subscription.partitions
        if not assigned:
            return existing
        missing = assigned - set(existing)
        if missing - set(may_miss):
            raise UnknownTopicOrPartitionError(f"{describe(missing)} does not exist")
        return sorted(assigned - missing)

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The first offsets of partitions."""
        return self._ask(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The offsets behind the last records that may be read."""
        return self._ask(dict.fromkeys(partitions, LATEST_TIMESTAMP))

    def wait_for_records(self, ends: Mapping[TopicPartition, int], timeout_ms: int) -> None:
        """Return when something is written behind these ends, or the time is over.

        Raises:
            ClientError: a broker is away, or refuses.
        """
        self.cluster.wait_for_records(ends, self.options.isolation_level, timeout_ms)

    def _ask(self, questions: Mapping[TopicPartition, int]) -> Offsets:
        if not questions:
            return {}
        return self.cluster.list_offsets(questions, self.options.isolation_level)

    def extent(self, partitions: Iterable[TopicPartition]) -> "Extent":
        """What there is in partitions, asked for once."""
        return Extent(self, partitions)

    def at_times(self, questions: Mapping[TopicPartition, int]) -> Offsets:
        """The first offsets at or after a time in each partition, -1 where there is none."""
        return self._ask(questions)


class Extent:
    """First and last offsets of partitions, each asked for when it is first needed, and once.

    A batch that asked for an end twice would hold two answers against each other, of which the
    later one is larger where records were written meanwhile.

    Args:
        planner: asks the cluster.
        partitions: exactly those that are read.
    """

    def __init__(self, planner: Planner, partitions: Iterable[TopicPartition]) -> None:
        self._planner = planner
        self._partitions = list(partitions)

    @cached_property
    def earliest(self) -> Offsets:
        """The first offset that there is in each partition."""
        return self._planner.earliest(self._partitions)

    @cached_property
    def latest(self) -> Offsets:
        """The offset behind the last record that may be read in each partition."""
        return self._planner.latest(self._partitions)

    def resolve(self, bound: Bound, *, latest_if_none: bool) -> Offsets:
        """Turn a bound into offsets.

        Args:
            bound: from the options; a map must name exactly the partitions.
            latest_if_none: what to do where no record is at or after a timestamp.

        Raises:
            ConfigurationError: a map names other partitions, or a timestamp finds nothing.
        """
        if bound.offsets is not None:
            _check_exact(bound.option, bound.offsets, self._partitions)
            return {each: self._named(each, offset) for each, offset in bound.offsets.items()}
        if bound.timestamps is not None:
            _check_exact(bound.option, bound.timestamps, self._partitions)
            return self._at_times(bound, bound.timestamps, latest_if_none=latest_if_none)
        if bound.timestamp_ms is not None:
            questions = dict.fromkeys(self._partitions, bound.timestamp_ms)
            return self._at_times(bound, questions, latest_if_none=latest_if_none)
        return dict(self.earliest if bound.word == "earliest" else self.latest)

    def _named(self, partition: TopicPartition, offset: int) -> int:
        if offset >= 0:
            return offset
        return self.latest[partition] if offset == LATEST_TIMESTAMP else self.earliest[partition]

    def _at_times(
        self, bound: Bound, questions: Mapping[TopicPartition, int], *, latest_if_none: bool
    ) -> Offsets:
        found = self._planner.at_times(questions)
        without = [partition for partition, offset in found.items() if offset < 0]
        if without and not latest_if_none:
            raise ConfigurationError(
                f"{bound.option}: no record at or after the given time in {describe(without)}; "
                "startingOffsetsByTimestampStrategy=latest would begin at the end there"
            )
        return {**found, **{partition: self.latest[partition] for partition in without}}


def _check_exact(
    option: str, given: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition]
) -> None:
    missing, unknown = set(partitions) - set(given), set(given) - set(partitions)
    if missing or unknown:
        complaints = [
            f"{word} {describe(each)}"
            for word, each in (("it misses", missing), ("there is no", unknown))
            if each
        ]
        raise ConfigurationError(
            f"{option} must name exactly the partitions that are read: {' and '.join(complaints)}"
        )


def _is_ours(name: str) -> bool:
    return name.startswith("__")
