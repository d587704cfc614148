"""DescribeLogDirs (35): the sizes of partitions on disk."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    Message,
    NullableArray,
    String,
    field,
)


@struct
class DescribableLogDirTopic(Message):
    """One of `topics` in `DescribeLogDirsRequest`."""

    topic: String
    partitions: Array[Int32]


@message(api_key=35, versions="1-5", flexible="2+")
class DescribeLogDirsRequest(Message):
    """Partitions; null for all. Kafka: DescribeLogDirsRequest.json."""

    topics: NullableArray[DescribableLogDirTopic]


@struct
class DescribeLogDirsPartition(Message):
    """One of `partitions` in `DescribeLogDirsTopic`."""

    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: Bool


@struct
class DescribeLogDirsTopic(Message):
    """One of `topics` in `DescribeLogDirsResult`."""

    name: String
    partitions: Array[DescribeLogDirsPartition]


@struct
class DescribeLogDirsResult(Message):
    """One of `results` in `DescribeLogDirsResponse`."""

    error_code: Int16
    log_dir: String
    topics: Array[DescribeLogDirsTopic]
    total_bytes: Int64 = field(default=-1, versions="4+", ignorable=True)
    usable_bytes: Int64 = field(default=-1, versions="4+", ignorable=True)
    is_cordoned: Bool = field(default=False, versions="5+", ignorable=True)


@message(api_key=35, versions="1-5", flexible="2+")
class DescribeLogDirsResponse(Message):
    """Each log directory with its partitions and their sizes. Kafka: DescribeLogDirsResponse.json."""

    throttle_time_ms: Int32
    error_code: Int16 = field(versions="3+", ignorable=True)
    results: Array[DescribeLogDirsResult]
