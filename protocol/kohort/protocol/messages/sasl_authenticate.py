"""SaslAuthenticate (36): exchange tokens of the SASL mechanism."""

from kohort.protocol.declaring import message
from kohort.protocol.schema import Bytes, Int16, Int64, Message, NullableString, field


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest(Message):
    """The client's token. Kafka: SaslAuthenticateRequest.json."""

    auth_bytes: Bytes


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse(Message):
    """The broker's token, and the session lifetime; 0 means no limit.

    Kafka: SaslAuthenticateResponse.json.
    """

    error_code: Int16
    error_message: NullableString
    auth_bytes: Bytes
    session_lifetime_ms: Int64 = field(versions="1+", default=0, ignorable=True)
