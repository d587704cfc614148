import msgspec
import pytest

from kohort.broker.explain.findings import Explanation, Finding, FindingKind, Likelihood
from kohort.broker.explain.observed.departures import RETURN_MS_MAX
from kohort.broker.explain.observed.events import (
    CoordinatorMoved,
    Departure,
    GroupChanged,
    Grown,
    ObservedMember,
    OffsetMove,
    OffsetsRemoved,
    OffsetsSet,
    OwnedPartition,
    Resubscription,
    StaticMemberReturned,
    Subscribers,
    TopicsChanged,
    TransactionHolder,
    TransactionStands,
    read_observed,
)
from kohort.broker.explain.observed.explaining import explain
from kohort.broker.explain.observed.story import observed_story

NOW = 1_800_000_000_000
SESSION, POLL = 45_000, 300_000
DAY = 86_400_000


def member(name: str, client_id: str = "app-1", instance: str | None = None) -> ObservedMember:
    return ObservedMember(
        name, client_id, "/10.0.0.1", instance, ("t",), session_timeout_ms=SESSION, rebalance_timeout_ms=POLL
    )


def gone(
    name: str = "a",
    *,
    silent_ms: int = 0,
    stuck_ms: int | None = None,
    every_ms: int = 5_000,
    client_id: str = "app-1",
    owned: tuple[OwnedPartition, ...] = (),
    at_ms: int = NOW,
) -> Departure:
    """A member that committed every so often, for the last time `silent_ms` before `at_ms`."""
    moved_ms = silent_ms if stuck_ms is None else stuck_ms
    return Departure(member(name, client_id), at_ms - silent_ms, every_ms, at_ms - moved_ms, every_ms, owned)


def changed(at_ms: int = NOW, generation_id: int = 8, **fields: object) -> GroupChanged:
    told = {"former_generation_id": generation_id - 1, "members": 2, "former_members": 3, **fields}
    return GroupChanged(at_ms=at_ms, generation_id=generation_id, **told)  # type: ignore[arg-type]


def only(*events: object) -> Explanation:
    (explanation,) = explain(events)  # type: ignore[arg-type]
    return explanation


def first(*events: object) -> Finding:
    return only(*events).findings[0]


def named(finding: Finding) -> tuple[FindingKind, Likelihood]:
    return finding.kind, finding.likelihood


def test_a_newcomer_is_certain() -> None:
    found = first(changed(joined=(member("b"),)))
    assert named(found) == (FindingKind.MEMBER_JOINED, Likelihood.CERTAIN)
    assert found.evidence


@pytest.mark.parametrize("silent_ms", [0, 1_000, SESSION - 1])
def test_a_member_that_committed_within_its_session_timeout_has_left(silent_ms: int) -> None:
    found = first(changed(gone=(gone(silent_ms=silent_ms),)))
    assert named(found) == (FindingKind.MEMBER_LEFT, Likelihood.LIKELY)


@pytest.mark.parametrize("silent_ms", [SESSION, SESSION + 3_000, SESSION + 10_000])
def test_a_member_that_was_silent_for_its_session_timeout_has_died(silent_ms: int) -> None:
    found = first(changed(gone=(gone(silent_ms=silent_ms),), others_commit_ms=NOW))
    assert named(found) == (FindingKind.MEMBER_EXPIRED, Likelihood.LIKELY)
    alone = first(changed(gone=(gone(silent_ms=silent_ms),), members=0))
    assert named(alone) == (FindingKind.MEMBER_EXPIRED, Likelihood.LIKELY)


@pytest.mark.parametrize("slow_ms", [SESSION, SESSION + 5_000, 200_000])
def test_a_rebalance_that_takes_long_makes_no_silence_of_a_member_that_left(slow_ms: int) -> None:
    """Its last commit is older than its session timeout, but the others stopped as early as it did."""
    change = changed(gone=(gone(silent_ms=slow_ms),), others_commit_ms=NOW - slow_ms + 2_000)
    found = only(change).findings
    assert found[0].kind is FindingKind.MEMBER_LEFT
    assert {each.likelihood for each in found} == {Likelihood.POSSIBLE}


