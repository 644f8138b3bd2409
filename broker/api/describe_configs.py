"""DescribeConfigs: each setting of topics and brokers, and where its value comes from."""

import asyncio
from collections.abc import Callable, Hashable
from functools import partial
from typing import Final, TypeAlias

from seglog.broker.errors import RequestError, describe_error
from seglog.broker.requests.context import Pending, RequestContext
from seglog.broker.requests.services import Services
from seglog.broker.storage.directories.topic_catalog import CatalogTopic
from seglog.broker.storage.files.layout import check_topic_name
from seglog.config import BrokerConfig, ConfigError
from seglog.config.describe import DescribedConfig, describe_broker, describe_topic
from seglog.protocol.api import (
    ConfigEntry,
    ConfigResource,
    ConfigSynonym,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from seglog.protocol.errors import ErrorCode, SeglogError
from seglog.protocol.types import ConfigResourceType, ConfigSource

_SLICE: Final = 50
"""After so many resources were described others get their turn."""
_EntriesOf: TypeAlias = dict[Hashable, list[ConfigEntry]]
"""What one request has described already; see ``DescribeConfigsOperation._settings_of``."""


class DescribeConfigsOperation:
    """Answers describe-configs requests."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: DescribeConfigsRequest, _context: RequestContext
    ) -> DescribeConfigsResponse | Pending[DescribeConfigsResponse]:
        """Describe every resource, once however often it is named; each has its own result."""
        resources = _named_once(request.resources)
        if len(resources) <= _SLICE:
            entries: _EntriesOf = {}
            return DescribeConfigsResponse(
                [self._describe(each, request, entries) for each in resources]
            )
        return self._services.begin(self._describe_many(resources, request), holds_input=False)

    async def _describe_many(
        self, resources: list[ConfigResource], request: DescribeConfigsRequest
    ) -> DescribeConfigsResponse:
        entries: _EntriesOf = {}
        results = []
        for number, resource in enumerate(resources, 1):
            results.append(self._describe(resource, request, entries))
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        return DescribeConfigsResponse(results)

    def _describe(
        self, resource: ConfigResource, request: DescribeConfigsRequest, known: _EntriesOf
    ) -> DescribeConfigsResult:
        result = DescribeConfigsResult(resource.resource_type, resource.name)
        config = self._services.config
        try:
            described, key = self._settings_of(resource, config)
            entries = known.get(key)
            if entries is None:
                entries = known[key] = [
                    config_entry(
                        setting,
                        with_synonyms=request.include_synonyms,
                        with_documentation=request.include_documentation,
                    )
                    for setting in described()
                ]
        except (SeglogError, ConfigError) as error:
            result.error, result.error_message = describe_error(error)
            return result
        # An empty list of keys asks for all, as none does: kafka-python sends ``configs=[]``.
        wanted = set(resource.keys or ())
        result.entries = [entry for entry in entries if entry.name in wanted] if wanted else entries
        return result

    def _settings_of(
        self, resource: ConfigResource, config: BrokerConfig
    ) -> tuple[Callable[[], list[DescribedConfig]], Hashable]:
        """What describes a resource, and a key that is the same for what looks the same.

        Most topics have the same few settings of their own: they are described once a request.
        """
        if resource.resource_type == ConfigResourceType.TOPIC:
            own = topic_named(self._services, resource.name).configs
            return partial(describe_topic, config, own), (config, *sorted(own.items()))
        if resource.resource_type == ConfigResourceType.BROKER:
            for_all = is_for_all_brokers(self._services, resource.name)
            return partial(_describe_broker, config, for_all=for_all), (config, for_all)
        raise unsupported(resource.resource_type)


def _describe_broker(config: BrokerConfig, *, for_all: bool) -> list[DescribedConfig]:
    described = describe_broker(config)
    if for_all:
        return [entry for entry in described if entry.name in config.dynamic_defaults]
    return described


def _named_once(resources: list[ConfigResource]) -> list[ConfigResource]:
    """Each resource once, with all keys that are asked for."""
    once: dict[tuple[int, str], ConfigResource] = {}
    for resource in resources:
        first = once.setdefault((int(resource.resource_type), resource.name), resource)
        if first is not resource:
            if not first.keys or not resource.keys:
                first.keys = None
            else:
                first.keys += resource.keys
    return list(once.values())


def config_entry(
    setting: DescribedConfig, *, with_synonyms: bool = False, with_documentation: bool = False
) -> ConfigEntry:
    """One setting as a response carries it."""
    synonyms = setting.synonyms if with_synonyms else ()
    return ConfigEntry(
        setting.name,
        setting.value,
        ConfigSource(setting.source),
        setting.is_read_only,
        setting.is_sensitive,
        setting.value_type.value,
        setting.documentation if with_documentation else None,
        [
            ConfigSynonym(synonym.name, synonym.value, ConfigSource(synonym.source))
            for synonym in synonyms
        ],
    )


def topic_named(services: Services, name: str) -> CatalogTopic:
    """The topic of a resource.

    Raises:
        RequestError, InvalidTopicNameError: there is none, or can be none, of this name.
    """
    check_topic_name(name)
    topic = services.catalog.get(name)
    if topic is None:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    return topic


def is_for_all_brokers(services: Services, name: str) -> bool:
    """Whether a broker resource means the defaults of all brokers; otherwise it is this one.

    Raises:
        RequestError: it is another broker.
    """
    if name in ("", str(services.node_id)):
        return name == ""
    raise RequestError(
        ErrorCode.INVALID_REQUEST,
        f"broker {name!r} is not this one: allowed are {services.node_id} and ''",
    )


def unsupported(resource_type: int) -> RequestError:
    """The error for a resource that has no settings here."""
    return RequestError(
        ErrorCode.INVALID_REQUEST,
        f"configurations of resource type {int(resource_type)} are not kept here: "
        "allowed are 2 (topic) and 4 (broker)",
    )
