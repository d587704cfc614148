"""Configurations of topics and brokers are altered: checked as they would be afterwards, then changed."""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import partial

import msgspec

from kohort.broker.config import (
    BrokerConfig,
    ConfigDefinition,
    ConfigError,
    ConfigSource,
    ConfigType,
    ConfigValue,
    TopicConfig,
    topic_config,
)
from kohort.broker.config.current import CurrentConfig
from kohort.broker.metadata.snapshot import ConfigResource, Mutation, ResourceType, Snapshot, TopicState
from kohort.broker.metadata.store import Failed, MetadataStore, storage_error, update
from kohort.broker.metadata.topic_names import validate_topic_name
from kohort.broker.metadata.topic_plans import check_keeps_offsets, check_topic_configs
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.varint import MAX_STRING_BYTES

EVERY_BROKER = ""


class Operation(IntEnum):
    """The operation on one value. Source: org.apache.kafka.clients.admin.AlterConfigOp.OpType."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Step(msgspec.Struct, frozen=True):
    """One operation on one value; `operation` is as the client gave it."""

    name: str
    operation: int
    value: str | None


class ConfigChange(msgspec.Struct, frozen=True):
    """The changes of the configuration of one resource.

    The steps are applied to the current settings, or, for a replacement, to none.
    """

    type: int
    name: str
    steps: Sequence[Step]
    replace: bool = False


class Configs:
    """The stored configurations of topics and brokers, as this broker may change them."""

    def __init__(self, store: MetadataStore, current: CurrentConfig, node_id: int) -> None:
        self._store = store
        self._current = current
        self._node_id = node_id

    async def alter(
        self, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> list[ApiError | None]:
        """Return, in the order of the changes, None or the reason why a change can't be made.

        All possible changes are made together, even if others fail. A resource may
        appear in `changes` only once.
        """
        errors: list[ApiError | None] = []

        def decide(snapshot: Snapshot) -> Mutation:
            errors.clear()
            planned = Mutation()
            for change in changes:
                try:
                    planned = _joined(planned, self._plan(snapshot, planned, change))
                    errors.append(None)
                except ApiError as error:
                    errors.append(error)
            return Mutation() if validate_only else planned

        try:
            await update(self._store, decide)
        except Failed as error:
            failed = storage_error(error)
            return [each or failed for each in errors]
        return errors

    def _plan(self, snapshot: Snapshot, planned: Mutation, change: ConfigChange) -> Mutation:
        """Return the mutation that makes the change. Raises: ApiError."""
        if change.type == ResourceType.TOPIC:
            return _plan_topic(self._current.config, snapshot, change)
        if change.type == ResourceType.BROKER:
            return self._plan_broker(snapshot, planned, change)
        if change.type == ResourceType.GROUP:
            return _plan_group(self._current.config, snapshot, change)
        if change.type == ResourceType.CLIENT_METRICS:
            return _plan_client_metrics(snapshot, change)
        if change.type == ResourceType.BROKER_LOGGER:
            names = ", ".join(step.name for step in change.steps)
            raise ApiError(ErrorCode.INVALID_CONFIG, f"kohort has no broker logger configs; unknown: {names}")
        raise invalid_request(f"there is no resource type {change.type}")

    def _plan_broker(self, snapshot: Snapshot, planned: Mutation, change: ConfigChange) -> Mutation:
        resource = broker_resource(self._node_id, change.name)
        _check_dynamic(change.steps)
        layers = {**snapshot.configs, **planned.configs}
        before = layers.get(resource, {})
        lists = _lists_of(BrokerConfig.DEFINITIONS, self._current.config.value)
        configs = _stepped({} if change.replace else before, change.steps, lists)
        layers[resource] = configs
        self._check_broker(snapshot, layers)
        return Mutation() if configs == before else Mutation(configs={resource: configs})

    def _check_broker(self, snapshot: Snapshot, layers: Mapping[ConfigResource, Mapping[str, str]]) -> None:
        """Return if the broker and each of its topics can live with these configs. Raises: ApiError."""
        try:
            config = with_stored(self._current.config, self._node_id, layers)
            _check_reachable(config)
            for topic in snapshot.topics.values():
                topic_config(config, dict(topic.configs))
        except ConfigError as error:
            raise invalid_request(str(error)) from error


def _check_reachable(config: BrokerConfig) -> None:
    """Raise ApiError, as Kafka does, for limits under which nobody could connect to undo them."""
    if not config.max_connections:
        raise invalid_request("Invalid max.connections 0: nobody could connect any more")
    if not config.max_connections_per_ip:
        raise invalid_request("max.connections.per.ip can't be 0: nobody could connect any more")


def _joined(first: Mutation, second: Mutation) -> Mutation:
    return Mutation(put=(*first.put, *second.put), configs={**first.configs, **second.configs})


def invalid_request(message: str) -> ApiError:
    """Return the error for an invalid request."""
    return ApiError(ErrorCode.INVALID_REQUEST, message)


# -- topics -----------------------------------------------------------------------------------------------


def _plan_topic(config: BrokerConfig, snapshot: Snapshot, change: ConfigChange) -> Mutation:
    topic = existing_topic(snapshot, change.name)
    lists = _lists_of(TopicConfig.DEFINITIONS, topic_config(config, {}).value)
    configs = _stepped({} if change.replace else topic.configs, change.steps, lists)
    checked = check_topic_configs(config, configs)
    check_keeps_offsets(config, change.name, checked)
    if checked == topic.configs:
        return Mutation()
    return Mutation(put=(msgspec.structs.replace(topic, configs=checked),))


def existing_topic(snapshot: Snapshot, name: str) -> TopicState:
    """Return the topic with this name. Raises: ApiError if there is none, or can be none."""
    if not name:
        raise invalid_request("topics have no common configuration: name one")
    validate_topic_name(name)
    topic = snapshot.topics.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
    return topic


Lists = Callable[[str], tuple[str, ...] | None]
"""Returns the items that hold where nothing is set, or None for a name whose value is no list."""


def _lists_of(definitions: Mapping[str, ConfigDefinition], value: Callable[[str], ConfigValue]) -> Lists:
    def items(name: str) -> tuple[str, ...] | None:
        definition = definitions.get(name)
        is_list = definition is not None and definition.type is ConfigType.LIST
        return _items(value(name)) if is_list else None

    return items


def _items(value: ConfigValue) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


# -- groups -----------------------------------------------------------------------------------------------


def _plan_group(config: BrokerConfig, snapshot: Snapshot, change: ConfigChange) -> Mutation:
    from kohort.broker.config.group_settings import check_group_settings  # noqa: PLC0415  # Few groups have any.

    check = partial(check_group_settings, config)
    return _plan_resource(snapshot, group_resource(change.name), change, lambda _name: None, check)


def _plan_resource(
    snapshot: Snapshot,
    resource: ConfigResource,
    change: ConfigChange,
    lists: Lists,
    check: Callable[[dict[str, str]], object],
) -> Mutation:
    """Return the change of a resource that has no settings but its own; `check` raises ConfigError."""
    before = snapshot.configs.get(resource, {})
    configs = _stepped({} if change.replace else before, change.steps, lists)
    try:
        check(configs)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return Mutation() if configs == before else Mutation(configs={resource: configs})


def group_resource(name: str) -> ConfigResource:
    """Return the resource of this group. Raises: ApiError for none."""
    if not name:
        raise invalid_request("Default group resources are not allowed.")
    return ConfigResource(ResourceType.GROUP, name)


# -- client metrics ---------------------------------------------------------------------------------------


def _plan_client_metrics(snapshot: Snapshot, change: ConfigChange) -> Mutation:
    # Imported here, since few clusters have any.
    from kohort.broker.config.client_metrics_settings import ClientMetricsSettings  # noqa: PLC0415
    from kohort.broker.telemetry.subscriptions import check_client_metrics  # noqa: PLC0415

    lists = _lists_of(ClientMetricsSettings.DEFINITIONS, ClientMetricsSettings().value)
    resource = client_metrics_resource(change.name)
    return _plan_resource(snapshot, resource, change, lists, check_client_metrics)


def client_metrics_resource(name: str) -> ConfigResource:
    """Return the resource of this subscription to clients' metrics. Raises: ApiError for none."""
    if not name:
        raise invalid_request("Subscription name can't be empty")
    return ConfigResource(ResourceType.CLIENT_METRICS, name)


