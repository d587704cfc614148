"""DescribeConfigs: the values of topics and brokers, and where each comes from."""

from collections.abc import Coroutine, Sequence

from kohort.broker.config import ConfigEntry, ConfigSource, ConfigSynonym, describe_broker, describe_topic
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata import ResourceType
from kohort.broker.metadata.configs import (
    EVERY_BROKER,
    broker_resource,
    cluster_wide,
    existing_topic,
    group_resource,
    invalid_request,
)
from kohort.broker.metadata.topic_names import validate_topic_name
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

RESOURCES_PER_TURN = 20  # Each takes half a millisecond.

Resource = tuple[int, str]


def handle(
    admin: Administration, message: DescribeConfigsRequest, request: Request
) -> DescribeConfigsResponse | Coroutine[object, object, DescribeConfigsResponse]:
    """Return each resource's values, once; names that it does not have are passed over.

    Where there are many, others have their turn in between.
    """
    resources: dict[Resource, DescribeConfigsResource] = {}
    for each in message.resources:
        resources.setdefault((each.resource_type, each.resource_name), each)
    if len(resources) > RESOURCES_PER_TURN:
        return _in_turns(admin, message, tuple(resources.values()))
    results = tuple(_result(admin, message, each) for each in resources.values())
    return DescribeConfigsResponse(throttle_time_ms=0, results=results)


async def _in_turns(
    admin: Administration, message: DescribeConfigsRequest, resources: Sequence[DescribeConfigsResource]
) -> DescribeConfigsResponse:
    results: list[DescribeConfigsResult] = []
    for place, each in enumerate(resources):
        if place % RESOURCES_PER_TURN == 0:
            await admin.workers.give_way()
        results.append(_result(admin, message, each))
    return DescribeConfigsResponse(throttle_time_ms=0, results=tuple(results))


def _result(
    admin: Administration, message: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    try:
        entries = _entries(admin, resource)
    except ApiError as error:
        return DescribeConfigsResult(
            error_code=error.code,
            error_message=error.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=(),
        )
    wanted = resource.configuration_keys
    return DescribeConfigsResult(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(_described(entry, message) for entry in entries if not wanted or entry.name in wanted),
    )


def _entries(admin: Administration, resource: DescribeConfigsResource) -> Sequence[ConfigEntry]:
    """Return what the resource is configured with. Raises: ApiError."""
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
        case ResourceType.CLIENT_METRICS | ResourceType.BROKER_LOGGER:
            if not name:
                raise invalid_request("the resource needs a name")
            return ()  # These have no configuration here.
    raise invalid_request(f"there is no resource type {resource.resource_type}")


def _cluster_wide(admin: Administration) -> list[ConfigEntry]:
    """Return what was altered for every admin, as it would hold for each."""
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