@pytest.mark.parametrize("slow_ms", [0, 20_000, 200_000])
def test_a_member_has_died_also_where_the_rebalance_took_long(slow_ms: int) -> None:
    change = changed(gone=(gone(silent_ms=SESSION + slow_ms),), others_commit_ms=NOW - slow_ms + 500)
    assert named(first(change)) == (FindingKind.MEMBER_EXPIRED, Likelihood.LIKELY)


@pytest.mark.parametrize("later_ms", [SESSION, SESSION + 5_000, SESSION + 10_000])
@pytest.mark.parametrize("others", [1, 3])
def test_a_member_that_left_before_the_rest_of_the_group_is_not_surely_dead(
    later_ms: int, others: int
) -> None:
    """The others worked on and did not rejoin: the group had no generation before they left, too."""
    rest = [gone(f"b-{each}", silent_ms=500) for each in range(others)]
    change = changed(gone=(gone("a", silent_ms=later_ms), *rest), members=0)
    about_a = [each for each in only(change).findings if each.text.startswith("a ")]
    assert len(about_a) == 3
    assert {each.likelihood for each in about_a} == {Likelihood.POSSIBLE}


@pytest.mark.parametrize("count", [2, 3, 5])
def test_an_epoch_is_not_surely_owed_to_a_topic_that_nobody_has_subscribed_to(count: int) -> None:
    """Other applications make topics as well; a pattern may match them or not."""
    topics = tuple(f"other-{each}" for each in range(count))
    seen = TopicsChanged(at_ms=NOW - 1_000, since_ms=NOW - 9_000, created=(*topics, "t"), deleted=("gone",))
    change = changed(
        is_by_broker=True, is_metadata_changed=True, subscribers=(Subscribers(("t",), 2, ("app",)),)
    )
    found = {each.about: each.likelihood for each in only(seen, change).findings}
    assert found.pop("t") is Likelihood.LIKELY
    assert set(found.values()) == {Likelihood.POSSIBLE}


@pytest.mark.parametrize("count", [2, 3, 5])
def test_members_that_lost_their_sessions_and_came_back_are_no_sure_deployment(count: int) -> None:
    """A member that was cut off comes back with a new member id, as a restarted one does."""
    names = [f"app-{each}" for each in range(count)]
    lost = tuple(gone(name, silent_ms=SESSION + 1_000, client_id=name) for name in names)
    back = tuple(member(f"{name}-again", name) for name in names)
    together = changed(gone=lost, joined=back, members=count, others_commit_ms=NOW - 100)
    at_once = changed(gone=tuple(gone(name, client_id=name) for name in names), joined=back, members=count)
    apart = [changed(gone=lost, members=0), changed(NOW + 9_000, 9, joined=back, former_members=0)]
    for told in (explain([together]), explain([at_once]), explain(apart)):
        found = [each for one in told for each in one.findings]
        assert all(
            each.likelihood is Likelihood.POSSIBLE
            for each in found
            if each.kind is FindingKind.ROLLING_DEPLOYMENT
        )


@pytest.mark.parametrize("away_ms", [70_000, 300_000, RETURN_MS_MAX - 40_000])
def test_members_that_come_back_one_by_one_have_not_been_started(away_ms: int) -> None:
    """A whole group that lost its sessions comes back as one that is started does."""
    names = ("a", "b", "c")
    lost = changed(gone=tuple(gone(name, silent_ms=SESSION, client_id=name) for name in names), members=0)
    joins = [
        changed(
            NOW + away_ms + 10_000 * place,
            10 + place,
            joined=(member(f"{name}-again", name),),
            former_members=place,
            members=place + 1,
        )
        for place, name in enumerate(names)
    ]
    kinds = [each.findings[0].kind for each in explain([lost, *joins])]
    assert kinds[-3:] == [FindingKind.MEMBER_JOINED] * 3
    assert explain(joins)[0].findings[0].kind is FindingKind.STARTED_ONE_BY_ONE


