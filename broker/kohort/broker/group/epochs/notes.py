"""What is told of groups with epochs: that they came back from the log, and who came to them and went."""

from kohort.broker.group.epochs.group import AnyEpochGroup
from kohort.broker.group.epochs.members import EpochMember
from kohort.broker.group.events import (
    GroupEmptied,
    GroupLoaded,
    MemberExpired,
    MemberJoined,
    MemberLeft,
    StaticMemberReturned,
)
from kohort.broker.group.turn import Turn

LEFT = "left the group"
AWAY_FOR_A_WHILE = "left, and will be back"
SILENT = "nothing was heard of it"


def note_joined(turn: Turn, group_id: str, member: EpochMember) -> None:
    """Tell that the member is in."""
    turn.note(
        MemberJoined(
            group_id=group_id,
            at_ms=turn.now_ms,
            member_id=member.member_id,
            client_id=member.client_id,
            client_host=member.client_host,
            group_instance_id=member.instance_id,
        )
    )


def note_returned(turn: Turn, group_id: str, former: EpochMember, member_id: str) -> None:
    """Tell that a static member came back under that id, for which nobody has to rebalance."""
    turn.note(
        StaticMemberReturned(
            group_id=group_id,
            at_ms=turn.now_ms,
            member_id=member_id,
            client_id=former.client_id,
            client_host=former.client_host,
            group_instance_id=former.instance_id,
            former_member_id=former.member_id,
            rebalances=False,
        )
    )


def note_left(turn: Turn, group_id: str, member: EpochMember, reason: str) -> None:
    """Tell that the member has gone by its own word."""
    turn.note(
        MemberLeft(
            group_id=group_id,
            at_ms=turn.now_ms,
            member_id=member.member_id,
            client_id=member.client_id,
            client_host=member.client_host,
            group_instance_id=member.instance_id,
            reason=reason,
        )
    )


def note_expired(turn: Turn, group_id: str, member: EpochMember, reason: str, after_ms: int) -> None:
    """Tell that the member was removed, so long after it was heard of last."""
    turn.note(
        MemberExpired(
            group_id=group_id,
            at_ms=turn.now_ms,
            member_id=member.member_id,
            client_id=member.client_id,
            client_host=member.client_host,
            group_instance_id=member.instance_id,
            after_ms=after_ms,
            reason=reason,
        )
    )


def note_emptied(turn: Turn, group: AnyEpochGroup) -> None:
    """Tell that the last member is gone, from the next epoch on."""
    turn.note(GroupEmptied(group_id=group.group_id, at_ms=turn.now_ms, generation_id=group.epoch + 1))


def note_loaded(turn: Turn, group: AnyEpochGroup) -> None:
    """Tell that the group came back from the log with its members."""
    turn.note(
        GroupLoaded(
            group_id=group.group_id,
            at_ms=turn.now_ms,
            generation_id=group.epoch,
            members=group.member_count,
        )
    )
