"""What fits the facts, and is not surely so: each rule beside what would leave the same records."""

import msgspec
import pytest

from kohort.broker.explain.findings import FindingKind, Likelihood
from kohort.broker.explain.observed.events import (
    CoordinatorMoved,
    Departure,
    GroupChanged,
    Grown,
    OffsetMove,
    OffsetsSet,
    OwnedPartition,
    Resubscription,
    Subscribers,
    TopicsChanged,
)
from kohort.broker.explain.observed.explaining import explain
from kohort.broker.explain.observed.test_explaining import (
    DAY,
    NOW,
    POLL,
    SESSION,
    changed,
    deployment,
    first,
    flapping,
    gone,
    member,
    named,
    only,
    removed,
    returned,
    stands,
)

READ, UNREAD = OwnedPartition("t", 0, 400, 400), OwnedPartition("t", 1, 117, 400)
COOPERATIVE = "cooperative-sticky"


@pytest.mark.parametrize("later_ms", [0, 3_000])
def test_a_member_that_stands_still_with_nothing_to_read_has_not_surely_worked_too_long(
    later_ms: int,
) -> None:
    """A partition to which nobody writes stands still as well, and its member may die after that time."""
    idle = gone(silent_ms=POLL + later_ms, owned=(READ,))
    found = only(changed(gone=(idle,))).findings
    assert named(found[0]) == (FindingKind.POLL_INTERVAL_EXCEEDED, Likelihood.POSSIBLE)
    assert len(found) == 3
    busy = msgspec.structs.replace(idle, owned=(READ, UNREAD))
    assert named(first(changed(gone=(busy,)))) == (FindingKind.POLL_INTERVAL_EXCEEDED, Likelihood.LIKELY)


def test_a_member_that_still_commits_after_it_has_worked_too_long_has_not_surely_left() -> None:
    """Some clients go on committing in another thread; the others took long to rejoin."""
    stuck = gone(silent_ms=1_000, stuck_ms=POLL + 60_000, owned=(UNREAD,))
    found = only(changed(gone=(stuck,))).findings
    assert [named(each) for each in found] == [
        (FindingKind.POLL_INTERVAL_EXCEEDED, Likelihood.POSSIBLE),
        (FindingKind.MEMBER_LEFT, Likelihood.POSSIBLE),
    ]
    idle = msgspec.structs.replace(stuck, owned=(READ,))
    assert named(first(changed(gone=(idle,)))) == (FindingKind.MEMBER_LEFT, Likelihood.LIKELY)


@pytest.mark.parametrize("seen_later_ms", [-20_000, 5_000])
def test_silence_while_the_coordinator_moves_is_no_death(seen_later_ms: int) -> None:
    silent = changed(gone=(gone(silent_ms=SESSION + 1_000),), others_commit_ms=NOW)
    assert named(first(silent)) == (FindingKind.MEMBER_EXPIRED, Likelihood.LIKELY)
    moved = CoordinatorMoved(at_ms=NOW + seen_later_ms, node_id=2, former_node_id=1)
    told = next(each for each in explain([silent, moved]) if each.changes)
    assert {each.likelihood for each in told.findings} == {Likelihood.POSSIBLE}
    assert any("another broker began to coordinate" in fact for fact in told.findings[0].evidence)
    long_ago = CoordinatorMoved(at_ms=NOW - 2 * SESSION, node_id=2, former_node_id=1)
    told = next(each for each in explain([long_ago, silent]) if each.changes)
    assert named(told.findings[0]) == (FindingKind.MEMBER_EXPIRED, Likelihood.LIKELY)


def slow_deployment(silent_ms: int, every_ms: int) -> list[GroupChanged]:
    """Three members are gone and back, each last heard of so long before."""
    events = []
    for event in deployment():
        silent = tuple(
            gone(
                each.member.member_id,
                client_id=each.member.client_id,
                silent_ms=silent_ms,
                every_ms=every_ms,
                at_ms=event.at_ms,
            )
            for each in event.gone
        )
        events.append(msgspec.structs.replace(event, gone=silent))
    return events


@pytest.mark.parametrize("silent_ms", [SESSION - 1, SESSION, SESSION + 60_000])
def test_members_that_may_have_lost_their_sessions_are_no_sure_deployment(silent_ms: int) -> None:
    sure = Likelihood.LIKELY if silent_ms < SESSION else Likelihood.POSSIBLE
    told = explain(slow_deployment(silent_ms, every_ms=5_000))
    found = [each for one in told for each in one.findings if each.kind is FindingKind.ROLLING_DEPLOYMENT]
    assert [each.likelihood for each in found] == [sure]


