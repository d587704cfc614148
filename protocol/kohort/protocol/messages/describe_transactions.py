"""DescribeTransactions (65): the state of transactional ids (KIP-664)."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import Array, Int16, Int32, Int64, Message, String


@message(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest(Message):
    """Transactional ids. Kafka: DescribeTransactionsRequest.json."""

    transactional_ids: Array[String]


@struct
class DescribeTransactionsTopicData(Message):
    """Partitions of one topic that a transaction has written to."""

    topic: String
    partitions: Array[Int32]


@struct
class DescribeTransactionsTransactionState(Message):
    """One of `transaction_states` in `DescribeTransactionsResponse`."""

    error_code: Int16
    transactional_id: String
    transaction_state: String
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: Array[DescribeTransactionsTopicData]


@message(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse(Message):
    """The state of each. Kafka: DescribeTransactionsResponse.json."""

    throttle_time_ms: Int32
    transaction_states: Array[DescribeTransactionsTransactionState]
