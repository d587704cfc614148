"""The judge can find guilty: a wrong answer, a late one, a dead broker and spent memory do not escape it."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable

import pytest

from kohort.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.attacks.innocent import GROUP, TOPIC, Report, Slowest
from tests.attacks.stopwatch import Stopwatch, most_lost
from tests.attacks.trial import PEAK_BYTES_MAX, Guilty, StartTrial, Trial
from tests.attacks.wire import Line
from tests.interop.broker_process import BrokerProcess

OVER_THE_LIMIT_S = 1.4
WITHIN_THE_LIMIT_S = 0.4


class Fat(BrokerProcess):
    """A broker that says that it once held too much."""

    def peak_resident_bytes(self) -> int:
        return PEAK_BYTES_MAX + 1


def undergo(begin: StartTrial, deed: Callable[[Trial], object]) -> None:
    """Try a broker to which that is done."""
    with begin() as attacked:
        deed(attacked)


def guilt(begin: StartTrial, deed: Callable[[Trial], object]) -> str:
    """Return what a broker is found guilty of to which that is done."""
    with pytest.raises(Guilty) as raised:
        undergo(begin, deed)
    return str(raised.value)


def stand_still(attacked: Trial, for_s: float) -> None:
    """Let the whole broker stand still."""
    os.kill(attacked.broker.pid, signal.SIGSTOP)
    time.sleep(for_s)
    os.kill(attacked.broker.pid, signal.SIGCONT)


def end(attacked: Trial) -> None:
    """Let the broker end, and be missed."""
    os.kill(attacked.broker.pid, signal.SIGKILL)
    time.sleep(WITHIN_THE_LIMIT_S)


def member_id(line: Line) -> str:
    """Return the innocent client's member id."""
    described = line.ask(DescribeGroupsRequest(groups=(GROUP,)), DescribeGroupsResponse)
    return str(described.groups[0].members[0].member_id)


def test_a_trial_without_an_attack_passes(trial: StartTrial) -> None:
    undergo(trial, lambda attacked: member_id(attacked.connect()))


def test_an_answer_that_is_wrong_is_noticed(trial: StartTrial) -> None:
    """Commits in its name, until one falls between its own commit and its look at it."""

    def steal(attacked: Trial) -> None:
        line = attacked.connect()
        place = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata="thief"
        )
        theft = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=1,
            member_id=member_id(line),
            topics=(OffsetCommitRequestTopic(name=TOPIC, partitions=(place,)),),
        )
        for _ in range(500):
            line.ask(theft, OffsetCommitResponse, 8)

    assert re.search(r"OffsetFetch: .*'thief'.* instead of", guilt(trial, steal))


def test_an_error_code_is_noticed(trial: StartTrial) -> None:
    def throw_out(attacked: Trial) -> None:
        line = attacked.connect()
        leaver = MemberIdentity(member_id=member_id(line), group_instance_id=None)
        line.ask(LeaveGroupRequest(group_id=GROUP, members=(leaver,)), LeaveGroupResponse)
        time.sleep(WITHIN_THE_LIMIT_S)

    assert re.search(r"(Heartbeat|OffsetCommit): .*25.* instead of", guilt(trial, throw_out))


def test_a_late_answer_is_noticed(trial: StartTrial) -> None:
    found = guilt(trial, lambda attacked: stand_still(attacked, OVER_THE_LIMIT_S))
    assert found.startswith("an innocent client had to wait")


def test_a_pause_within_the_limit_is_not(trial: StartTrial) -> None:
    undergo(trial, lambda attacked: stand_still(attacked, WITHIN_THE_LIMIT_S))


def test_a_broker_that_ended_is_noticed(trial: StartTrial) -> None:
    assert "\nthe broker ended" in guilt(trial, end)


def test_the_error_of_a_failed_attack_names_the_verdict(trial: StartTrial) -> None:
    def fail(attacked: Trial) -> None:
        end(attacked)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        undergo(trial, fail)
    assert "the broker ended" in raised.value.__notes__[0]


def test_spent_memory_is_noticed(trial: StartTrial) -> None:
    assert "the broker held 400 MB" in guilt(
        trial, lambda attacked: setattr(attacked.broker, "__class__", Fat)
    )


def test_a_report_separates_waiting_from_a_busy_machine() -> None:
    told = Report(answers=7, slowest=Slowest("Heartbeat", 12.0, 900.0, 0.5), baseline_ms=3.0).told()
    assert told == (
        "7 answers, slowest 12 ms (Heartbeat; on the wall 900 ms), before the attack 3 ms; "
        "p99 0 ms, before 0 ms"
    )


def test_stolen_time_is_that_of_the_most_delayed_thread() -> None:
    assert most_lost({"1": 5, "2": 10}, {"1": 9, "2": 11, "3": 2}) == 4
    assert most_lost({"1": 5}, {}) == 0, "who has ended waits for nobody"


def test_sleep_and_own_work_count_as_waiting() -> None:
    stopwatch = Stopwatch(broker_pid=0)
    ends_s = time.process_time() + 0.1
    while time.process_time() < ends_s:
        pass
    time.sleep(0.1)
    assert 150 < stopwatch.waited_ms() <= stopwatch.took_ms()