# -- brokers ----------------------------------------------------------------------------------------------


def broker_resource(node_id: int, name: str) -> ConfigResource:
    """Return the resource of this broker, or of every broker. Raises: ApiError for another one."""
    if name not in (EVERY_BROKER, str(node_id)):
        raise invalid_request(f"this is broker {node_id}, and {name!r} is not")
    return ConfigResource(ResourceType.BROKER, name)


def _check_dynamic(steps: Sequence[Step]) -> None:
    for step in steps:
        definition = BrokerConfig.DEFINITIONS.get(step.name)
        if definition is None:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"Unknown broker config name: {step.name}{BrokerConfig.hint(step.name)}",
            )
        if definition.read_only:
            raise invalid_request(f"{step.name} can only be set when the broker starts")


def with_stored(
    config: BrokerConfig, node_id: int, configs: Mapping[ConfigResource, Mapping[str, str]]
) -> BrokerConfig:
    """Return the broker's configuration over its stored settings. Raises: ConfigError."""
    own = configs.get(ConfigResource(ResourceType.BROKER, str(node_id)), {})
    common = configs.get(ConfigResource(ResourceType.BROKER, EVERY_BROKER), {})
    return config.with_dynamic(dict(own), dict(common))


def follow_broker_config(store: MetadataStore, current: CurrentConfig, node_id: int) -> None:
    """Keep `current` equal to the stored settings.

    It must be the first watcher of the store: later ones see the new configuration.
    Raises: ConfigError if the stored settings contradict those of the start.
    """

    def follow(before: Snapshot, after: Snapshot) -> None:
        if before.configs != after.configs:
            current.config = with_stored(current.config, node_id, after.configs)

    snapshot = store.snapshot()
    if snapshot.configs:
        current.config = with_stored(current.config, node_id, snapshot.configs)
    store.watch(follow)