def test_a_deployment_of_members_that_commit_seldom_is_likely_still() -> None:
    """Of these nothing is to be expected: that they were silent says nothing."""
    found = first(*slow_deployment(3 * SESSION, every_ms=SESSION))
    assert named(found) == (FindingKind.ROLLING_DEPLOYMENT, Likelihood.LIKELY)


def test_pods_of_one_deployment_are_one_application() -> None:
    events = []
    for event in deployment():
        away = tuple(
            msgspec.structs.replace(
                each, member=msgspec.structs.replace(each.member, client_id="billing-7d9f8b6c5-x2x4v")
            )
            for each in event.gone
        )
        back = tuple(
            msgspec.structs.replace(
                each,
                client_id=f"billing-66c9d7f4bd-{each.client_id[-1]}zqk9".replace("0", "b").replace("1", "c"),
            )
            for each in event.joined
        )
        events.append(msgspec.structs.replace(event, gone=away, joined=back))
    found = first(*events)
    assert named(found) == (FindingKind.ROLLING_DEPLOYMENT, Likelihood.LIKELY)
    assert found.about == "billing"


def test_members_that_read_a_topic_in_common_are_not_surely_two_applications() -> None:
    """One of them may know the topic that its pattern matches before the other does."""
    pair = (Subscribers(("t",), 2, ("ant", "bee")), Subscribers(("t", "u"), 1, ("cat",)))
    change = changed(joined=(member("b", "cat"),), subscribers=pair)
    assert named(first(change)) == (FindingKind.MEMBER_JOINED, Likelihood.CERTAIN)
    both = (FindingKind.TWO_APPLICATIONS, Likelihood.POSSIBLE)
    assert both in {named(each) for each in only(change).findings}


def test_a_partition_that_a_deployment_hands_on_has_no_sure_poison_record() -> None:
    """The members end one after the other: a partition may always go to the next one that ends."""
    stuck = OwnedPartition("t", 3, 117, 400)
    once = [
        msgspec.structs.replace(
            event,
            advanced=2,
            gone=tuple(msgspec.structs.replace(each, owned=(stuck,)) for each in event.gone),
        )
        for event in deployment(members=4)
    ]
    told = only(*once)
    assert named(told.findings[0]) == (FindingKind.ROLLING_DEPLOYMENT, Likelihood.LIKELY)
    assert (FindingKind.POISON_RECORD, Likelihood.POSSIBLE) in {named(each) for each in told.findings}
    assert named(first(*flapping(4, (stuck,), clients=3))) == (
        FindingKind.POISON_RECORD,
        Likelihood.LIKELY,
    )  # One of them is gone again.


def test_a_static_member_that_ends_again_and_again_is_not_surely_used_twice() -> None:
    silent = [returned(NOW + index * 20_000, silent_ms=4_000) for index in range(3)]
    last = explain(silent)[-1]
    assert named(last.findings[0]) == (FindingKind.STATIC_MEMBER_RETURNED, Likelihood.CERTAIN)
    assert named(last.findings[1]) == (FindingKind.SAME_INSTANCE, Likelihood.POSSIBLE)
    alive = [msgspec.structs.replace(each, former_commit_ms=each.at_ms - 400) for each in silent]
    found = explain(alive)[-1].findings[0]
    assert named(found) == (FindingKind.SAME_INSTANCE, Likelihood.LIKELY)
    assert "the former process had committed within a second before 3 of these times" in found.evidence


def test_an_instance_that_goes_to_and_fro_between_hosts_is_used_twice() -> None:
    hosts = ("/10.0.0.1", "/10.0.0.2", "/10.0.0.1")
    told = explain(
        [returned(NOW + index * 20_000, host, silent_ms=4_000) for index, host in enumerate(hosts)]
    )
    found = told[-1].findings[0]
    assert named(found) == (FindingKind.SAME_INSTANCE, Likelihood.LIKELY)
    assert "it went to and fro between 10.0.0.1 and 10.0.0.2" in found.evidence
    away = explain(
        [returned(NOW + index * 20_000, f"/10.0.0.{index}", silent_ms=4_000) for index in range(3)]
    )
    assert away[-1].findings[0].kind is FindingKind.STATIC_MEMBER_RETURNED  # Moved from host to host.


