"""What kohort's brokers ask each other and Apache Kafka has no API for. No client is offered it.

The keys lie far above Kafka's. A broker of another version that does not know one closes the connection,
and whoever asked takes that for no answer.
"""

from kohort.protocol.declaring import message, struct
from kohort.protocol.registry import BROKER_PAGE_KEY, READABLE_OFFSETS_KEY
from kohort.protocol.schema import Array, Bool, Bytes, Int16, Int32, Int64, Message, String, field

POSITIONS_MAX = 2_000


@struct
class ReadableOffsetsPosition(Message):
    """`positions` in `ReadableOffsetsTopic`: where a group would read on."""

    partition_index: Int32
    offset: Int64


@struct
class ReadableOffsetsTopic(Message):
    """`topics` in `ReadableOffsetsRequest`."""

    name: String
    positions: Array[ReadableOffsetsPosition]


@message(api_key=READABLE_OFFSETS_KEY, versions="0", flexible="0+", max_items=2 * POSITIONS_MAX)
class ReadableOffsetsRequest(Message):
    """Asks the leader of partitions what is to be read there from each of these offsets on."""

    topics: Array[ReadableOffsetsTopic]


@struct
class ReadableOffsetsFound(Message):
    """`positions` in `ReadableOffsetsTopicFound`, in the order in which they were asked for.

    `first_offset` is the offset of the first record that a consumer gets, with `timestamp_ms`, where
    `is_found`; else everything before it is known to hold no such record.
    """

    error_code: Int16
    log_start_offset: Int64 = field(default=-1)
    last_stable_offset: Int64 = field(default=-1)
    high_watermark: Int64 = field(default=-1)
    first_offset: Int64 = field(default=-1)
    is_found: Bool = field(default=False)
    timestamp_ms: Int64 = field(default=-1)


@struct
class ReadableOffsetsTopicFound(Message):
    """`topics` in `ReadableOffsetsResponse`."""

    name: String
    positions: Array[ReadableOffsetsFound]


@message(api_key=READABLE_OFFSETS_KEY, versions="0", flexible="0+")
class ReadableOffsetsResponse(Message):
    """The ends of each partition, and the first record from each offset on."""

    error_code: Int16
    topics: Array[ReadableOffsetsTopicFound] = field(default=())


@struct
class PageHeader(Message):
    """`headers` in `BrokerPageRequest` and `BrokerPageResponse`."""

    name: Bytes
    value: Bytes


@message(api_key=BROKER_PAGE_KEY, versions="0", flexible="0+")
class BrokerPageRequest(Message):
    """Asks a broker for what it alone would answer to an HTTP client; the path is decoded."""

    path: String
    query: Bytes = field(default=b"")
    headers: Array[PageHeader] = field(default=())
    method: String = field(default="GET")
    body: Bytes = field(default=b"")


@message(api_key=BROKER_PAGE_KEY, versions="0", flexible="0+")
class BrokerPageResponse(Message):
    """The whole answer. `status` is HTTP's, 0 where there is an error of Kafka's instead."""

    error_code: Int16
    status: Int32 = field(default=0)
    headers: Array[PageHeader] = field(default=())
    body: Bytes = field(default=b"")