# -- single values ----------------------------------------------------------------------------------------


def _stepped(configs: Mapping[str, str], steps: Sequence[Step], lists: Lists) -> dict[str, str]:
    """Return the configs after the steps. Raises: ApiError."""
    if len({step.name for step in steps}) != len(steps):
        raise invalid_request("a config name stands twice for one resource")
    after = dict(configs)
    for step in steps:
        if step.operation == Operation.DELETE:
            after.pop(step.name, None)
        elif step.operation not in tuple(Operation):
            raise invalid_request(f"there is no operation {step.operation} on configs")
        elif step.value is None:
            raise invalid_request(f"a value is needed to set, append or subtract: {step.name}")
        elif step.operation == Operation.SET:
            after[step.name] = step.value
        else:
            after[step.name] = _changed_list(after.get(step.name), step, step.value, lists)
    return after


def _changed_list(present: str | None, step: Step, value: str, lists: Lists) -> str:
    """Return the list with the items of `value` added, each once, or taken away."""
    items = lists(step.name)
    if items is None:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{step.name} is no list: set or delete it")
    if present is not None:
        items = _split(present)
    given = _split(value)
    if step.operation == Operation.APPEND:
        longer = ",".join(dict.fromkeys((*items, *given)))
        if len(longer.encode()) > MAX_STRING_BYTES:
            raise invalid_request(f"{step.name} would be longer than an answer has room for")
        return longer
    return ",".join(item for item in items if item not in given)


def _split(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",")) if text else ()


def cluster_wide(config: BrokerConfig) -> Mapping[str, str | None]:
    """Return the altered settings for every broker."""
    return config.layer(ConfigSource.DYNAMIC_DEFAULT_BROKER)
