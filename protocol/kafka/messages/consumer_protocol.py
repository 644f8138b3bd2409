"""What consumers put into the opaque bytes of JoinGroup and SyncGroup.

Behind an int16 with the version; a reader takes the fields it knows of a newer one.
"""

from seglog.protocol.kafka.schema import (
    Message,
    Struct,
    array,
    binary,
    int32,
    string,
)


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: str = string("0+")
    partitions: list[int] = array("int32", "0+")


class ConsumerProtocolSubscription(Message, versions="0-3"):
    """What a consumer tells the leader of its group when it joins."""

    topics: list[str] = array("string", "0+")
    user_data: bytes | None = binary("0+", default=None, nullable="0+")
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", default=None, nullable="3+", ignorable=True)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    """What the leader of a group gives to a consumer."""

    assigned_partitions: list[TopicPartition] = array(TopicPartition, "0+")
    user_data: bytes | None = binary("0+", default=None, nullable="0+")
