"""Counts every flight with three members of one group, kills one of them and the broker, and proves
that none was lost: `python examples/flights/demo.py` (or `make demo`).

Exit status 0 when every flight was counted, 1 when one is missing or something did not happen in time.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":  # Run as a file: its siblings are found from the repository's root.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from examples.flights import report, settings, topic
from examples.flights.broker_process import SERVE, BrokerProcess
from examples.flights.dataset import FLIGHTS, carrier_names, delays_in_data_frame, read_flights
from examples.flights.history import History
from examples.flights.journal import JournalReader, read_events
from examples.flights.ledger import Ledger
from examples.flights.members import MemberProcess

BROKER_DIES_AT = FLIGHTS // 4
MEMBER_DIES_AT = FLIGHTS // 2
TOO_LONG_S = 110.0
LOOK_EVERY_S = 0.05
WIDTH_WITHOUT_TERMINAL = 120


class Demo:
    """One run: its processes, its files and what has been counted so far."""

    def __init__(self, folder: Path, broker: BrokerProcess, console: Console, kind: str = "classic") -> None:
        self._folder = folder
        self._kind = kind
        self._clients = settings.MEMBERS[kind]
        self._broker = broker
        self._console = console
        self._began_at_s = time.time()
        self._deadline_s = time.monotonic() + TOO_LONG_S
        self._members: list[MemberProcess] = []
        self._readers = [JournalReader(folder, client) for client in self._clients]
        self._ledger = Ledger()
        self._history = History()
        self._progress = Progress(
            TextColumn("{task.description:<9}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._reading = TaskID(0)

    def run(self) -> bool:
        """Return whether every flight was counted."""
        with self._progress:
            self._load()
            self._count()
        self._say("members leave the group")
        self._stop_members()
        self._look()
        self._history.sample(self._broker.http)
        return self._conclude()

    def close(self) -> None:
        """End every process that is still there, whatever happened."""
        self._stop_members()
        self._broker.stop()

    def _load(self) -> None:
        self._broker.start()
        self._say(f"broker at {self._broker.bootstrap}, live page at http://{self._broker.http}/")
        topic.create(self._broker.bootstrap)
        topic.set_up_group(self._broker.bootstrap, self._kind)
        loading = self._progress.add_task("loaded", total=FLIGHTS)
        began_s = time.monotonic()
        loaded = topic.load(
            self._broker.bootstrap, read_flights(), lambda some: self._progress.advance(loading, some)
        )
        if loaded != FLIGHTS:
            raise RuntimeError(f"only {loaded:,} of {FLIGHTS:,} flights were acknowledged")
        rate = loaded / (time.monotonic() - began_s)
        self._say(f"{loaded:,} flights in {settings.PARTITIONS} partitions, {rate:,.0f} a second")

    def _count(self) -> None:
        self._reading = self._progress.add_task("counted", total=FLIGHTS)
        offsets = topic.Offsets(self._broker.bootstrap)
        try:
            ends = offsets.ends()
            self._members = [
                MemberProcess(client, self._broker.bootstrap, self._folder) for client in self._clients
            ]
            self._say(f"{self._kind} group {settings.GROUP}: {', '.join(self._clients)} join")
            self._wait_for("every member to have its share", self._all_have_partitions)
            self._say("every member has its share of the partitions")
            self._wait_for("a quarter of the flights", lambda: self._ledger.distinct >= BROKER_DIES_AT)
            self._kill_and_restart_broker()
            self._wait_for("half of the flights", lambda: self._ledger.distinct >= MEMBER_DIES_AT)
            self._kill_the_busiest_member(ends)
            if self._kind == "share":
                self._wait_for(
                    "the group to be done with all", lambda: topic.shared_lag(self._broker.bootstrap) == 0
                )
            else:
                self._wait_for(
                    "the group to commit every partition's end", lambda: offsets.committed() == ends
                )
        finally:
            offsets.close()

    def _all_have_partitions(self) -> bool:
        assigned = {
            event.member
            for event in read_events(self._folder)
            if event.what == "assigned" and event.partitions
        }
        return assigned == set(self._clients)

    def _kill_and_restart_broker(self) -> None:
        self._history.sample(self._broker.http)
        began_s = time.monotonic()
        self._broker.kill()
        self._broker.start()
        away_ms = (time.monotonic() - began_s) * 1000
        self._say(f"[red]broker killed[/] at {self._ledger.distinct:,} flights, back after {away_ms:.0f} ms")

    def _kill_the_busiest_member(self, ends: dict[int, int]) -> None:
        """Kill who has most left to read, so that its partitions have to go to the others."""
        unread = self._ledger.unread_by_member(ends)
        victim = max(self._members, key=lambda member: unread[member.client])
        victim.kill()
        what = (
            "what it had in hand comes again"
            if self._kind == "share"
            else f"{unread[victim.client]:,} of its own unread; the others wait for its session to expire"
        )
        self._say(f"[red]{victim.client} killed[/] at {self._ledger.distinct:,} flights, {what}")

    def _wait_for(self, what: str, happened: Callable[[], bool]) -> None:
        """Return when it happened. Raises: TimeoutError, or RuntimeError if a member ends by itself."""
        while True:
            self._look()
            if happened():
                return
            for member in self._members:
                member.check()
            if time.monotonic() > self._deadline_s:
                raise TimeoutError(f"waited too long for {what}: {self._ledger.distinct:,} flights counted")
            time.sleep(LOOK_EVERY_S)  # Members are processes of their own: their journals are looked at.

    def _look(self) -> None:
        for reader in self._readers:
            self._ledger.add(reader.member, reader.new())
        self._progress.update(self._reading, completed=self._ledger.distinct)

    def _stop_members(self) -> None:
        for member in self._members:
            member.ask_to_leave()
        for member in self._members:
            member.wait_until_gone()

    def _conclude(self) -> bool:
        events = list(read_events(self._folder))
        truth = delays_in_data_frame()
        verdict = self._ledger.verify(truth)
        colour = "green" if verdict.passed else "red"
        for line in report.verdict_lines(verdict):
            self._console.print(line, style=colour)
        for table in (
            report.members_table(self._ledger, self._members, events),
            report.events_table(events, self._began_at_s),
            report.rebalances_table(self._history.rebalances, self._began_at_s),
            report.carriers_table(self._ledger, truth, carrier_names()),
        ):
            self._console.print(table)
        self._say("done")
        return verdict.passed

    def _say(self, text: str) -> None:
        self._console.print(f"[dim]{time.time() - self._began_at_s:5.1f} s[/]  {text}")


def main() -> int:
    """Return the exit status."""
    parser = ArgumentParser(description="Count every flight, whatever is killed meanwhile.")
    parser.add_argument(
        "--broker", metavar="COMMAND", default=shlex.join(SERVE), help="what serves, without its options"
    )
    parser.add_argument(
        "--groups", choices=settings.MEMBERS, default="classic", help="which kind of group counts"
    )
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL)
    with tempfile.TemporaryDirectory(prefix="kohort-flights-") as name:
        folder = Path(name)
        demo = Demo(folder, BrokerProcess(folder, shlex.split(options.broker)), console, options.groups)
        try:
            return 0 if demo.run() else 1
        except (RuntimeError, TimeoutError) as error:
            console.print(f"[red]{error}[/]")
            return 1
        finally:
            demo.close()


if __name__ == "__main__":
    sys.exit(main())
