"""AlterClientQuotas (49): set or remove quotas of clients."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import Array, Bool, Float64, Int16, Int32, Message, NullableString, String


@struct
class AlterClientQuotasEntity(Message):
    """One of `entity` in `AlterClientQuotasEntry`."""

    entity_type: String
    entity_name: NullableString


@struct
class AlterClientQuotasOperation(Message):
    """One of `ops` in `AlterClientQuotasEntry`."""

    key: String
    value: Float64
    remove: Bool


@struct
class AlterClientQuotasEntry(Message):
    """One of `entries` in `AlterClientQuotasRequest`."""

    entity: Array[AlterClientQuotasEntity]
    ops: Array[AlterClientQuotasOperation]


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest(Message):
    """The changes for each entity. Kafka: AlterClientQuotasRequest.json."""

    entries: Array[AlterClientQuotasEntry]
    validate_only: Bool


@struct
class AlterClientQuotasResultEntity(Message):
    """One of `entity` in `AlterClientQuotasResult`."""

    entity_type: String
    entity_name: NullableString


@struct
class AlterClientQuotasResult(Message):
    """One of `entries` in `AlterClientQuotasResponse`."""

    error_code: Int16
    error_message: NullableString
    entity: Array[AlterClientQuotasResultEntity]


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse(Message):
    """The result of each entity. Kafka: AlterClientQuotasResponse.json."""

    throttle_time_ms: Int32
    entries: Array[AlterClientQuotasResult]
