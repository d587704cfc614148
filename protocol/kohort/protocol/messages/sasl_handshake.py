"""SaslHandshake (17): by which mechanism a client will say who it is."""

from kohort.protocol.declaring import message
from kohort.protocol.schema import Array, Int16, Message, String


@message(api_key=17, versions="0-1", flexible="none")
class SaslHandshakeRequest(Message):
    """The mechanism; behind version 0 tokens follow as they are, behind version 1 in SaslAuthenticate.

    Kafka: SaslHandshakeRequest.json.
    """

    mechanism: String


@message(api_key=17, versions="0-1", flexible="none")
class SaslHandshakeResponse(Message):
    """Whether it is taken, and all that are.

    Kafka: SaslHandshakeResponse.json.
    """

    error_code: Int16
    mechanisms: Array[String]
