"""DescribeClientQuotas: there are no quotas. Source: Kafka's ClientQuotaCache."""

from kohort.broker.handlers.administration.client_quotas import check_filter
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages import DescribeClientQuotasRequest, DescribeClientQuotasResponse


def handle(
    admin: Administration, message: DescribeClientQuotasRequest, request: Request
) -> DescribeClientQuotasResponse:
    """Return that there are none, or what is wrong with the question."""
    try:
        check_filter(message.components)
    except ApiError as error:
        return DescribeClientQuotasResponse(
            throttle_time_ms=0, error_code=error.code, error_message=error.message, entries=None
        )
    return DescribeClientQuotasResponse(
        throttle_time_ms=0, error_code=ErrorCode.NONE, error_message=None, entries=()
    )
