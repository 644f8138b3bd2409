"""Reading and changing configurations."""

from typing import ClassVar, Final

from seglog.protocol.declaration.fields import (
    array,
    boolean,
    error_code,
    int8,
    int32,
    kafka_only,
    number_of,
    since,
    string,
)
from seglog.protocol.declaration.keys import ApiKey
from seglog.protocol.declaration.layout import variant
from seglog.protocol.declaration.operation import Operation, Withholding
from seglog.protocol.declaration.shape import kafka_order, shape
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import AlterConfigOperation, ConfigResourceType, ConfigSource
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


@shape
class ConfigSynonym:
    """One place a value could come from, in order of precedence."""

    name: str = string("1+")
    value: str | None = string("1+", nullable="0+")
    source: ConfigSource = number_of(ConfigSource, "int8", "1+")


def _type_number(entry: "ConfigEntry") -> int:
    return _TYPE_NUMBERS.get(entry.value_type, _UNKNOWN_TYPE)


def _name_type(entry: "ConfigEntry", number: int) -> None:
    names = {each: name for name, each in _TYPE_NUMBERS.items()}
    entry.value_type = names.get(number, "unknown")


@kafka_order("name", "value", "is_read_only", "is_default", "source", "is_sensitive", "synonyms",
             "value_number")  # fmt: skip
@shape
class ConfigEntry:
    """One configuration value; ``value`` is None where it is sensitive or not set.

    ``value_type`` is one of boolean, string, int, short, long, double, list, class, password.
    """

    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")
    source: ConfigSource = number_of(
        ConfigSource, "int8", "1+", kafka="config_source", absent=-1, ignorable=True
    )
    is_read_only: bool = boolean("0+", kafka="read_only", default=False)
    is_sensitive: bool = boolean("0+", default=False)
    value_type: str = string(default="string")
    documentation: str | None = string("3+", nullable="0+", default=None, absent="", ignorable=True)
    synonyms: list[ConfigSynonym] = array(ConfigSynonym, "1+", default_factory=list, ignorable=True)
    is_default: ClassVar = kafka_only(boolean("0", default=False))
    value_number: ClassVar = kafka_only(
        int8("3+", kafka="config_type", default=_UNKNOWN_TYPE, ignorable=True),
        take=_name_type,
        give=_type_number,
    )


@shape
class ConfigResource:
    """A topic by name, or a broker by id ("" for all brokers); ``keys`` None means all keys."""

    resource_type: ConfigResourceType | int = number_of(
        ConfigResourceType, "int8", "0+", is_open=True
    )
    name: str = string("0+", kafka="resource_name")
    keys: list[str] | None = array(
        "string", "0+", kafka="configuration_keys", nullable="0+", default=None
    )


@shape
class DescribeConfigsRequest:
    """Read configurations."""

    resources: list[ConfigResource] = array(ConfigResource, "0+")
    include_synonyms: bool = boolean("1+", default=False)
    include_documentation: bool = boolean("3+", default=False)


@kafka_order("error", "error_message")
@shape
class DescribeConfigsResult:
    """The values of one resource."""

    resource_type: ConfigResourceType | int = number_of(
        ConfigResourceType, "int8", "0+", is_open=True
    )
    name: str = string("0+", kafka="resource_name")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE)
    error_message: str | None = string("0+", nullable="0+", default=None)
    entries: list[ConfigEntry] = array(ConfigEntry, "0+", kafka="configs", default_factory=list)


@kafka_order("throttle_time_ms")
@shape
class DescribeConfigsResponse:
    """One result a resource."""

    resources: list[DescribeConfigsResult] = array(
        DescribeConfigsResult, "0+", kafka="results", answers="resources"
    )
    throttle_time_ms: int = int32("0+", default=0)


@shape
class ConfigChange:
    """One change of one key; the value is ignored for DELETE."""

    name: str = string("0+")
    operation: AlterConfigOperation = number_of(
        AlterConfigOperation,
        "int8",
        "0+",
        kafka="config_operation",
        absent=AlterConfigOperation.SET,
        is_withheld=True,
    )
    value: str | None = string("0+", nullable="0+", default=None)


@shape
class AlterConfigResource:
    """Changes of one resource; all are applied or none.

    With ``replace_all`` the SET changes are the whole new set of overrides (Kafka's AlterConfigs).
    """

    resource_type: ConfigResourceType | int = number_of(
        ConfigResourceType, "int8", "0+", is_open=True
    )
    name: str = string("0+", kafka="resource_name")
    changes: list[ConfigChange] = array(ConfigChange, "0+", kafka="configs")
    replace_all: bool = boolean(default=False)


@shape
class AlterConfigsRequest:
    """Change configurations of topics and brokers while the broker runs."""

    resources: list[AlterConfigResource] = array(AlterConfigResource, "0+")
    validate_only: bool = boolean("0+", default=False)


@kafka_order("error", "error_message")
@shape
class AlterConfigsResult:
    """What became of one resource."""

    resource_type: ConfigResourceType | int = number_of(
        ConfigResourceType, "int8", "0+", is_open=True
    )
    name: str = string("0+", kafka="resource_name")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE)
    error_message: str | None = string("0+", nullable="0+", default=None)


@kafka_order("throttle_time_ms")
@shape
class AlterConfigsResponse:
    """One result a resource."""

    resources: list[AlterConfigsResult] = array(
        AlterConfigsResult, "0+", kafka="responses", answers="resources"
    )
    throttle_time_ms: int = int32("0+", default=0)


def _take_unknown_operations(
    request: AlterConfigsRequest, _version: int
) -> list[AlterConfigsResult]:
    """Refuse resources with an operation that does not exist: it is still a plain number."""
    kept, refused = [], []
    for resource in request.resources:
        unknown = [
            each
            for each in resource.changes
            if not isinstance(each.operation, AlterConfigOperation)
        ]
        if unknown:
            text = f"{shortened(unknown[0].name)}: operation {unknown[0].operation} does not exist"
            refused.append(
                AlterConfigsResult(
                    resource.resource_type, resource.name, ErrorCode.INVALID_REQUEST, text
                )
            )
        else:
            kept.append(resource)
    request.resources = kept
    return refused


def _put_back(response: AlterConfigsResponse, refused: list[AlterConfigsResult]) -> None:
    response.resources = [*response.resources, *refused]


OPERATIONS: Final = (
    Operation(
        ApiKey.DESCRIBE_CONFIGS,
        DescribeConfigsRequest,
        DescribeConfigsResponse,
        versions="0-4",
        served="1-4",
        flexible="4+",
    ),
    Operation(
        ApiKey.ALTER_CONFIGS,
        variant(
            AlterConfigsRequest,
            resources=array(
                variant(
                    AlterConfigResource,
                    resource_type=number_of(ConfigResourceType, "int8", "0+", is_open=True),
                    name=string("0+", kafka="resource_name"),
                    changes=array(
                        variant(ConfigChange, name=string("0+"), value=string("0+", nullable="0+")),
                        "0+",
                        kafka="configs",
                    ),
                    replace_all=since("0+", default=False),
                ),
                "0+",
            ),
            validate_only=boolean("0+"),
        ),
        variant(AlterConfigsResponse),
        versions="0-2",
        flexible="2+",
        is_native=False,
    ),
    Operation(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        AlterConfigsRequest,
        AlterConfigsResponse,
        versions="0-1",
        flexible="1+",
        withholding=Withholding(_take_unknown_operations, _put_back),
    ),
)
