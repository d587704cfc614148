"""Until when a broker of a cluster is not ready: its replicas have to have been in sync once."""

from uuid import UUID

import pytest

from kohort.broker.http.catching_up import CatchingUp, behind
from kohort.broker.metadata import PartitionState, Snapshot, TopicState

ME, LEADER, OTHER = 1, 2, 3


def snapshot(*states: PartitionState) -> Snapshot:
    return Snapshot(1, "c", LEADER, topics={"t": TopicState("t", UUID(int=7), states)})


def partition(
    index: int,
    leader: int,
    isr: tuple[int, ...],
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
) -> PartitionState:
    replicas = (ME, LEADER, OTHER)
    return PartitionState(index, leader, 0, replicas, isr, adding=adding, removing=removing)


@pytest.mark.parametrize(
    "state",
    [
        partition(0, LEADER, (LEADER, ME)),  # Another one's replica is behind.
        partition(0, ME, (ME,)),
        partition(0, -1, (OTHER,)),  # Nobody leads.
        partition(0, LEADER, (LEADER,), adding=(ME,)),
        partition(0, LEADER, (LEADER,), removing=(ME,)),
        PartitionState(0, LEADER, 0, (LEADER, OTHER), (LEADER,)),
    ],
)
def test_what_is_not_its_own_to_catch_up_with_keeps_no_broker_from_being_ready(state: PartitionState) -> None:
    assert list(behind(snapshot(state), ME)) == []


def test_a_broker_is_not_ready_until_its_replicas_have_been_in_sync_once() -> None:
    late = partition(0, LEADER, (LEADER,))
    now = snapshot(late, partition(1, LEADER, (LEADER, ME)))
    catching_up = CatchingUp(lambda: now, ME)
    assert catching_up.reasons() == ["1 replicas are not in sync yet: t-0"]
    now = snapshot(partition(0, LEADER, (LEADER, ME)))
    assert catching_up.reasons() == []
    now = snapshot(late)
    assert catching_up.reasons() == []


def test_few_of_many_are_named() -> None:
    now = snapshot(*(partition(index, LEADER, (LEADER,)) for index in range(9)))
    assert CatchingUp(lambda: now, ME).reasons() == [
        "9 replicas are not in sync yet: t-0, t-1, t-2, t-3, t-4 and 4 more"
    ]
