"""DescribeConfigs."""

from seglog.protocol.kafka.schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
)


class DescribeConfigsResource(Struct):
    """A topic, broker or group whose configuration is asked for."""

    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configuration_keys: list[str] | None = array("string", "0+", nullable="0+")


class DescribeConfigsRequest(Message, api_key=32, versions="0-4", flexible="4+", served="1-4"):
    """Reads configurations; null keys means all of them."""

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource, "0+")
    include_synonyms: bool = boolean("1+", default=False)
    include_documentation: bool = boolean("3+", default=False)


class DescribeConfigsSynonym(Struct):
    """A place the value could come from."""

    name: str = string("1+")
    value: str | None = string("1+", nullable="0+")
    source: int = int8("1+")


class DescribeConfigsResourceResult(Struct):
    """One configuration value."""

    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")
    read_only: bool = boolean("0+")
    is_default: bool = boolean("0", default=False)
    config_source: int = int8("1+", default=-1, ignorable=True)
    is_sensitive: bool = boolean("0+")
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+", ignorable=True)
    config_type: int = int8("3+", default=0, ignorable=True)
    documentation: str | None = string("3+", nullable="0+", ignorable=True)


class DescribeConfigsResult(Struct):
    """The configuration of one resource."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult, "0+")


class DescribeConfigsResponse(Message, api_key=32, versions="0-4", flexible="4+"):
    """One result a resource."""

    throttle_time_ms: int = int32("0+")
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult, "0+")
