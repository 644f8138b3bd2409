"""TransactionStore: the internal topic ``__transaction_state``."""

from typing import Final

from seglog.broker.coordinator.internal_topics.topic import InternalTopic, TopicPlan
from seglog.broker.requests.services import Services
from seglog.config import BrokerConfig
from seglog.protocol.compression import Codec

TRANSACTION_TOPIC: Final = "__transaction_state"


class TransactionStore(InternalTopic):
    """Writes the states of transactional ids.

    Args:
        services: of the broker.
    """

    def __init__(self, services: Services) -> None:
        plan = TopicPlan(
            lambda config: config.transaction_state_log_num_partitions,
            _topic_configs,
            lambda _config: Codec.NONE,
        )
        super().__init__(services, TRANSACTION_TOPIC, plan)


def _topic_configs(config: BrokerConfig) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(config.transaction_state_log_min_isr),
        "segment.bytes": str(config.transaction_state_log_segment_bytes),
    }
