"""Members of groups with epochs, and the checks of their ids and epochs."""

from collections import Counter
from typing import Protocol, TypeVar

from kohort.broker.group.notes import Identity
from kohort.protocol.errors import ApiError, ErrorCode

JOINING = 0
"""The epoch with which a member joins."""
LEAVING = -1
"""The epoch with which a member leaves for good."""
AWAY = -2
"""The epoch of a static member that has left, and will be back."""
FIRST_EPOCH = 1
"""Of a new group: its first members are in epoch 2, as Apache Kafka has it from 4.3 on."""
VERSION_OF_MEMBER_EPOCHS = 9
"""From this version of OffsetCommit on members say their epochs."""


class EpochMember(Identity, Protocol):
    """A member, as the log has it."""

    @property
    def epoch(self) -> int:
        """Its member epoch."""
        ...

    @property
    def rebalance_timeout_ms(self) -> int:
        """Its rebalance timeout: the time limit for a pending revocation."""
        ...

    @property
    def metadata_bytes(self) -> int:
        """About how many bytes its metadata takes."""
        ...

    @property
    def is_revoking(self) -> bool:
        """Whether partitions or tasks are pending revocation."""
        ...

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """Return whether the member has the whole target assignment of that epoch."""
        ...


M = TypeVar("M", bound=EpochMember)
M_co = TypeVar("M_co", bound=EpochMember, covariant=True)


class WithStaticMembers(Protocol[M_co]):
    """A group with static members."""

    def static_member(self, instance_id: str, /) -> M_co | None:
        """Return the member with that group.instance.id."""
        ...

    def member(self, member_id: str, /) -> M_co:
        """Return the member. Raises: ApiError UNKNOWN_MEMBER_ID."""
        ...


def known_member(group: WithStaticMembers[M_co], member_id: str, instance_id: str | None) -> M_co:
    """Return the member, a static one by its instance id.

    Raises: ApiError UNKNOWN_MEMBER_ID if there is none, FENCED_INSTANCE_ID if another member replaced it.
    """
    if instance_id is None:
        return group.member(member_id)
    member = group.static_member(instance_id)
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{member.member_id}.",
        )
    return member


def count_down(counts: "Counter[str]", name: str) -> None:
    """Count one less of the name."""
    counts[name] -= 1
    if not counts[name]:
        del counts[name]


def refuse_if(is_wrong: bool, words: str) -> None:
    """Refuse an invalid heartbeat. Raises: ApiError INVALID_REQUEST."""
    if is_wrong:
        raise ApiError(ErrorCode.INVALID_REQUEST, words)


def unreleased(member: EpochMember, instance_id: str | None, member_id: str) -> ApiError:
    """Return the error for a new member whose group.instance.id is still in use."""
    return ApiError(
        ErrorCode.UNRELEASED_INSTANCE_ID,
        f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
        f"instance id is owned by member {member.member_id}.",
    )


def fenced(kind: str, member: EpochMember, epoch: int) -> ApiError:
    """Return the error for a member with a wrong member epoch, in a `kind` of group."""
    word = "greater" if epoch > member.epoch else "smaller"
    return ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {kind} group member has a {word} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def unknown_state(kind: str, owned: str) -> ApiError:
    """Return the error for a member whose logged state only a newer Kafka knows."""
    return ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {kind} group member is in a unknown state. The member must abandon all its {owned} and rejoin.",
    )
