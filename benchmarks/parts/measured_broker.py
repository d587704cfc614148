"""A broker in a process, as a benchmark sees it from outside: asked, measured, killed and started again."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.parts import conversations as say
from benchmarks.parts.raw_client import Connection

from kohort.protocol.errors import ErrorCode
from kohort.storage.resting import RESTING_LOGS, decode_resting_logs
from tests.interop.broker_process import BrokerProcess

SETTINGS = ("group.initial.rebalance.delay.ms=0", "max.connections.per.ip=100000")
NOTE_OFTEN = "log.flush.offset.checkpoint.interval.ms=250"
"""Logs are at rest when nothing was written between two checkpoints: two minutes, without this setting."""
ASKED = 2_000  # Requests for one figure.
DEPTH = 20
PATIENCE_SECONDS = 120.0
START_SECONDS_MAX = 600.0  # Ten thousand logs are opened after a kill.


class MeasuredBroker:
    """A broker in a process, a connection to it, and the resources that it has used."""

    def __init__(self, folder: Path) -> None:
        self.process = BrokerProcess(folder, *SETTINGS)
        self.process.start_timeout_s = START_SECONDS_MAX
        self.process.start()
        self.line = Connection(self.process.address)

    def cpu_seconds(self) -> float:
        """Return what all threads of the process have used, in seconds, by the scheduler's count.

        A thread that runs without a pause is counted at the kernel's ticks alone, some milliseconds apart.
        """
        nanoseconds = 0
        for each in Path(f"/proc/{self.process.pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # A thread that has ended meanwhile.
                nanoseconds += int((each / "schedstat").read_text().split()[0])
        return nanoseconds / 1e9

    def memory_kib(self) -> float:
        """Return the memory of the process."""
        return self.process.resident_bytes() / 1024

    def cost_us(self, frames: Sequence[bytes], check: Callable[[bytes], int], count: int = ASKED) -> float:
        """Return the CPU time of a request, of these in turn; every answer is checked."""
        self.ask(frames[: min(len(frames), DEPTH)], check)
        asked = [frames[number % len(frames)] for number in range(max(count, len(frames)))]
        before = self.cpu_seconds()
        answers = self.answers(asked)
        used = self.cpu_seconds() - before
        for each in answers:
            say.expect(check(each))
        return used / len(asked) * 1e6

    def answers(self, frames: Sequence[bytes]) -> list[bytes]:
        """Return an answer to each, with a few in flight at a time."""
        found: list[bytes] = []
        for place in range(0, len(frames), DEPTH):
            some = frames[place : place + DEPTH]
            self.line.send(b"".join(some))
            found += [self.line.receive() for _ in some]
        return found

    def ask(self, frames: Sequence[bytes], check: Callable[[bytes], int]) -> list[bytes]:
        """Return an answer to each, asked again while the broker is not ready for it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        found = self.answers(frames)
        for place in range(len(found)):
            while check(found[place]) in say.LOADING:
                assert time.monotonic() < deadline, ErrorCode(check(found[place])).name
                time.sleep(0.01)  # The broker sends no notice when it is ready.
                (found[place],) = self.answers([frames[place]])
            say.expect(check(found[place]))
        return found

    def start_again(self, ask: Callable[[], object], *settings: str) -> tuple[float, float]:
        """Kill it, start it; return the ms until `ask` is through, and the ms of CPU until then.

        `settings` are for the process that starts here.
        """
        self.line.close()
        self.process.settings = (*SETTINGS, *settings)
        began = time.monotonic()
        self.process.restart(signal.SIGKILL)
        self.line = Connection(self.process.address)
        ask()
        return (time.monotonic() - began) * 1e3, self.cpu_seconds() * 1e3

    def come_to_rest(self, names: Sequence[str]) -> None:
        """Return once the logs of these topics are marked as at rest; nothing writes to them."""
        path = self.process.data / RESTING_LOGS
        moving = set(names)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while moving:
            assert time.monotonic() < deadline, f"{len(moving)} logs do not come to rest"
            time.sleep(0.05)  # A file can only be polled.
            with suppress(FileNotFoundError):  # The file does not exist yet, or was just removed.
                for (topic, index), each in decode_resting_logs(path.read_bytes()).items():
                    newest = self.process.data / f"{topic}-{index}" / f"{each.base_offset:020d}.log"
                    if topic in moving and newest.stat().st_size == each.size_bytes > 0:
                        moving.remove(topic)

    def close(self) -> None:
        """End it."""
        self.line.close()
        self.process.kill()
