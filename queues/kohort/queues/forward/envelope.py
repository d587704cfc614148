"""What travels with a record that is retried, put aside or dead, and what its service is told of it: headers.

kohort-forward-attempt   how often it was pushed, as decimal digits
kohort-forward-due-ms    when it is to be pushed again, in milliseconds since 1970
kohort-forward-of        topic, partition and offset of the record that it was, as `orders/0/17`
kohort-forward-why       what the service said last

They count in topics of the proxy's own alone. In the topic itself anybody may write anything, and what is
another destination's dead letter begins anew.
"""

import re
from typing import NamedTuple

from kohort.client.values import AnyRecord, Headers
from kohort.queues.copying import WHY_LENGTH_MAX

ATTEMPT = "kohort-forward-attempt"
DUE = "kohort-forward-due-ms"
ORIGIN = "kohort-forward-of"
WHY = "kohort-forward-why"
_OURS = {ATTEMPT, DUE, ORIGIN, WHY}
_PLACE = re.compile(r"[A-Za-z0-9._-]{1,249}/[0-9]{1,10}/[0-9]{1,19}")
_DIGITS_MAX = 15


class Envelope(NamedTuple):
    """How often a record was pushed, when it is due, and where it was first."""

    attempts: int
    due_ms: int
    origin: str


def envelope_of(record: AnyRecord, topic: str) -> Envelope:
    """Return what travels with a record of a destination; one of its `topic` was never pushed, and is due."""
    place = f"{record.topic}/{record.partition}/{record.offset}"
    if record.topic == topic:
        return Envelope(0, 0, place)
    origin = (record.header(ORIGIN) or b"").decode(errors="replace")
    return Envelope(
        _number(record.header(ATTEMPT)),
        _number(record.header(DUE)),
        origin if _PLACE.fullmatch(origin) else place,
    )


def with_envelope(record: AnyRecord, envelope: Envelope, why: str) -> Headers:
    """Return a record's headers with these in place of older ones."""
    return (
        *own_headers(record),
        (ATTEMPT, b"%d" % envelope.attempts),
        (DUE, b"%d" % envelope.due_ms),
        (ORIGIN, envelope.origin.encode()),
        (WHY, why[:WHY_LENGTH_MAX].encode(errors="replace")),
    )


def own_headers(record: AnyRecord) -> Headers:
    """Return the headers that are the record's own."""
    return tuple(each for each in record.headers if each[0] not in _OURS)


def _number(data: bytes | None) -> int:
    return int(data) if data is not None and data.isdigit() and len(data) <= _DIGITS_MAX else 0