def test_partitions_are_surely_added_only_if_the_cluster_says_so() -> None:
    grown = (Grown("t", 5, 6),)
    assert named(first(changed(grown=grown))) == (FindingKind.PARTITIONS_ADDED, Likelihood.LIKELY)
    seen = TopicsChanged(at_ms=NOW - 3_000, since_ms=NOW - 13_000, grown=grown)
    assert named(first(seen, changed(grown=grown))) == (FindingKind.PARTITIONS_ADDED, Likelihood.CERTAIN)


def test_the_second_step_of_a_cooperative_rebalance_adds_no_partition_surely() -> None:
    """A partition that its owner has yet to give up is assigned in the next generation, as if it were new."""
    joined = changed(joined=(member("b"),), protocol_name=COOPERATIVE)
    second = changed(NOW + 3_000, 9, moved=1, grown=(Grown("t", 5, 6),), protocol_name=COOPERATIVE)
    found = explain([joined, second])[-1].findings[0]
    assert found.likelihood is Likelihood.POSSIBLE
    seen = TopicsChanged(at_ms=NOW + 2_000, since_ms=NOW + 1_000, grown=(Grown("t", 5, 6),))
    found = explain([joined, seen, second])[-1].findings[0]
    assert named(found) == (FindingKind.PARTITIONS_ADDED, Likelihood.CERTAIN)


NEWS = TopicsChanged(at_ms=NOW - 3_000, since_ms=NOW - 13_000, created=("t2",), deleted=("t1",))


def test_one_topic_that_came_and_one_that_went_are_both_named() -> None:
    change = changed(members=1, resubscribed=(Resubscription("a", "app-1", ("t2",), ("t1",)),))
    found = only(NEWS, change).findings
    assert [(each.kind, each.about) for each in found] == [
        (FindingKind.TOPIC_CREATED, "t2"),
        (FindingKind.TOPIC_DELETED, "t1"),
    ]


def test_the_first_member_that_sees_a_new_topic_has_not_surely_changed_its_subscription() -> None:
    """Each member looks for topics every five minutes, by itself."""
    change = changed(members=3, resubscribed=(Resubscription("a", "app-1", ("t2",)),))
    assert [named(each) for each in only(NEWS, change).findings] == [
        (FindingKind.SUBSCRIPTION_CHANGED, Likelihood.POSSIBLE),
        (FindingKind.TOPIC_CREATED, Likelihood.POSSIBLE),
    ]


def test_a_topic_that_is_older_than_the_member_matches_no_pattern_of_it() -> None:
    came = changed(NOW - 120_000, 7, joined=(member("a"),))
    topic = TopicsChanged(at_ms=NOW - 150_000, since_ms=NOW - 160_000, created=("t2",))
    change = changed(members=3, resubscribed=(Resubscription("a", "app-1", ("t2",)),))
    found = explain([topic, came, change])[-1].findings
    assert named(found[0]) == (FindingKind.SUBSCRIPTION_CHANGED, Likelihood.CERTAIN)


def test_offsets_of_a_group_with_epochs_expire_by_their_commits_alone() -> None:
    """An idle group commits nothing for a week; then its members leave, and Kafka removes the offsets."""
    idle = removed(empty_since_ms=NOW - 600_000, newest_commit_ms=NOW - 8 * DAY)
    assert named(first(idle)) == (FindingKind.OFFSETS_DELETED, Likelihood.LIKELY)
    by_broker = msgspec.structs.replace(idle, is_by_broker=True)
    assert named(first(by_broker)) == (FindingKind.OFFSETS_EXPIRED, Likelihood.LIKELY)
    early = msgspec.structs.replace(by_broker, newest_commit_ms=NOW - DAY)
    assert named(first(early)) == (FindingKind.OFFSETS_DELETED, Likelihood.LIKELY)


def test_an_earlier_offset_may_have_been_committed_out_of_order() -> None:
    back = OffsetsSet(at_ms=NOW, partitions=1, backward=1, members=2, moves=(OffsetMove("t", 0, 9, 7),))
    assert "or committed out of order" in first(back).text


def test_a_member_of_which_no_commit_is_known_is_no_evidence_against_a_deployment() -> None:
    events = [
        msgspec.structs.replace(event, gone=tuple(Departure(each.member) for each in event.gone))
        for event in deployment()
    ]
    assert named(first(*events)) == (FindingKind.ROLLING_DEPLOYMENT, Likelihood.LIKELY)


