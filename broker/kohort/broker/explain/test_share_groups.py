"""The explanation of a share group: acquired records, returned records with reasons, blocked assignments."""

from uuid import UUID

from kohort.broker.explain.share_groups import (
    Happened,
    Held,
    HoldUp,
    HoldUpKind,
    PartitionExplained,
    explain_partition,
    hold_ups,
)
from kohort.broker.group.epochs.sessions import Session
from kohort.broker.group.share.delivery_events import KEPT, DeliveryEvents, Outcome, Reason
from kohort.broker.group.share.group import ShareGroup, ShareTopic
from kohort.broker.group.share.member import ShareMember
from kohort.broker.group.share.partition import Limits, SharePartition
from kohort.broker.group.share.record import Acknowledgement

ACCEPT, RELEASE, REJECT = Acknowledgement.ACCEPT, Acknowledgement.RELEASE, Acknowledgement.REJECT
AHEAD_MS = 1_000_000
JOBS, MAIL = UUID(int=1), UUID(int=2)


def explained(core: SharePartition) -> PartitionExplained:
    return explain_partition("jobs", 0, core, AHEAD_MS, 50)


def say(core: SharePartition, first: int, *kinds: Acknowledgement, now_ms: int) -> None:
    core.settle(core.acknowledge("a", first, kinds, now_ms), now_ms, is_durable=True)


def test_runs_are_in_somebodys_hands_since_some_time_and_until_another() -> None:
    core = SharePartition(0, Limits(record_lock_duration_ms=30_000))
    core.acquire("a", 0, 3, 10, 100)
    core.acquire("b", 4, 5, 10, 200)
    say(core, 1, ACCEPT, now_ms=300)
    told = explained(core)
    assert told.held == (
        Held(0, 0, "a", 1, 1_000_100, 1_030_100),
        Held(2, 3, "a", 1, 1_000_100, 1_030_100),
        Held(4, 5, "b", 1, 1_000_200, 1_030_200),
    )
    assert (told.held_records, told.again_records, told.letter_records) == (5, 0, 0)
    assert (told.start_offset, told.end_offset) == (0, 50)


def test_a_renewed_lock_lasts_longer_and_its_record_is_held_since_before() -> None:
    core = SharePartition(0, Limits(record_lock_duration_ms=30_000))
    core.acquire("a", 0, 0, 10, 100)
    core.acknowledge("a", 0, (Acknowledgement.RENEW,), 5_000)
    assert explained(core).held == (Held(0, 0, "a", 1, 1_000_100, 1_035_000),)


def test_accepted_records_leave_no_events() -> None:
    core = SharePartition(0, Limits())
    core.acquire("a", 0, 9, 10, 0)
    say(core, 0, *[ACCEPT] * 10, now_ms=1)
    assert (len(core.delivery_events), core.delivery_events._kept) == (0, None)
    assert explained(core).held == ()


def test_every_end_of_an_acquisition_is_reported() -> None:
    core = SharePartition(0, Limits(delivery_count_limit=3, record_lock_duration_ms=1_000))
    core.acquire("a", 0, 6, 10, 0)
    say(core, 0, RELEASE, RELEASE, REJECT, now_ms=1)
    core.acquire("b", 7, 8, 10, 2)
    core.release_member("b", 3, Reason.CONNECTION_LOST)
    core.expire_locks(1_000)
    again = Outcome.COMES_AGAIN
    assert explained(core).happened == (
        Happened(1_000_001, again, Reason.RELEASED, "a", 1, 0, 1),
        Happened(1_000_001, Outcome.GIVEN_UP, Reason.REJECTED, "a", 1, 2, 2),
        Happened(1_000_003, again, Reason.CONNECTION_LOST, "b", 1, 7, 8),
        Happened(1_001_000, again, Reason.LOCK_ENDED, "a", 1, 3, 6),
    )
    assert explained(core).again_records == 8


