"""A region's phases, one by one."""

from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_struct

from kohort.queues.region.asking import is_in_group
from kohort.queues.region.coordinating import REFUSED_MAX, Coordinating, Region, merge
from kohort.queues.region.entries import (
    Asked,
    Claim,
    Command,
    Contribution,
    Phase,
    RegionState,
    Report,
    ResetRequest,
)
from kohort.queues.region.view import RegionView, next_command

REGION = Region("sums", members=2, period_ms=1_000, drain_timeout_ms=5_000, consecutive_resets_max=2)
WALL_MS = 1_700_000_000_000


class Scene:
    """A region whose coordinator reads at once what it writes."""

    def __init__(self) -> None:
        self.view = RegionView()
        self.view.take(7, Claim("c"))
        self.core = Coordinating(REGION, "c")

    def at(self, now_ms: int, *reports: Report) -> RegionState:
        for report in reports:
            self.view.take(0, report)
        while (after := self.core.decide(self.view, now_ms, WALL_MS + now_ms)) is not None:
            self.view.take(0, after)
        assert self.view.state is not None
        return self.view.state

    def running(self) -> RegionState:
        self.at(0, report("a"), report("b"))
        return self.at(0, report("a", attempt=1), report("b", attempt=1))


def report(name: str, index: int = 0, number: int = 1, **more: object) -> Report:
    known = {"generation_id": 5, **more}
    return Report(name, index, number, f"{name}{number}", **known)  # type: ignore[arg-type]


def part(
    partition: str, sequence_id: int = 1, attempt: int = 1, generation_id: int = 5, topic_id: str = ""
) -> Contribution:
    topic_ids = {"x": topic_id} if topic_id else {}
    return Contribution(sequence_id, attempt, generation_id, {partition: 3}, f"kept {partition}", topic_ids)


def test_a_region_waits_for_all_of_its_members_and_for_each_to_reset() -> None:
    scene = Scene()
    assert scene.at(0, report("a")).phase is Phase.GATHERING
    assert scene.at(0, report("b")).phase is Phase.RESETTING
    assert scene.at(0, report("a", attempt=1)).phase is Phase.RESETTING
    assert scene.at(0, report("b", attempt=1)).phase is Phase.RUNNING


def test_another_index_is_refused() -> None:
    assert Scene().at(0, report("a", index=3)).refused == {"a1": "region index 3, and not 0"}


def test_one_member_too_many_is_refused() -> None:
    scene = Scene()
    scene.running()
    assert scene.at(0, report("c")).refused == {"c1": "the region has its 2 members"}


def test_contributions_of_all_names_make_a_checkpoint() -> None:
    scene = Scene()
    scene.running()
    assert scene.at(999).phase is Phase.RUNNING
    assert scene.at(1_000).phase is Phase.CHECKPOINTING
    assert scene.at(1_000, report("a", attempt=1, contribution=part("x-0"))).completed == 0
    done = scene.at(1_000, report("b", attempt=1, contribution=part("x-1")))
    assert (done.phase, done.completed, done.offsets) == (Phase.RUNNING, 1, {"x-0": 3, "x-1": 3})
    assert done.saved == {"a": "kept x-0", "b": "kept x-1"}


def test_parts_of_two_generations_are_no_checkpoint_until_all_are_of_one() -> None:
    scene = Scene()
    scene.running()
    scene.at(1_000)
    first = report("a", attempt=1, contribution=part("x-0"))
    second = report("b", attempt=1, contribution=part("x-1", generation_id=6))
    assert scene.at(1_000, first, second).phase is Phase.CHECKPOINTING
    after = scene.at(1_500, report("a", attempt=1, contribution=part("x-0", generation_id=6)))
    assert (after.phase, after.completed, after.attempt) == (Phase.RUNNING, 1, 1)
    assert merge([part("x-0"), part("x-0")]) is None


def test_a_checkpoint_in_whose_time_the_group_does_not_settle_is_put_off() -> None:
    scene = Scene()
    scene.running()
    scene.at(1_000)
    first = report("a", attempt=1, contribution=part("x-0"))
    second = report("b", attempt=1, contribution=part("x-1", generation_id=6))
    after = scene.at(6_000, first, second)
    assert (after.phase, after.completed, after.attempt) == (Phase.RUNNING, 0, 1)
    assert scene.at(7_000).sequence_id == 2


