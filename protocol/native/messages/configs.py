"""Reading and changing configurations."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.native.fields import (
    BOOLEAN,
    NULLABLE_STRING,
    STRING,
    enum_of,
    list_of,
    nullable,
)
from seglog.protocol.native.messages.common_fields import (
    NAMES,
    OUTCOME,
    THROTTLE,
)
from seglog.protocol.native.operation import Operation
from seglog.protocol.native.schema import Message
from seglog.protocol.types import AlterConfigOperation, ConfigResourceType, ConfigSource

_CONFIG_SOURCE: Final = enum_of(ConfigSource)
_CONFIG_RESOURCE: Final = enum_of(ConfigResourceType, open_ended=True)
_CONFIG_OPERATION: Final = enum_of(AlterConfigOperation)
CONFIG_ENTRY: Final = Message(
    api.ConfigEntry,
    name=STRING,
    value=NULLABLE_STRING,
    source=_CONFIG_SOURCE,
    is_read_only=BOOLEAN,
    is_sensitive=BOOLEAN,
    value_type=STRING,
    documentation=NULLABLE_STRING,
    synonyms=list_of(
        Message(api.ConfigSynonym, name=STRING, value=NULLABLE_STRING, source=_CONFIG_SOURCE).field
    ),
)
DESCRIBE_CONFIGS_REQUEST: Final = Message(
    api.DescribeConfigsRequest,
    resources=list_of(
        Message(
            api.ConfigResource, resource_type=_CONFIG_RESOURCE, name=STRING, keys=nullable(NAMES)
        ).field
    ),
    include_synonyms=BOOLEAN,
    include_documentation=BOOLEAN,
)
DESCRIBE_CONFIGS_RESPONSE: Final = Message(
    api.DescribeConfigsResponse,
    resources=list_of(
        Message(
            api.DescribeConfigsResult,
            resource_type=_CONFIG_RESOURCE,
            name=STRING,
            **OUTCOME,
            entries=list_of(CONFIG_ENTRY.field),
        ).field
    ),
    **THROTTLE,
)
ALTER_CONFIGS_REQUEST: Final = Message(
    api.AlterConfigsRequest,
    resources=list_of(
        Message(
            api.AlterConfigResource,
            resource_type=_CONFIG_RESOURCE,
            name=STRING,
            changes=list_of(
                Message(
                    api.ConfigChange,
                    name=STRING,
                    operation=_CONFIG_OPERATION,
                    value=NULLABLE_STRING,
                ).field
            ),
            replace_all=BOOLEAN,
        ).field
    ),
    validate_only=BOOLEAN,
)
ALTER_CONFIGS_RESPONSE: Final = Message(
    api.AlterConfigsResponse,
    resources=list_of(
        Message(
            api.AlterConfigsResult, resource_type=_CONFIG_RESOURCE, name=STRING, **OUTCOME
        ).field
    ),
    **THROTTLE,
)

OPERATIONS: Final = (
    Operation(ApiKey.DESCRIBE_CONFIGS, DESCRIBE_CONFIGS_REQUEST, DESCRIBE_CONFIGS_RESPONSE),
    Operation(ApiKey.INCREMENTAL_ALTER_CONFIGS, ALTER_CONFIGS_REQUEST, ALTER_CONFIGS_RESPONSE),
)
