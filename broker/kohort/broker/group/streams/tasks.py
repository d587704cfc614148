"""Tasks by their subtopology: one for each source partition, in one of three roles."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

import msgspec


class Task(NamedTuple):
    """One task. Kafka: TaskId."""

    subtopology_id: str
    partition: int


TaskSet = Mapping[str, frozenset[int]]
"""Tasks of one role. No subtopology has an empty set."""

Since = Mapping[str, Mapping[int, int]]
"""Active tasks with the epoch from which on a member has each (KIP-1251). No subtopology is empty."""


class TaskIds(Protocol):
    """Tasks of one subtopology in a message."""

    @property
    def subtopology_id(self) -> str:
        """The subtopology."""
        ...

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partitions whose tasks these are."""
        ...


class Tasks(msgspec.Struct, frozen=True):
    """A member's target tasks, or those it claims to own (Kafka: TasksTuple).

    An active task reads and writes; a standby keeps a copy of its state on another process; a warm-up makes
    such a copy for the task's future owner.
    """

    active: TaskSet = {}
    standby: TaskSet = {}
    warmup: TaskSet = {}

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)


class HeldTasks(msgspec.Struct, frozen=True):
    """A member's tasks, also those with a pending revocation (Kafka: TasksTupleWithEpochs)."""

    active: Since = {}
    standby: TaskSet = {}
    warmup: TaskSet = {}

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    @property
    def tasks(self) -> Tasks:
        """The same tasks, since whenever."""
        return Tasks(without_epochs(self.active), self.standby, self.warmup)

    def since_ever(self) -> "HeldTasks":
        """Return the same tasks from epoch 0 on, as those of a static member that is away."""
        active = {key: dict.fromkeys(partitions, 0) for key, partitions in self.active.items()}
        return HeldTasks(active, self.standby, self.warmup)

    def overlaps(self, owned: Tasks) -> bool:
        """Return whether a member that owns these tasks has one of those in the same role."""
        return (
            _any_common(self.active, owned.active)
            or _any_common(self.standby, owned.standby)
            or _any_common(self.warmup, owned.warmup)
        )

    def contains(self, owned: Tasks) -> bool:
        """Return whether a member that owns these tasks has nothing but those."""
        return (
            _all_in(owned.active, self.active)
            and _all_in(owned.standby, self.standby)
            and _all_in(owned.warmup, self.warmup)
        )


NO_TASKS = Tasks()
NOTHING_HELD = HeldTasks()


def without_epochs(held: Since) -> TaskSet:
    """Return the tasks alone."""
    return {subtopology: frozenset(partitions) for subtopology, partitions in held.items()}


def task_set(ids: Iterable[TaskIds] | None) -> TaskSet:
    """Return the tasks that a message names."""
    found: dict[str, frozenset[int]] = {}
    for each in ids or ():
        if each.partitions:
            found[each.subtopology_id] = found.get(each.subtopology_id, frozenset()) | set(each.partitions)
    return found


def grouped(tasks: Iterable[Task]) -> TaskSet:
    """Return the tasks by their subtopology."""
    found: dict[str, set[int]] = {}
    for subtopology_id, partition in tasks:
        found.setdefault(subtopology_id, set()).add(partition)
    return {subtopology: frozenset(partitions) for subtopology, partitions in found.items()}


def each_task(tasks: Mapping[str, Iterable[int]]) -> Iterator[Task]:
    """Yield the tasks one by one, in order."""
    for subtopology_id in sorted(tasks):
        for partition in sorted(tasks[subtopology_id]):
            yield Task(subtopology_id, partition)


def _any_common(held: Mapping[str, Iterable[int]], owned: TaskSet) -> bool:
    return any(not owned.get(subtopology, frozenset()).isdisjoint(held[subtopology]) for subtopology in held)


def _all_in(owned: TaskSet, held: Mapping[str, Iterable[int]]) -> bool:
    return all(partitions <= set(held.get(subtopology, ())) for subtopology, partitions in owned.items())
