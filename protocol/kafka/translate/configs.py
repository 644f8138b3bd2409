"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.declaration.operation import Withholding
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.messages import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
)
from seglog.protocol.kafka.translate.operation import Operation
from seglog.protocol.types import AlterConfigOperation, ConfigResourceType
from seglog.protocol.wording import shortened

_TYPE_NUMBERS: Final = {
    "boolean": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
}
_UNKNOWN_TYPE: Final = 0
_OPERATIONS: Final = {int(operation): operation for operation in AlterConfigOperation}
_RESOURCE_TYPES: Final = {int(kind): kind for kind in ConfigResourceType}


def _resource_type(number: int) -> ConfigResourceType | int:
    """The type with this number, or the number: the handler refuses what it does not have."""
    return _RESOURCE_TYPES.get(number, number)


def read_describe(
    message: describe_configs.DescribeConfigsRequest, _version: int
) -> api.DescribeConfigsRequest:
    """Name the types of the resources."""
    return api.DescribeConfigsRequest(
        [
            api.ConfigResource(
                _resource_type(each.resource_type), each.resource_name, each.configuration_keys
            )
            for each in message.resources
        ],
        message.include_synonyms,
        message.include_documentation,
    )


def write_describe(
    response: api.DescribeConfigsResponse, _version: int
) -> describe_configs.DescribeConfigsResponse:
    """Types become numbers; types and documentation are dropped below version 3."""
    # Thousands of topics may share one list of entries.
    entries = {id(result.entries): result.entries for result in response.resources}
    written = {key: [_write_entry(entry) for entry in each] for key, each in entries.items()}
    return describe_configs.DescribeConfigsResponse(
        throttle_time_ms=response.throttle_time_ms,
        results=[
            describe_configs.DescribeConfigsResult(
                error_code=result.error,
                error_message=result.error_message,
                resource_type=result.resource_type,
                resource_name=result.name,
                configs=written[id(result.entries)],
            )
            for result in response.resources
        ],
    )


def _write_entry(entry: api.ConfigEntry) -> describe_configs.DescribeConfigsResourceResult:
    return describe_configs.DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            describe_configs.DescribeConfigsSynonym(
                name=synonym.name, value=synonym.value, source=synonym.source
            )
            for synonym in entry.synonyms
        ],
        config_type=_TYPE_NUMBERS.get(entry.value_type, _UNKNOWN_TYPE),
        documentation=entry.documentation,
    )


def fail_describe(
    request: api.DescribeConfigsRequest, error: ErrorCode, message: str | None
) -> api.DescribeConfigsResponse:
    """Refuse every resource."""
    return api.DescribeConfigsResponse(
        [
            api.DescribeConfigsResult(each.resource_type, each.name, error, message)
            for each in request.resources
        ]
    )


def read_alter(
    message: alter_configs.AlterConfigsRequest, _version: int
) -> api.AlterConfigsRequest:
    """The values are the whole new set of overrides."""
    return api.AlterConfigsRequest(
        [
            api.AlterConfigResource(
                _resource_type(each.resource_type),
                each.resource_name,
                [
                    api.ConfigChange(config.name, AlterConfigOperation.SET, config.value)
                    for config in each.configs
                ],
                replace_all=True,
            )
            for each in message.resources
        ],
        message.validate_only,
    )


def write_alter(
    response: api.AlterConfigsResponse, _version: int
) -> alter_configs.AlterConfigsResponse:
    """One result a resource."""
    return alter_configs.AlterConfigsResponse(
        throttle_time_ms=response.throttle_time_ms,
        responses=_write_results(response),
    )


def _write_results(
    response: api.AlterConfigsResponse,
) -> list[alter_configs.AlterConfigsResourceResponse]:
    return [
        alter_configs.AlterConfigsResourceResponse(
            error_code=result.error,
            error_message=result.error_message,
            resource_type=result.resource_type,
            resource_name=result.name,
        )
        for result in response.resources
    ]


def fail_alter(
    request: api.AlterConfigsRequest, error: ErrorCode, message: str | None
) -> api.AlterConfigsResponse:
    """Refuse every resource."""
    return api.AlterConfigsResponse(
        [
            api.AlterConfigsResult(each.resource_type, each.name, error, message)
            for each in request.resources
        ]
    )


def read_incremental(
    message: incremental_alter_configs.IncrementalAlterConfigsRequest, _version: int
) -> api.AlterConfigsRequest:
    """Name the operations; an unknown one stays a number for ``take_unknown_operations``."""
    return api.AlterConfigsRequest(
        [
            api.AlterConfigResource(
                _resource_type(each.resource_type),
                each.resource_name,
                [
                    api.ConfigChange(
                        config.name,
                        _OPERATIONS.get(config.config_operation, config.config_operation),  # type: ignore[arg-type]  # taken out before a handler sees it
                        config.value,
                    )
                    for config in each.configs
                ],
            )
            for each in message.resources
        ],
        message.validate_only,
    )


def take_unknown_operations(
    request: api.AlterConfigsRequest, _version: int
) -> list[api.AlterConfigsResult]:
    """Refuse resources with an operation that does not exist."""
    kept, refused = [], []
    for resource in request.resources:
        unknown = [each for each in resource.changes if each.operation not in _OPERATIONS]
        if unknown:
            text = f"{shortened(unknown[0].name)}: operation {unknown[0].operation} does not exist"
            refused.append(
                api.AlterConfigsResult(
                    resource.resource_type, resource.name, ErrorCode.INVALID_REQUEST, text
                )
            )
        else:
            kept.append(resource)
    request.resources = kept
    return refused


def put_back(response: api.AlterConfigsResponse, refused: list[api.AlterConfigsResult]) -> None:
    """Add the refusals of ``take_unknown_operations``."""
    response.resources = [*response.resources, *refused]


def write_incremental(
    response: api.AlterConfigsResponse, _version: int
) -> incremental_alter_configs.IncrementalAlterConfigsResponse:
    """One result a resource."""
    return incremental_alter_configs.IncrementalAlterConfigsResponse(
        throttle_time_ms=response.throttle_time_ms,
        responses=_write_results(response),
    )


OPERATIONS: Final = (
    Operation(
        ApiKey.DESCRIBE_CONFIGS,
        describe_configs.DescribeConfigsRequest,
        describe_configs.DescribeConfigsResponse,
        read_describe,
        write_describe,
        fail_describe,
    ),
    Operation(
        ApiKey.ALTER_CONFIGS,
        alter_configs.AlterConfigsRequest,
        alter_configs.AlterConfigsResponse,
        read_alter,
        write_alter,
        fail_alter,
    ),
    Operation(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        incremental_alter_configs.IncrementalAlterConfigsRequest,
        incremental_alter_configs.IncrementalAlterConfigsResponse,
        read_incremental,
        write_incremental,
        fail_alter,
        Withholding(take_unknown_operations, put_back),
    ),
)
