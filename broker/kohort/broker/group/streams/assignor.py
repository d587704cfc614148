"""Assigns tasks to members of a streams group: like Kafka's `sticky`, with the same goals.

Each task has one active member, and stateful tasks as many standbys, on other processes, as configured.
Members have equally many, and keep their tasks, as far as that is even; a moved active task
goes to a copy of its state. Stateful tasks are spread first, then the others, so that each kind
is even by itself. Source: StickyTaskAssignor.
"""

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

import msgspec

from kohort.broker.group.streams.tasks import Task, Tasks, each_task, grouped

NAME = "sticky"


class Candidate(msgspec.Struct, frozen=True):
    """A member to assign tasks to: its process, and its former target assignment."""

    process_id: str
    had: Tasks


class Work(msgspec.Struct, frozen=True):
    """A subtopology: how many tasks it has, and whether they have state."""

    tasks: int
    is_stateful: bool


def assign(
    members: Mapping[str, Candidate], subtopologies: Mapping[str, Work], standby_replicas: int
) -> dict[str, Tasks]:
    """Return every member's tasks."""
    if not members:
        return {}
    return _Assignment(members, subtopologies, standby_replicas).made()


class _Process:
    """A process: what its members are given, and how loaded it is."""

    __slots__ = ("counts", "process_id", "stateless", "tasks")

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.counts: dict[str, int] = {}  # Of tasks, by member.
        self.tasks: set[Task] = set()
        self.stateless = 0

    @property
    def load(self) -> tuple[float, float, str]:
        """The sort key: tasks of the member, the stateless ones of these, and a name for a fixed order."""
        members = len(self.counts)
        return sum(self.counts.values()) / members, self.stateless / members, self.process_id

    def least_loaded(self) -> str:
        """Return the member with the fewest tasks."""
        return min(self.counts, key=lambda member_id: (self.counts[member_id], member_id))


