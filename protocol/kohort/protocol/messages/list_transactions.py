"""ListTransactions (66): the transactional ids that a broker coordinates (KIP-664, KIP-994, KIP-1152)."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import Array, Int16, Int32, Int64, Message, NullableString, String, field


@message(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest(Message):
    """Filters. An empty filter matches everything. Kafka: ListTransactionsRequest.json."""

    state_filters: Array[String]
    producer_id_filters: Array[Int64]
    duration_filter: Int64 = field(default=-1, versions="1+")
    transactional_id_pattern: NullableString = field(default=None, versions="2+")


@struct
class ListTransactionsTransactionState(Message):
    """One of `transaction_states` in `ListTransactionsResponse`."""

    transactional_id: String
    producer_id: Int64
    transaction_state: String


@message(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse(Message):
    """The matching transactional ids. Kafka: ListTransactionsResponse.json."""

    throttle_time_ms: Int32
    error_code: Int16
    unknown_state_filters: Array[String]
    transaction_states: Array[ListTransactionsTransactionState]
