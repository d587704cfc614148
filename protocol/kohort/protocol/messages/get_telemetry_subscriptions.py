"""GetTelemetrySubscriptions (71): a client asks which of its metrics the broker wants (KIP-714)."""

from kohort.protocol.declaring import message
from kohort.protocol.schema import Array, Bool, Int8, Int16, Int32, Message, String, Uuid


@message(api_key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest(Message):
    """The client's instance id; zero for a new one. Kafka: GetTelemetrySubscriptionsRequest.json."""

    client_instance_id: Uuid


@message(api_key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse(Message):
    """The names of metrics, and how often. Kafka: GetTelemetrySubscriptionsResponse.json."""

    throttle_time_ms: Int32
    error_code: Int16
    client_instance_id: Uuid
    subscription_id: Int32
    accepted_compression_types: Array[Int8]
    push_interval_ms: Int32
    telemetry_max_bytes: Int32
    delta_temporality: Bool
    requested_metrics: Array[String]
