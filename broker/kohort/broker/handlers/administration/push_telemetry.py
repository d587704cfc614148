"""PushTelemetry: a client sends the metrics that it was asked for (KIP-714)."""

from typing import TYPE_CHECKING
from uuid import UUID

from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata.client_metrics import id_without_subscription
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

if TYPE_CHECKING:
    from kohort.broker.telemetry.subscriptions import Requester


def handle(admin: Administration, message: PushTelemetryRequest, request: Request) -> PushTelemetryResponse:
    """Take the metrics, or say what is wrong with them."""
    return PushTelemetryResponse(throttle_time_ms=0, error_code=_taken(admin, message, request))


def _taken(admin: Administration, message: PushTelemetryRequest, request: Request) -> ErrorCode:
    instance_id = message.client_instance_id
    taken = admin.telemetry.current()
    if taken is None:  # They were asked for a while ago.
        is_known = message.subscription_id == id_without_subscription(instance_id)
        return ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    from kohort.broker.telemetry.taking import Push  # noqa: PLC0415  # Most brokers need none.

    push = Push(
        instance_id, message.subscription_id, message.terminating, message.compression_type, message.metrics
    )
    requester = requester_of(request, instance_id)
    return taken.push(push, requester, admin.current.config.telemetry_max_bytes)


def requester_of(request: Request, instance_id: UUID) -> "Requester":
    """Return who sends the request."""
    from kohort.broker.telemetry.subscriptions import Requester  # noqa: PLC0415  # Most brokers need none.

    name, _, version = request.connection.client_software.partition(" ")
    return Requester(
        str(instance_id), request.client_id or "", name, version, request.client_host.removeprefix("/")
    )
