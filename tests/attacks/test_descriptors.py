"""A broker that may open few files, and clients that take them all."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from kohort.protocol.records import build_batch
from tests.attacks.producing import create, produce
from tests.attacks.trial import StartTrial, Trial, answers
from tests.attacks.wire import Line
from tests.interop.broker_process import COMMAND_VARIABLE
from tests.interop.waiting import wait_until

FILES = 256
ATTACKERS = 600
HELD_S = 3.0
LOG_LINES_MAX = 60
BUSY_SHARE_MAX = 0.5
NEW_TOPICS = 20


@pytest.fixture
def few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the broker open few files."""
    command = f"prlimit --nofile={FILES}:{FILES} {sys.executable} -m kohort.broker"
    monkeypatch.setenv(COMMAND_VARIABLE, command)


def cpu_s(pid: int) -> float:
    """Return the processor time that a process has had."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def crowd(attacked: Trial) -> list[Line]:
    """Open more connections than there are files for; some wait in the backlog, some are refused."""
    lines = []
    for _ in range(ATTACKERS):
        try:
            lines.append(attacked.connect())
        except OSError:
            break
    return lines


@pytest.mark.usefixtures("few_files")
def test_without_descriptors_the_broker_uses_little_cpu_and_log(trial: StartTrial) -> None:
    with trial() as attacked:
        lines = crowd(attacked)
        logged, used_s = len(attacked.broker.log_lines()), main_thread_s(attacked)
        time.sleep(HELD_S)
        busy = (main_thread_s(attacked) - used_s) / HELD_S
        assert len(attacked.broker.log_lines()) - logged < LOG_LINES_MAX
        assert busy < BUSY_SHARE_MAX, f"{busy:.0%} of a processor, for nothing"
        for line in lines:
            line.close()
        wait_until(lambda: answers(attacked.broker.address), "newcomers are let in again")


def main_thread_s(attacked: Trial) -> float:
    """Return the processor time of the broker's loop."""
    return cpu_s(attacked.broker.pid)


@pytest.mark.usefixtures("few_files")
def test_connections_leave_the_logs_their_descriptors(trial: StartTrial) -> None:
    """Who is connected already creates topics and writes to them."""
    with trial() as attacked:
        honest = attacked.connect()
        crowd(attacked)
        batch = build_batch([(int(time.time() * 1000), None, b"value", ())])
        for number in range(NEW_TOPICS):
            create(honest, f"new-{number}")
            assert produce(honest, f"new-{number}", batch) == 0
