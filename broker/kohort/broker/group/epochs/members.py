"""Whether a member is who it says, and in the epoch that it says: alike in all groups with epochs."""

from typing import Protocol, TypeVar

from kohort.protocol.errors import ApiError, ErrorCode


class KnownMember(Protocol):
    """A member, as far as the epoch matters that it says it has come to."""

    @property
    def member_id(self) -> str:
        """Its id."""
        ...

    @property
    def epoch(self) -> int:
        """The epoch that it has come to."""
        ...


M_co = TypeVar("M_co", bound=KnownMember, covariant=True)


class WithStaticMembers(Protocol[M_co]):
    """A group whose members may have a place that outlives them."""

    def static_member(self, instance_id: str, /) -> M_co | None:
        """Return who has that group.instance.id."""
        ...


def check_static(group: WithStaticMembers[M_co], instance_id: str, member_id: str) -> M_co:
    """Return the static member of that instance id.

    Raises: ApiError UNKNOWN_MEMBER_ID where there is none, FENCED_INSTANCE_ID where its place was taken.
    """
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


def unreleased(member: KnownMember, instance_id: str | None, member_id: str) -> ApiError:
    """Return what a newcomer is told while the static member of its instance id has not gone."""
    return ApiError(
        ErrorCode.UNRELEASED_INSTANCE_ID,
        f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
        f"instance id is owned by member {member.member_id}.",
    )


def fenced(kind: str, member: KnownMember, epoch: int) -> ApiError:
    """Return what a member of a `kind` of group is told that comes with another epoch than its own."""
    word = "greater" if epoch > member.epoch else "smaller"
    return ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {kind} group member has a {word} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )
