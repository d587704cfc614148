"""Users and their passwords, as admin clients see and alter them."""

from pathlib import Path

import pytest

from kohort.broker.handlers.administration.test_admin_support import AdminWorld
from kohort.broker.metadata import EmbeddedMetadataStore, scram_users
from kohort.protocol.errors import ErrorCode
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
from kohort.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kohort.protocol.scram import MECHANISMS, credential_of, salted_password
from kohort.storage import OsFileSystem

NONE = (ErrorCode.NONE, None)


def upsertion(
    user: str, mechanism: int = 1, iterations: int = 4096, salt: bytes = b"salt", size: int = 32
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=b"x" * size
    )


def deletion(user: str, mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


async def alter(
    world: AdminWorld, *changes: ScramCredentialUpsertion | ScramCredentialDeletion
) -> dict[str, tuple[int, str | None]]:
    message = AlterUserScramCredentialsRequest(
        deletions=tuple(each for each in changes if isinstance(each, ScramCredentialDeletion)),
        upsertions=tuple(each for each in changes if isinstance(each, ScramCredentialUpsertion)),
    )
    answer = await world.ask(message, AlterUserScramCredentialsResponse, 0)
    return {each.user: (each.error_code, each.error_message) for each in answer.results}


async def described(
    world: AdminWorld, *users: str
) -> dict[str, tuple[int, str | None, list[tuple[int, int]]]]:
    names = tuple(DescribeUserScramCredentialsUserName(name=each) for each in users)
    answer = await world.ask(
        DescribeUserScramCredentialsRequest(users=names or None), DescribeUserScramCredentialsResponse, 0
    )
    return {
        each.user: (
            each.error_code,
            each.error_message,
            [(info.mechanism, info.iterations) for info in each.credential_infos],
        )
        for each in answer.results
    }


async def test_users_get_passwords_and_lose_them(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    assert await alter(world, upsertion("alice"), upsertion("bob", 2, 8192, size=64)) == {
        "alice": NONE,
        "bob": NONE,
    }
    assert await alter(world, upsertion("alice", 2, size=64)) == {"alice": NONE}
    assert await described(world) == {
        "alice": (*NONE, [(1, 4096), (2, 4096)]),
        "bob": (*NONE, [(2, 8192)]),
    }
    assert await alter(world, deletion("bob", 2), deletion("alice", 1)) == {"alice": NONE, "bob": NONE}
    assert await described(world) == {"alice": (*NONE, [(2, 4096)])}
    assert await described(world, "alice", "bob", "eve", "eve") == {
        "alice": (*NONE, [(2, 4096)]),
        "bob": (
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to describe a user credential that does not exist: bob",
            [],
        ),
        "eve": (
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: eve",
            [],
        ),
    }


@pytest.mark.parametrize(
    "wrong, code, text",
    [
        (upsertion("u", iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsertion("u", iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (upsertion("u", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (upsertion("u" * 1_025), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username is too long"),
        (upsertion("u", size=31), ErrorCode.UNACCEPTABLE_CREDENTIAL, "impossible length"),
        (upsertion("u", salt=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "impossible length"),
        (deletion("u"), ErrorCode.RESOURCE_NOT_FOUND, "does not exist"),
    ],
)
async def test_only_the_wrong_credential_is_refused(
    tmp_path: Path, wrong: ScramCredentialUpsertion | ScramCredentialDeletion, code: ErrorCode, text: str
) -> None:
    world = await AdminWorld(tmp_path).start()
    outcome = await alter(world, wrong, upsertion("alice"))
    assert outcome["alice"] == NONE
    found, said = outcome[wrong.name]
    assert found == code
    assert text in (said or "")
    assert set(await described(world)) == {"alice"}


async def test_a_users_password_is_altered_once_in_a_request(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    await alter(world, upsertion("alice"))
    twice = await alter(world, deletion("alice"), upsertion("alice"))
    assert twice["alice"][0] == ErrorCode.DUPLICATE_RESOURCE
    assert await described(world) == {"alice": (*NONE, [(1, 4096)])}
    both = await alter(world, deletion("alice"), upsertion("alice", 2, size=64))
    assert both == {"alice": NONE}
    assert await described(world) == {"alice": (*NONE, [(2, 4096)])}


async def test_credentials_survive_a_restart_and_are_never_shown(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    sha = MECHANISMS["SCRAM-SHA-256"]
    salted = salted_password(sha, "secret", b"salt", 4096)
    given = ScramCredentialUpsertion(
        name="a/b=c", mechanism=1, iterations=4096, salt=b"salt", salted_password=salted
    )
    assert await alter(world, given) == {"a/b=c": NONE}
    store = EmbeddedMetadataStore.open(OsFileSystem(), tmp_path, cluster_id="cluster", node_id=1)
    expected = credential_of(sha, salted, b"salt", 4096)
    assert scram_users.credential(store.snapshot(), "a/b=c", "SCRAM-SHA-256") == expected
    assert scram_users.credential(store.snapshot(), "a/b=c", "SCRAM-SHA-512") is None
    listed = await world.ask(ListConfigResourcesRequest(resource_types=()), ListConfigResourcesResponse, 1)
    assert not any("a/b=c" in each.resource_name for each in listed.config_resources)


async def test_iterations_are_counted_again_after_users_have_changed(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    counted, snapshot = scram_users.Iterations(), world.store.snapshot
    await scram_users.salt_secret(world.store)
    assert counted.of(snapshot(), "SCRAM-SHA-256") == {}
    await alter(world, *(upsertion(name, iterations=8_192) for name in ("alice", "bob")), upsertion("carol"))
    assert counted.of(snapshot(), "SCRAM-SHA-256") == {8_192: 2, 4_096: 1}
    assert counted.of(snapshot(), "SCRAM-SHA-512") == {}
    await alter(world, deletion("alice"))
    assert counted.of(snapshot(), "SCRAM-SHA-256") == {8_192: 1, 4_096: 1}
