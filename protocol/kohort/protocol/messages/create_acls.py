"""CreateAcls (30): add access control entries."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import Array, Int8, Int16, Int32, Message, NullableString, String, field


@struct
class AclCreation(Message):
    """One of `creations` in `CreateAclsRequest`."""

    resource_type: Int8
    resource_name: String
    resource_pattern_type: Int8 = field(default=3)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@message(api_key=30, versions="1-3", flexible="2+")
class CreateAclsRequest(Message):
    """Entries to add. Kafka: CreateAclsRequest.json."""

    creations: Array[AclCreation]


@struct
class AclCreationResult(Message):
    """One of `results` in `CreateAclsResponse`."""

    error_code: Int16
    error_message: NullableString


@message(api_key=30, versions="1-3", flexible="2+")
class CreateAclsResponse(Message):
    """The result of each entry. Kafka: CreateAclsResponse.json."""

    throttle_time_ms: Int32
    results: Array[AclCreationResult]
