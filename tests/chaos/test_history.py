"""The checker sees each kind of fault, and nothing where there is none."""

from collections.abc import Callable

import pytest

from tests.chaos.history import History

LOGS = {0: [(0, b"a"), (1, b"b"), (2, b"c")], 1: [(0, b"d")]}


def sound() -> History:
    history = History()
    for partition, log in LOGS.items():
        for offset, value in log:
            history.acknowledge(value, partition, offset)
            history.read("reader", partition, offset, value)
    for _ in range(2):  # It has rejoined before it had anything to lose.
        history.assigned("group")
    history.commit("group", {0: 2, 1: 1})
    history.looked_up(history.commits("group"), {0: 3, 1: 1})
    return history


def test_a_correct_history_has_no_violations() -> None:
    assert sound().violations(LOGS) == []


def test_an_unacknowledged_record_can_exist_or_not() -> None:
    assert sound().violations({**LOGS, 1: [(0, b"d"), (1, b"nobody was told of it")]}) == []


FAULTS: dict[str, Callable[[History], object]] = {
    "lost or moved": lambda history: history.acknowledge(b"e", 1, 1),
    "read and gone": lambda history: history.read("another", 1, 7, b"e"),
    "skipped": lambda history: [history.read("another", 0, offset, LOGS[0][offset][1]) for offset in (0, 2)],
    "read again": lambda history: [history.read("another", 0, each, LOGS[0][each][1]) for each in (0, 1, 0)],
    "a committed offset went back": lambda history: history.looked_up(history.commits("group"), {0: 2, 1: 1}),
    "rebalanced": lambda history: history.assigned("group"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_only_the_planted_violation_is_found(kind: str) -> None:
    history = sound()
    FAULTS[kind](history)
    (found,) = history.violations(LOGS)
    assert found.startswith(kind)


def test_a_record_that_is_there_twice_is_seen() -> None:
    (found,) = sound().violations({**LOGS, 1: [(0, b"d"), (1, b"d")]})
    assert found.startswith("doubled")


def test_a_record_at_another_offset_than_acknowledged_is_seen() -> None:
    history = History()
    history.acknowledge(b"d", 1, 3)
    (found,) = history.violations(LOGS)
    assert found.startswith("lost or moved")


def test_a_group_that_lost_its_offsets_is_found() -> None:
    history = sound()
    history.looked_up(history.commits("group"), {})
    assert len(history.violations(LOGS)) == 2