def test_an_acknowledgement_that_could_not_be_written_is_not_reported() -> None:
    core = SharePartition(0, Limits())
    core.acquire("a", 0, 0, 10, 0)
    core.settle(core.acknowledge("a", 0, (RELEASE,), 1), 2, is_durable=False)
    assert explained(core).happened == ()
    assert explained(core).held_records == 1
    say(core, 0, ACCEPT, now_ms=3)
    assert explained(core).happened == ()


def test_a_record_delivered_too_often_waits_for_its_dead_letter() -> None:
    core = SharePartition(0, Limits(delivery_count_limit=2, has_dead_letters=True))
    core.acquire("a", 0, 1, 10, 0)
    core.release_member("a", 1)
    core.acquire("a", 0, 1, 10, 2, often=True)
    core.acquire("a", 0, 1, 10, 2)
    core.release_member("a", 3)
    assert explained(core).letter_records == 2
    core.buried(0, 0, 4, is_written=True)
    core.buried(1, 1, 5, is_written=False)
    assert [(each.outcome, each.first_offset, each.last_offset) for each in explained(core).happened] == [
        (Outcome.COMES_AGAIN, 0, 1),
        (Outcome.WAITS_FOR_DEAD_LETTER, 0, 1),
        (Outcome.DEAD_LETTER, 0, 0),
        (Outcome.NO_DEAD_LETTER, 1, 1),
    ]
    assert explained(core).letter_records == 0


def test_only_the_last_events_are_kept_and_a_run_of_offsets_is_one_event() -> None:
    kept = DeliveryEvents()
    for offset in range(1_000):
        kept.add(1, Outcome.COMES_AGAIN, Reason.RELEASED, offset, offset, member_id="a", delivery_count=1)
    assert [(each.first_offset, each.last_offset) for each in kept] == [(0, 999)]
    for now_ms in range(2, 2 + 2 * KEPT):
        offset = 1_000 + now_ms
        kept.add(
            now_ms, Outcome.COMES_AGAIN, Reason.RELEASED, offset, offset, member_id="a", delivery_count=1
        )
    assert len(kept) == KEPT
    assert next(iter(kept)).at_ms == 2 + KEPT


def a_group() -> ShareGroup:
    group = ShareGroup("workers")
    group.put_member(ShareMember(member_id="m-1", topic_names=("jobs", "mail", "none"), epoch=3))
    group.generation_id = group.assignment_epoch = 3
    return group


def test_uninitialized_state_and_missing_topics_block_delivery() -> None:
    group = a_group()
    group.initializing = {JOBS: ShareTopic("jobs", frozenset((1, 0)))}
    group.initialized = {MAIL: ShareTopic("mail", frozenset((0,)))}
    assert hold_ups(group) == (
        HoldUp(HoldUpKind.NO_STATE_YET, "jobs", (0, 1)),
        HoldUp(HoldUpKind.NO_SUCH_TOPIC, "none"),
        HoldUp(HoldUpKind.NOTHING_FOR_MEMBER, member_id="m-1"),
    )


def test_a_missing_assignment_and_a_member_that_did_not_apply_it_are_reported() -> None:
    group = a_group()
    group.initialized = {
        UUID(int=at): ShareTopic(name, frozenset((0,))) for at, name in enumerate(("jobs", "mail", "none"))
    }
    assigned = {UUID(int=0): frozenset((0,))}
    group.put_member(ShareMember(member_id="m-1", topic_names=("jobs",), epoch=3, assigned=assigned))
    assert hold_ups(group) == ()
    group.generation_id = 4
    assert hold_ups(group) == (HoldUp(HoldUpKind.NOT_ASSIGNED_YET),)
    group.assignment_epoch = 4
    session = group.sessions["m-1"] = Session()
    session.last_seen_ms = 700
    assert hold_ups(group) == (HoldUp(HoldUpKind.MEMBER_BEHIND, member_id="m-1", last_seen_ms=700),)
