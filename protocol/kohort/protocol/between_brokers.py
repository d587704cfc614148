"""APIs between kohort's brokers that Apache Kafka does not have. ApiVersions does not list them.

Their keys are far above Kafka's. A broker of another version closes the connection on an unknown key; the
requester then has no answer.
"""

from kohort.protocol.declaring import message, struct
from kohort.protocol.registry import BROKER_PAGE_KEY, READABLE_OFFSETS_KEY
from kohort.protocol.schema import Array, Bool, Bytes, Int16, Int32, Int64, Message, String, field

POSITIONS_MAX = 2_000


@struct
class ReadableOffsetsPosition(Message):
    """`positions` in `ReadableOffsetsTopic`: the offset from which a group would read."""

    partition_index: Int32
    offset: Int64


@struct
class ReadableOffsetsTopic(Message):
    """`topics` in `ReadableOffsetsRequest`."""

    name: String
    positions: Array[ReadableOffsetsPosition]


@message(api_key=READABLE_OFFSETS_KEY, versions="0", flexible="0+", max_items=2 * POSITIONS_MAX)
class ReadableOffsetsRequest(Message):
    """Asks the leader of partitions for the first readable record from each of these offsets on."""

    topics: Array[ReadableOffsetsTopic]


@struct
class ReadableOffsetsFound(Message):
    """`positions` in `ReadableOffsetsTopicFound`, in the order of the request.

    Where `is_found`, `first_offset` and `timestamp_ms` are those of the first record that a consumer gets.
    Otherwise no such record is before `first_offset`.
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
    """The log start and end offsets of each partition, and the first record from each offset on."""

    error_code: Int16
    topics: Array[ReadableOffsetsTopicFound] = field(default=())


@struct
class PageHeader(Message):
    """`headers` in `BrokerPageRequest` and `BrokerPageResponse`."""

    name: Bytes
    value: Bytes


@message(api_key=BROKER_PAGE_KEY, versions="0", flexible="0+")
class BrokerPageRequest(Message):
    """Asks a broker for its own answer to an HTTP request. The path is decoded."""

    path: String
    query: Bytes = field(default=b"")
    headers: Array[PageHeader] = field(default=())
    method: String = field(default="GET")
    body: Bytes = field(default=b"")


@message(api_key=BROKER_PAGE_KEY, versions="0", flexible="0+")
class BrokerPageResponse(Message):
    """The whole HTTP answer. `status` is 0 where `error_code` is set."""

    error_code: Int16
    status: Int32 = field(default=0)
    headers: Array[PageHeader] = field(default=())
    body: Bytes = field(default=b"")
