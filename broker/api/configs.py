"""DescribeConfigs and both forms of AlterConfigs, for topics and brokers, without a restart."""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Final

from seglog.broker.api.context import Pending, RequestContext
from seglog.broker.api.services import Services
from seglog.broker.errors import RequestError, describe_error
from seglog.broker.storage.layout import INTERNAL_TOPICS, check_topic_name
from seglog.broker.storage.topic_catalog import CatalogTopic
from seglog.config import BROKER_KEYS, TOPIC_KEYS, ConfigError, ConfigKey, ValueType
from seglog.config.describe import DescribedConfig, describe_broker, describe_topic
from seglog.protocol.api import (
    AlterConfigResource,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResult,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSynonym,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from seglog.protocol.errors import ErrorCode, SeglogError
from seglog.protocol.types import AlterConfigOperation, ConfigResourceType, ConfigSource

_COMPACT_ONLY: Final = frozenset({"compact"})


class DescribeConfigsOperation:
    """Answers describe-configs requests."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: DescribeConfigsRequest, _context: RequestContext
    ) -> DescribeConfigsResponse:
        """Describe every resource; each has its own result."""
        return DescribeConfigsResponse(
            [self._describe(resource, request) for resource in request.resources]
        )

    def _describe(
        self, resource: ConfigResource, request: DescribeConfigsRequest
    ) -> DescribeConfigsResult:
        result = DescribeConfigsResult(resource.resource_type, resource.name)
        try:
            described = self._settings_of(resource)
        except (SeglogError, ConfigError) as error:
            result.error, result.error_message = describe_error(error)
            return result
        wanted = None if resource.keys is None else set(resource.keys)
        result.entries = [
            config_entry(
                setting,
                with_synonyms=request.include_synonyms,
                with_documentation=request.include_documentation,
            )
            for setting in described
            if wanted is None or setting.name in wanted
        ]
        return result

    def _settings_of(self, resource: ConfigResource) -> list[DescribedConfig]:
        config = self._services.config
        if resource.resource_type == ConfigResourceType.TOPIC:
            return describe_topic(config, _topic_named(self._services, resource.name).configs)
        if resource.resource_type == ConfigResourceType.BROKER:
            if _is_for_all_brokers(self._services, resource.name):
                names = config.dynamic_defaults
                return [entry for entry in describe_broker(config) if entry.name in names]
            return describe_broker(config)
        raise _unsupported(resource.resource_type)


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


class AlterConfigsOperation:
    """Answers alter-configs requests: checked, made durable, put into force, in this order."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: AlterConfigsRequest, _context: RequestContext
    ) -> Pending[AlterConfigsResponse]:
        """Change every resource; all changes of one are applied or none."""
        return self._services.begin(self._alter_all(request), holds_input=True)

    async def _alter_all(self, request: AlterConfigsRequest) -> AlterConfigsResponse:
        results: list[AlterConfigsResult] = []
        named = Counter(map(_key_of, request.resources))
        async with self._services.changing:
            for resource in request.resources:
                result = AlterConfigsResult(resource.resource_type, resource.name)
                try:
                    if named[_key_of(resource)] > 1:
                        # Neither: nobody knows which of the two is meant.
                        raise RequestError(
                            ErrorCode.INVALID_REQUEST, f"{resource.name!r} is named twice"
                        )
                    await self._alter(resource, validate_only=request.validate_only)
                except (SeglogError, ConfigError) as error:
                    result.error, result.error_message = describe_error(error)
                results.append(result)
        return AlterConfigsResponse(results)

    async def _alter(self, resource: AlterConfigResource, *, validate_only: bool) -> None:
        if resource.resource_type == ConfigResourceType.TOPIC:
            await self._alter_topic(resource, validate_only=validate_only)
        elif resource.resource_type == ConfigResourceType.BROKER:
            await self._alter_broker(resource, validate_only=validate_only)
        else:
            raise _unsupported(resource.resource_type)

    async def _alter_topic(self, resource: AlterConfigResource, *, validate_only: bool) -> None:
        services = self._services
        topic = _topic_named(services, resource.name)
        effective = {
            setting.name: setting.value
            for setting in describe_topic(services.config, topic.configs)
        }
        configs = _changed(topic.configs, resource, TOPIC_KEYS, effective)
        log_config = services.config.log_config(configs)
        if topic.name in INTERNAL_TOPICS and log_config.cleanup_policy != _COMPACT_ONLY:
            # Also without a word about it: the older request leaves out what it does not set.
            raise RequestError(
                ErrorCode.INVALID_CONFIG,
                f"topic {topic.name!r} is internal and keeps cleanup.policy=compact: deleting by "
                "age or size would lose what clients were told is stored",
            )
        if not validate_only:
            await services.topics.configure(topic.name, configs, log_config)

    async def _alter_broker(self, resource: AlterConfigResource, *, validate_only: bool) -> None:
        services = self._services
        config = services.config
        for_all = _is_for_all_brokers(services, resource.name)
        current = config.dynamic_defaults if for_all else config.dynamic
        effective = {setting.name: setting.value for setting in describe_broker(config)}
        wanted = _changed(current, resource, BROKER_KEYS, effective)
        updates: dict[str, str | None] = {name: None for name in current if name not in wanted}
        updates.update((name, text) for name, text in wanted.items() if current.get(name) != text)
        changed = config.with_dynamic(updates, cluster_default=for_all)
        for topic in services.catalog.topics():
            # A new default may contradict what a topic has set for itself.
            changed.log_config(topic.configs)
        if not validate_only:
            change = partial(
                services.catalog.alter_broker, changed.dynamic, changed.dynamic_defaults
            )
            try:
                await services.workers.changes.run(change)
            finally:
                services.partitions.take_failures()
            services.change_config(changed)


