"""Both forms of AlterConfigs, for topics and brokers, without a restart."""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Final

from seglog.broker.api.describe_configs import is_for_all_brokers, topic_named, unsupported
from seglog.broker.errors import RequestError, describe_error
from seglog.broker.requests.context import Pending, RequestContext
from seglog.broker.requests.services import Services
from seglog.broker.storage.files.layout import INTERNAL_TOPICS
from seglog.broker.storage.log.retention import frees_space
from seglog.config import BROKER_KEYS, TOPIC_KEYS, BrokerConfig, ConfigError, ConfigKey, ValueType
from seglog.config.describe import describe_broker, describe_topic
from seglog.protocol.api import (
    AlterConfigResource,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResult,
    ConfigChange,
)
from seglog.protocol.errors import ErrorCode, SeglogError
from seglog.protocol.types import AlterConfigOperation, ConfigResourceType

_COMPACT_ONLY: Final = frozenset({"compact"})


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
                        # Neither: it is unknown which of the two is meant.
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
            raise unsupported(resource.resource_type)

    async def _alter_topic(self, resource: AlterConfigResource, *, validate_only: bool) -> None:
        services = self._services
        topic = topic_named(services, resource.name)
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
        for_all = is_for_all_brokers(services, resource.name)
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
                services.catalog.alter_broker,
                changed.dynamic,
                changed.dynamic_defaults,
                frees_space=_frees_space(config, changed),
            )
            await services.workers.catalog.run(change)
            services.change_config(changed)


def _frees_space(old: BrokerConfig, new: BrokerConfig) -> bool:
    """Whether other settings of the broker let more be deleted than before."""
    limit = new.log_dir_bytes_max
    return (
        (limit >= 0 and (old.log_dir_bytes_max < 0 or limit < old.log_dir_bytes_max))
        or new.log_dir_free_bytes_min > old.log_dir_free_bytes_min
        or frees_space(old.log_config({}), new.log_config({}))
    )


def _key_of(resource: AlterConfigResource) -> tuple[int, str]:
    return (int(resource.resource_type), resource.name)


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
