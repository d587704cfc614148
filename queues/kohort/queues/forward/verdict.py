"""What a service's answer means for the record that it was sent: pure.

HTTP     2xx done; 408, 425, 429 and 5xx retry; any other status a dead letter. The header `kafka-action`
         (Retry, Stash, Skip) decides instead where the status is not 2xx. A retry waits for
         `kafka-retry-delay-ms`, or for the seconds of `Retry-After`.
gRPC     OK done; RESOURCE_EXHAUSTED, UNAVAILABLE, DEADLINE_EXCEEDED and ABORTED retry; any other code a dead
         letter. The trailing metadata `kafka-action` and `kafka-retry-delay-ms` are as with HTTP.

Source: the message statuses of uber/uForwarder, whose stash is a dead letter with another name.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

ACTION = "kafka-action"
RETRY_DELAY = "kafka-retry-delay-ms"
RETRY_AFTER = "retry-after"
DELAY_MS_MAX = 86_400_000
_DIGITS_MAX = 12
_RETRIED_STATUSES = {408, 425, 429}
_RETRIED_CODES = {"RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED"}


class Action(Enum):
    """What is done with a record."""

    DONE = "done"
    RETRY = "retry"  # Pushed again later; too often, and it is a dead letter.
    STASH = "stash"  # Put aside, until a command brings it back.
    SKIP = "skip"
    DEAD = "dead"
    APART = "apart"  # Its route is behind: it goes on in the route's own topic, and that is no attempt.
    UNREACHED = "unreached"  # Nobody was there: it is pushed again, and that does not count.


class Verdict(NamedTuple):
    """An action, for a retry how long it waits if the service said so, and why."""

    action: Action
    delay_ms: int | None = None
    why: str = ""
    is_failure: bool = False
    """Whether the service is in trouble, and not the record: such answers open the circuit."""
    is_answered: bool = False
    """Whether that is what the service said itself."""


DONE = Verdict(Action.DONE)


def of_http(status: int, headers: Mapping[str, str]) -> Verdict:
    """Return the verdict of an HTTP answer; the headers' names are in small letters."""
    if 200 <= status < 300:
        return DONE
    why = f"status {status}"
    delay_ms = _delay_ms(headers.get(RETRY_DELAY))
    if delay_ms is None:
        seconds = headers.get(RETRY_AFTER, "")
        delay_ms = _delay_ms(f"{seconds.strip()}000" if seconds.strip() else None)
    is_retried = status in _RETRIED_STATUSES or status >= 500
    action = _named(headers.get(ACTION)) or (Action.RETRY if is_retried else Action.DEAD)
    return Verdict(action, delay_ms, why, is_failure=status >= 500 or status == 429, is_answered=True)


def of_grpc(code: str, metadata: Mapping[str, str], details: str = "") -> Verdict:
    """Return the verdict of a gRPC status, `code` by its name."""
    if code == "OK":
        return DONE
    why = f"{code} {details}".rstrip()
    default = Action.RETRY if code in _RETRIED_CODES else Action.DEAD
    action = _named(metadata.get(ACTION)) or default
    delay_ms = _delay_ms(metadata.get(RETRY_DELAY))
    return Verdict(action, delay_ms, why, is_failure=code in _RETRIED_CODES, is_answered=True)


def timed_out(timeout_ms: int) -> Verdict:
    """Return the verdict where no answer came in time."""
    return Verdict(Action.RETRY, None, f"no answer within {timeout_ms} ms", is_failure=True)


def unreached(why: str) -> Verdict:
    """Return the verdict where the service was not reached."""
    return Verdict(Action.UNREACHED, None, why, is_failure=True)


def _named(text: str | None) -> Action | None:
    found = (text or "").strip().lower()
    return Action(found) if found in {"retry", "stash", "skip"} else None


def _delay_ms(text: str | None) -> int | None:
    digits = (text or "").strip()
    if not digits.isascii() or not digits.isdecimal():
        return None
    return min(int(digits[:_DIGITS_MAX]), DELAY_MS_MAX)  # So many digits are more than that in any case.
