"""The admin client's requests about users of SCRAM and their passwords. A password never leaves this side."""

import secrets
from collections.abc import Mapping, Sequence

import anyio.to_thread

from kohort.client.cluster import Cluster
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


class UserAdmin:
    """Requests that any broker answers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(self, names: Sequence[str]) -> dict[str, dict[str, int]]:
        """Return of these users, or of all, each mechanism with its iterations. Raises: ItemsError."""
        users = tuple(DescribeUserScramCredentialsUserName(name=each) for each in names)
        request = DescribeUserScramCredentialsRequest(users=users or None)
        answer = await self._cluster.retrying(
            lambda: self._cluster.request_any(request, DescribeUserScramCredentialsResponse)
        )
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

    async def set_password(
        self, name: str, password: str, mechanisms: Sequence[str], iterations: int
    ) -> None:
        """Let a user have this password, by each of these mechanisms. Raises: BrokerError."""
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

    async def delete(self, name: str, mechanisms: Sequence[str]) -> None:
        """Take a user's passwords away, by these mechanisms or by all that there are. Raises: BrokerError."""
        names = mechanisms or tuple((await self.describe([name]))[name])
        gone = tuple(ScramCredentialDeletion(name=name, mechanism=each.number) for each in _mechanisms(names))
        await self._alter(AlterUserScramCredentialsRequest(deletions=gone, upsertions=()))

    async def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        answer = await self._cluster.retrying(
            lambda: self._cluster.request_any(request, AlterUserScramCredentialsResponse)
        )
        for each in answer.results:
            check(each.error_code, each.error_message)


def _mechanisms(names: Sequence[str]) -> list[ScramMechanism]:
    known: Mapping[str, ScramMechanism] = MECHANISMS
    if wrong := [each for each in names if each not in known]:
        raise ConfigurationError(f"{wrong[0]!r} is none of {', '.join(known)}")
    return [known[each] for each in dict.fromkeys(names)]