def test_a_part_of_an_earlier_attempt_does_not_count() -> None:
    scene = Scene()
    scene.running()
    scene.at(1_000)
    old = part("x-0", attempt=0)
    after = scene.at(
        1_000, report("a", attempt=1, contribution=old), report("b", attempt=1, contribution=part("x-1"))
    )
    assert after.phase is Phase.CHECKPOINTING


def test_a_drain_that_takes_too_long_is_a_failure() -> None:
    scene = Scene()
    scene.running()
    scene.at(1_000)
    assert scene.at(5_999).phase is Phase.CHECKPOINTING
    after = scene.at(6_000)
    assert (after.phase, after.consecutive_resets) == (Phase.RESETTING, 1)
    assert after.reason == "a, b did not drain within 5 s"


def test_a_reset_that_takes_too_long_is_a_failure_and_too_many_end_it() -> None:
    scene = Scene()
    assert scene.at(0, report("a"), report("b")).phase is Phase.RESETTING
    after = scene.at(60_000, report("a", attempt=1))
    assert (after.attempt, after.reason) == (2, "b did not reset within 60 s")
    after = scene.at(120_000)
    after = scene.at(180_000)
    assert (after.phase, after.reason) == (Phase.FAILED, "a, b did not reset within 60 s")


@pytest.mark.parametrize("generations", [(4, 5), (-1, -1), (-1, 5)])
def test_nobody_reads_before_the_group_has_settled(generations: tuple[int, int]) -> None:
    scene = Scene()
    scene.at(0, report("a"), report("b"))
    reports = [report(name, attempt=1, generation_id=at) for name, at in zip("ab", generations, strict=True)]
    assert scene.at(0, *reports).phase is Phase.RESETTING
    assert scene.at(60_000).reason == "group sums-members did not settle within 60 s"


def test_a_group_that_has_not_settled_is_told_by_the_name_that_its_members_gave_it() -> None:
    scene = Scene()
    scene.at(0, report("a"), report("b"))
    scene.at(0, *(report(each, attempt=1, generation_id=-1, group_id="own") for each in "ab"))
    assert scene.at(60_000).reason == "group own did not settle within 60 s"


def test_a_process_that_comes_again_during_a_reset_takes_part_in_it() -> None:
    scene = Scene()
    scene.running()
    scene.at(0, report("a", attempt=1, wanted=ResetRequest(1, True, "a lost x-0")))
    after = scene.at(0, report("a", number=2))
    assert (after.phase, after.attempt, after.members["a"].number) == (Phase.RESETTING, 2, 2)
    assert scene.at(0, report("b", attempt=2)).phase is Phase.RESETTING
    assert scene.at(0, report("a", number=2, attempt=2)).phase is Phase.RUNNING


def test_offsets_of_a_topic_that_was_deleted_are_dropped() -> None:
    scene = Scene()
    scene.running()
    known = report("a", attempt=1, initial={"x-0": 4, "y-0": 9}, topic_ids={"x": "1", "y": "2"})
    scene.at(0, known)
    anew = report("b", attempt=1, topic_ids={"x": "3"})
    after = scene.at(0, anew)
    assert (after.initial, after.topic_ids) == ({"y-0": 9}, {"x": "3", "y": "2"})
    assert scene.at(0, known).topic_ids["x"] == "3", "an old id does not come back"
    after = scene.at(0, report("b", attempt=1, topic_ids={"x": "3"}, initial={"x-0": 0}))
    assert after.initial == {"x-0": 0, "y-0": 9}


