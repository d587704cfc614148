"""What `kohort groups explain` says of a share group, word for word but for the local time."""

from kohort.broker.group.share.explaining import (
    GroupExplained,
    Happened,
    Held,
    HoldUp,
    HoldUpKind,
    PartitionExplained,
    ShareGroupExplained,
)
from kohort.broker.group.share.happenings import Outcome, Reason
from kohort.broker.group.story import clock_time
from kohort.cli.explain_share import HELD_TOLD, lines

AT_MS = 1_700_000_000_000
A = "worker-a-11111111-0000-0000-0000-000000000000"
AT = clock_time(AT_MS)


def told(*partitions: PartitionExplained, group: GroupExplained | None = None) -> list[str]:
    explained = ShareGroupExplained(group_id="workers", broker_id=3, group=group, partitions=partitions)
    return list(lines(explained, 20, AT_MS))


def a_partition(
    *happened: Happened, held: tuple[Held, ...] = (), start_offset: int | None = 4
) -> PartitionExplained:
    return PartitionExplained(
        topic="jobs",
        partition=0,
        start_offset=start_offset,
        end_offset=None if start_offset is None else 90,
        held_records=sum(each.last_offset + 1 - each.first_offset for each in held),
        again_records=2,
        letter_records=1,
        held=held,
        happened=happened,
    )


def happening(outcome: Outcome, reason: Reason | None, first: int, last: int) -> Happened:
    return Happened(AT_MS, outcome, reason, A, 2, first, last)


def test_what_holds_back_is_said_with_whose_fault_it_is() -> None:
    hold_ups = (
        HoldUp(HoldUpKind.NO_STATE_YET, "jobs", (0, 1)),
        HoldUp(HoldUpKind.NO_SUCH_TOPIC, "mail"),
        HoldUp(HoldUpKind.NOT_ASSIGNED_YET),
        HoldUp(HoldUpKind.MEMBER_BEHIND, member_id=A, last_seen_ms=AT_MS - 12_000),
        HoldUp(HoldUpKind.NOTHING_FOR_MEMBER, member_id=A),
    )
    group = GroupExplained(state="Stable", epoch=5, assignment_epoch=4, members=2, hold_ups=hold_ups)
    assert told(group=group) == [
        "workers: Stable, 2 members, epoch 5, assigned in epoch 4.",
        "  Held back: jobs 0, 1: nobody is given what the share coordinator keeps no state of yet.",
        "  Held back: mail: there is no such topic.",
        "  Held back: epoch 5 has no assignment yet, the last one is of epoch 4.",
        "  Held back: worker-a-11111111 has not come to epoch 4 yet, last heard of 12 s ago.",
        "  Held back: worker-a-11111111 has no partition.",
        "Nobody has read anything of late that broker 3 leads.",
    ]


def test_each_thing_that_happened_has_its_words() -> None:
    again = Outcome.COMES_AGAIN
    found = told(
        a_partition(
            happening(again, Reason.RELEASED, 4, 4),
            happening(again, Reason.LOCK_ENDED, 5, 6),
            happening(again, Reason.SESSION_CLOSED, 7, 7),
            happening(Outcome.WAITS_FOR_DEAD_LETTER, Reason.CONNECTION_LOST, 8, 8),
            happening(Outcome.GIVEN_UP, Reason.REJECTED, 9, 9),
            happening(Outcome.DEAD_LETTER, None, 8, 8),
            happening(Outcome.NO_DEAD_LETTER, None, 9, 9),
        )
    )
    who = "worker-a-11111111"
    assert found == [
        "workers: another broker than 3 coordinates it.",
        "",
        "jobs 0: from offset 4 up to 90; 0 held, 2 to be handed out again, 1 without the dead letter due.",
        f"  {AT}  offset 4: {who} gave it back, delivery 2: it comes again",
        f"  {AT}  offsets 5-6: {who} had them for longer than its lock lasts, delivery 2: they come again",
        f"  {AT}  offset 7: {who} closed its session, delivery 2: it comes again",
        f"  {AT}  offset 8: the connection of {who} ended, delivery 2: given up, a dead letter is due",
        f"  {AT}  offset 9: {who} rejected it, delivery 2: given up",
        f"  {AT}  offset 8: the dead letter is written",
        f"  {AT}  offset 9: given up without a dead letter: the broker's log says why",
    ]


def test_only_the_first_runs_that_are_held_are_shown_and_the_last_things_that_happened() -> None:
    held = tuple(
        Held(2 * number, 2 * number, A, 1, AT_MS - 12_000, AT_MS + (18_000 if number else 0))
        for number in range(HELD_TOLD + 3)
    )
    found = told(
        a_partition(
            *(happening(Outcome.GIVEN_UP, Reason.REJECTED, each, each) for each in range(30)), held=held
        )
    )
    assert found[3] == "  offset 0: held by worker-a-11111111 for 12 s, its time is up, delivery 1"
    assert found[4] == "  offset 2: held by worker-a-11111111 for 12 s, for 18 s more, delivery 1"
    assert found[3 + HELD_TOLD] == "  and 3 records more"
    assert len(found[4 + HELD_TOLD :]) == 20
    assert "offset 29:" in found[-1]


def test_a_partition_that_nobody_reads_is_told_of_by_its_past() -> None:
    found = told(a_partition(happening(Outcome.COMES_AGAIN, Reason.RELEASED, 4, 4), start_offset=None))
    assert found[2:] == [
        "jobs 0: nobody reads it now.",
        f"  {AT}  offset 4: worker-a-11111111 gave it back, delivery 2: it comes again",
    ]