@pytest.mark.parametrize(
    "passed_ms, former, is_sure", [(0, 3, False), (20_000, 3, False), (61_000, 3, True), (1_000, 0, True)]
)
def test_an_offset_that_goes_back_behind_a_rebalance_may_be_the_new_owner(
    passed_ms: int, former: int, is_sure: bool
) -> None:
    moved = changed(joined=(member("b"),), former_members=former, moved=2)
    back = OffsetsSet(at_ms=NOW + passed_ms, partitions=1, backward=1, members=2, has_had_members=True)
    found = explain([moved, back])[-1].findings
    assert (found[0].likelihood is Likelihood.LIKELY) == is_sure
    assert FindingKind.OFFSETS_WENT_BACK in {each.kind for each in found}
    assert (FindingKind.READ_AGAIN in {each.kind for each in found}) != is_sure


def test_a_silent_member_among_members_that_never_commit_has_no_certain_cause() -> None:
    found = only(changed(gone=(gone(silent_ms=SESSION + 3_000),))).findings
    assert found[0].kind is FindingKind.MEMBER_EXPIRED
    assert {each.likelihood for each in found} == {Likelihood.POSSIBLE}


@pytest.mark.parametrize("silent_ms", [0, 2_000, POLL, POLL + 9_000])
def test_a_member_whose_offsets_stood_still_for_the_poll_interval_polled_too_late(silent_ms: int) -> None:
    """Some clients go on committing the same offset meanwhile, others do not."""
    found = first(changed(gone=(gone(silent_ms=silent_ms, stuck_ms=POLL + max(silent_ms - POLL, 100)),)))
    assert named(found) == (FindingKind.POLL_INTERVAL_EXCEEDED, Likelihood.LIKELY)


@pytest.mark.parametrize(
    "departure",
    [
        Departure(member("a")),
        gone(silent_ms=SESSION + 60_000),
        gone(silent_ms=SESSION + 1_000, every_ms=SESSION),
        gone(silent_ms=DAY),
    ],
)
def test_a_departure_without_a_commit_has_no_certain_cause(departure: Departure) -> None:
    found = only(changed(gone=(departure,))).findings
    assert {each.likelihood for each in found} == {Likelihood.POSSIBLE}
    assert {each.kind for each in found} == {
        FindingKind.MEMBER_LEFT,
        FindingKind.MEMBER_EXPIRED,
        FindingKind.POLL_INTERVAL_EXCEEDED,
    }


def test_a_member_that_returns_is_reported_as_returned() -> None:
    away = changed(gone=(gone(silent_ms=10),))
    back = changed(NOW + 70_000, 9, joined=(member("b"),))
    told = explain([away, back])
    assert any("came back from the same host" in fact for fact in told[0].findings[0].evidence)
    assert any("was gone 70 s before" in fact for fact in told[1].findings[0].evidence)


def test_more_partitions_are_certain_and_the_cluster_confirms_them() -> None:
    seen = TopicsChanged(at_ms=NOW - 3_000, since_ms=NOW - 13_000, grown=(Grown("t", 4, 6),))
    found = first(seen, changed(grown=(Grown("t", 4, 6),)))
    assert named(found) == (FindingKind.PARTITIONS_ADDED, Likelihood.CERTAIN)
    assert len(found.evidence) == 2
    assert named(first(changed(grown=(Grown("t", 4, 6),))))[0] is FindingKind.PARTITIONS_ADDED


def test_a_changed_subscription_is_a_new_topic_only_if_one_was_created() -> None:
    one, other_one = Resubscription("a", "app-1", ("t2",)), Resubscription("b", "app-2", ("t2",))
    change = changed(resubscribed=(one, other_one))
    assert named(first(change)) == (FindingKind.SUBSCRIPTION_CHANGED, Likelihood.CERTAIN)
    created = TopicsChanged(at_ms=NOW - 3_000, since_ms=NOW - 13_000, created=("t2",))
    assert named(first(created, change)) == (FindingKind.TOPIC_CREATED, Likelihood.LIKELY)
    other = TopicsChanged(at_ms=NOW - 3_000, since_ms=NOW - 13_000, created=("t3",))
    assert named(first(other, change))[0] is FindingKind.SUBSCRIPTION_CHANGED
    alone = changed(resubscribed=(one,))
    assert named(first(created, alone))[0] is FindingKind.SUBSCRIPTION_CHANGED
    follows = changed(NOW + 5_000, 9, resubscribed=(other_one,))
    assert {each.findings[0].kind for each in explain([created, alone, follows])} == {
        FindingKind.TOPIC_CREATED
    }


