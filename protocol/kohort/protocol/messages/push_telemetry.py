"""PushTelemetry (72): a client sends its metrics (KIP-714)."""

from kohort.protocol.declaring import message
from kohort.protocol.schema import Bool, Bytes, Int8, Int16, Int32, Message, Uuid


@message(api_key=72, versions="0", flexible="0+")
class PushTelemetryRequest(Message):
    """Metrics as OpenTelemetry's MetricsData, compressed. Kafka: PushTelemetryRequest.json."""

    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Bool
    compression_type: Int8
    metrics: Bytes


@message(api_key=72, versions="0", flexible="0+")
class PushTelemetryResponse(Message):
    """Whether the metrics were taken. Kafka: PushTelemetryResponse.json."""

    throttle_time_ms: Int32
    error_code: Int16