def test_a_part_of_a_topic_that_was_deleted_does_not_count() -> None:
    scene = Scene()
    scene.running()
    scene.at(1_000, report("a", attempt=1, topic_ids={"x": "3"}))
    scene.at(1_000, report("a", attempt=1, contribution=part("x-0", topic_id="3")))
    after = scene.at(1_000, report("b", attempt=1, contribution=part("x-1", topic_id="1")))
    assert after.phase is Phase.CHECKPOINTING
    after = scene.at(1_000, report("b", attempt=1, contribution=part("x-1", topic_id="3")))
    assert (after.phase, after.offsets) == (Phase.RUNNING, {"x-0": 3, "x-1": 3})


def test_a_reset_that_a_member_asks_for_does_not_wait_for_a_checkpoint_that_was_asked_for() -> None:
    scene = Scene()
    scene.running()
    scene.at(1_000)
    scene.view.take(0, next_command(scene.view, Asked.CHECKPOINT))
    assert scene.at(1_000).phase is Phase.CHECKPOINTING
    after = scene.at(1_000, report("a", attempt=1, wanted=ResetRequest(1, True, "a lost x-0")))
    assert (after.phase, after.reason) == (Phase.RESETTING, "a lost x-0")


@pytest.mark.parametrize("second", [Asked.CHECKPOINT, Asked.RESTART])
def test_two_commands_that_were_written_at_the_same_time_are_both_obeyed(second: Asked) -> None:
    scene = Scene()
    scene.running()
    scene.view.take(0, Command(1, Asked.RESET))
    scene.view.take(0, Command(1, second))
    assert scene.at(0).attempt == (3 if second is Asked.RESTART else 2)
    assert next_command(scene.view, Asked.RESET).number == 3


def test_two_wishes_of_a_kind_with_one_number_are_one() -> None:
    scene = Scene()
    scene.running()
    for _ in range(2):
        scene.view.take(0, Command(1, Asked.CHECKPOINT))
        assert scene.at(0).sequence_id == 1
        scene.at(0, *(report(name, attempt=1, contribution=part(f"x-{name}")) for name in "ab"))
    assert scene.at(0).phase is Phase.RUNNING


def test_a_restart_forgets_checkpoints_and_a_member_whose_place_another_one_takes() -> None:
    scene = Scene()
    scene.running()
    scene.at(0, report("a", attempt=1, initial={"x-0": 2}))
    scene.at(1_000)
    scene.at(1_000, *(report(name, attempt=1, contribution=part(f"x-{name}")) for name in "ab"))
    scene.view.take(0, next_command(scene.view, Asked.RESTART, "b"))
    after = scene.at(1_000, report("a", attempt=1))
    assert (after.phase, after.offsets, after.saved, after.initial) == (Phase.GATHERING, {}, {}, {"x-0": 2})
    assert after.refused == {"b1": "an operator has taken b out"}
    after = scene.at(1_000, report("c"))
    assert (after.phase, list(after.members)) == (Phase.RESETTING, ["a", "c"])


def test_the_time_of_a_checkpoint_stands_in_each_later_state_until_a_restart() -> None:
    scene = Scene()
    assert scene.running().completed_at_ms == 0
    scene.at(1_000)
    done = scene.at(1_500, *(report(name, attempt=1, contribution=part(f"x-{name}")) for name in "ab"))
    assert (done.completed, done.completed_at_ms) == (1, WALL_MS + 1_500)
    scene.view.take(0, next_command(scene.view, Asked.RESET))
    newest = scene.at(9_000)
    later = Scene()
    later.view.take(8, newest)  # Compaction has left it alone.
    later.view.take(9, Claim("c"))
    assert later.at(0).completed_at_ms == WALL_MS + 1_500
    later.view.take(0, next_command(later.view, Asked.RESTART))
    assert later.at(0).completed_at_ms == 0


def test_a_region_that_has_to_have_more_members_waits_for_them() -> None:
    scene = Scene()
    scene.running()
    scene.core = Coordinating(replace(REGION, members=3), "c")
    after = scene.at(0)
    assert (after.phase, after.attempt, after.size) == (Phase.GATHERING, 2, 3)
    assert scene.at(0, report("c")).phase is Phase.RESETTING