def test_a_deleted_topic_is_the_cause_if_the_cluster_confirms_it() -> None:
    change = changed(resubscribed=(Resubscription("a", "app-1", (), ("t2",)),))
    deleted = TopicsChanged(at_ms=NOW - 3_000, since_ms=NOW - 13_000, deleted=("t2",))
    assert named(first(deleted, change)) == (FindingKind.TOPIC_DELETED, Likelihood.LIKELY)


def test_a_changed_assignor_is_named_before_the_members_that_brought_it() -> None:
    found = first(changed(protocol_name="range", former_protocol_name="sticky", joined=(member("b"),)))
    assert named(found) == (FindingKind.ASSIGNOR_CHANGED, Likelihood.CERTAIN)


def test_the_second_step_of_a_cooperative_rebalance_is_no_riddle() -> None:
    joined = changed(joined=(member("b"),), protocol_name="cooperative-sticky")
    second = changed(NOW + 3_000, 9, moved=2, protocol_name="cooperative-sticky")
    found = explain([joined, second])[1].findings[0]
    assert named(found) == (FindingKind.OWNERSHIP_CHANGED, Likelihood.LIKELY)


def deployment(*, members: int = 3, pause_ms: int = 4_000) -> list[GroupChanged]:
    events = []
    for index in range(members):
        at_ms, number = NOW + 2 * index * pause_ms, 8 + 2 * index
        away = gone(f"old-{index}", client_id=f"app-{index}", silent_ms=10, at_ms=at_ms)
        events.append(changed(at_ms, number, former_members=members, members=members - 1, gone=(away,)))
        back = member(f"new-{index}", f"app-{index}")
        events.append(
            changed(at_ms + pause_ms, number + 1, former_members=members - 1, members=members, joined=(back,))
        )
    return events


@pytest.mark.parametrize("members", [2, 3, 12])
def test_a_rolling_deployment_is_one_finding(members: int) -> None:
    told = only(*deployment(members=members))
    assert named(told.findings[0]) == (FindingKind.ROLLING_DEPLOYMENT, Likelihood.LIKELY)
    assert told.changes == 2 * members
    assert f"{members} of {members} members" in told.findings[0].text


def test_half_or_slow_deployment_is_not_a_rolling_deployment() -> None:
    assert len(explain(deployment()[:2])) == 2
    assert len(explain(deployment(pause_ms=90_000))) == 6


def flapping(times: int, owned: tuple[OwnedPartition, ...] = (), *, clients: int = 1) -> list[GroupChanged]:
    events = []
    for index in range(times):
        at_ms, number = NOW + index * 20_000, 8 + 2 * index
        client_id = f"app-{1 + index % clients}"
        away = gone(f"m-{index}", silent_ms=10, at_ms=at_ms, owned=owned, client_id=client_id)
        events.append(changed(at_ms, number, gone=(away,), advanced=3))
        events.append(changed(at_ms + 5_000, number + 1, joined=(member(f"m-{index + 1}"),), advanced=3))
    return events


def test_a_member_that_joins_and_leaves_repeatedly_is_a_storm() -> None:
    told = only(*flapping(3))
    assert told.findings[0].kind is FindingKind.STORM
    assert told.findings[0].about == "app-1"
    assert told.changes == 6


def test_a_partition_that_loses_one_member_after_another_has_a_poison_record() -> None:
    stuck, moving = OwnedPartition("t", 3, 117, 400), OwnedPartition("t", 1, 5)
    events = flapping(4, (stuck,))
    found = first(*events)
    assert named(found) == (FindingKind.POISON_RECORD, Likelihood.LIKELY)
    assert "t-3" in found.text
    unknown_end = first(*flapping(4, (OwnedPartition("t", 3, 117), moving)))
    assert named(unknown_end)[0] is FindingKind.STORM  # It is only possible: two partitions stand still.
    many = tuple(OwnedPartition("t", each, 117, 400) for each in range(5))
    assert first(*flapping(4, many)).kind is FindingKind.STORM  # One process may be sick as well ...
    found = first(*flapping(6, many, clients=2))  # ... but hardly two.
    assert named(found) == (FindingKind.POISON_RECORD, Likelihood.LIKELY)
    assert "one of t-0, t-1" in found.text
    idle = first(*flapping(4, (OwnedPartition("t", 3, 117, 117),)))
    assert idle.kind is FindingKind.STORM


