"""The users of SCRAM: their stored credentials, among the configurations.

Each is a resource of a type of its own, with a value by mechanism in the form that Kafka's ZooKeeper had:
`salt=...,stored_key=...,server_key=...,iterations=4096`.
Source: Kafka's ScramControlManager, ScramCredentialUtils.
"""

from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from secrets import token_bytes
from typing import NamedTuple

from kohort.broker.metadata.snapshot import ConfigResource, Mutation, ResourceType, Snapshot
from kohort.broker.metadata.store import ChangeUnknown, Failed, MetadataStore, storage_error, update
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.scram import (
    BY_NUMBER,
    MAX_ITERATIONS,
    MECHANISMS,
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_of,
)
from kohort.storage import StorageError

USER_NAME_BYTES_MAX = 1_024
ITERATIONS_MAX = 16
"""An unknown user gets one of this many numbers of iterations, those of most users."""
_SALTS = ""
"""No user has this name: it stores the secret of `salt_secret`."""
_SALT_CHARACTERS = 25
_SALTS_MECHANISM = "SCRAM-SHA-512"


class Deletion(NamedTuple):
    """A password that is to go."""

    user: str
    mechanism: int


class Upsertion(NamedTuple):
    """A password that is to be there, whether there is one or not."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


def credential(snapshot: Snapshot, user: str, mechanism: str) -> ScramCredential | None:
    """Return a user's stored credential, None without one."""
    text = snapshot.configs.get(_resource(user), {}).get(mechanism)
    found = _parsed(_NOBODYS[mechanism] if text is None else text)  # The same work without one.
    return None if text is None else found


class Iterations:
    """The number of users with each number of iterations; counted again when configurations have changed."""

    def __init__(self) -> None:
        self._configs: object = None
        self._counts: dict[str, dict[int, int]] = {}

    def of(self, snapshot: Snapshot, mechanism: str) -> Mapping[int, int]:
        """Return the most frequent numbers, and how many users have each."""
        if self._configs is not snapshot.configs:
            self._configs, self._counts = snapshot.configs, {}
        counts = self._counts.get(mechanism)
        if counts is None:
            found = Counter(
                int(values[mechanism].rpartition("=")[2])
                for resource, values in snapshot.configs.items()
                if resource.type is ResourceType.SCRAM_USER and resource.name and mechanism in values
            )
            counts = self._counts[mechanism] = dict(found.most_common(ITERATIONS_MAX))
        return counts


def users(snapshot: Snapshot) -> Mapping[str, Mapping[str, ScramCredential]]:
    """Return the stored credentials of each user, by mechanism."""
    return {
        resource.name: {mechanism: _parsed(text) for mechanism, text in values.items()}
        for resource, values in snapshot.configs.items()
        if resource.type is ResourceType.SCRAM_USER and resource.name != _SALTS
    }


async def salt_secret(store: MetadataStore) -> bytes:
    """Return the secret that salts of users that there are not come of: the same at each broker and start.

    Raises: StorageError where it is not there and cannot be kept.
    """
    resource = _resource(_SALTS)

    def decide(snapshot: Snapshot) -> Mutation:
        if resource in snapshot.configs:
            return Mutation()
        made = ScramCredential(token_bytes(), b"", b"", MIN_ITERATIONS)  # In a form that every version reads.
        return Mutation(configs={resource: {_SALTS_MECHANISM: _rendered(made)}})

    try:
        snapshot = await update(store, decide)
    except ChangeUnknown as error:  # The next start finds it, or keeps another one.
        raise StorageError(str(error)) from error
    return _parsed(snapshot.configs[resource][_SALTS_MECHANISM]).salt


async def alter(
    store: MetadataStore, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]
) -> Mapping[str, ApiError | None]:
    """Return the result for each user. All possible changes are made together, even if others fail."""
    outcome: dict[str, ApiError | None] = {}

    def decide(snapshot: Snapshot) -> Mutation:
        outcome.clear()
        return _planned(snapshot, deletions, upsertions, outcome)

    try:
        await update(store, decide)
    except Failed as error:
        failed = storage_error(error)
        return {user: found or failed for user, found in outcome.items()}
    return outcome


def _planned(
    snapshot: Snapshot,
    deletions: Sequence[Deletion],
    upsertions: Sequence[Upsertion],
    outcome: dict[str, ApiError | None],
) -> Mutation:
    by_user: dict[str, list[Deletion | Upsertion]] = {}
    asked: list[Deletion | Upsertion] = [*deletions, *upsertions]
    for change in asked:
        by_user.setdefault(change.user, []).append(change)
    configs: dict[ConfigResource, Mapping[str, str]] = {}
    for user, changes in by_user.items():
        resource = _resource(user)
        try:
            configs[resource] = _all_changed(snapshot.configs.get(resource, {}), changes)
            outcome[user] = None
        except ApiError as error:
            outcome[user] = error
    return Mutation(configs=configs)


def _all_changed(before: Mapping[str, str], changes: Sequence[Deletion | Upsertion]) -> Mapping[str, str]:
    """Return the user's new credentials. Raises: ApiError."""
    after = before
    for change in changes:
        after = _changed(after, change)
    if len({change.mechanism for change in changes}) < len(changes):
        raise ApiError(
            ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
        )
    return after


def _changed(before: Mapping[str, str], change: Deletion | Upsertion) -> Mapping[str, str]:
    """Return the user's new credentials. Raises: ApiError."""
    mechanism = _mechanism(change)
    if isinstance(change, Deletion):
        if mechanism.name not in before:
            raise ApiError(
                ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
            )
        return {name: text for name, text in before.items() if name != mechanism.name}
    if change.iterations < MIN_ITERATIONS:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not change.salt or len(change.salted_password) != mechanism.size:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salt or salted password of an impossible length")
    kept = credential_of(mechanism, change.salted_password, change.salt, change.iterations)
    return {**before, mechanism.name: _rendered(kept)}


def _mechanism(change: Deletion | Upsertion) -> ScramMechanism:
    if not change.user:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if len(change.user.encode()) > USER_NAME_BYTES_MAX:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username is too long")
    mechanism = BY_NUMBER.get(change.mechanism)
    if mechanism is None:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return mechanism


def _resource(user: str) -> ConfigResource:
    return ConfigResource(ResourceType.SCRAM_USER, user)


def _rendered(kept: ScramCredential) -> str:
    salt, stored_key, server_key = (b64encode(each).decode() for each in kept[:3])
    return f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={kept.iterations}"


def _parsed(text: str) -> ScramCredential:
    found = dict(each.split("=", 1) for each in text.split(","))
    return ScramCredential(
        b64decode(found["salt"]),
        b64decode(found["stored_key"]),
        b64decode(found["server_key"]),
        int(found["iterations"]),
    )


_NOBODYS = {
    each.name: _rendered(
        ScramCredential(b"0" * _SALT_CHARACTERS, b"0" * each.size, b"0" * each.size, MIN_ITERATIONS)
    )
    for each in MECHANISMS.values()
}
