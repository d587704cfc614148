"""DescribeUserScramCredentials (50): users with SCRAM credentials, without secrets."""

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
)


@struct
class DescribeUserScramCredentialsUserName(Message):
    """One of `users` in `DescribeUserScramCredentialsRequest`."""

    name: String


@message(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest(Message):
    """Users; null or none for all. Kafka: DescribeUserScramCredentialsRequest.json."""

    users: NullableArray[DescribeUserScramCredentialsUserName]


@struct
class DescribeUserScramCredentialsCredentialInfo(Message):
    """One of `credential_infos` in `DescribeUserScramCredentialsResult`."""

    mechanism: Int8
    iterations: Int32


@struct
class DescribeUserScramCredentialsResult(Message):
    """One of `results` in `DescribeUserScramCredentialsResponse`."""

    user: String
    error_code: Int16
    error_message: NullableString
    credential_infos: Array[DescribeUserScramCredentialsCredentialInfo]


@message(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse(Message):
    """The mechanisms and iterations of each user. Kafka: DescribeUserScramCredentialsResponse.json."""

    throttle_time_ms: Int32
    error_code: Int16
    error_message: NullableString
    results: Array[DescribeUserScramCredentialsResult]
