"""Every API and version against a running broker, ruined and grown, with an innocent client beside.

    python -m tests.fuzz.broker [--seconds 600] [--seed 7]
    python -m tests.fuzz.broker --replay FILE

Prints its seed first. In the end the broker has to live, to have held no more than 400 MB, and every answer
that the innocent client had must have been right, and in time. Where that fails, what was sent last, on
which connection, stands in a file, and `--replay` sends it to a new broker.
"""

from __future__ import annotations

import argparse
import random
import select
import shutil
import sys
import tempfile
import time
from collections import Counter, deque
from pathlib import Path
from random import Random

from kohort.protocol.errors import WireError
from kohort.protocol.headers import CORRELATION_ID_BYTES, response_body
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kohort.protocol.schema import Message
from tests.attacks.producing import create
from tests.attacks.trial import SETTINGS, Trial, scratch
from tests.attacks.wire import Line
from tests.fuzz.requests import TOPICS, Case, Known, Maker
from tests.interop.broker_process import BrokerProcess

DEFAULT_SECONDS = 600.0
CONNECTIONS = 8
PARTITIONS = 4
PUSHED_WITHIN_S = 0.2
READ_WITHIN_S = 0.002
LOOKED_AT_EVERY_S = 0.5
CORRELATION_IDS = 1 << 31  # Drawn: what a few ruined bits make of one is nobody else's.
REMEMBERED_BYTES = 64_000_000
SMALL_BUFFER_BYTES = 4_096
READ_BYTES = 1 << 18
LEFT_AFTER = 300  # So many requests later a connection makes room for a new one.


class Talk:
    """One connection of the fuzzer."""

    def __init__(self, number: int, line: Line) -> None:
        self.number = number
        self.line = line
        self.left = LEFT_AFTER
        self.asked: dict[int, Case] = {}
        self.reads = True


class Unreadable(AssertionError):
    """The broker's answer to a sound request cannot be read."""


class Fuzzer:
    """Sends cases on several connections, reads what comes, remembers what it sent."""

    def __init__(self, trial: Trial, seed: int) -> None:
        self.sent: deque[tuple[int, bytes, str]] = deque()
        self.counts: Counter[str] = Counter()
        self.answers = self.closed = 0
        self._trial = trial
        self._random = Random(seed)
        self._known = Known()
        self._maker = Maker(self._random, self._known)
        self._remembered_bytes = 0
        self._talks: list[Talk] = []
        self._next_number = 0

    def run(self, seconds: float) -> None:
        """Fuzz for so long, or until something is wrong. Raises: Unreadable."""
        self._prepare()
        ends_s = time.monotonic() + seconds
        looks_s = 0.0
        while time.monotonic() < ends_s:
            if time.monotonic() >= looks_s:
                if self._trial.is_over():
                    return
                looks_s = time.monotonic() + LOOKED_AT_EVERY_S
            self._step()

    def _prepare(self) -> None:
        line = self._trial.connect()
        for name in TOPICS:
            create(line, name, PARTITIONS)
        wanted = tuple(MetadataRequestTopic(name=name) for name in TOPICS)
        self._known.learn(line.ask(MetadataRequest(topics=wanted), MetadataResponse))

    def _step(self) -> None:
        if len(self._talks) < CONNECTIONS and not self._open():
            return
        talk = self._random.choice(self._talks)
        correlation_id = self._random.randrange(CORRELATION_IDS)
        case = self._maker.case(correlation_id)
        if case.is_whole:
            talk.asked[correlation_id] = case
        self._remember(talk.number, case.data, case.title)
        self.counts[case.api.name] += 1
        self._trial.note(case.title)
        taken = talk.line.push(case.data, PUSHED_WITHIN_S)
        talk.left -= 1
        if taken < len(case.data) or talk.left <= 0:
            self._close(talk)
        self._read()

    def _open(self) -> bool:
        """Return whether one more connection could be opened."""
        try:
            line = Line(
                self._trial.broker.address,
                receive_buffer_bytes=self._random.choice((0, 0, SMALL_BUFFER_BYTES)),
            )
        except OSError:
            time.sleep(READ_WITHIN_S)  # The next look says whether it lives.
            return False
        self._next_number += 1
        self._talks.append(Talk(self._next_number, line))
        self._talks[-1].reads = bool(self._random.randrange(8))
        return True

    def _read(self) -> None:
        """Take what has come on any connection; one in eight never reads."""
        looking = select.poll()  # `select` takes no descriptor above 1,023.
        reading = {talk.line.socket.fileno(): talk for talk in self._talks if talk.reads}
        if not reading:
            return
        for descriptor in reading:
            looking.register(descriptor, select.POLLIN)
        for descriptor, _ in looking.poll(READ_WITHIN_S * 1000):
            talk = reading[descriptor]
            try:
                frames = talk.line.arrived(READ_BYTES)
            except (OSError, WireError):
                self.closed += 1
                self._close(talk)
                continue
            for frame in frames:
                self._learn(talk, frame)

    def _learn(self, talk: Talk, frame: bytes) -> None:
        self.answers += 1
        case = talk.asked.pop(int.from_bytes(frame[:CORRELATION_ID_BYTES], "big"), None)
        if case is None:
            return
        try:
            answer: Message = case.api.response.decode(
                response_body(frame, case.api.response_header_version(case.version)), case.version
            )
        except WireError as error:
            raise Unreadable(f"the answer to {case.title} cannot be read: {error}") from error
        self._known.learn(answer)

    def _close(self, talk: Talk) -> None:
        self._talks.remove(talk)
        talk.line.close()

    def _remember(self, number: int, data: bytes, title: str) -> None:
        self.sent.append((number, data, title))
        self._remembered_bytes += len(data)
        while self._remembered_bytes > REMEMBERED_BYTES:
            self._remembered_bytes -= len(self.sent.popleft()[1])


