"""A member of a streams group, as the log has it."""

from collections.abc import Mapping
from enum import IntEnum

import msgspec

from kohort.broker.group.epochs.members import JOINING
from kohort.broker.group.streams.tasks import NOTHING_HELD, HeldTasks


class MemberState(IntEnum):
    """How far a member is from its target, as the log numbers it (Kafka: streams.MemberState).

    Stable: it has its target assignment. Unrevoked: it has to revoke tasks, and is asked for that before all
    else. Unreleased: others have not yet revoked tasks of its target.
    """

    STABLE = 1
    UNREVOKED = 2
    UNRELEASED = 3
    UNKNOWN = 127


class Endpoint(msgspec.Struct, frozen=True):
    """Where a process answers interactive queries."""

    host: str
    port: int


class StreamsMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member, its process, its tasks (Kafka: StreamsGroupMember).

    A member is one thread of the application; threads of one process share its disk, and so its state.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = {}
    epoch: int = JOINING
    previous_epoch: int = JOINING
    state: MemberState = MemberState.STABLE
    assigned: HeldTasks = NOTHING_HELD
    revoking: HeldTasks = NOTHING_HELD

    @property
    def is_revoking(self) -> bool:
        """Whether it was asked to give tasks up, and has not said yet that it has."""
        return self.state is MemberState.UNREVOKED

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """Return whether the member has the target assignment of that epoch."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    @property
    def metadata_bytes(self) -> int:
        """About how many bytes the member's metadata takes."""
        tags_bytes = sum(len(key) + len(value) + 16 for key, value in self.client_tags.items())
        host_bytes = 0 if self.user_endpoint is None else len(self.user_endpoint.host)
        return tags_bytes + host_bytes + len(self.process_id) + len(self.rack_id or "")
