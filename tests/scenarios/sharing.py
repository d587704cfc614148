"""Plays a scenario of one share partition: whose records are, what is written of them, what comes back.

Its first line says `a share partition of 10 records`; then, as in `conversation.py`, one step a line:

    deliveries = 3                # the limit, and `lock = 30s`, `letters = yes`: before anything happens
    ana takes 4                   # so many records at most, from the first that is available
    ana accepts 0-1,3             # or releases, rejects, renews them; `refused` says what is wrong
    ana is gone                   # her session ends
    the write fails               # the next one: nothing of it counts
    the letter of 3 is written
    the leader dies               # another one goes on with what was written
    31s pass

Below each stand what is written (w:), what happened to records that were not accepted (note:), what members
are told (->), and what is left where that has changed.
"""

import re

from kohort.broker.group.share.delivery_events import DeliveryEvent
from kohort.broker.group.share.partition import Limits, SharePartition, Write
from kohort.broker.group.share.record import FINAL, Acknowledgement, Batch, RecordState
from kohort.protocol.errors import ApiError
from tests.scenarios.durations import ScenarioError, duration_ms

FIRST_LINE = re.compile(r"a share partition of (\d+) records")
SETTING = re.compile(r"(deliveries|lock|letters) = (\w+)")
KINDS = {
    "accepts": Acknowledgement.ACCEPT,
    "releases": Acknowledgement.RELEASE,
    "rejects": Acknowledgement.REJECT,
    "renews": Acknowledgement.RENEW,
}


def span(first_offset: int, last_offset: int) -> str:
    """Return offsets as `3` or `3-5`."""
    return str(first_offset) if first_offset == last_offset else f"{first_offset}-{last_offset}"


def runs(text: str) -> list[tuple[int, int]]:
    """Return `0-1,3` as first and last offsets."""
    found = []
    for each in text.split(","):
        first, _, last = each.partition("-")
        found.append((int(first), int(last or first)))
    return found


class SharePartitionConversation:
    """A share partition, what the share coordinator keeps of it, and who reads it. Time is virtual."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._settings: dict[str, str] = {}
        self._count = 0
        self._core: SharePartition | None = None
        self._now_ms = 0
        self._start_offset = 0
        self._kept: dict[int, tuple[RecordState, int]] = {}
        self._write_fails = False
        self._told: list[DeliveryEvent] = []
        self._standing = ""

    @property
    def core(self) -> SharePartition:
        """The partition, led anew where it was not led."""
        if self._core is None:
            limits = Limits(
                int(self._settings.get("deliveries", "5")),
                duration_ms(self._settings.get("lock", "30s")),
                has_dead_letters=self._settings.get("letters") == "yes",
            )
            kept = [Batch(offset, offset, *state) for offset, state in sorted(self._kept.items())]
            self._core = SharePartition(self._start_offset, limits, kept)
            self._told = []
        return self._core

    def tell(self, text: str) -> None:
        """Write a line of the broker's."""
        self.lines.append(f"    {text}")

    # -- steps ----------------------------------------------------------------------------------------------

    def play(self, line: str) -> None:
        """Do what the line says. Raises: ScenarioError."""
        if found := FIRST_LINE.fullmatch(line):
            self._count = int(found[1])
        elif found := SETTING.fullmatch(line):
            self._settings[found[1]] = found[2]
        else:
            self._step(line.split())
            self._tell_rest()

    def _step(self, words: list[str]) -> None:
        match words:
            case [duration, "pass" | "passes"]:
                self._now_ms += duration_ms(duration)
                self._write(self.core.expire_locks(self._now_ms))
            case [name, "takes", number]:
                self._take(name, int(number))
            case [name, "is", "gone"]:
                self._write(self.core.release_member(name, self._now_ms))
            case ["the", "write", "fails"]:
                self._write_fails = True
            case ["the", "leader", "dies"]:
                self._core = None
            case ["the", "letter", "of", offsets, "is", "written"]:
                for first, last in runs(offsets):
                    self._write(self.core.buried(first, last, self._now_ms, is_written=True))
            case [name, verb, offsets] if verb in KINDS:
                self._say(name, KINDS[verb], offsets)
            case _:
                raise ScenarioError(" ".join(words))

    def _take(self, name: str, records_max: int) -> None:
        core = self.core
        first = core.next_fetch_offset()
        together = core.often_delivered(first)
        wanted = records_max if together is None else min(records_max, together)
        if first < self._count:
            often = together is not None
            got = core.acquire(name, first, self._count - 1, wanted, self._now_ms, often=often)
        else:
            got = ()
        told = [
            f"{span(each.first_offset, each.last_offset)} for the {_ordinal(each.delivery_count)} time"
            for each in got
        ]
        self.tell(f"-> {name}: {', '.join(told) or 'nothing'}")

    def _say(self, name: str, kind: Acknowledgement, offsets: str) -> None:
        words = [(first, last, (kind,)) for first, last in runs(offsets)]
        try:
            write = self.core.acknowledge_all(name, words, self._now_ms)
        except ApiError as error:
            self.tell(f"-> {name}: {error.code.name}")
            return
        self._write(write, name)

    def _write(self, write: Write, name: str = "") -> None:
        """Keep it, as the share coordinator does, and settle it."""
        fails, self._write_fails = self._write_fails and bool(write.batches), False
        if not fails:
            for batch in write.batches:
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    self._kept[offset] = (batch.state, batch.delivery_count)
                where, times = span(batch.first_offset, batch.last_offset), _times(batch.delivery_count)
                self.tell(f"w: {where} {batch.state.name.lower()}, delivered {times}")
        elif write.batches:
            self.tell("w: fails")
        self.core.settle(write, self._now_ms, is_durable=not fails)
        if not fails:
            self._start_offset = self.core.start_offset
            self._kept = {each: state for each, state in self._kept.items() if each >= self._start_offset}
        if name:
            self.tell(f"-> {name}: {'not kept' if fails else 'ok'}")

    # -- what it comes to -----------------------------------------------------------------------------------

    def _tell_rest(self) -> None:
        for each in self.core.delivery_events:
            if each not in self._told:
                self._told.append(each)
                why = "" if each.reason is None else f" of {each.member_id}, {each.reason.value}"
                where = span(each.first_offset, each.last_offset)
                self.tell(f"note: {where}{why}: {each.outcome.value}")
        held = ", ".join(
            f"{span(e.first_offset, e.last_offset)} is {e.member_id}'s"
            for e in self.core.in_flight.standing(100).held
        )
        waiting = ", ".join(
            f"{span(e.first_offset, e.last_offset)} {e.state.name.lower()}"
            for e in self.core.batches()
            if e.state not in (*FINAL, RecordState.ACQUIRED)
        )
        rest = "; ".join(filter(None, (held, waiting))) or "all is done"
        standing = f"from {self.core.start_offset}: {rest}"
        if standing != self._standing:
            self.tell(standing)
        self._standing = standing


def _ordinal(count: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(count, f"{count}th")


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