def _key_of(resource: AlterConfigResource) -> tuple[int, str]:
    return (int(resource.resource_type), resource.name)


def _topic_named(services: Services, name: str) -> CatalogTopic:
    check_topic_name(name)
    topic = services.catalog.get(name)
    if topic is None:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    return topic


def _is_for_all_brokers(services: Services, name: str) -> bool:
    """Whether a broker resource means the defaults of all brokers; otherwise it is this one."""
    if name in ("", str(services.node_id)):
        return name == ""
    raise RequestError(
        ErrorCode.INVALID_REQUEST,
        f"broker {name!r} is not this one: allowed are {services.node_id} and ''",
    )


def _unsupported(resource_type: int) -> RequestError:
    return RequestError(
        ErrorCode.INVALID_REQUEST,
        f"configurations of resource type {int(resource_type)} are not kept here: "
        "allowed are 2 (topic) and 4 (broker)",
    )


def _changed(
    current: Mapping[str, str],
    resource: AlterConfigResource,
    keys: Mapping[str, ConfigKey],
    effective: Mapping[str, str | None],
) -> dict[str, str]:
    """The overrides of a resource after its changes; values are checked by the caller.

    ``effective`` gives the value that APPEND and SUBTRACT start from where nothing is overridden.
    """
    configs = {} if resource.replace_all else dict(current)
    names: set[str] = set()
    for change in resource.changes:
        if change.name in names:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"{change.name} is changed twice")
        names.add(change.name)
        _apply(change, configs, keys, effective)
    return configs


def _apply(
    change: ConfigChange,
    configs: dict[str, str],
    keys: Mapping[str, ConfigKey],
    effective: Mapping[str, str | None],
) -> None:
    name = change.name
    if change.operation == AlterConfigOperation.DELETE:
        configs.pop(name, None)
        return
    if change.value is None:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"{name} needs a value")
    if change.operation == AlterConfigOperation.SET:
        configs[name] = change.value
        return
    key = keys.get(name)
    if key is None or key.value_type is not ValueType.LIST:
        raise RequestError(
            ErrorCode.INVALID_CONFIG, f"{name} is no list: only lists can be added to or taken from"
        )
    parts = _split(configs.get(name, effective.get(name)))
    named = _split(change.value)
    if change.operation == AlterConfigOperation.APPEND:
        parts += [part for part in named if part not in parts]
    else:
        parts = [part for part in parts if part not in named]
    configs[name] = ",".join(parts)


def _split(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]
