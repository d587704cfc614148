"""UnregisterBroker: removes a broker, whether it runs or is gone for good (KIP-631)."""

from collections.abc import Awaitable, Callable

from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata import ConfigResource, Mutation, ResourceType, Snapshot, update
from kohort.broker.metadata.store import Failed, storage_error
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


async def handle(
    admin: Administration, message: UnregisterBrokerRequest, request: Request
) -> UnregisterBrokerResponse:
    """Return that the broker's registration and settings are removed; a running one registers again."""
    try:
        await _unregister(admin, message.broker_id)
    except ApiError as error:
        return UnregisterBrokerResponse(
            throttle_time_ms=0, error_code=error.code, error_message=error.message
        )
    return UnregisterBrokerResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, error_message=None)


async def _unregister(admin: Administration, node_id: int) -> None:
    """Return when the broker is unknown. Raises: ApiError."""
    snapshot = admin.metadata.snapshot()
    if not _is_known(snapshot, node_id):
        # A broker that was stopped, without settings and replicas, is known by its data folder alone.
        if admin.forget_life is not None and await _forgets(admin.forget_life, node_id):
            return
        text = f"Broker ID {node_id} is not currently registered"
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, text)
    if admin.expel is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a broker that is alone can't be taken out")
    own = ConfigResource(ResourceType.BROKER, str(node_id))
    try:
        broker = snapshot.broker(node_id)
        if broker is not None:
            await admin.expel(broker)
        await update(
            admin.metadata, lambda now: Mutation(configs={own: {}}) if own in now.configs else Mutation()
        )
        if admin.forget_life is not None and not _holds_anything(admin.metadata.snapshot(), node_id):
            await admin.forget_life(node_id)
    except Failed as error:
        raise storage_error(error) from error


async def _forgets(forget_life: Callable[[int], Awaitable[bool]], node_id: int) -> bool:
    """Return whether the broker's data folder was known, and is forgotten now. Raises: ApiError."""
    try:
        return await forget_life(node_id)
    except Failed as error:
        raise storage_error(error) from error


def _is_known(snapshot: Snapshot, node_id: int) -> bool:
    """Return whether it is registered, has settings of its own, or is assigned replicas."""
    if snapshot.broker(node_id) is not None:
        return True
    if ConfigResource(ResourceType.BROKER, str(node_id)) in snapshot.configs:
        return True
    return _holds_anything(snapshot, node_id)


def _holds_anything(snapshot: Snapshot, node_id: int) -> bool:
    return any(node_id in each.replicas for topic in snapshot.topics.values() for each in topic.partitions)
