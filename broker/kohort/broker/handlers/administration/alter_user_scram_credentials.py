"""AlterUserScramCredentials: users get passwords, and lose them. Source: Kafka's ScramControlManager."""

from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata import scram_users
from kohort.broker.metadata.scram_users import Deletion, Upsertion
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


async def handle(
    admin: Administration, message: AlterUserScramCredentialsRequest, request: Request
) -> AlterUserScramCredentialsResponse:
    """Return what became of each user, once it is durable."""
    outcome = await scram_users.alter(
        admin.metadata,
        [Deletion(each.name, each.mechanism) for each in message.deletions],
        [
            Upsertion(
                each.name, each.mechanism, each.iterations, bytes(each.salt), bytes(each.salted_password)
            )
            for each in message.upsertions
        ],
    )
    return AlterUserScramCredentialsResponse(
        throttle_time_ms=0,
        results=tuple(
            AlterUserScramCredentialsResult(
                user=user,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
            for user, error in outcome.items()
        ),
    )
