"""A trial: a broker in a process of its own, an innocent client beside, an attack, and the verdict.

    with trial("max.connections=100") as attacked:
        attacked.connect().ask(...)

On leaving, the attackers' connections are closed and everything is judged: the same process lives and
answers, every answer that the innocent client had was right and none took longer than a second, and the
broker never held more than 400 MB.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from urllib.request import urlopen

from kohort.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.attacks.innocent import Innocent, Report, Slowest
from tests.attacks.wire import Line, close_all
from tests.interop.broker_process import BrokerProcess

WAITED_MS_MAX = 1_000.0
PEAK_BYTES_MAX = 400_000_000
P99_MS_FLOOR = 100.0
"""Where twice the p99 before is less: a turn of others is 20 ms, and one request may take longer."""
P99_ANSWERS_MIN = 200
"""Of fewer, on a machine with much else to do, one in a hundred says nothing: the longest wait counts."""
ALIVE_WITHIN_S = 20.0
LOG_LINES_SHOWN = 12
DEEDS_SHOWN = 3
LINE_CHARACTERS_SHOWN = 300
HTTP_OK = 200
SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=500",
    "offsets.topic.num.partitions=1",  # Everybody shares the shard: the hardest neighbourhood.
)

Record = Callable[[str, object], None]
StartTrial = Callable[..., AbstractContextManager["Trial"]]


class Guilty(AssertionError):
    """The broker let an attacker harm somebody else."""


class Trial:
    """One broker under attack."""

    def __init__(self, broker: BrokerProcess, record: Record) -> None:
        self.broker = broker
        self._record = record
        self._lines: list[Line] = []
        self._innocent: Innocent | None = None
        self._pid = 0
        self._deeds: list[tuple[float, str]] = []
        self.is_fair = False
        """Whether the innocent client's p99 may at most double."""

    def __enter__(self) -> Trial:
        """Start the broker, and return once the innocent client goes round."""
        self._innocent = Innocent()
        try:
            self.broker.start()
            self._pid = self.broker.pid
            self._innocent.visit(self.broker.bootstrap, self._pid)
        except BaseException:
            self._innocent.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Judge. Raises: Guilty, unless the attack itself has failed, which then carries the verdict."""
        close_all(self._lines)
        assert self._innocent is not None
        try:
            faults = self.verdict(self._innocent.report())
        finally:
            self._innocent.kill()
        if not faults:
            return
        if error is not None:
            error.add_note("\n".join(faults))
            return
        raise Guilty("\n".join(faults))

    def connect(self, receive_buffer_bytes: int = 0) -> Line:
        """Return an attacker's connection, which the end of the trial closes."""
        line = Line(self.broker.address, receive_buffer_bytes=receive_buffer_bytes)
        self._lines.append(line)
        return line

    def connections(self, count: int) -> list[Line]:
        """Return so many connections."""
        return [self.connect() for _ in range(count)]

    def note(self, deed: str) -> None:
        """Remember what is done now, so that a verdict can say what it was that made somebody wait."""
        self._deeds.append((time.monotonic(), deed))

    def is_over(self) -> bool:
        """Return whether the broker has ended, or the innocent client has given up."""
        assert self._innocent is not None
        return not self.broker.is_running() or not self._innocent.goes_round()

    def verdict(self, report: Report) -> list[str]:
        """Return what the broker is guilty of."""
        faults = [f"an innocent client was wronged: {each}" for each in report.wrong]
        if report.slowest.waited_ms > WAITED_MS_MAX:
            faults.append("an innocent client had to wait")
        p99_ms_max = max(2 * report.baseline_p99_ms, P99_MS_FLOOR)
        if self.is_fair and report.answers >= P99_ANSWERS_MIN and report.p99_ms > p99_ms_max:
            faults.append("an innocent client waited more than twice as long, one time of a hundred")
        faults += self._life()
        if self.broker.is_running():
            peak_bytes = self.broker.peak_resident_bytes()
            self._record("peak_mb", round(peak_bytes / 1e6))
            if peak_bytes > PEAK_BYTES_MAX:
                faults.append(f"the broker held {peak_bytes / 1e6:.0f} MB")
        self._record("innocent", report.told())
        self._record("waited_ms", round(report.slowest.waited_ms))
        if not faults:
            return []
        shown = [line[:LINE_CHARACTERS_SHOWN] for line in self.broker.log_lines()[-LOG_LINES_SHOWN:]]
        return [*faults, report.told(), *self._deeds_until(report.slowest), *shown]

    def _deeds_until(self, slowest: Slowest) -> list[str]:
        """Return the last deeds before the answer came that the innocent client waited for longest."""
        came_s = slowest.at_s + slowest.took_ms / 1000
        before = [(at_s, deed) for at_s, deed in self._deeds if at_s <= came_s]
        return [f"{at_s - slowest.at_s:+.2f} s: {deed}" for at_s, deed in before[-DEEDS_SHOWN:]]

    def _life(self) -> list[str]:
        if not self.broker.is_running():
            return ["the broker ended"]
        assert self.broker.pid == self._pid
        faults = [] if answers(self.broker.address) else ["the broker does not answer"]
        return faults if self.is_healthy() else [*faults, "/health/live does not answer"]

    def is_healthy(self, within_s: float = ALIVE_WITHIN_S) -> bool:
        """Return whether /health/live answers, as an orchestrator asks for it."""
        try:
            with urlopen(f"http://{self.broker.http}/health/live", timeout=within_s) as answer:
                return bool(answer.status == HTTP_OK)
        except OSError:
            return False


@contextmanager
def scratch() -> Iterator[Path]:
    """Lend a folder for a broker's data, in memory if the system has such: no other's disk is waited for."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(prefix="kohort-", dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


def answers(address: tuple[str, int], within_s: float = ALIVE_WITHIN_S) -> bool:
    """Return whether a newcomer is let in and answered."""
    try:
        line = Line(address, timeout_s=within_s)
    except OSError:
        return False
    try:
        request = ApiVersionsRequest(client_software_name="judge", client_software_version="1")
        line.ask(request, ApiVersionsResponse)
    except (TimeoutError, OSError):
        return False
    finally:
        line.close()
    return True