class _Quota:
    """How many tasks a member may have so that all have about as many.

    A member that has reached it takes no further part: the others share the rest.
    """

    __slots__ = ("_members", "_tasks", "limit")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.limit = self._per_member()

    def given(self, count: int) -> None:
        """Set the number of a member's tasks."""
        if count == self.limit:
            self._members -= 1
            self._tasks -= count
            self.limit = self._per_member()

    def _per_member(self) -> int:
        return -(-self._tasks // self._members) if self._members > 0 else 0


class _Assignment:
    """An assignment that is being made."""

    def __init__(
        self, members: Mapping[str, Candidate], subtopologies: Mapping[str, Work], standby_replicas: int
    ) -> None:
        self._standby_replicas = standby_replicas
        self._process_of = {member_id: each.process_id for member_id, each in members.items()}
        self._processes: dict[str, _Process] = {}
        self._active: dict[str, set[Task]] = {member_id: set() for member_id in sorted(members)}
        self._standby: dict[str, set[Task]] = {member_id: set() for member_id in sorted(members)}
        self._had_active: dict[Task, str] = {}
        self._had_copy: dict[Task, list[str]] = {}
        for member_id in sorted(members):
            self._enter(member_id, members[member_id])
        self._stateful: list[Task] = []
        self._stateless: list[Task] = []
        for subtopology_id in sorted(subtopologies):
            work = subtopologies[subtopology_id]
            tasks = self._stateful if work.is_stateful else self._stateless
            tasks += [Task(subtopology_id, partition) for partition in range(work.tasks)]
        active = len(self._stateful) + len(self._stateless)
        self._stateful_quota = _Quota(len(self._stateful), len(members))
        self._active_quota = _Quota(active, len(members))
        self._quota = _Quota(active + len(self._stateful) * standby_replicas, len(members))

    def _enter(self, member_id: str, member: Candidate) -> None:
        process = self._processes.setdefault(member.process_id, _Process(member.process_id))
        process.counts[member_id] = 0
        for task in each_task(member.had.active):
            self._had_active[task] = member_id
        for role in (member.had.standby, member.had.warmup):
            for task in each_task(role):
                self._had_copy.setdefault(task, []).append(member_id)

    def made(self) -> dict[str, Tasks]:
        """Return every member's tasks."""
        self._give_active(self._stateful, is_stateful=True)  # First: a member's tasks are counted by it.
        self._give_active(self._stateless, is_stateful=False)
        if self._standby_replicas > 0:
            self._give_standbys()
        return {
            member_id: Tasks(grouped(self._active[member_id]), grouped(self._standby[member_id]))
            for member_id in self._active
        }

    def _process(self, member_id: str) -> _Process:
        return self._processes[self._process_of[member_id]]

    def _count(self, member_id: str) -> int:
        return self._process(member_id).counts[member_id]

    def _add_active(self, member_id: str, task: Task, *, is_stateful: bool, is_kept: bool) -> None:
        self._active[member_id].add(task)
        process = self._process(member_id)
        process.tasks.add(task)
        process.counts[member_id] += 1
        process.stateless += not is_stateful
        count = process.counts[member_id]
        if is_stateful and is_kept:
            self._stateful_quota.given(count)
        self._active_quota.given(count)
        self._quota.given(count)

    def _add_standby(self, member_id: str, task: Task) -> None:
        self._standby[member_id].add(task)
        process = self._process(member_id)
        process.tasks.add(task)
        process.counts[member_id] += 1
        self._quota.given(process.counts[member_id])

    def _give_active(self, tasks: list[Task], *, is_stateful: bool) -> None:
        quota = self._stateful_quota if is_stateful else self._active_quota
        tasks_left = sorted(tasks, key=_by_partition)
        tasks_left = [task for task in tasks_left if not self._keeps(task, quota, is_stateful=is_stateful)]
        tasks_left = [task for task in tasks_left if not self._follows(task, quota, is_stateful=is_stateful)]
        heap = [(process.load, process) for process in self._processes.values()]
        heapify(heap)
        for task in sorted(tasks_left):  # Ranges, if nobody had anything.
            _, process = heappop(heap)
            self._add_active(process.least_loaded(), task, is_stateful=is_stateful, is_kept=False)
            heappush(heap, (process.load, process))

    def _keeps(self, task: Task, quota: _Quota, *, is_stateful: bool) -> bool:
        """Return whether the task stays with its former member."""
        member_id = self._had_active.get(task)
        if member_id is None or self._count(member_id) >= quota.limit:
            return False
        self._add_active(member_id, task, is_stateful=is_stateful, is_kept=True)
        return True

    def _follows(self, task: Task, quota: _Quota, *, is_stateful: bool) -> bool:
        """Return whether the task goes to a member with a copy of its state."""
        member_id = self._least_loaded(self._had_copy.get(task, ()))
        if member_id is None or self._count(member_id) >= quota.limit:
            return False
        self._add_active(member_id, task, is_stateful=is_stateful, is_kept=True)
        return True

    def _least_loaded(self, member_ids: Iterable[str]) -> str | None:
        """Return the first of the members that has less than all, and so does its process."""
        found: str | None = None
        least: tuple[float, int] = (0.0, 0)
        for member_id in member_ids:
            load = self._process(member_id).load[0], self._count(member_id)
            if found is None or (load[0] < least[0] and load[1] < least[1]):
                found, least = member_id, load
        return found

    def _give_standbys(self) -> None:
        lacking: list[tuple[Task, int]] = []
        for task in sorted(self._stateful, key=_by_partition, reverse=True):
            placed = 0
            while placed < self._standby_replicas and self._stays_standby(task):
                placed += 1
            if placed < self._standby_replicas:
                lacking.append((task, self._standby_replicas - placed))
        heap = [(process.load, process) for process in self._processes.values()]
        heapify(heap)
        for task, count in sorted(lacking, reverse=True):
            for _ in range(count):
                if not self._give_standby(task, heap):
                    break  # Every process has it.

    def _stays_standby(self, task: Task) -> bool:
        """Return whether a standby of the task stays with a member that has its state."""
        former = self._had_active.get(task)
        holders = () if former is None else (former,)
        for member_ids in (holders, self._had_copy.get(task, ())):
            member_id = self._least_loaded(
                each for each in member_ids if task not in self._process(each).tasks
            )
            if member_id is not None and self._count(member_id) < self._quota.limit:
                self._add_standby(member_id, task)
                return True
        return False

    def _give_standby(self, task: Task, heap: list[tuple[tuple[float, float, str], _Process]]) -> bool:
        passed: list[_Process] = []
        is_given = False
        while heap and not is_given:
            _, process = heappop(heap)
            passed.append(process)
            if task not in process.tasks:
                self._add_standby(process.least_loaded(), task)
                is_given = True
        for process in passed:
            heappush(heap, (process.load, process))
        return is_given


def _by_partition(task: Task) -> tuple[int, str]:
    """Tasks of the same partition belong together: their topics are copartitioned."""
    return task.partition, task.subtopology_id
