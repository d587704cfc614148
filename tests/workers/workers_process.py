"""`kohort serve --workers N` as its users run it: its workers looked at, and killed, from outside."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until

PATIENCE_SECONDS = 120
FREE = "127.0.0.1:0"
SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=6",
    "transaction.state.log.num.partitions=6",
)
_READY = re.compile(r"a worker is ready +pid=(\d+) worker=(\d+)$")


class WorkersProcess(BrokerProcess):
    """A supervisor and its workers on one data folder; each start has other ports."""

    start_timeout_s = stop_timeout_s = 120.0  # Three processes that start on few cores, and end.

    def __init__(self, folder: Path, workers: int | None = 2, *settings: str) -> None:
        super().__init__(folder, *SETTINGS, *settings)
        self.options = () if workers is None else ("--workers", str(workers))

    def start(self) -> None:
        """Return when it has said that it is ready; those behind a port that it had may be taken by now."""
        self.bootstrap = self.http = FREE
        super().start()

    def starts(self) -> list[tuple[int, int]]:
        """Return worker and process of each time that one became ready, the last one last."""
        found = map(_READY.search, self.log_lines())
        return [(int(each[2]), int(each[1])) for each in found if each]

    def worker_pid(self, number: int) -> int:
        """Return the process of a worker."""
        return dict(self.starts())[number]

    def kill_worker(self, number: int, how: signal.Signals = signal.SIGKILL) -> None:
        """Send a worker a signal, and return once it has been started anew."""
        before = len(self.starts())
        os.kill(self.worker_pid(number), how)
        wait_until(lambda: len(self.starts()) > before, "the worker serves again", PATIENCE_SECONDS)

    def pids(self) -> list[int]:
        """Return every process that this test's folder had a worker in."""
        return [pid for _, pid in self.starts()]


def is_there(pid: int) -> bool:
    """Whether a process still runs; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