def test_a_region_with_too_many_members_says_which_and_has_one_taken_out() -> None:
    scene = Scene()
    scene.running()
    scene.core = Coordinating(replace(REGION, members=1), "c")
    assert scene.at(0).reason == "the region has to have 1 member(s), and these are members: a, b"
    assert scene.at(0).phase is Phase.FAILED
    scene.view.take(0, next_command(scene.view, Asked.RESTART, "a"))
    assert scene.at(0).phase is Phase.RESETTING
    assert scene.at(0, report("b", attempt=3)).phase is Phase.RUNNING


def test_more_strangers_than_are_remembered_are_each_refused_once() -> None:
    scene = Scene()
    scene.running()
    for number in range(2 * REFUSED_MAX):
        after = scene.at(0, report(f"stranger {number}"))
        assert f"stranger {number}1" in after.refused
        assert scene.core.decide(scene.view, 0, WALL_MS) is None, "it goes on writing"
    assert len(after.refused) == REFUSED_MAX
    after = scene.at(0, report("stranger 0", number=2))
    assert "stranger 02" in after.refused


def test_of_two_processes_with_one_number_one_is_refused_and_the_member_is_heard_after_compaction() -> None:
    scene = Scene()
    scene.running()
    rival = replace_struct(report("b"), token="rival")
    after = scene.at(0, rival)
    assert (after.phase, after.refused) == (Phase.RUNNING, {"rival": "there is another b"})
    view = RegionView()
    for each in (Claim("c"), rival, report("a", attempt=1), report("b", attempt=1), after):
        view.take(7, each)
    assert view.reports["b"].token == "b1"
    assert {each.token for each in view.everybody} == {"a1", "b1", "rival"}


def test_each_of_two_strangers_with_one_number_is_refused() -> None:
    scene = Scene()
    scene.running()
    after = scene.at(0, report("x"), replace_struct(report("x"), token="rival"))
    assert set(after.refused) == {"x1", "rival"}


def test_too_many_failures_in_a_row_end_it_until_an_operator_asks() -> None:
    scene = Scene()
    scene.running()
    for attempt in (1, 2, 3):
        after = scene.at(0, report("a", attempt=attempt, wanted=ResetRequest(attempt, False, "broken")))
    assert (after.phase, after.consecutive_resets) == (Phase.FAILED, 3)
    scene.view.take(0, Command(1, Asked.RESET))
    after = scene.at(0)
    assert (after.phase, after.consecutive_resets) == (Phase.RESETTING, 0)


def test_a_forced_reset_clears_the_failures() -> None:
    scene = Scene()
    scene.running()
    scene.at(0, report("a", attempt=1, wanted=ResetRequest(1, False, "broken")))
    after = scene.at(0, report("a", attempt=2, wanted=ResetRequest(2, True, "partitions moved")))
    assert (after.attempt, after.consecutive_resets) == (3, 0)


def test_a_process_that_comes_again_resets_the_region() -> None:
    scene = Scene()
    scene.running()
    after = scene.at(0, report("a", number=2))
    assert (after.phase, after.reason) == (Phase.RESETTING, "a registered again")
    assert scene.at(0, report("a", number=1)).members["a"].number == 2


def test_the_first_initial_offset_stays() -> None:
    scene = Scene()
    scene.running()
    scene.at(0, report("a", attempt=1, initial={"x-0": 4}))
    assert scene.at(0, report("b", attempt=1, initial={"x-0": 9, "x-1": 2})).initial == {"x-0": 4, "x-1": 2}


def test_a_coordinator_that_was_replaced_decides_nothing() -> None:
    scene = Scene()
    before = scene.running()
    scene.view.take(20, Claim("other"))
    assert scene.core.decide(scene.view, 10_000, WALL_MS) is None
    scene.view.take(21, RegionState(7, Phase.FAILED))
    assert scene.view.state == before


@pytest.mark.parametrize(
    "instance_id, instance_ids, is_there",
    [("a", ["a", None], True), ("a", ["b", None], False), ("a", None, True), ("", ["b"], True)],
)
def test_a_member_is_absent_only_where_that_is_known(
    instance_id: str, instance_ids: list[str | None] | None, *, is_there: bool
) -> None:
    assert is_in_group(report("a", group_id="g", group_instance_id=instance_id), instance_ids) == is_there
