"""What a process tells of its region: before it knows anything, and of each member."""

from kohort.queues.clock import wall_ms
from kohort.queues.region.coordinating import Region
from kohort.queues.region.entries import Member, MemberState, Phase, RegionState, Report, ResetRequest
from kohort.queues.region.log import RegionLog
from kohort.queues.region.standing import checkpoint_age_ms, status_of

REGION = Region("sums", members=2)


def test_a_region_that_nobody_has_decided_for_has_no_members() -> None:
    log = RegionLog(REGION, {})
    for each in (None, log):
        found = status_of(REGION, each)
        assert (found["region"], found["phase"], found["members"]) == ("sums", "", [])
        assert checkpoint_age_ms(each) is None


def test_each_member_is_told_with_what_it_says_and_a_former_process_is_not() -> None:
    log = RegionLog(REGION, {})
    log.view.state = RegionState(
        epoch=1,
        phase=Phase.RUNNING,
        attempt=3,
        size=3,
        completed_at_ms=wall_ms() - 2_000,
        completed=7,
        members={"b": Member(1, "new"), "a": Member(1, "a")},
        offsets={"t-0": 10, "t-1": 5},
        reason="b registered again",
    )
    wanted = ResetRequest(3, forced=False, reason="it failed")
    log.view.reports = {
        "a": Report(
            "a",
            0,
            1,
            "a",
            attempt=3,
            wanted=wanted,
            state=MemberState.POLLING,
            generation_id=4,
            group_id="own",
        ),
        "b": Report("b", 0, 0, "old", attempt=2),
    }
    found = status_of(REGION, log)
    assert (found["phase"], found["size"], found["checkpoint"], found["resets"]) == ("running", 3, 7, 2)
    assert (found["records_before_checkpoint"], found["reason"]) == (15, "b registered again")
    assert found["group"] == "own", "and not the one that members have by default"
    age_ms = checkpoint_age_ms(log)
    assert age_ms is not None
    assert 2_000 <= age_ms < 60_000
    assert found["checkpoint_age_ms"] is not None
    assert found["members"] == [
        {"name": "a", "state": "polling", "has_reset": True, "generation_id": 4, "wants": "it failed"},
        {"name": "b", "state": "", "has_reset": False, "generation_id": -1, "wants": ""},
    ]
