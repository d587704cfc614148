"""UnregisterBroker (64): remove a broker from the cluster (KIP-631)."""

from kohort.protocol.declaring import message
from kohort.protocol.schema import Int16, Int32, Message, NullableString


@message(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest(Message):
    """The broker's id. Kafka: UnregisterBrokerRequest.json."""

    broker_id: Int32


@message(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse(Message):
    """The result. Kafka: UnregisterBrokerResponse.json."""

    throttle_time_ms: Int32
    error_code: Int16
    error_message: NullableString
