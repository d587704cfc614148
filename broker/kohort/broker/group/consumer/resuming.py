"""A group that came back from the log: every member gets a session, and its time to give partitions up."""

from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.consumer.member import MemberState
from kohort.broker.group.consumer.migrating import downgrade_soon
from kohort.broker.group.consumer.sessions import extend_session
from kohort.broker.group.epochs.sessions import expect_revocation
from kohort.broker.group.events import GroupLoaded
from kohort.broker.group.turn import Turn


def resume(turn: Turn, group: ConsumerGroup) -> None:
    """Let the members go on where they were."""
    if not group.consumer_members:
        return
    for member in group.consumer_members.values():
        extend_session(turn, group, member)
        if member.state is MemberState.UNREVOKED:
            expect_revocation(turn, group, member)
    downgrade_soon(turn, group)
    turn.note(
        GroupLoaded(
            group_id=group.group_id,
            at_ms=turn.now_ms,
            generation_id=group.epoch,
            members=group.member_count,
        )
    )
