"""What travels with a record that is retried, put aside or dead, and what its service is told of it: headers.

kohort-forward-attempt   how often it was pushed, as decimal digits
kohort-forward-due-ms    when it is to be pushed again, in milliseconds since 1970
kohort-forward-of        topic, partition and offset of the record that it was, as `orders/0/17`
kohort-forward-why       what the service said last
"""

from typing import NamedTuple

from kohort.client.values import AnyRecord, Headers

ATTEMPT = "kohort-forward-attempt"
DUE = "kohort-forward-due-ms"
ORIGIN = "kohort-forward-of"
WHY = "kohort-forward-why"
_OURS = {ATTEMPT, DUE, ORIGIN, WHY}


class Envelope(NamedTuple):
    """How often a record was pushed, when it is due, and where it was first."""

    attempts: int
    due_ms: int
    origin: str


def envelope_of(record: AnyRecord) -> Envelope:
    """Return what travels with a record; one of the topic itself was never pushed, and is due."""
    origin = record.header(ORIGIN)
    place = f"{record.topic}/{record.partition}/{record.offset}"
    return Envelope(
        _number(record.header(ATTEMPT)),
        _number(record.header(DUE)),
        place if origin is None else origin.decode(errors="replace"),
    )


def with_envelope(record: AnyRecord, envelope: Envelope, why: str) -> Headers:
    """Return a record's headers with these in place of older ones."""
    return (
        *own_headers(record),
        (ATTEMPT, b"%d" % envelope.attempts),
        (DUE, b"%d" % envelope.due_ms),
        (ORIGIN, envelope.origin.encode()),
        (WHY, why.encode()),
    )


def own_headers(record: AnyRecord) -> Headers:
    """Return the headers that are the record's own."""
    return tuple(each for each in record.headers if each[0] not in _OURS)


def _number(data: bytes | None) -> int:
    return int(data) if data is not None and data.isdigit() else 0
