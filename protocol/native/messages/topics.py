"""Metadata, and creating, growing and deleting topics."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.native.fields import (
    BOOLEAN,
    ERROR,
    INT16,
    INT32,
    NULLABLE_STRING,
    STRING,
    TOPIC_ID,
    dict_of,
    list_of,
    nullable,
)
from seglog.protocol.native.messages.common_fields import (
    NAMES,
    NODE_IDS,
    OUTCOME,
    THROTTLE,
)
from seglog.protocol.native.messages.configs import CONFIG_ENTRY
from seglog.protocol.native.operation import Operation
from seglog.protocol.native.schema import Message

BROKER: Final = Message(
    api.BrokerMetadata, node_id=INT32, host=STRING, port=INT32, rack=NULLABLE_STRING
)
METADATA_REQUEST: Final = Message(
    api.MetadataRequest,
    topics=nullable(NAMES),
    topic_ids=list_of(TOPIC_ID),
    allow_auto_topic_creation=BOOLEAN,
)
_PARTITION_METADATA: Final = Message(
    api.PartitionMetadata,
    partition=INT32,
    leader_id=INT32,
    leader_epoch=INT32,
    replica_ids=NODE_IDS,
    isr_ids=NODE_IDS,
    error=ERROR,
    offline_replica_ids=NODE_IDS,
)
METADATA_RESPONSE: Final = Message(
    api.MetadataResponse,
    brokers=list_of(BROKER.field),
    cluster_id=STRING,
    controller_id=INT32,
    topics=list_of(
        Message(
            api.TopicMetadata,
            name=NULLABLE_STRING,
            topic_id=TOPIC_ID,
            partitions=list_of(_PARTITION_METADATA.field),
            error=ERROR,
            is_internal=BOOLEAN,
            error_message=NULLABLE_STRING,
        ).field
    ),
    error=ERROR,
    **THROTTLE,
)
CREATE_TOPICS_REQUEST: Final = Message(
    api.CreateTopicsRequest,
    topics=list_of(
        Message(
            api.NewTopic,
            name=STRING,
            partitions=INT32,
            replication_factor=INT16,
            configs=dict_of(STRING, NULLABLE_STRING),
            assignments=dict_of(INT32, NODE_IDS),
        ).field
    ),
    timeout_ms=INT32,
    validate_only=BOOLEAN,
)
CREATE_TOPICS_RESPONSE: Final = Message(
    api.CreateTopicsResponse,
    topics=list_of(
        Message(
            api.CreateTopicResult,
            name=STRING,
            **OUTCOME,
            topic_id=TOPIC_ID,
            partitions=INT32,
            replication_factor=INT16,
            configs=list_of(CONFIG_ENTRY.field),
        ).field
    ),
    **THROTTLE,
)
DELETE_TOPICS_REQUEST: Final = Message(
    api.DeleteTopicsRequest, names=NAMES, topic_ids=list_of(TOPIC_ID), timeout_ms=INT32
)
DELETE_TOPICS_RESPONSE: Final = Message(
    api.DeleteTopicsResponse,
    topics=list_of(
        Message(api.DeleteTopicResult, name=NULLABLE_STRING, **OUTCOME, topic_id=TOPIC_ID).field
    ),
    **THROTTLE,
)
CREATE_PARTITIONS_REQUEST: Final = Message(
    api.CreatePartitionsRequest,
    topics=list_of(
        Message(
            api.NewPartitions, name=STRING, count=INT32, assignments=nullable(list_of(NODE_IDS))
        ).field
    ),
    timeout_ms=INT32,
    validate_only=BOOLEAN,
)
CREATE_PARTITIONS_RESPONSE: Final = Message(
    api.CreatePartitionsResponse,
    topics=list_of(Message(api.CreatePartitionsResult, name=STRING, **OUTCOME).field),
    **THROTTLE,
)

OPERATIONS: Final = (
    Operation(ApiKey.METADATA, METADATA_REQUEST, METADATA_RESPONSE),
    Operation(ApiKey.CREATE_TOPICS, CREATE_TOPICS_REQUEST, CREATE_TOPICS_RESPONSE),
    Operation(ApiKey.DELETE_TOPICS, DELETE_TOPICS_REQUEST, DELETE_TOPICS_RESPONSE),
    Operation(ApiKey.CREATE_PARTITIONS, CREATE_PARTITIONS_REQUEST, CREATE_PARTITIONS_RESPONSE),
)
