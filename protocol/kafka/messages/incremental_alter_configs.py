"""IncrementalAlterConfigs: changes single overrides."""

from seglog.protocol.kafka.messages.alter_configs import AlterConfigsResourceResponse
from seglog.protocol.kafka.schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int32,
    string,
)


class AlterableConfig(Struct):
    """One configuration value to change."""

    name: str = string("0+")
    config_operation: int = int8("0+")
    value: str | None = string("0+", nullable="0+")


class AlterConfigsResource(Struct):
    """A topic or broker to configure."""

    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: list[AlterableConfig] = array(AlterableConfig, "0+")


class IncrementalAlterConfigsRequest(Message, api_key=44, versions="0-1", flexible="1+"):
    """Sets, deletes, appends to or subtracts from single configuration values."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource, "0+")
    validate_only: bool = boolean("0+")


class IncrementalAlterConfigsResponse(Message, api_key=44, versions="0-1", flexible="1+"):
    """One result a resource."""

    throttle_time_ms: int = int32("0+")
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse, "0+")