def test_members_that_start_one_by_one_are_one_start() -> None:
    events = [
        changed(
            NOW + index * 3_000,
            index + 1,
            former_generation_id=index or -1,
            former_members=index,
            members=index + 1,
            joined=(member(f"m-{index}"),),
        )
        for index in range(4)
    ]
    later = changed(NOW + 10_000, 5, gone=(gone(silent_ms=10, at_ms=NOW + 10_000),))
    told = explain([*events, later])
    assert [each.findings[0].kind for each in told] == [
        FindingKind.STARTED_ONE_BY_ONE,
        FindingKind.MEMBER_LEFT,
    ]
    assert told[0].changes == 4


def test_two_applications_are_recognized_by_subscription_and_client_ids() -> None:
    mixed = (Subscribers(("t",), 2, ("billing-1", "billing-2")), Subscribers(("u",), 1, ("audit-1",)))
    change = changed(joined=(member("b", "audit-1"),), subscribers=mixed)
    assert named(first(change)) == (FindingKind.TWO_APPLICATIONS, Likelihood.LIKELY)
    again = changed(NOW + 90_000, 9, joined=(member("c", "audit-2"),), subscribers=mixed)
    assert explain([change, again])[1].findings[0].kind is FindingKind.MEMBER_JOINED
    same = (Subscribers(("t",), 2, ("app-1", "app-2")), Subscribers(("u",), 1, ("app-3",)))
    assert first(changed(joined=(member("b"),), subscribers=same)).kind is FindingKind.MEMBER_JOINED


def returned(at_ms: int, host: str = "/10.0.0.1", silent_ms: int = 400) -> StaticMemberReturned:
    back = msgspec.structs.replace(member("new", instance="one"), client_host=host)
    return StaticMemberReturned(
        at_ms=at_ms,
        member=back,
        former_member_id="old",
        generation_id=4,
        former_commit_ms=at_ms - silent_ms,
    )


def test_a_static_member_that_returns_once_restarted_and_repeatedly_is_used_twice() -> None:
    assert named(first(returned(NOW))) == (FindingKind.STATIC_MEMBER_RETURNED, Likelihood.CERTAIN)
    told = explain([returned(NOW + index * 20_000) for index in range(3)])
    assert [each.findings[0].kind for each in told] == [
        FindingKind.STATIC_MEMBER_RETURNED,
        FindingKind.STATIC_MEMBER_RETURNED,
        FindingKind.SAME_INSTANCE,
    ]


def test_a_static_member_that_returned_too_late_rebalanced_the_group() -> None:
    away = Departure(member("old", instance="one"))
    found = first(changed(gone=(away,), joined=(member("new", instance="one"),)))
    assert named(found) == (FindingKind.STATIC_MEMBER_RETURNED, Likelihood.CERTAIN)


def removed(**fields: object) -> OffsetsRemoved:
    told = {"partitions": 4, "topics": ("t",), "newest_commit_ms": NOW - 8 * DAY, "retention_ms": 7 * DAY}
    return OffsetsRemoved(at_ms=NOW, **{**told, "empty_since_ms": NOW - 7 * DAY, **fields})  # type: ignore[arg-type]


def test_offsets_expire_only_after_their_retention() -> None:
    assert named(first(removed())) == (FindingKind.OFFSETS_EXPIRED, Likelihood.LIKELY)
    early = removed(empty_since_ms=NOW - 60_000)
    assert named(first(early)) == (FindingKind.OFFSETS_DELETED, Likelihood.LIKELY)
    assert (
        first(removed(empty_since_ms=NOW - 60_000, is_group_removed=True)).kind is FindingKind.GROUP_DELETED
    )
    unknown = only(removed(retention_ms=0)).findings
    assert {each.likelihood for each in unknown} == {Likelihood.POSSIBLE}
    deleted = TopicsChanged(at_ms=NOW + 5_000, since_ms=NOW - 5_000, deleted=("t",))
    assert first(removed(), deleted).kind is FindingKind.TOPIC_DELETED


