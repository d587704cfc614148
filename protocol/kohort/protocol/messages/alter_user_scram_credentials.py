"""AlterUserScramCredentials (51): set or delete SCRAM credentials of users."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import Array, Bytes, Int8, Int16, Int32, Message, NullableString, String


@struct
class ScramCredentialDeletion(Message):
    """One of `deletions` in `AlterUserScramCredentialsRequest`."""

    name: String
    mechanism: Int8


@struct
class ScramCredentialUpsertion(Message):
    """One of `upsertions` in `AlterUserScramCredentialsRequest`."""

    name: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes
    salted_password: Bytes


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest(Message):
    """Credentials to delete and to set. Kafka: AlterUserScramCredentialsRequest.json."""

    deletions: Array[ScramCredentialDeletion]
    upsertions: Array[ScramCredentialUpsertion]


@struct
class AlterUserScramCredentialsResult(Message):
    """One of `results` in `AlterUserScramCredentialsResponse`."""

    user: String
    error_code: Int16
    error_message: NullableString


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse(Message):
    """The result of each user. Kafka: AlterUserScramCredentialsResponse.json."""

    throttle_time_ms: Int32
    results: Array[AlterUserScramCredentialsResult]
