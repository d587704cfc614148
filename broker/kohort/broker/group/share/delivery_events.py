"""Events of records that were not accepted: released, rejected, or given up."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

KEPT = 64


class Reason(Enum):
    """How a record left its member's hands."""

    RELEASED = "released"
    REJECTED = "rejected"
    LOCK_ENDED = "lock_ended"
    SESSION_CLOSED = "session_closed"
    CONNECTION_LOST = "connection_lost"


class Outcome(Enum):
    """The result of a delivery."""

    COMES_AGAIN = "comes_again"
    GIVEN_UP = "given_up"
    WAITS_FOR_DEAD_LETTER = "waits_for_dead_letter"
    DEAD_LETTER = "dead_letter"
    NO_DEAD_LETTER = "no_dead_letter"


@dataclass(slots=True)
class DeliveryEvent:
    """One thing that happened to offsets beside each other, first and last included."""

    at_ms: int
    outcome: Outcome
    reason: Reason | None
    """None if only the dead letter is reported: its reason was reported before."""
    member_id: str
    delivery_count: int
    first_offset: int
    last_offset: int


class DeliveryEvents:
    """The last `KEPT` things that happened in one share partition, the newest last.

    Consecutive offsets with the same event in the same millisecond are one of them. If
    all records are accepted, nothing is kept.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: deque[DeliveryEvent] | None = None

    def __iter__(self) -> Iterator[DeliveryEvent]:
        """Go through them, the oldest first."""
        return iter(self._kept or ())

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._kept or ())

    def add(
        self,
        at_ms: int,
        outcome: Outcome,
        reason: Reason | None,
        first_offset: int,
        last_offset: int,
        *,
        member_id: str,
        delivery_count: int,
    ) -> None:
        """Note what happened to offsets beside each other, first and last included."""
        if self._kept is None:
            self._kept = deque(maxlen=KEPT)
        last = self._kept[-1] if self._kept else None
        if (
            last is not None
            and last.last_offset + 1 == first_offset
            and (last.at_ms, last.outcome, last.reason) == (at_ms, outcome, reason)
            and (last.member_id, last.delivery_count) == (member_id, delivery_count)
        ):
            last.last_offset = last_offset
        else:
            self._kept.append(
                DeliveryEvent(at_ms, outcome, reason, member_id, delivery_count, first_offset, last_offset)
            )
