"""SaslHandshake (17): choose the SASL mechanism."""

from kohort.protocol.declaring import message
from kohort.protocol.schema import Array, Int16, Message, String


@message(api_key=17, versions="0-1", flexible="none")
class SaslHandshakeRequest(Message):
    """The mechanism. After version 0 raw tokens follow, after version 1 SaslAuthenticate.

    Kafka: SaslHandshakeRequest.json.
    """

    mechanism: String


@message(api_key=17, versions="0-1", flexible="none")
class SaslHandshakeResponse(Message):
    """The result, and the enabled mechanisms. Kafka: SaslHandshakeResponse.json."""

    error_code: Int16
    mechanisms: Array[String]
