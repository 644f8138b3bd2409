"""OffsetStore: the internal topic ``__consumer_offsets``, where groups and offsets are kept."""

from typing import Final

from seglog.broker.api.services import Services
from seglog.broker.coordinator.internal_topic import InternalTopic, TopicPlan
from seglog.broker.errors import RequestError, describe_error
from seglog.broker.storage.errors import StorageError
from seglog.config import BrokerConfig
from seglog.protocol.compression import Codec
from seglog.protocol.errors import ErrorCode

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


def coordinator_error(error: BaseException, *, too_large: ErrorCode) -> RequestError:
    """What a client of the coordinator is told of a failed write.

    Args:
        too_large: the code for records that do not fit into a batch.
    """
    code, message = describe_error(error)
    if code in {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE}:
        code = too_large
    elif isinstance(error, StorageError) or code in {
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return RequestError(code, message)
