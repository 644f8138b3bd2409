"""OffsetStore: the internal topic ``__consumer_offsets``, where groups and offsets are kept."""

from typing import Final

from seglog.broker.coordinator.internal_topics.topic import InternalTopic, TopicPlan
from seglog.broker.requests.services import Services
from seglog.config import BrokerConfig
from seglog.protocol.compression import Codec

OFFSETS_TOPIC: Final = "__consumer_offsets"


class OffsetStore(InternalTopic):
    """Writes the records of groups.

    Args:
        services: of the broker.
    """

    def __init__(self, services: Services) -> None:
        plan = TopicPlan(
            lambda config: config.offsets_topic_num_partitions,
            _topic_configs,
            lambda config: Codec(config.offsets_topic_compression_codec),
        )
        super().__init__(services, OFFSETS_TOPIC, plan)


def _topic_configs(config: BrokerConfig) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config.offsets_topic_segment_bytes),
    }
