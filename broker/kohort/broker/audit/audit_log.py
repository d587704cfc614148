"""Formats the lines of the audit log: logins, changes, and uses of resources.

    {"time":"2026-11-26T18:20:00.123Z","event":"change","principal":"User:alice","host":"10.0.0.1",...}

A consumer of a topic sends many requests a second. So the first use writes a line, and the next line, after
`REPEAT_MS`, has the number of uses since then. Every change writes a line. Refused and failed requests have a
limit of lines per second; the others are only counted, so that a client cannot rotate the file until older
lines are deleted. The uses of each principal have such a limit, too. A use without a line writes one at the
next use.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from kohort.broker.audit.file import AuditFile
from kohort.broker.runtime.clock import Clock

REPEAT_MS = 600_000
KEPT_MAX = 10_000
"""The number of remembered allowed uses, and of refused ones. The least recently used one is forgotten first,
and its next use counts as the first."""
TEXT_MAX = 256
REFUSALS_PER_SECOND_MAX = 50
USES_PER_SECOND_MAX = 200
"""For each principal."""
LOGIN = "LOGIN"

Key = tuple[str, str, str, str, bool]


class AuditLog:
    """Formats the lines. The loop's thread only."""

    def __init__(
        self, write: Callable[[bytes], None], clock: Clock, write_use: Callable[[bytes], None] | None = None
    ) -> None:
        """Pass lines to `write`, and lines about uses to `write_use`, if given."""
        self._write = write
        self._write_use = write_use or write
        self._clock = clock
        self._second = -1
        self._refusals = 0  # in that second
        self._left_out = 0
        self._uses_told: Counter[str] = Counter()  # in that second, by principal
        self._uses: OrderedDict[Key, list[int]] = OrderedDict()
        # Separate, because any client can invent names.
        self._refused: OrderedDict[Key, list[int]] = OrderedDict()

    def used(
        self, principal: str, host: str, api: str, operation: str, resource: str, *, allowed: bool
    ) -> None:
        """Log that a principal has used a resource, or that its use was refused."""
        if len(resource) + len(principal) > TEXT_MAX:  # Keys are stored, and names may have 32 KB.
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
        self._write_line(
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
        """Log a login, or a failed login with its reason in `refusal`."""
        if not refusal:
            self.used(principal, host, mechanism, LOGIN, "CLUSTER:kafka-cluster", allowed=True)
        elif self.may_tell_refusal():
            self.write_event(
                "login", principal=principal, host=host, mechanism=mechanism, allowed=False, reason=refusal
            )

    def may_tell_refusal(self) -> bool:
        """Return whether one more refusal may be logged in this second. Others are counted."""
        self._now_ms()
        self._refusals += 1
        self._left_out += self._refusals > REFUSALS_PER_SECOND_MAX
        return self._refusals <= REFUSALS_PER_SECOND_MAX

    def _now_ms(self) -> int:
        """Return the time. If a new second has begun, log what was left out in the last one."""
        now_ms = self._clock.now_ms()
        if now_ms // 1000 != self._second:
            self._begin_second(now_ms // 1000)
        return now_ms

    def _begin_second(self, second: int) -> None:
        left_out, self._left_out, self._refusals, self._second = self._left_out, 0, 0, second
        told, self._uses_told = self._uses_told, Counter()
        if left_out:
            self.write_event("left out", refusals=left_out)
        for principal, count in told.items():
            if count > USES_PER_SECOND_MAX:
                self._write_line(
                    self._write_use, "left out", principal=principal, uses=count - USES_PER_SECOND_MAX
                )

    def _may_tell_use(self, principal: str) -> bool:
        """Return whether one more use of the principal may be logged in this second."""
        self._uses_told[principal] += 1
        return self._uses_told[principal] <= USES_PER_SECOND_MAX

    def write_event(self, event: str, **facts: object) -> None:
        """Write a line."""
        self._write_line(self._write, event, **facts)

    def _write_line(self, write: Callable[[bytes], None], event: str, **facts: object) -> None:
        moment = datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC)
        time = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        shown = {name: cut(value) if isinstance(value, str) else value for name, value in facts.items()}
        write(msgspec.json.encode({"time": time, "event": event, **shown}))


def cut(text: str) -> str:
    """Return the text shortened, with characters escaped that are not valid in UTF-8."""
    short = text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}..."
    return short.encode("utf-8", "backslashreplace").decode()


def open_audit_log(
    path: str, *, size_bytes_max: int, files_max: int, clock: Clock
) -> "tuple[AuditFile, AuditLog]":
    """Return the file and the audit log that writes to it. Raises: OSError."""
    file = AuditFile(path, size_bytes_max=size_bytes_max, files_max=files_max)
    return file, AuditLog(file.write, clock, file.write_use)
