"""The next step of a member's reconciliation with its target (Kafka: streams.CurrentAssignmentBuilder).

A member first revokes tasks outside its target, then reaches the target's epoch, then gets tasks that others
have released. So no active task ever has two owners, and no process has a task twice, in any roles.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

import msgspec

from kohort.broker.group.epochs.members import unknown_state
from kohort.broker.group.streams.member import MemberState, StreamsMember
from kohort.broker.group.streams.tasks import NOTHING_HELD, HeldTasks, Task, Tasks, TaskSet


class Owners(Protocol):
    """The processes that have a task, also while its revocation is pending."""

    def active_process(self, task: Task) -> str | None:
        """Return the process of the member that runs the task."""
        ...

    def copying_processes(self, task: Task) -> Collection[str]:
        """Return the processes with a standby or a warm-up of the task."""
        ...


def reconciled(
    member: StreamsMember, target: Tasks, target_epoch: int, owners: Owners, owned: Tasks | None
) -> StreamsMember:
    """Return the member after its next step, or itself where it has to wait. Raises: ApiError.

    `owned` are the tasks that the member claims to own; None if it sent none.
    """
    if member.is_reconciled(target_epoch):
        return member
    if member.state is MemberState.UNREVOKED:
        if _still_owns(owned, member.revoking):
            return member
        return _next(member, target, target_epoch, owners, owned, epoch=member.epoch + 1)
    if member.state is MemberState.UNKNOWN:
        if owned is None or owned:
            raise unknown_state("streams", "tasks")
        return _next(member, target, target_epoch, owners, owned, epoch=target_epoch)
    return _next(member, target, target_epoch, owners, owned, epoch=member.epoch)


def _still_owns(owned: Tasks | None, revoking: HeldTasks) -> bool:
    return owned is None or revoking.overlaps(owned)


def _next(
    member: StreamsMember,
    target: Tasks,
    target_epoch: int,
    owners: Owners,
    owned: Tasks | None,
    *,
    epoch: int,
) -> StreamsMember:
    kept, revoking = _split(member.assigned, target)
    if revoking and _still_owns(owned, revoking):
        return msgspec.structs.replace(
            member,
            state=MemberState.UNREVOKED,
            epoch=epoch,
            previous_epoch=member.epoch,
            assigned=kept,
            revoking=revoking,
        )
    mine = member.process_id

    def active_is_free(task: Task) -> bool:
        return owners.active_process(task) is None and mine not in owners.copying_processes(task)

    def copy_is_free(task: Task) -> bool:
        return owners.active_process(task) != mine and mine not in owners.copying_processes(task)

    active, waits_active = _more_active(kept.active, target.active, active_is_free, target_epoch)
    standby, waits_standby = _more(kept.standby, target.standby, copy_is_free)
    warmup, waits_warmup = _more(kept.warmup, target.warmup, copy_is_free)
    waits = waits_active or waits_standby or waits_warmup
    return msgspec.structs.replace(
        member,
        state=MemberState.UNRELEASED if waits else MemberState.STABLE,
        epoch=target_epoch,
        previous_epoch=member.epoch,
        assigned=HeldTasks(active, standby, warmup),
        revoking=NOTHING_HELD,
    )


def _split(held: HeldTasks, target: Tasks) -> tuple[HeldTasks, HeldTasks]:
    """Return the member's kept tasks, and those to revoke."""
    kept: dict[str, dict[int, int]] = {}
    revoking: dict[str, dict[int, int]] = {}
    for subtopology, partitions in held.active.items():
        wanted = target.active.get(subtopology, frozenset())
        for partition, since_epoch in partitions.items():
            part = kept if partition in wanted else revoking
            part.setdefault(subtopology, {})[partition] = since_epoch
    standby, no_standby = _split_set(held.standby, target.standby)
    warmup, no_warmup = _split_set(held.warmup, target.warmup)
    return HeldTasks(kept, standby, warmup), HeldTasks(revoking, no_standby, no_warmup)


def _split_set(held: TaskSet, wanted: TaskSet) -> tuple[TaskSet, TaskSet]:
    kept = {key: both for key, each in held.items() if (both := each & wanted.get(key, frozenset()))}
    gone = {key: rest for key, each in held.items() if (rest := each - wanted.get(key, frozenset()))}
    return kept, gone


def _more_active(
    kept: Mapping[str, Mapping[int, int]], wanted: TaskSet, is_free: Callable[[Task], bool], epoch: int
) -> tuple[Mapping[str, Mapping[int, int]], bool]:
    """Return the tasks with those that are free, and whether the member waits for others."""
    found = {subtopology: dict(partitions) for subtopology, partitions in kept.items()}
    waits = False
    for subtopology, partitions in wanted.items():
        for partition in sorted(partitions - found.get(subtopology, {}).keys()):
            if is_free(Task(subtopology, partition)):
                found.setdefault(subtopology, {})[partition] = epoch
            else:
                waits = True
    return found, waits


def _more(kept: TaskSet, wanted: TaskSet, is_free: Callable[[Task], bool]) -> tuple[TaskSet, bool]:
    found = {subtopology: set(partitions) for subtopology, partitions in kept.items()}
    waits = False
    for subtopology, partitions in wanted.items():
        for partition in sorted(partitions - found.get(subtopology, set())):
            if is_free(Task(subtopology, partition)):
                found.setdefault(subtopology, set()).add(partition)
            else:
                waits = True
    return {subtopology: frozenset(partitions) for subtopology, partitions in found.items()}, waits
