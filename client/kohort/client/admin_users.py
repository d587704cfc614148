"""The admin client's requests about SCRAM users. A password is never sent to a broker."""

import secrets
from collections.abc import Iterable, Mapping

import anyio.to_thread

from kohort.client.admin_items import AdminCalls
from kohort.client.errors import BrokerError, ConfigurationError, ItemsError, KohortError, check
from kohort.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kohort.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsUserName,
)
from kohort.protocol.scram import (
    BY_NUMBER,
    MECHANISMS,
    SALT_SEED_BYTES,
    ScramMechanism,
    salt_of,
    salted_password,
)


class UserAdmin(AdminCalls):
    """Calls that any broker answers."""

    async def describe_users(self, *names: str) -> dict[str, dict[str, int]]:
        """Return the SCRAM mechanisms of these users, or of all, with their iterations.

        Raises: ItemsError.
        """
        users = tuple(DescribeUserScramCredentialsUserName(name=each) for each in names)
        request = DescribeUserScramCredentialsRequest(users=users or None)
        answer = await self._ask_any(request, DescribeUserScramCredentialsResponse)
        check(answer.error_code, answer.error_message)
        found: dict[str, dict[str, int]] = {}
        errors: dict[str, KohortError] = {}
        for each in answer.results:
            if each.error_code:
                errors[each.user] = BrokerError(each.error_code, each.error_message)
            else:
                found[each.user] = {
                    BY_NUMBER[info.mechanism].name: info.iterations
                    for info in each.credential_infos
                    if info.mechanism in BY_NUMBER
                }
        if errors:
            raise ItemsError(errors, found)
        return found

    async def set_user_password(
        self,
        name: str,
        password: str,
        *,
        mechanisms: Iterable[str] = ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        iterations: int = 4_096,
    ) -> None:
        """Set a SCRAM user's password for each of these mechanisms. The broker does not learn the password.

        Raises: BrokerError.
        """
        if not password:
            raise ConfigurationError("the password is empty")
        given = []
        for mechanism in _mechanisms(mechanisms):
            salt = salt_of(secrets.token_bytes(SALT_SEED_BYTES))
            salted = await anyio.to_thread.run_sync(salted_password, mechanism, password, salt, iterations)
            given.append(
                ScramCredentialUpsertion(
                    name=name,
                    mechanism=mechanism.number,
                    iterations=iterations,
                    salt=salt,
                    salted_password=salted,
                )
            )
        await self._alter(AlterUserScramCredentialsRequest(deletions=(), upsertions=tuple(given)))

    async def delete_user(self, name: str, *mechanisms: str) -> None:
        """Delete a user's passwords for these mechanisms, or for all. Raises: BrokerError."""
        names = mechanisms or tuple((await self.describe_users(name))[name])
        gone = tuple(ScramCredentialDeletion(name=name, mechanism=each.number) for each in _mechanisms(names))
        await self._alter(AlterUserScramCredentialsRequest(deletions=gone, upsertions=()))

    async def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        answer = await self._ask_any(request, AlterUserScramCredentialsResponse)
        for each in answer.results:
            check(each.error_code, each.error_message)


def _mechanisms(names: Iterable[str]) -> list[ScramMechanism]:
    known: Mapping[str, ScramMechanism] = MECHANISMS
    wanted = dict.fromkeys(names)
    if wrong := [each for each in wanted if each not in known]:
        raise ConfigurationError(f"{wrong[0]!r} is none of {', '.join(known)}")
    return [known[each] for each in wanted]
