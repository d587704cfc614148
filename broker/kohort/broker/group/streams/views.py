"""A streams group for people."""

from kohort.broker.group.epochs.views import awaited_member_ids, listed, member_view
from kohort.broker.group.streams.assignor import NAME
from kohort.broker.group.streams.group import StreamsGroup
from kohort.broker.group.streams.member import MemberState, StreamsMember
from kohort.broker.group.streams.tasks import HeldTasks, Task, each_task
from kohort.broker.group.views import GroupStatus, MemberView, group_status


def status(group: StreamsGroup, now_ms: int) -> GroupStatus:
    """Return the current state of the group."""
    members = tuple(_member_view(group, each, now_ms) for each in group.members.values())
    awaited = awaited_member_ids(group)
    return group_status(group, members, waits_for_member_ids=awaited, deadline_ms=group.delayed_until_ms)


def _waits_for(group: StreamsGroup, member: StreamsMember) -> str | None:
    """Return as text why the member lacks its target assignment, and which member causes it."""
    if group.configured is not None and group.configured.status is not None:
        return f"topics: {group.configured.detail}"
    if member.is_revoking:
        return f"itself: it has yet to give up {_names(_all(member.revoking))}"
    if member.state is not MemberState.UNRELEASED:
        return None
    held: dict[str, list[Task]] = {}
    target = group.target(member.member_id).active
    for task in each_task(target):
        if task.partition in member.assigned.active.get(task.subtopology_id, {}):
            continue
        for holder in group.members.values():
            if holder.member_id != member.member_id and task in _all(holder.revoking) + _all(holder.assigned):
                held.setdefault(holder.member_id, []).append(task)
    words = (f"{holder}, which has yet to give up {_names(tasks)}" for holder, tasks in held.items())
    return "; ".join(words) or "its next heartbeat"


def _all(held: HeldTasks) -> list[Task]:
    return [*each_task(held.active), *each_task(held.standby), *each_task(held.warmup)]


def _names(tasks: list[Task]) -> str:
    return listed([f"task {each.subtopology_id}_{each.partition}" for each in tasks])


def _member_view(group: StreamsGroup, member: StreamsMember, now_ms: int) -> MemberView:
    """Return the member; its partitions are its active tasks, by subtopology."""
    return member_view(
        group,
        member,
        now_ms,
        protocols=(NAME,),
        topics=tuple(sorted(group.subscribed_topics or ())),
        partitions=tuple((task.subtopology_id, task.partition) for task in each_task(member.assigned.active)),
        waits_for=_waits_for(group, member),
    )
