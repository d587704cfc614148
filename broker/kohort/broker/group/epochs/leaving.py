"""What is told of members of groups with epochs that go."""

from kohort.broker.group.epochs.group import EpochMember
from kohort.broker.group.events import MemberExpired, MemberLeft
from kohort.broker.group.turn import Turn

LEFT = "left the group"
AWAY_FOR_A_WHILE = "left, and will be back"
SILENT = "nothing was heard of it"


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
    """Tell that the member was put out, so long after it was heard of last."""
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