def write_log(path: Path, sent: deque[tuple[int, bytes, str]]) -> None:
    """Write what was sent, oldest first: a line with connection, size and title, then the bytes."""
    with path.open("wb") as file:
        for number, data, title in sent:
            file.write(f"{number} {len(data)} {title}\n".encode() + data)


def read_log(path: Path) -> deque[tuple[int, bytes, str]]:
    """Return what `write_log` wrote."""
    sent: deque[tuple[int, bytes, str]] = deque()
    with path.open("rb") as file:
        while head := file.readline():
            number, size, title = head.decode().rstrip("\n").split(" ", 2)
            sent.append((int(number), file.read(int(size)), title))
    return sent


def replay(trial: Trial, sent: deque[tuple[int, bytes, str]]) -> None:
    """Send it all again, in its order, on as many connections."""
    line = trial.connect()
    for name in TOPICS:
        create(line, name, PARTITIONS)
    lines: dict[int, Line] = {}
    for number, data, title in sent:
        if trial.is_over():
            sys.stdout.write(f"it is over before: {title}\n")
            return
        if number not in lines:
            for each in [each for each in lines if each < number - CONNECTIONS]:
                lines.pop(each).close()
            lines[number] = Line(trial.broker.address)
        lines[number].push(data, PUSHED_WITHIN_S)
        lines[number].drain()


def fuzz(folder: Path, seconds: float, seed: int, facts: dict[str, object]) -> None:
    """Fuzz a broker, and note figures.

    Raises: Guilty, Unreadable; what was sent, and the broker's log, are in `folder` then.
    """
    with scratch() as place:
        trial = Trial(BrokerProcess(place, *SETTINGS), facts.__setitem__)
        fuzzer = Fuzzer(trial, seed)
        try:
            with trial:
                fuzzer.run(seconds)
        except BaseException:
            write_log(folder / "sent", fuzzer.sent)
            shutil.copy(trial.broker.log_path, folder)
            raise
        finally:
            trial.broker.kill()
            facts |= {"cases": fuzzer.counts.total(), "apis": len(fuzzer.counts)}
            facts |= {"answers": fuzzer.answers, "closed": fuzzer.closed}
            facts["log_lines"] = len(trial.broker.log_lines())


def send_again(log: Path) -> None:
    """Judge a new broker to which all that is sent. Raises: Guilty."""
    with scratch() as place:
        trial = Trial(BrokerProcess(place, *SETTINGS), lambda _name, _value: None)
        try:
            with trial:
                replay(trial, read_log(log))
        finally:
            trial.broker.kill()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=DEFAULT_SECONDS)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--replay", type=Path)
    options = parser.parse_args()
    if options.replay is not None:
        send_again(options.replay)
        return
    folder = Path(tempfile.mkdtemp(prefix="kohort-fuzz-"))
    facts: dict[str, object] = {}
    sys.stdout.write(
        f"fuzzing a broker, trouble goes to {folder}: seed {options.seed}, {options.seconds:.0f} s\n"
    )
    sys.stdout.flush()  # Before anything can go wrong.
    try:
        fuzz(folder, options.seconds, options.seed, facts)
    finally:
        sys.stdout.write("".join(f"{name}: {value}\n" for name, value in facts.items()))


if __name__ == "__main__":
    main()
