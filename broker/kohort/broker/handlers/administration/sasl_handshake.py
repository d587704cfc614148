"""SaslHandshake on a listener without authentication: those with SASL answer themselves.

Source: Kafka's KafkaApis.handleSaslHandshakeRequest.
"""

from kohort.broker.handlers.administration.family import Administration
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(admin: Administration, message: SaslHandshakeRequest, request: Request) -> SaslHandshakeResponse:
    """Return what Kafka answers at such a listener."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=())
