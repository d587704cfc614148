"""WriteTxnMarkers (27): end transactions in partitions, sent by a coordinator or a tool."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import Array, Bool, Int8, Int16, Int32, Int64, Message, String, field


@struct
class WritableTxnMarkerTopic(Message):
    """Partitions of one topic in `WriteTxnMarkersRequest`."""

    name: String
    partition_indexes: Array[Int32]


@struct
class WritableTxnMarker(Message):
    """One of `markers` in `WriteTxnMarkersRequest`."""

    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: Array[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Int8 = field(default=0, versions="2+", ignorable=True)


@message(api_key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersRequest(Message):
    """Markers and their partitions. Kafka: WriteTxnMarkersRequest.json."""

    markers: Array[WritableTxnMarker]


@struct
class WritableTxnMarkerPartitionResult(Message):
    """The result of a marker in one partition in `WriteTxnMarkersResponse`."""

    partition_index: Int32
    error_code: Int16


@struct
class WritableTxnMarkerTopicResult(Message):
    """The result of a marker in one topic in `WriteTxnMarkersResponse`."""

    name: String
    partitions: Array[WritableTxnMarkerPartitionResult]


@struct
class WritableTxnMarkerResult(Message):
    """One of `markers` in `WriteTxnMarkersResponse`."""

    producer_id: Int64
    topics: Array[WritableTxnMarkerTopicResult]


@message(api_key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersResponse(Message):
    """The result of each marker. Kafka: WriteTxnMarkersResponse.json."""

    markers: Array[WritableTxnMarkerResult]