@pytest.mark.parametrize("slow_ms", [20_000, 200_000])
def test_who_worked_too_long_is_known_also_where_the_rebalance_took_long(slow_ms: int) -> None:
    stuck = gone(silent_ms=POLL + slow_ms, owned=(UNREAD,))
    change = changed(gone=(stuck,), others_commit_ms=NOW - slow_ms - 2_000)
    assert named(first(change)) == (FindingKind.POLL_INTERVAL_EXCEEDED, Likelihood.LIKELY)


def test_a_rebalance_as_long_as_the_poll_interval_makes_nobody_work_too_long() -> None:
    """It left; a slow member let all wait for its max.poll.interval.ms, in which nobody committed."""
    left = gone(silent_ms=POLL, owned=(UNREAD,))
    change = changed(gone=(left,), others_commit_ms=NOW - POLL + 3_000)
    found = only(change).findings
    assert len(found) == 3
    assert {each.likelihood for each in found} == {Likelihood.POSSIBLE}


@pytest.mark.parametrize("later_ms", [0, 5_000])
def test_a_member_that_commits_while_all_others_wait_for_it_is_put_out(later_ms: int) -> None:
    """Some clients have no limit for polls: they commit as they work, and do not rejoin."""
    busy = gone(silent_ms=1_000, owned=(UNREAD,))
    change = changed(gone=(busy,), others_commit_ms=NOW - POLL - later_ms)
    found = first(change)
    assert named(found) == (FindingKind.POLL_INTERVAL_EXCEEDED, Likelihood.LIKELY)
    assert "was put out" in found.text
    assert any("they waited" in fact for fact in found.evidence)
    stopped = gone(silent_ms=POLL - 10_000, owned=(UNREAD,))
    told = only(changed(gone=(stopped,), others_commit_ms=NOW - POLL)).findings
    assert {each.likelihood for each in told} == {Likelihood.POSSIBLE}  # Another let them wait.
    early = changed(gone=(busy,), others_commit_ms=NOW - POLL + 60_000)
    assert named(first(early)) == (FindingKind.MEMBER_LEFT, Likelihood.LIKELY)


def test_members_of_an_older_group_have_not_surely_started() -> None:
    """They may have been cut off for longer than any rule looks back."""
    for former, sure in ((-1, Likelihood.CERTAIN), (7, Likelihood.LIKELY)):
        events = [
            changed(
                NOW + index * 3_000,
                8 + index,
                former_generation_id=7 + index if index else former,
                former_members=index,
                members=index + 1,
                joined=(member(f"m-{index}"),),
            )
            for index in range(3)
        ]
        assert named(first(*events)) == (FindingKind.STARTED_ONE_BY_ONE, sure)


def test_a_process_that_was_killed_and_started_again_rather_died_than_left() -> None:
    """The new one joins at once; the group waits for the session of the old one, and nobody commits."""
    killed = gone("a", silent_ms=SESSION + 1_000)
    change = changed(gone=(killed,), joined=(member("b"),), others_commit_ms=NOW - SESSION + 3_000)
    assert [named(each) for each in only(change).findings[:2]] == [
        (FindingKind.MEMBER_JOINED, Likelihood.CERTAIN),
        (FindingKind.MEMBER_EXPIRED, Likelihood.POSSIBLE),
    ]
    left = msgspec.structs.replace(change, joined=())
    assert named(first(left)) == (FindingKind.MEMBER_LEFT, Likelihood.POSSIBLE)


def test_silence_that_fits_the_session_and_the_poll_interval_says_neither_surely() -> None:
    """Their timeouts are close together, and the client commits nothing while its application works."""
    close = msgspec.structs.replace(
        gone(silent_ms=60_000, owned=(UNREAD,)),
        member=msgspec.structs.replace(member("a"), rebalance_timeout_ms=SESSION + 10_000),
    )
    found = only(changed(gone=(close,), others_commit_ms=NOW)).findings
    assert [named(each) for each in found] == [
        (FindingKind.POLL_INTERVAL_EXCEEDED, Likelihood.POSSIBLE),
        (FindingKind.MEMBER_LEFT, Likelihood.POSSIBLE),
        (FindingKind.MEMBER_EXPIRED, Likelihood.POSSIBLE),
    ]


