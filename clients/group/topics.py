"""The topics that a member wants, and how many partitions those of its group have."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from seglog.clients.cluster import Cluster
from seglog.clients.errors import broker_error
from seglog.protocol.api import MetadataRequest, MetadataResponse
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import TopicPartition

Wanted: TypeAlias = Sequence[str] | re.Pattern[str]
"""Names of topics, or what their whole names match."""


class SubscribedTopics:
    """Follows the topics of one subscription. Belongs to the loop.

    Args:
        cluster: whom to ask.
        wanted: what the application asked for.
    """

    def __init__(self, cluster: Cluster, wanted: Wanted) -> None:
        self._cluster = cluster
        self._pattern = wanted if isinstance(wanted, re.Pattern) else None
        self.names: frozenset[str] = frozenset(() if isinstance(wanted, re.Pattern) else wanted)
        """The topics as of the last look."""
        self._timeout_s = cluster.config.request_timeout_ms / 1000
        self._begun: dict[str, tuple[bytes, int]] = {}

    async def find(self) -> None:
        """Look for the topics for the first time.

        Raises:
            UnknownTopicOrPartitionError: one that was named does not exist.
        """
        for name in sorted(self.names):
            await self._cluster.find_topic(name, self._timeout_s)
        await self.look_again()
        known = [self._cluster.topics[name] for name in self.names if name in self._cluster.topics]
        self._begun = {each.name: (each.topic_id, each.partition_count) for each in known}

    def is_added(self, partition: TopicPartition) -> bool:
        """Whether a partition, or its topic, has come since ``find``."""
        known = self._cluster.topics.get(partition.topic)
        topic_id, count = self._begun.get(partition.topic, (b"", 0))
        return partition.partition >= count or (known is not None and known.topic_id != topic_id)

    async def look_again(self) -> bool:
        """See which topics match now; returns whether they are others than before."""
        if self._pattern is None:
            return False
        response: MetadataResponse = await self._cluster.retry(
            MetadataRequest(topics=None), self._timeout_s
        )
        if response.error is not ErrorCode.NONE:
            raise broker_error(response.error, None, "metadata")
        names = frozenset(
            topic.name
            for topic in response.topics
            if topic.name is not None
            and not topic.is_internal
            and self._pattern.fullmatch(topic.name)
        )
        has_changed = names != self.names
        self.names = names
        await self._cluster.watch(names, self._timeout_s)
        return has_changed

    async def count(self, names: Collection[str]) -> dict[str, int]:
        """How many partitions each of these topics has; those that do not exist are left out."""
        await self._cluster.watch(names, self._timeout_s)
        return self.known_counts(names)

    def known_counts(self, names: Collection[str]) -> dict[str, int]:
        """The same as far as metadata knows."""
        topics: Mapping[str, object] = self._cluster.topics
        return {
            name: self._cluster.topics[name].partition_count for name in names if name in topics
        }
