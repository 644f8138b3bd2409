"""The brokers and topics of a cluster, as they were last said to be."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from seglog.clients.config import Address
from seglog.clients.errors import ClientError, UnknownTopicOrPartitionError, broker_error
from seglog.protocol.api import MetadataResponse, TopicMetadata
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import TopicPartition

MISSING: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION}
)
"""What a broker says of a topic that does not exist."""


class KnownTopic(NamedTuple):
    """One topic as of the last metadata.

    Attributes:
        name: of the topic.
        topic_id: another one after the topic was deleted and created again.
        partition_count: they are numbered from 0 on.
        leaders: the id of the broker that leads a partition; none that has no leader now.
        is_internal: whether the broker keeps its own records in it.
    """

    name: str
    topic_id: bytes
    partition_count: int
    leaders: Mapping[int, int]
    is_internal: bool = False

    @property
    def partitions(self) -> list[TopicPartition]:
        """All of them, in order."""
        return [TopicPartition(self.name, number) for number in range(self.partition_count)]


class Metadata:
    """Takes over what brokers say. Belongs to one thread.

    any thread may read ``topics`` and its contents: it is replaced as a whole and never
    changed.
    """

    def __init__(self) -> None:
        self.topics: Mapping[str, KnownTopic] = MappingProxyType({})
        self.brokers: dict[int, Address] = {}
        self.cluster_id = ""
        self.learned = 0
        """How many times brokers have said what there is."""

    def learn(self, response: MetadataResponse, asked: Iterable[str] | None) -> None:
        """Take over an answer.

        Args:
            response: what a broker said.
            asked: the topics that it was asked about; None for all.
        """
        if response.brokers:
            self.brokers = {
                broker.node_id: Address(broker.host, broker.port) for broker in response.brokers
            }
        self.cluster_id = response.cluster_id or self.cluster_id
        answers = {topic.name: topic for topic in response.topics if topic.name is not None}
        topics = dict(self.topics)
        for name in answers if asked is None else asked:
            answer = answers.get(name)
            if answer is None or answer.error in MISSING:
                topics.pop(name, None)
            elif answer.error is ErrorCode.NONE:
                topics[name] = _known_topic(name, answer)
        self.topics = MappingProxyType(topics)
        self.learned += 1

    def add_broker(self, node_id: int, host: str, port: int) -> None:
        """A broker that is named outside of metadata, such as a coordinator."""
        self.brokers.setdefault(node_id, Address(host, port))

    def forget(self, topics: Iterable[str]) -> None:
        """Know nothing of these topics any more."""
        gone = frozenset(topics)
        self.topics = MappingProxyType(
            {name: topic for name, topic in self.topics.items() if name not in gone}
        )

    def leader_of(self, partition: TopicPartition) -> int | None:
        """Id of the broker that leads a partition, None while that is not known."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.leaders.get(partition.partition)

    def leader_address(self, partition: TopicPartition) -> Address | None:
        """Where the leader of a partition listens, None while that is not known."""
        leader = self.leader_of(partition)
        return None if leader is None else self.brokers.get(leader)


def _known_topic(name: str, answer: TopicMetadata) -> KnownTopic:
    leaders = {
        partition.partition: partition.leader_id
        for partition in answer.partitions
        if partition.leader_id >= 0
    }
    return KnownTopic(
        name,
        answer.topic_id,
        len(answer.partitions),
        MappingProxyType(leaders),
        answer.is_internal,
    )


def error_about(response: MetadataResponse, name: str) -> ClientError | None:
    """Why an answer says nothing of use about a topic; None if it does."""
    answer = next((topic for topic in response.topics if topic.name == name), None)
    if answer is None:
        return UnknownTopicOrPartitionError(f"topic {name}: not in the broker's answer")
    if answer.error is ErrorCode.NONE:
        return None
    if answer.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not answer.error_message:
        return UnknownTopicOrPartitionError(f"topic {name} does not exist")
    return broker_error(answer.error, answer.error_message, f"topic {name}")
