"""FindCoordinator (10): find the coordinator of a group, transactional id or share partition."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import Array, Int8, Int16, Int32, Message, NullableString, String, field


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest(Message):
    """Keys of one type. Kafka: FindCoordinatorRequest.json."""

    key: String = field(versions="0-3")
    key_type: Int8 = field(default=0, versions="1+")
    coordinator_keys: Array[String] = field(versions="4+")


@struct
class Coordinator(Message):
    """One of `coordinators` in `FindCoordinatorResponse`."""

    key: String = field(versions="4+")
    node_id: Int32 = field(versions="4+")
    host: String = field(versions="4+")
    port: Int32 = field(versions="4+")
    error_code: Int16 = field(versions="4+")
    error_message: NullableString = field(versions="4+", ignorable=True)


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse(Message):
    """The coordinator of each key. Kafka: FindCoordinatorResponse.json."""

    throttle_time_ms: Int32 = field(versions="1+", ignorable=True)
    error_code: Int16 = field(versions="0-3")
    error_message: NullableString = field(versions="1-3", ignorable=True)
    node_id: Int32 = field(versions="0-3")
    host: String = field(versions="0-3")
    port: Int32 = field(versions="0-3")
    coordinators: Array[Coordinator] = field(versions="4+")
