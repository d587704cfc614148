"""AddPartitionsToTxn (24): add partitions to a transaction, or verify them (KIP-890)."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import Array, Bool, Int16, Int32, Int64, Message, String, field


@struct
class AddPartitionsToTxnTopic(Message):
    """Partitions of one topic in `AddPartitionsToTxnRequest`."""

    name: String
    partitions: Array[Int32]


@struct
class AddPartitionsToTxnTransaction(Message):
    """One of `transactions` in `AddPartitionsToTxnRequest`. Only brokers send it."""

    transactional_id: String = field(versions="4+")
    producer_id: Int64 = field(versions="4+")
    producer_epoch: Int16 = field(versions="4+")
    verify_only: Bool = field(default=False, versions="4+")
    topics: Array[AddPartitionsToTxnTopic] = field(versions="4+")


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest(Message):
    """One transaction of a client, or many of a broker. Kafka: AddPartitionsToTxnRequest.json."""

    transactions: Array[AddPartitionsToTxnTransaction] = field(versions="4+")
    v3_and_below_transactional_id: String = field(versions="0-3")
    v3_and_below_producer_id: Int64 = field(versions="0-3")
    v3_and_below_producer_epoch: Int16 = field(versions="0-3")
    v3_and_below_topics: Array[AddPartitionsToTxnTopic] = field(versions="0-3")


@struct
class AddPartitionsToTxnPartitionResult(Message):
    """The result of one partition in `AddPartitionsToTxnResponse`."""

    partition_index: Int32
    partition_error_code: Int16


@struct
class AddPartitionsToTxnTopicResult(Message):
    """The result of one topic's partitions in `AddPartitionsToTxnResponse`."""

    name: String
    results_by_partition: Array[AddPartitionsToTxnPartitionResult]


@struct
class AddPartitionsToTxnResult(Message):
    """One of `results_by_transaction` in `AddPartitionsToTxnResponse`."""

    transactional_id: String = field(versions="4+")
    topic_results: Array[AddPartitionsToTxnTopicResult] = field(versions="4+")


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse(Message):
    """The result of each partition. Kafka: AddPartitionsToTxnResponse.json."""

    throttle_time_ms: Int32
    error_code: Int16 = field(versions="4+", ignorable=True)
    results_by_transaction: Array[AddPartitionsToTxnResult] = field(versions="4+")
    results_by_topic_v3_and_below: Array[AddPartitionsToTxnTopicResult] = field(versions="0-3")