@pytest.mark.parametrize("later_ms", [7_000, 9_000])
def test_others_that_notice_a_rebalance_late_hide_no_cause(later_ms: int) -> None:
    """On a busy machine a heartbeat takes a while."""
    stuck = gone(silent_ms=POLL + later_ms, every_ms=500, owned=(UNREAD,))
    found = first(changed(gone=(stuck,), others_commit_ms=NOW - 500))
    assert named(found) == (FindingKind.POLL_INTERVAL_EXCEEDED, Likelihood.LIKELY)
    dead = gone(silent_ms=SESSION + later_ms, every_ms=500)
    found = first(changed(gone=(dead,), others_commit_ms=NOW - 500))
    assert named(found) == (FindingKind.MEMBER_EXPIRED, Likelihood.LIKELY)


def test_the_only_member_has_its_partitions_from_nobody() -> None:
    """A leader that learns of its topic late rejoins: nobody read these partitions before."""
    alone = changed(NOW - 30_000, 2, members=1, former_members=1, moved=4)
    back = OffsetsSet(at_ms=NOW, partitions=4, backward=4, members=1, moves=(OffsetMove("t", 0, 9, 0),))
    assert named(explain([alone, back])[-1].findings[0]) == (
        FindingKind.OFFSETS_WENT_BACK,
        Likelihood.LIKELY,
    )
    taken = msgspec.structs.replace(alone, gone=(gone("b"),))
    assert explain([taken, back])[-1].findings[0].kind is FindingKind.READ_AGAIN


def test_offsets_of_a_topic_that_was_made_anew_were_deleted_by_nobody() -> None:
    seen = TopicsChanged(at_ms=NOW + 5_000, since_ms=NOW - 5_000, created=("t",), deleted=("t",))
    found = first(removed(empty_since_ms=NOW - 60_000), seen)
    assert named(found) == (FindingKind.TOPIC_DELETED, Likelihood.LIKELY)
    assert found.evidence == ("t was made anew",)


def test_of_several_partitions_that_stand_still_the_one_that_has_for_longest_has_the_record() -> None:
    """One process ends again and again, and reads none of its partitions any more."""
    events = flapping(4)
    for index, event in enumerate(events):
        offset = 78 if index == 0 else 117
        owned = tuple(OwnedPartition("t", each, 80 if each == 1 else offset, 400) for each in range(3))
        away = tuple(msgspec.structs.replace(each, owned=owned) for each in event.gone)
        events[index] = msgspec.structs.replace(event, gone=away)
    found = first(*events)
    assert named(found) == (FindingKind.POISON_RECORD, Likelihood.LIKELY)
    assert found.about == "t-1"


HOUR = 3_600_000


def test_silence_is_no_death_where_the_coordinator_may_have_moved_unseen() -> None:
    """The observer was down, or got no answer: it sees the move long after it."""
    silent = changed(gone=(gone(silent_ms=SESSION + 1_000),), others_commit_ms=NOW)
    moved = CoordinatorMoved(at_ms=NOW + HOUR, node_id=2, former_node_id=1, since_ms=NOW - HOUR)
    told = explain([silent, moved])
    assert {each.likelihood for each in told[0].findings} == {Likelihood.POSSIBLE}
    assert told[1].findings[0].evidence[-1] == "the look before was 120 min earlier"
    later = CoordinatorMoved(at_ms=NOW + HOUR, node_id=2, former_node_id=1, since_ms=NOW + HOUR - 10_000)
    told = explain([silent, later])
    assert named(told[0].findings[0]) == (FindingKind.MEMBER_EXPIRED, Likelihood.LIKELY)
    assert len(told[1].findings[0].evidence) == 1


def test_offsets_of_a_topic_that_was_deleted_while_nobody_observed_were_deleted_by_nobody() -> None:
    early = removed(empty_since_ms=NOW - 60_000)
    seen = TopicsChanged(at_ms=NOW + 3 * HOUR, since_ms=NOW - HOUR, deleted=("t",))
    assert named(first(early, seen)) == (FindingKind.TOPIC_DELETED, Likelihood.LIKELY)
    before = TopicsChanged(at_ms=NOW - HOUR, since_ms=NOW - 3 * HOUR, deleted=("t",))
    assert named(first(before, early)) == (FindingKind.OFFSETS_DELETED, Likelihood.LIKELY)