def test_a_tool_sets_offsets_of_a_group_without_members() -> None:
    moves = (OffsetMove("t", 0, 100, 0), OffsetMove("t", 1, 90, 0))
    reset = OffsetsSet(at_ms=NOW, partitions=2, backward=2, has_had_members=True, moves=moves)
    assert named(first(reset)) == (FindingKind.OFFSETS_RESET, Likelihood.LIKELY)
    with_members = msgspec.structs.replace(reset, members=2)
    assert named(first(with_members)) == (FindingKind.OFFSETS_WENT_BACK, Likelihood.LIKELY)
    stranger = msgspec.structs.replace(reset, has_had_members=False)
    assert {each.likelihood for each in only(stranger).findings} == {Likelihood.POSSIBLE}
    forward = OffsetsSet(at_ms=NOW, partitions=1, backward=0, has_had_members=True)
    assert {each.likelihood for each in only(forward).findings} == {Likelihood.POSSIBLE}


def test_a_moved_coordinator_is_certain() -> None:
    moved = CoordinatorMoved(at_ms=NOW, node_id=2, former_node_id=1, is_former_gone=True)
    found = first(moved)
    assert named(found) == (FindingKind.COORDINATOR_MOVED, Likelihood.CERTAIN)
    assert "broker 1 is not in the cluster" in found.evidence[0]


def test_every_event_survives_its_json_form() -> None:
    events = [
        *deployment(),
        returned(NOW),
        removed(),
        OffsetsSet(at_ms=NOW, partitions=1, backward=1, moves=(OffsetMove("t", 0, 2, 1),)),
        TopicsChanged(at_ms=NOW, since_ms=NOW - 1, grown=(Grown("t", 1, 2),)),
        CoordinatorMoved(at_ms=NOW, node_id=2, former_node_id=1),
        stands(),
    ]
    assert [read_observed(msgspec.json.encode(each)) for each in events] == events


def test_a_story_names_cause_likelihood_and_evidence() -> None:
    lines = list(observed_story(only(changed(gone=(Departure(member("a")),), moved=2))))
    assert "generation 8: 2 members" in lines[0]
    assert lines[1] == "  Cause (possible): a left."
    assert any(line.startswith("  Or (possible): a missed its session timeout") for line in lines)
    assert lines[-1] == "  2 partitions moved."
    one = list(observed_story(only(*deployment())))
    assert "the last of 6 until" in one[0]


def test_rebalances_without_a_record_are_counted() -> None:
    told = only(changed(NOW, 12, former_generation_id=8, joined=(member("b"),)))
    assert told.notes == ("3 more began and left no record: each began anew before it was over",)


def test_a_change_of_which_nothing_is_known_is_not_told() -> None:
    assert explain([changed(NOW, 3, former_generation_id=-1)]) == []


def stands() -> TransactionStands:
    return TransactionStands(
        at_ms=NOW,
        since_ms=NOW - 180_000,
        topic="t",
        partition=3,
        last_stable_offset=117,
        end_offset=4_000,
        timeout_ms_max=900_000,
    )


def test_a_transaction_that_stays_open_holds_the_group_up() -> None:
    found = first(stands())
    assert named(found) == (FindingKind.TRANSACTION_HANGS, Likelihood.LIKELY)
    assert found.about == "t-3"
    assert "the last stable offset of t-3 is 117 for 3 min at least" in found.evidence
    assert "transaction.max.timeout.ms is 15 min" in found.evidence


def test_a_transaction_is_told_with_the_transactional_id_that_holds_it() -> None:
    holder = TransactionHolder("payments-1", NOW - 240_000, 900_000, "Ongoing")
    found = first(msgspec.structs.replace(stands(), holders=(holder,)))
    assert "a transaction of payments-1 on t-3 stays open" in found.text
    assert (
        "the transaction of payments-1 is open for 4 min; its timeout is 15 min, its state Ongoing"
        in found.evidence
    )


def test_a_transaction_that_no_coordinator_knows_may_hang_and_is_looked_up_before_it_is_ended() -> None:
    (text,) = [
        each
        for each in first(msgspec.structs.replace(stands(), is_without_holder=True)).evidence
        if "no coordinator tells of it" in each
    ]
    assert "it may hang" in text
    assert 0 < text.index("kafka-transactions.sh find-hanging") < text.index("abort")
