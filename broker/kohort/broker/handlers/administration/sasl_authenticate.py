"""SaslAuthenticate on a listener without authentication.

Source: Kafka's KafkaApis.handleSaslAuthenticateRequest.
"""

from kohort.broker.handlers.administration.family import Administration
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(
    admin: Administration, message: SaslAuthenticateRequest, request: Request
) -> SaslAuthenticateResponse:
    """Return what Kafka answers at such a listener."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
    )
