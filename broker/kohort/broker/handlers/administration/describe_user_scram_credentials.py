"""DescribeUserScramCredentials: which users have which mechanisms, but not their secrets.

Source: Kafka's KafkaApis.handleDescribeUserScramCredentialsRequest, ScramPublisher.
"""

from collections import Counter
from collections.abc import Mapping

from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata import scram_users
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsCredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kohort.protocol.scram import MECHANISMS, ScramCredential


def handle(
    admin: Administration, message: DescribeUserScramCredentialsRequest, request: Request
) -> DescribeUserScramCredentialsResponse:
    """Return the users that are asked for, or all."""
    known = scram_users.users(admin.metadata.snapshot())
    names = Counter(each.name for each in message.users) if message.users else Counter(known.keys())
    return DescribeUserScramCredentialsResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        error_message=None,
        results=tuple(_result(name, times, known.get(name)) for name, times in names.items()),
    )


def _result(
    name: str, times: int, found: Mapping[str, ScramCredential] | None
) -> DescribeUserScramCredentialsResult:
    if times > 1:
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return _refusal(name, ErrorCode.DUPLICATE_RESOURCE, text)
    if not found:
        text = f"Attempt to describe a user credential that does not exist: {name}"
        return _refusal(name, ErrorCode.RESOURCE_NOT_FOUND, text)
    infos = (
        DescribeUserScramCredentialsCredentialInfo(
            mechanism=MECHANISMS[mechanism].number, iterations=kept.iterations
        )
        for mechanism, kept in sorted(found.items())
    )
    return DescribeUserScramCredentialsResult(
        user=name, error_code=ErrorCode.NONE, error_message=None, credential_infos=tuple(infos)
    )


def _refusal(name: str, code: ErrorCode, text: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=name, error_code=code, error_message=text, credential_infos=()
    )
