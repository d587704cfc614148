"""ElectLeaders (43): elect new leaders of partitions."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    Message,
    NullableArray,
    NullableString,
    String,
    field,
)


@struct
class ElectLeadersTopicPartitions(Message):
    """`topic_partitions` in `ElectLeadersRequest`."""

    topic: String
    partitions: Array[Int32]


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest(Message):
    """Partitions, and the type of the election. Kafka: ElectLeadersRequest.json."""

    election_type: Int8 = field(versions="1+")
    topic_partitions: NullableArray[ElectLeadersTopicPartitions]
    timeout_ms: Int32 = field(default=60000)


@struct
class ElectLeadersPartitionResult(Message):
    """`partition_result` in `ElectLeadersReplicaElectionResult`."""

    partition_id: Int32
    error_code: Int16
    error_message: NullableString


@struct
class ElectLeadersReplicaElectionResult(Message):
    """`replica_election_results` in `ElectLeadersResponse`."""

    topic: String
    partition_result: Array[ElectLeadersPartitionResult]


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse(Message):
    """The result of each partition. Kafka: ElectLeadersResponse.json."""

    throttle_time_ms: Int32
    error_code: Int16 = field(versions="1+")
    replica_election_results: Array[ElectLeadersReplicaElectionResult]
