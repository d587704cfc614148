"""A member of a consumer group, and the topics of its expression, as logged."""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum

import msgspec

from kohort.broker.group.epochs.members import JOINING
from kohort.broker.group.epochs.partitions import Held


class MemberState(IntEnum):
    """How far a member is from its target, as the log numbers it (Kafka: MemberState).

    Stable: it has its target assignment. Unrevoked: it has to revoke partitions, and is asked for that before
    all else. Unreleased: others have not yet revoked partitions of its target.
    """

    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2
    UNKNOWN = 127


class Resolved(msgspec.Struct, frozen=True):
    """The topics that a regular expression matches, as of a version of the metadata and a time."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ClassicSide(msgspec.Struct, frozen=True):
    """The session timeout and the protocols of a member that uses the classic protocol, in its order."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]

    @property
    def protocol_name(self) -> str:
        """The protocol for the member."""
        return self.protocols[0][0]

    def metadata(self, protocol_name: str) -> bytes:
        """Return the member's metadata for that protocol, which it supports."""
        return next(metadata for name, metadata in self.protocols if name == protocol_name)


class ConsumerMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member, its subscription, its assignment (Kafka: ConsumerGroupMember)."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topic_names: tuple[str, ...] = ()
    topic_regex: str | None = None
    server_assignor: str | None = None
    epoch: int = JOINING
    previous_epoch: int = JOINING
    state: MemberState = MemberState.STABLE
    assigned: Held = {}
    revoking: Held = {}
    classic: ClassicSide | None = None
    """Of a member that uses JoinGroup and SyncGroup, and is not upgraded yet."""

    @property
    def is_revoking(self) -> bool:
        """Whether it was asked to give partitions up, and has not said yet that it has."""
        return self.state is MemberState.UNREVOKED

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """Return whether the member has the target assignment of that epoch."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    @property
    def metadata_bytes(self) -> int:
        """About how many bytes the member's metadata takes."""
        return metadata_bytes(self.topic_names, self.topic_regex, self.classic)


def metadata_bytes(
    topic_names: Sequence[str], topic_regex: str | None, classic: ClassicSide | None = None
) -> int:
    """Return about how much a subscription takes."""
    names_bytes = sum(map(len, topic_names)) + 8 * len(topic_names) + len(topic_regex or "")
    if classic is None:
        return names_bytes
    return names_bytes + sum(len(name) + len(metadata) for name, metadata in classic.protocols)


def preferred_assignor(members: Mapping[str, ConsumerMember], default: str) -> str:
    """Return the assignor that most members request; the default if none does."""
    votes = Counter(each.server_assignor for each in members.values() if each.server_assignor is not None)
    return votes.most_common(1)[0][0] if votes else default
