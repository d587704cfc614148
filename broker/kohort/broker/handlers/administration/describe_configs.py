"""DescribeConfigs: the values of topics and brokers, and where each comes from."""

from collections.abc import Coroutine, Sequence

from kohort.broker.config import ConfigEntry, ConfigSource, ConfigSynonym, describe_broker, describe_topic
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata import ResourceType
from kohort.broker.metadata.configs import (
    EVERY_BROKER,
    broker_resource,
    client_metrics_resource,
    cluster_wide,
    existing_topic,
    group_resource,
    invalid_request,
)
from kohort.broker.metadata.topic_names import validate_topic_name
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

RESOURCES_PER_TURN = 200
NEW_PER_TURN = 20  # Each resource takes half a millisecond without sharing.
ENTRIES_MAX = 200_000
"""Settings and synonyms in one answer: 0.2 s of encoding. Kafka has no limit."""

Resource = tuple[int, str]
Described = tuple[DescribeConfigsResourceResult, ...]


def handle(
    admin: Administration, message: DescribeConfigsRequest, request: Request
) -> DescribeConfigsResponse | Coroutine[object, object, DescribeConfigsResponse | None]:
    """Return each resource's values, once; unknown names are skipped.

    A long answer yields to other requests in between.
    """
    resources: dict[Resource, DescribeConfigsResource] = {}
    for each in message.resources:
        resources.setdefault((each.resource_type, each.resource_name), each)
    describing = _Describing(admin, message)
    if len(resources) > NEW_PER_TURN:
        return _in_turns(admin, describing, tuple(resources.values()), request)
    results = tuple(describing.result(each) for each in resources.values())
    return DescribeConfigsResponse(throttle_time_ms=0, results=results)


async def _in_turns(
    admin: Administration,
    describing: "_Describing",
    resources: Sequence[DescribeConfigsResource],
    request: Request,
) -> DescribeConfigsResponse | None:
    """Return the answer; None if the client has disconnected: then the work stops."""
    results: list[DescribeConfigsResult] = []
    for place, each in enumerate(resources):
        if place % RESOURCES_PER_TURN == 0 or describing.new >= NEW_PER_TURN:
            describing.new = 0
            await admin.workers.give_way()
            if request.connection.closed:
                return None
        results.append(describing.result(each))
    return DescribeConfigsResponse(throttle_time_ms=0, results=tuple(results))


class _Describing:
    """One running answer: resources with the same settings share their description."""

    def __init__(self, admin: Administration, message: DescribeConfigsRequest) -> None:
        self.new = 0
        """How many descriptions were made, and not taken from known ones, since a caller has set it to 0."""
        self._admin = admin
        self._message = message
        self._config = admin.current.config
        self._known: dict[object, Described] = {}
        self._left = ENTRIES_MAX

    def result(self, resource: DescribeConfigsResource) -> DescribeConfigsResult:
        """Return the result for the resource."""
        try:
            described = self._described(resource)
            self._left -= sum(1 + len(each.synonyms) for each in described)
            if self._left < 0:
                raise invalid_request(
                    f"the answer would have more than {ENTRIES_MAX} settings: ask for fewer resources at once"
                )
        except ApiError as error:
            return _result(resource, error.code, error.message, ())
        return _result(resource, ErrorCode.NONE, None, described)

    def _described(self, resource: DescribeConfigsResource) -> Described:
        """Return the resource's settings. Raises: ApiError."""
        if self._config is not self._admin.current.config:
            self._config = self._admin.current.config
            self._known.clear()
        key = resource.resource_type, _own(self._admin, resource), resource.configuration_keys
        found = self._known.get(key)
        if found is None:
            self.new += 1
            wanted = frozenset(resource.configuration_keys or ())
            found = self._known[key] = tuple(
                _described(entry, self._message)
                for entry in _entries(self._admin, resource)
                if not wanted or entry.name in wanted
            )
        return found


def _own(admin: Administration, resource: DescribeConfigsResource) -> object:
    """Return what sets the resource apart from others of its type. Raises: ApiError for no such resource."""
    name, snapshot = resource.resource_name, admin.metadata.snapshot()
    if resource.resource_type == ResourceType.TOPIC:
        validate_topic_name(name)
        return tuple(sorted(existing_topic(snapshot, name).configs.items()))
    if resource.resource_type == ResourceType.GROUP:
        group_resource(name)
        return tuple(sorted(snapshot.group_config(name).items()))
    return name


def _result(
    resource: DescribeConfigsResource, code: ErrorCode, words: str | None, configs: Described
) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=words,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )


def _entries(admin: Administration, resource: DescribeConfigsResource) -> Sequence[ConfigEntry]:
    """Return the resource's configuration. Raises: ApiError."""
    name = resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            validate_topic_name(name)
            topic = existing_topic(admin.metadata.snapshot(), name)
            return describe_topic(admin.current.config, topic.configs)
        case ResourceType.BROKER:
            broker_resource(admin.node_id, name)
            return _cluster_wide(admin) if name == EVERY_BROKER else describe_broker(admin.current.config)
        case ResourceType.GROUP:
            group_resource(name)
            from kohort.broker.config.group_settings import describe_group  # noqa: PLC0415

            return describe_group(admin.current.config, admin.metadata.snapshot().group_config(name))
        case ResourceType.CLIENT_METRICS:
            from kohort.broker.config.client_metrics_settings import describe_client_metrics  # noqa: PLC0415

            resource_configs = admin.metadata.snapshot().configs.get(client_metrics_resource(name), {})
            return describe_client_metrics(resource_configs)
        case ResourceType.BROKER_LOGGER:
            if not name:
                raise invalid_request("the resource needs a name")
            return ()  # It has no configuration here.
    raise invalid_request(f"there is no resource type {resource.resource_type}")


def _cluster_wide(admin: Administration) -> list[ConfigEntry]:
    """Return the altered settings of every broker, as they would apply to each."""
    altered = cluster_wide(admin.current.config)
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    return [
        entry._replace(
            value=None if entry.sensitive else altered[entry.name],
            source=source,
            synonyms=(ConfigSynonym(entry.name, altered[entry.name], source),),
        )
        for entry in describe_broker(admin.current.config)
        if entry.name in altered
    ]


def _described(entry: ConfigEntry, message: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if message.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=tuple(
            DescribeConfigsSynonym(
                name=each.name, value=None if entry.sensitive else each.value, source=each.source
            )
            for each in synonyms
        ),
        config_type=entry.type,
        documentation=entry.documentation if message.include_documentation else None,
    )
