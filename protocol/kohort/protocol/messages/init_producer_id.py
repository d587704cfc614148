"""InitProducerId (22): get an id and epoch for an idempotent producer."""

from kohort.protocol.declaring import message
from kohort.protocol.schema import Bool, Int16, Int32, Int64, Message, NullableString, field


@message(api_key=22, versions="0-5", flexible="2+")
class InitProducerIdRequest(Message):
    """A producer that needs an id, or a new epoch for its id. Kafka: InitProducerIdRequest.json."""

    transactional_id: NullableString
    transaction_timeout_ms: Int32
    producer_id: Int64 = field(default=-1, versions="3+")
    producer_epoch: Int16 = field(default=-1, versions="3+")
    enable2_pc: Bool = field(default=False, versions="6+")
    keep_prepared_txn: Bool = field(default=False, versions="6+")


@message(api_key=22, versions="0-5", flexible="2+")
class InitProducerIdResponse(Message):
    """The producer id and epoch. Kafka: InitProducerIdResponse.json."""

    throttle_time_ms: Int32
    error_code: Int16
    producer_id: Int64 = field(default=-1)
    producer_epoch: Int16
    ongoing_txn_producer_id: Int64 = field(default=-1, versions="6+")
    ongoing_txn_producer_epoch: Int16 = field(default=-1, versions="6+")
