"""ListConfigResources: the resources with a configuration (KIP-1142)."""

from collections.abc import Iterable

from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata import ResourceType
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

LISTED = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


def handle(
    admin: Administration, message: ListConfigResourcesRequest, request: Request
) -> ListConfigResourcesResponse:
    """Return the resources of the types that are asked for; of all where none is.

    Version 0 asks for client metrics alone.
    """
    types = (message.resource_types or LISTED) if request.version > 0 else (ResourceType.CLIENT_METRICS,)
    if not set(types) <= set(LISTED):
        return _answer(ErrorCode.UNSUPPORTED_VERSION)
    resources = (
        ConfigResource(resource_name=name, resource_type=kind)
        for kind in dict.fromkeys(types)
        for name in _names(admin, kind)
    )
    return _answer(ErrorCode.NONE, *resources)


def _answer(code: ErrorCode, *resources: ConfigResource) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(throttle_time_ms=0, error_code=code, config_resources=resources)


def _names(admin: Administration, kind: int) -> Iterable[str]:
    if kind == ResourceType.TOPIC:
        return admin.metadata.snapshot().topics
    if kind == ResourceType.BROKER:
        return (str(each.node_id) for each in admin.metadata.snapshot().brokers)
    if kind in (ResourceType.GROUP, ResourceType.CLIENT_METRICS):
        return (each.name for each in admin.metadata.snapshot().configs if each.type == kind)
    return ()  # Loggers are not configured here.
