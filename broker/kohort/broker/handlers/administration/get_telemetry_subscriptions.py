"""GetTelemetrySubscriptions: which of its metrics a client is to send (KIP-714)."""

from uuid import UUID, uuid4

from kohort.broker.handlers.administration.family import Administration
from kohort.broker.handlers.administration.push_telemetry import requester_of
from kohort.broker.metadata.client_metrics import id_without_subscription
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kohort.protocol.records.header import Compression
from kohort.protocol.schema import ZERO_UUID

ASK_AGAIN_MS = 300_000
"""When a client asks again of which nothing is wanted: the default of `interval.ms`."""
ACCEPTED = tuple(map(int, (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)))
"""The best first, as in Kafka."""


def handle(
    admin: Administration, message: GetTelemetrySubscriptionsRequest, request: Request
) -> GetTelemetrySubscriptionsResponse:
    """Return the names of metrics and the interval; no name where no subscription matches the client."""
    instance_id = message.client_instance_id
    if instance_id == ZERO_UUID:
        instance_id = uuid4()
    taken = admin.telemetry.current()
    if taken is None:
        return _answer(admin, instance_id, id_without_subscription(instance_id), ASK_AGAIN_MS)
    error, wanted = taken.ask(instance_id, requester_of(request, instance_id))
    if error is not ErrorCode.NONE:
        return _answer(admin, instance_id, 0, wanted.interval_ms, error_code=error)
    subscription_id = wanted.subscription_id(instance_id)
    return _answer(admin, instance_id, subscription_id, wanted.interval_ms, wanted.metrics)


def _answer(
    admin: Administration,
    instance_id: UUID,
    subscription_id: int,
    interval_ms: int,
    metrics: tuple[str, ...] = (),
    *,
    error_code: ErrorCode = ErrorCode.NONE,
) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(
        throttle_time_ms=0,
        error_code=error_code,
        client_instance_id=instance_id,
        subscription_id=subscription_id,
        accepted_compression_types=ACCEPTED,
        push_interval_ms=interval_ms,
        telemetry_max_bytes=admin.current.config.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=metrics,
    )
