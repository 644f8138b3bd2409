"""Reading and changing configurations."""

from seglog.protocol.declaration.shape import field, shape
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import AlterConfigOperation, ConfigResourceType, ConfigSource


@shape
class ConfigSynonym:
    """One place a value could come from, in order of precedence."""

    name: str
    value: str | None
    source: ConfigSource


@shape
class ConfigEntry:
    """One configuration value; ``value`` is None where it is sensitive or not set.

    ``value_type`` is one of boolean, string, int, short, long, double, list, class, password.
    """

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool = False
    is_sensitive: bool = False
    value_type: str = "string"
    documentation: str | None = None
    synonyms: list[ConfigSynonym] = field(default_factory=list)


@shape
class ConfigResource:
    """A topic by name, or a broker by id ("" for all brokers); ``keys`` None means all keys."""

    resource_type: ConfigResourceType | int
    name: str
    keys: list[str] | None = None


@shape
class DescribeConfigsRequest:
    """Read configurations."""

    resources: list[ConfigResource]
    include_synonyms: bool = False
    include_documentation: bool = False


@shape
class DescribeConfigsResult:
    """The values of one resource."""

    resource_type: ConfigResourceType | int
    name: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    entries: list[ConfigEntry] = field(default_factory=list)


@shape
class DescribeConfigsResponse:
    """One result a resource."""

    resources: list[DescribeConfigsResult]
    throttle_time_ms: int = 0


@shape
class ConfigChange:
    """One change of one key; the value is ignored for DELETE."""

    name: str
    operation: AlterConfigOperation
    value: str | None = None


@shape
class AlterConfigResource:
    """Changes of one resource; all are applied or none.

    With ``replace_all`` the SET changes are the whole new set of overrides (Kafka's AlterConfigs).
    """

    resource_type: ConfigResourceType | int
    name: str
    changes: list[ConfigChange]
    replace_all: bool = False


@shape
class AlterConfigsRequest:
    """Change configurations of topics and brokers while the broker runs."""

    resources: list[AlterConfigResource]
    validate_only: bool = False


@shape
class AlterConfigsResult:
    """What became of one resource."""

    resource_type: ConfigResourceType | int
    name: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@shape
class AlterConfigsResponse:
    """One result a resource."""

    resources: list[AlterConfigsResult]
    throttle_time_ms: int = 0
