"""What is told of: logins, changes, and who has used what, the last not each time anew.

    {"time":"2026-11-26T18:20:00.123Z","event":"change","principal":"User:alice","host":"10.0.0.1",...}

Whoever reads a topic asks many times a second. So one line tells of the first time, and the next one, after
`REPEAT_MS`, how often there was the same meanwhile. Changes are told of each time. Of what is refused, or
comes to nothing, so many lines a second are written, and the others counted: who is refused shall not turn
the file over until all that came before is gone. Nor shall who may use any name, and makes names up: of each
principal's uses so many lines a second are written; what is left out is told of when it is used again.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from kohort.broker.audit.file import AuditFile
from kohort.broker.runtime.clock import Clock

REPEAT_MS = 600_000
KEPT_MAX = 10_000
"""Whose uses are remembered, allowed ones and refused ones each; of the one that was used longest ago the
next is told of as the first."""
TEXT_MAX = 256
REFUSALS_PER_SECOND_MAX = 50
USES_PER_SECOND_MAX = 200
"""Of one principal."""
LOGIN = "LOGIN"

Key = tuple[str, str, str, str, bool]


class Trail:
    """Makes the lines. The loop's thread only."""

    def __init__(
        self, write: Callable[[bytes], None], clock: Clock, write_use: Callable[[bytes], None] | None = None
    ) -> None:
        """`write` takes lines, and `write_use`, if there is one, those of uses, of which there are most."""
        self._write = write
        self._write_use = write_use or write
        self._clock = clock
        self._second = -1
        self._refusals = 0  # In that second.
        self._left_out = 0
        self._uses_told: Counter[str] = Counter()  # In that second, by principal.
        self._uses: OrderedDict[Key, list[int]] = OrderedDict()
        self._refused: OrderedDict[Key, list[int]] = (
            OrderedDict()
        )  # Apart: anybody can name what there is not.

    def used(
        self, principal: str, host: str, api: str, operation: str, resource: str, *, allowed: bool
    ) -> None:
        """Note that somebody may, or may not, do that to a resource, and wanted to."""
        if len(resource) + len(principal) > TEXT_MAX:  # A key is kept: of names that may be 32 KB long.
            principal, resource = cut(principal), cut(resource)
        key = (principal, host, operation, resource, allowed)
        now_ms = self._now_ms()
        uses = self._uses if allowed else self._refused
        use = uses.get(key)
        if use is not None:
            uses.move_to_end(key)
            use[1] += 1
            if now_ms - use[0] < REPEAT_MS:
                return
        if allowed and not self._may_tell_use(principal):
            return
        if use is None:
            uses[key] = [now_ms, 0]
            if len(uses) > KEPT_MAX:
                uses.popitem(last=False)
            times = 1
        else:
            times, use[0], use[1] = use[1], now_ms, 0
        if not allowed and not self.may_tell_refusal():
            return
        self._tell(
            self._write_use,
            "use",
            principal=principal,
            host=host,
            api=api,
            operation=operation,
            resource=resource,
            allowed=allowed,
            times=times,
        )

    def login(self, principal: str, host: str, mechanism: str, refusal: str = "") -> None:
        """Note somebody who has shown who it is, or has not, for which `refusal` is the reason."""
        if not refusal:
            self.used(principal, host, mechanism, LOGIN, "CLUSTER:kafka-cluster", allowed=True)
        elif self.may_tell_refusal():
            self.tell(
                "login", principal=principal, host=host, mechanism=mechanism, allowed=False, reason=refusal
            )

    def may_tell_refusal(self) -> bool:
        """Return whether there is room for a line in this second; its first one tells of the others."""
        self._now_ms()
        self._refusals += 1
        self._left_out += self._refusals > REFUSALS_PER_SECOND_MAX
        return self._refusals <= REFUSALS_PER_SECOND_MAX

    def _now_ms(self) -> int:
        """Return the time; what was left out in the second before is told of where another one has begun."""
        now_ms = self._clock.now_ms()
        if now_ms // 1000 != self._second:
            self._begin_second(now_ms // 1000)
        return now_ms

    def _begin_second(self, second: int) -> None:
        left_out, self._left_out, self._refusals, self._second = self._left_out, 0, 0, second
        told, self._uses_told = self._uses_told, Counter()
        if left_out:
            self.tell("left out", refusals=left_out)
        for principal, count in told.items():
            if count > USES_PER_SECOND_MAX:
                self._tell(self._write_use, "left out", principal=principal, uses=count - USES_PER_SECOND_MAX)

    def _may_tell_use(self, principal: str) -> bool:
        """Return whether there is room for a line of a principal's use in this second."""
        self._uses_told[principal] += 1
        return self._uses_told[principal] <= USES_PER_SECOND_MAX

    def tell(self, event: str, **facts: object) -> None:
        """Write a line."""
        self._tell(self._write, event, **facts)

    def _tell(self, write: Callable[[bytes], None], event: str, **facts: object) -> None:
        moment = datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC)
        time = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        shown = {name: cut(value) if isinstance(value, str) else value for name, value in facts.items()}
        write(msgspec.json.encode({"time": time, "event": event, **shown}))


def cut(text: str) -> str:
    """Return text that is short, and can be written: what is no text in UTF-8 is escaped."""
    short = text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}..."
    return short.encode("utf-8", "backslashreplace").decode()


def open_trail(path: str, *, size_bytes_max: int, files_max: int, clock: Clock) -> "tuple[AuditFile, Trail]":
    """Return the file and what writes to it. Raises: OSError."""
    file = AuditFile(path, size_bytes_max=size_bytes_max, files_max=files_max)
    return file, Trail(file.write, clock, file.write_use)
