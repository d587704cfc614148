"""OffsetFetch (9): read the committed offsets of groups."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.limits import MAX_PARTITIONS
from kohort.protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    Message,
    NullableArray,
    NullableString,
    String,
    Uuid,
    field,
)


@struct
class OffsetFetchRequestTopic(Message):
    """One of `topics` in `OffsetFetchRequest`."""

    name: String = field(versions="0-7")
    partition_indexes: Array[Int32] = field(versions="0-7")


@struct
class OffsetFetchRequestTopics(Message):
    """One of `topics` in `OffsetFetchRequestGroup`."""

    name: String = field(versions="8-9", ignorable=True)
    topic_id: Uuid = field(versions="10+", ignorable=True)
    partition_indexes: Array[Int32] = field(versions="8+")


@struct
class OffsetFetchRequestGroup(Message):
    """One of `groups` in `OffsetFetchRequest`."""

    group_id: String = field(versions="8+")
    member_id: NullableString = field(default=None, versions="9+", ignorable=True)
    member_epoch: Int32 = field(default=-1, versions="9+", ignorable=True)
    topics: NullableArray[OffsetFetchRequestTopics] = field(versions="8+")


@message(api_key=9, versions="1-10", flexible="6+", max_items=MAX_PARTITIONS)
class OffsetFetchRequest(Message):
    """Partitions of one group, or from version 8 of several. Kafka: OffsetFetchRequest.json."""

    group_id: String = field(versions="0-7")
    topics: NullableArray[OffsetFetchRequestTopic] = field(versions="0-7", nullable="2-7")
    groups: Array[OffsetFetchRequestGroup] = field(versions="8+")
    require_stable: Bool = field(default=False, versions="7+")


@struct
class OffsetFetchResponsePartition(Message):
    """One of `partitions` in `OffsetFetchResponseTopic`."""

    partition_index: Int32 = field(versions="0-7")
    committed_offset: Int64 = field(versions="0-7")
    committed_leader_epoch: Int32 = field(default=-1, versions="5-7", ignorable=True)
    metadata: NullableString = field(versions="0-7")
    error_code: Int16 = field(versions="0-7")


@struct
class OffsetFetchResponseTopic(Message):
    """One of `topics` in `OffsetFetchResponse`."""

    name: String = field(versions="0-7")
    partitions: Array[OffsetFetchResponsePartition] = field(versions="0-7")


@struct
class OffsetFetchResponsePartitions(Message):
    """One of `partitions` in `OffsetFetchResponseTopics`."""

    partition_index: Int32 = field(versions="8+")
    committed_offset: Int64 = field(versions="8+")
    committed_leader_epoch: Int32 = field(default=-1, versions="8+", ignorable=True)
    metadata: NullableString = field(versions="8+")
    error_code: Int16 = field(versions="8+")


@struct
class OffsetFetchResponseTopics(Message):
    """One of `topics` in `OffsetFetchResponseGroup`."""

    name: String = field(versions="8-9", ignorable=True)
    topic_id: Uuid = field(versions="10+", ignorable=True)
    partitions: Array[OffsetFetchResponsePartitions] = field(versions="8+")


@struct
class OffsetFetchResponseGroup(Message):
    """One of `groups` in `OffsetFetchResponse`."""

    group_id: String = field(versions="8+")
    topics: Array[OffsetFetchResponseTopics] = field(versions="8+")
    error_code: Int16 = field(default=0, versions="8+")


@message(api_key=9, versions="1-10", flexible="6+")
class OffsetFetchResponse(Message):
    """The committed offsets; -1 for none. Kafka: OffsetFetchResponse.json."""

    throttle_time_ms: Int32 = field(versions="3+", ignorable=True)
    topics: Array[OffsetFetchResponseTopic] = field(versions="0-7")
    error_code: Int16 = field(default=0, versions="2-7", ignorable=True)
    groups: Array[OffsetFetchResponseGroup] = field(versions="8+")
