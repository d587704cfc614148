"""The sticky assignor: even, sticky, and copies on other processes."""

from collections import Counter
from random import Random

import pytest

from kohort.broker.group.streams.assignor import Candidate, Work, assign
from kohort.broker.group.streams.tasks import NO_TASKS, Task, Tasks, each_task

STATELESS = {"0": Work(6, is_stateful=False)}
STATEFUL = {"0": Work(6, is_stateful=True)}


def fresh(*names: str, process: str | None = None) -> dict[str, Candidate]:
    """Members that had nothing, each on a process of its own unless it is named."""
    return {name: Candidate(process or f"p-{name}", NO_TASKS) for name in names}


def again(members: dict[str, Candidate], given: dict[str, Tasks]) -> dict[str, Candidate]:
    """The same members with their assigned tasks."""
    return {name: Candidate(each.process_id, given.get(name, NO_TASKS)) for name, each in members.items()}


def active(given: dict[str, Tasks]) -> dict[Task, str]:
    """Who runs each task."""
    found: dict[Task, str] = {}
    for name, tasks in given.items():
        for task in each_task(tasks.active):
            assert task not in found
            found[task] = name
    return found


def test_tasks_are_assigned_evenly_and_every_one_has_a_member() -> None:
    given = assign(fresh("a", "b", "c", "d"), STATELESS, 0)
    assert len(active(given)) == 6
    assert sorted(Counter(active(given).values()).values()) == [1, 1, 2, 2]


def test_without_members_or_tasks_nothing_is_assigned() -> None:
    assert assign({}, STATELESS, 0) == {}
    assert assign(fresh("a"), {}, 1) == {"a": NO_TASKS}


def test_members_keep_their_tasks_if_that_is_even() -> None:
    members = fresh("a", "b")
    given = assign(members, STATEFUL, 0)
    assert assign(again(members, given), STATEFUL, 0) == given
    more = {**again(members, given), **fresh("c")}
    after = active(assign(more, STATEFUL, 0))
    stayed = [task for task, name in active(given).items() if after[task] == name]
    assert len(stayed) == 4
    assert Counter(after.values()) == {"a": 2, "b": 2, "c": 2}


def test_tasks_of_a_member_that_left_move_and_no_others_do() -> None:
    members = fresh("a", "b", "c")
    given = assign(members, STATEFUL, 0)
    left = {name: each for name, each in again(members, given).items() if name != "c"}
    after = active(assign(left, STATEFUL, 0))
    assert all(after[task] == name for task, name in active(given).items() if name != "c")
    assert Counter(after.values()) == {"a": 3, "b": 3}


def test_a_standby_is_on_another_process_than_its_task() -> None:
    members = {**fresh("a1", "a2", process="a"), **fresh("b1", "b2", process="b")}
    given = assign(members, STATEFUL, 1)
    runs = active(given)
    copies = [(task, name) for name, tasks in given.items() for task in each_task(tasks.standby)]
    assert len(copies) == 6
    for task, name in copies:
        assert members[name].process_id != members[runs[task]].process_id
    loads = [sum(1 for role in (t.active, t.standby) for _ in each_task(role)) for t in given.values()]
    assert sorted(loads) == [3, 3, 3, 3]


def test_stateless_tasks_and_a_single_process_have_no_standbys() -> None:
    assert not any(each.standby for each in assign(fresh("a", "b"), STATELESS, 2).values())
    alone = assign(fresh("a1", "a2", process="a"), STATEFUL, 1)
    assert not any(each.standby for each in alone.values())
    assert len(active(alone)) == 6


def test_an_active_task_goes_to_the_member_with_its_state() -> None:
    members = fresh("a", "b", "c")
    given = assign(members, STATEFUL, 1)
    copies = {task: name for name, tasks in given.items() for task in each_task(tasks.standby)}
    left = {name: each for name, each in again(members, given).items() if name != "c"}
    after = active(assign(left, STATEFUL, 1))
    moved = [task for task, name in active(given).items() if name == "c"]
    assert len(moved) == 2
    assert any(after[task] == copies[task] for task in moved)
    if len({copies[task] for task in moved}) == 2:  # Else one of them would have more than its share.
        assert all(after[task] == copies[task] for task in moved)


def test_stateful_tasks_are_spread_first() -> None:
    work = {"0": Work(4, is_stateful=False), "1": Work(4, is_stateful=True)}
    given = assign(fresh("a", "b"), work, 0)
    stateful = Counter(name for task, name in active(given).items() if task.subtopology_id == "1")
    assert stateful == {"a": 2, "b": 2}
    assert Counter(active(given).values()) == {"a": 4, "b": 4}


@pytest.mark.parametrize("seed", range(80))
def test_assignments_stay_even_and_standbys_are_on_other_processes(seed: int) -> None:
    dice = Random(seed)
    work = {str(each): Work(dice.randrange(1, 9), is_stateful=dice.random() < 0.6) for each in range(3)}
    standbys = dice.randrange(3)
    members = fresh("m0")
    given: dict[str, Tasks] = {}
    for number in range(1, 12):
        members = again(members, given)
        if len(members) > 1 and dice.random() < 0.4:
            del members[dice.choice(sorted(members))]
        else:
            members[f"m{number}"] = Candidate(f"p{dice.randrange(4)}", NO_TASKS)
        given = assign(members, work, standbys)
        assert given == assign(dict(reversed(members.items())), work, standbys), "order is of no account"
        runs = active(given)
        assert len(runs) == sum(each.tasks for each in work.values())
        processes = {each.process_id for each in members.values()}
        held: Counter[tuple[str, Task]] = Counter()
        for name, tasks in given.items():
            for role in (tasks.active, tasks.standby):
                held.update((members[name].process_id, task) for task in each_task(role))
        assert not held or max(held.values()) == 1
        for task in runs:
            copies = sum((process, task) in held for process in processes) - 1
            is_stateful = work[task.subtopology_id].is_stateful
            assert copies == (min(standbys, len(processes) - 1) if is_stateful else 0)