def test_a_topic_that_came_while_nobody_observed_may_have_changed_a_subscription() -> None:
    one, other = Resubscription("a", "app-1", ("t2",)), Resubscription("b", "app-2", ("t2",))
    change = changed(members=2, resubscribed=(one, other))
    seen = TopicsChanged(at_ms=NOW + HOUR, since_ms=NOW - HOUR, created=("t2",))
    assert {named(each) for each in only(change, seen).findings} == {
        (FindingKind.SUBSCRIPTION_CHANGED, Likelihood.POSSIBLE),
        (FindingKind.TOPIC_CREATED, Likelihood.POSSIBLE),
    }
    soon = TopicsChanged(at_ms=NOW + 5_000, since_ms=NOW - 5_000, created=("t2",))
    assert named(first(change, soon)) == (FindingKind.TOPIC_CREATED, Likelihood.LIKELY)


def test_a_topic_that_was_made_anew_with_more_partitions_did_not_get_more() -> None:
    change = changed(grown=(Grown("t", 4, 6),))
    seen = TopicsChanged(at_ms=NOW - 3_000, since_ms=NOW - 13_000, created=("t",), deleted=("t",))
    found = first(seen, change)
    assert named(found) == (FindingKind.TOPIC_CREATED, Likelihood.LIKELY)
    assert found.text == "t was deleted and made anew, with 6 partitions"


def test_a_topic_that_is_new_may_get_more_partitions() -> None:
    change = changed(grown=(Grown("t", 4, 6),))
    created = TopicsChanged(at_ms=NOW - 13_000, since_ms=NOW - 23_000, created=("t",))
    assert named(first(created, change)) == (FindingKind.PARTITIONS_ADDED, Likelihood.LIKELY)
    grown = TopicsChanged(at_ms=NOW - 3_000, since_ms=NOW - 13_000, grown=(Grown("t", 4, 6),))
    assert named(first(created, grown, change)) == (FindingKind.PARTITIONS_ADDED, Likelihood.CERTAIN)


def test_readers_that_wait_at_an_open_transaction_have_no_sure_poison_record() -> None:
    """Something else ends the members, and the offset stands since nobody may read on."""
    storm = flapping(4, (OwnedPartition("t", 3, 117, 400),))
    assert first(*storm).kind is FindingKind.POISON_RECORD
    held = msgspec.structs.replace(stands(), since_ms=NOW - 20_000)
    told = next(each for each in explain([*storm, held]) if each.changes)
    assert named(told.findings[0]) == (FindingKind.STORM, Likelihood.CERTAIN)
    found = next(each for each in told.findings if each.kind is FindingKind.POISON_RECORD)
    assert found.likelihood is Likelihood.POSSIBLE
    assert found.evidence[-1] == "a transaction on t-3 stayed open just there, at which readers may wait"
    for other in (
        msgspec.structs.replace(held, partition=1),
        msgspec.structs.replace(held, last_stable_offset=116),
        msgspec.structs.replace(held, since_ms=NOW + 90_000),
    ):
        told = next(each for each in explain([*storm, other]) if each.changes)
        assert named(told.findings[0]) == (FindingKind.POISON_RECORD, Likelihood.LIKELY)


def test_members_of_one_process_that_end_one_by_one_are_no_storm() -> None:
    """An application shrinks: its members have one client id, and come from one host."""
    ends = [
        changed(
            NOW + each * 20_000,
            8 + each,
            members=9 - each,
            former_members=10 - each,
            gone=(gone(f"m-{each}", silent_ms=10, at_ms=NOW + each * 20_000),),
        )
        for each in range(6)
    ]
    told = explain(ends)
    assert [each.findings[0].kind for each in told] == [FindingKind.MEMBER_LEFT] * 6
    back = changed(NOW + 50_000, 11, joined=(member("m-7"),))
    assert only(*ends[:2], back, *ends[3:]).findings[0].kind is FindingKind.STORM


def test_a_process_with_several_members_that_restarts_once_is_no_storm() -> None:
    """It has ten of thirty members, with one client id: too few for a deployment of the application."""
    restart = [
        changed(
            NOW + each * 5_000,
            8 + each,
            members=20,
            former_members=30,
            **(
                {"gone": (gone(f"old-{each}", silent_ms=10, at_ms=NOW + each * 5_000),)}
                if each < 10
                else {"joined": (member(f"new-{each}"),)}
            ),
        )
        for each in range(20)
    ]
    assert not any(each.kind is FindingKind.STORM for told in explain(restart) for each in told.findings)
