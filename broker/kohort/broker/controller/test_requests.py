"""Elections and moves that administrators ask for: what is changed, and what each partition is answered."""

from uuid import UUID

import pytest

from kohort.broker.controller import ElectionKind, TopicRules, plan_elections, plan_reassignments
from kohort.broker.controller.requests import TopicPartition, moving
from kohort.broker.metadata.partition_state import NO_LEADER, PartitionState
from kohort.broker.metadata.snapshot import BrokerState, Snapshot, TopicState, topics_by_id
from kohort.protocol.errors import ErrorCode

TOPIC_ID = UUID(int=1)
WHOLE = PartitionState(0, leader=1, leader_epoch=5, replicas=(1, 2, 3), isr=(1, 2, 3), partition_epoch=7)
LED_BY_TWO = PartitionState(1, leader=2, leader_epoch=5, replicas=(1, 2), isr=(2, 1), partition_epoch=7)
FIRST_IS_BEHIND = PartitionState(2, leader=2, leader_epoch=5, replicas=(1, 2), isr=(2,), partition_epoch=7)
NOBODY = PartitionState(3, leader=NO_LEADER, leader_epoch=5, replicas=(9, 2), isr=(9,), partition_epoch=7)
LOST = PartitionState(4, leader=NO_LEADER, leader_epoch=5, replicas=(8, 9), isr=(9,), partition_epoch=7)


def world(*drained: int) -> Snapshot:
    states = (WHOLE, LED_BY_TWO, FIRST_IS_BEHIND, NOBODY, LOST)
    topic = TopicState("t", TOPIC_ID, states)
    brokers = tuple(BrokerState(each, "h", each, is_drained=each in drained) for each in (1, 2, 3, 4))
    return Snapshot(1, "c", 1, brokers, {"t": topic}, topics_by_id([topic]))


def rules(_topic: TopicState) -> TopicRules:
    return TopicRules()


def elected(
    kind: ElectionKind, *indexes: int, drained: tuple[int, ...] = ()
) -> tuple[dict[int, PartitionState], dict[int, int]]:
    places: list[TopicPartition] | None = [("t", each) for each in indexes] or None
    mutation, outcomes = plan_elections(world(*drained), kind, places, rules)
    return (
        {index: state for (_, index), state in mutation.partitions.items()},
        {index: 0 if error is None else error.code for (_, index), error in outcomes.items()},
    )


def test_a_preferred_leader_leads_again_under_the_next_epochs() -> None:
    changed, codes = elected(ElectionKind.PREFERRED, 1)
    assert codes == {1: 0}
    after = changed[1]
    assert (after.leader, after.leader_epoch, after.partition_epoch, after.isr) == (1, 6, 8, (2, 1))


@pytest.mark.parametrize(
    "kind, index, code",
    [
        (ElectionKind.PREFERRED, 0, ErrorCode.ELECTION_NOT_NEEDED),
        (ElectionKind.PREFERRED, 2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (ElectionKind.PREFERRED, 3, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (ElectionKind.UNCLEAN, 1, ErrorCode.ELECTION_NOT_NEEDED),
        (ElectionKind.UNCLEAN, 4, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
        (ElectionKind.UNCLEAN, 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_an_election_that_cannot_be_is_refused(kind: ElectionKind, index: int, code: ErrorCode) -> None:
    assert elected(kind, index) == ({}, {index: code})


def test_an_unclean_election_takes_any_remaining_replica() -> None:
    changed, codes = elected(ElectionKind.UNCLEAN, 3)
    assert codes == {3: 0}
    assert (changed[3].leader, changed[3].isr, changed[3].leader_epoch) == (2, (2,), 6)


def test_a_drained_broker_is_not_elected_as_preferred_leader() -> None:
    refused = {1: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert elected(ElectionKind.PREFERRED, 1, drained=(1,)) == ({}, refused)


def test_an_election_for_all_partitions_omits_those_without_a_change() -> None:
    changed, codes = elected(ElectionKind.PREFERRED)
    assert set(changed) == {1}
    unavailable = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert codes == {1: 0, 2: unavailable, 3: unavailable, 4: unavailable}


# -- moves ------------------------------------------------------------------------------------------------


def moved(
    index: int,
    target: tuple[int, ...] | None,
    *,
    may_change_factor: bool = True,
    after: Snapshot | None = None,
) -> tuple[PartitionState | None, int]:
    mutation, outcomes = plan_reassignments(
        after or world(), [(("t", index), target)], may_change_factor=may_change_factor
    )
    error = outcomes["t", index]
    return mutation.partitions.get((TOPIC_ID, index)), 0 if error is None else error.code


def test_a_reassignment_starts() -> None:
    after, code = moved(1, (3, 2))
    assert (code, after is not None) == (0, True)
    assert after is not None
    assert (after.replicas, after.adding, after.removing) == ((3, 2, 1), (3,), (1,))
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (2, 5, 8)


def test_a_cancelled_reassignment_restores_the_partition() -> None:
    before = world()
    mutation, _ = plan_reassignments(before, [(("t", 1), (3, 2))])
    on_its_way = before.after(mutation)
    assert [each.index for each in moving(on_its_way, None)["t"]] == [1]
    assert moving(on_its_way, [("t", 0), ("nope", 1), ("t", 77)]) == {}
    after, code = moved(1, None, after=on_its_way)
    assert code == 0
    assert after is not None
    assert (set(after.replicas), after.adding, after.removing) == ({1, 2}, (), ())
    assert after.partition_epoch == 9


@pytest.mark.parametrize("target", [(2, 1), None])
def test_a_replica_that_is_removed_again_stops_leading(target: tuple[int, ...] | None) -> None:
    led_by_new = PartitionState(
        1,
        leader=4,
        leader_epoch=5,
        replicas=(4, 2, 1),
        isr=(4, 2, 1),
        partition_epoch=7,
        adding=(4,),
        removing=(1,),
    )
    topic = TopicState("t", TOPIC_ID, (WHOLE, led_by_new))
    before = Snapshot(1, "c", 1, world().brokers, {"t": topic}, topics_by_id([topic]))
    after, code = moved(1, target, after=before)
    assert code == 0
    assert after is not None
    assert (after.replicas, after.isr, after.leader) == ((2, 1), (2, 1), 2)
    assert (after.leader_epoch, after.partition_epoch) == (6, 8)


@pytest.mark.parametrize(
    "index, target, code",
    [
        (1, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (1, (), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (1, (1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (1, (1, 7), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (99, (1, 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, (1, 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_move_that_cannot_be_is_refused(
    index: int, target: tuple[int, ...] | None, code: ErrorCode
) -> None:
    assert moved(index, target) == (None, code)


def test_the_replication_factor_changes_only_if_the_client_allows_it() -> None:
    assert moved(1, (1, 2, 3), may_change_factor=False) == (None, ErrorCode.INVALID_REPLICATION_FACTOR)
    assert moved(1, (1, 2, 3))[1] == 0
    assert moved(1, (1, 3), may_change_factor=False)[1] == 0


def test_a_replica_on_a_dead_broker_can_stay() -> None:
    assert moved(3, (9, 3))[1] == 0
