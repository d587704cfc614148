"""A loop that stands still by some bug: the process ends, its stack is logged, and another takes over."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.protocol.messages.describe_cluster import DescribeClusterRequest
from tests.attacks.trial import answers, scratch
from tests.attacks.wire import Line
from tests.interop.broker_process import BrokerProcess
from tests.repetitions import some_by_day

STUCK = Path(__file__).parent / "stuck"
STALL_S = 3.0
STALL = f"kohort.loop.stall.timeout.ms={STALL_S * 1000:.0f}"
ENDED_WITHIN_S = 60.0  # On a busy machine; it is not what is tested.
EXIT_STATUS = 70
HOWS = {
    "compute": (EXIT_STATUS, "the event loop has computed"),
    "compute in C": (-signal.SIGPROF, ""),
    "wait": (EXIT_STATUS, "the event loop has waited"),
}


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerProcess]:
    monkeypatch.setenv("PYTHONPATH", str(STUCK))
    with scratch() as folder:
        process = BrokerProcess(folder, STALL)
        try:
            yield process
        finally:
            process.kill()


def let_it_stand_still(address: tuple[str, int], how: str) -> Line:
    line = Line(address)
    line.send(DescribeClusterRequest(), client_id=how)
    return line


def until(happens: object, within_s: float = ENDED_WITHIN_S) -> bool:
    assert callable(happens)
    deadline_s = time.monotonic() + within_s
    while not happens():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("how", some_by_day(HOWS, "compute", "compute in C"))
def test_a_blocked_loop_is_ended_and_its_stack_is_logged(broker: BrokerProcess, how: str) -> None:
    broker.start()
    line = let_it_stand_still(broker.address, how)
    assert not answers(broker.address, within_s=0.5), "it does not stand still: this shows nothing"
    assert until(lambda: not broker.is_running()), "it stands still for ever"
    status, words = HOWS[how]
    assert broker.stop() == status
    logged = "\n".join(broker.log_lines())
    assert "in stand_still" in logged
    assert words in logged
    line.close()
    broker.start()
    assert answers(broker.address)


def test_a_suspended_process_continues(broker: BrokerProcess) -> None:
    """For longer than a loop may stand still, and while something is asked of it."""
    broker.start()
    os.kill(broker.pid, signal.SIGSTOP)
    assert not answers(broker.address, within_s=STALL_S * 2)
    os.kill(broker.pid, signal.SIGCONT)
    for _ in range(3):
        assert answers(broker.address)
        time.sleep(STALL_S / 2)
    assert broker.is_running()


def test_a_loop_with_much_to_do_is_not_ended(broker: BrokerProcess) -> None:
    broker.start()
    ends_s = time.monotonic() + STALL_S * 2
    while time.monotonic() < ends_s:
        assert answers(broker.address)
    assert broker.is_running()


@pytest.mark.parametrize("how", some_by_day(["compute", "compute in C"], "compute"))
def test_a_blocked_worker_is_ended_and_restarted(broker: BrokerProcess, how: str) -> None:
    broker.options = ("--workers", "2")
    broker.start()
    assert until(lambda: answers(broker.address))
    line = let_it_stand_still(broker.address, how)
    assert until(lambda: any("a worker has ended" in each for each in broker.log_lines()))
    assert until(lambda: answers(broker.address))
    assert broker.is_running()
    line.close()


def test_a_worker_ends_without_its_supervisor(broker: BrokerProcess) -> None:
    broker.options = ("--workers", "2")
    broker.start()
    workers = children(broker.pid)
    assert len(workers) == 2
    line = let_it_stand_still(broker.address, "compute")
    os.kill(broker.pid, signal.SIGKILL)
    assert until(lambda: not any(map(is_alive, workers))), "a worker is an orphan that computes for ever"
    line.close()


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(each) for path in found for each in path.read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
