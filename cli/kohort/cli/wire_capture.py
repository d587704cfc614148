"""Kafka's frames in a capture of packets: TCP put together, each connection a conversation."""

from collections import OrderedDict
from collections.abc import Iterator
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple

import click

from kohort.cli.wire_frames import FRAME_BYTES_MAX, Conversation, Reading
from kohort.cli.wire_packets import CaptureError, End, Segment, segments_in
from kohort.protocol.errors import WireError
from kohort.protocol.framing import LENGTH_BYTES, FrameReader

SEQUENCES = 1 << 32
WAITING_BYTES_MAX = 64 << 20  # Of one side: what came too early, since packets were lost.
CONNECTIONS_MAX = 10_000
"""Of so many is known how far they are; the one that was silent for longest is forgotten."""
MISSING = "packets are missing in the capture"


class ReadFrame(NamedTuple):
    """One frame of a connection, or why there are no more of them."""

    seconds: float
    source: End
    target: End
    reading: Reading | None
    problem: str = ""


class Stream:
    """One direction of a connection: bytes in their order, whatever order packets came in."""

    def __init__(self, first: Segment) -> None:
        # Where the capture began later than the connection, it is with a frame's beginning, hopefully.
        self._first = first.sequence
        self._begins = first.begins
        self._next = _sequence_of_data(first)
        self._position = 0  # Of the next byte, counted from the first.
        self._early: dict[int, bytes] = {}  # By position: what came before its turn.
        self._order: list[int] = []  # Their positions as a heap.
        self._early_bytes = 0
        self._frames = FrameReader(FRAME_BYTES_MAX)
        self.is_broken = False

    def is_begun_by(self, segment: Segment) -> bool:
        """Whether this is the packet with which the connection began, sent or captured once more."""
        return self._begins and segment.sequence == self._first

    def take(self, segment: Segment) -> Iterator[bytes]:
        """Yield the frames that are whole now, with their lengths. Raises: WireError where there are none."""
        if not segment.data or self.is_broken:
            return
        self._keep(self._position + _distance(self._next, _sequence_of_data(segment)), segment.data)
        while self._order and self._order[0] <= self._position:
            position = heappop(self._order)
            data = self._early.pop(position)
            self._early_bytes -= len(data)
            new = data[self._position - position :]  # Without what was sent twice.
            self._position += len(new)
            self._next = (self._next + len(new)) % SEQUENCES
            for frame in self._frames.receive(new):
                yield len(frame).to_bytes(LENGTH_BYTES, "big") + bytes(frame)
        if self._early_bytes > WAITING_BYTES_MAX:
            self._early.clear()
            raise WireError(MISSING)

    def _keep(self, position: int, data: bytes) -> None:
        before = self._early.get(position)
        if before is None:
            heappush(self._order, position)
        elif len(before) >= len(data):
            return
        self._early[position] = data
        self._early_bytes += len(data) - len(before or b"")

    @property
    def lacks(self) -> bool:
        """Whether packets are missing before some that came."""
        return bool(self._early)


def _sequence_of_data(segment: Segment) -> int:
    """Return the number of a segment's first byte: the packet that begins a connection counts as one."""
    return (segment.sequence + segment.begins) % SEQUENCES


def _distance(start: int, sequence: int) -> int:
    """Return how far a sequence number is ahead, negative where it is behind: they wrap around."""
    ahead = (sequence - start) % SEQUENCES
    return ahead - SEQUENCES if ahead >= SEQUENCES // 2 else ahead


class Connections:
    """The streams of both directions, and what was asked on each connection."""

    def __init__(self, *, shows_secrets: bool) -> None:
        self._shows_secrets = shows_secrets
        self._known: OrderedDict[tuple[End, End], tuple[Conversation, dict[End, Stream]]] = OrderedDict()

    def of(self, segment: Segment, *, is_request: bool) -> tuple[Conversation, Stream]:
        """Return what a segment belongs to; one that begins a connection takes the place of any before."""
        source, target = segment.source, segment.target
        key = (source, target) if is_request else (target, source)
        talk, streams = self._known.get(key, (None, {}))
        known = streams.get(source)
        begins = segment.begins and not (known is not None and known.is_begun_by(segment))
        if talk is None or (begins and is_request):
            talk, streams = Conversation(shows_secrets=self._shows_secrets), {}
            self._known[key] = talk, streams
        if known is None or begins:
            streams[source] = known = Stream(segment)
        self._known.move_to_end(key)
        while len(self._known) > CONNECTIONS_MAX:
            self._known.popitem(last=False)
        return talk, known

    def lacking(self) -> Iterator[tuple[End, End]]:
        """Yield the directions in which packets are missing before some that came."""
        for (client, broker), (_, streams) in self._known.items():
            for source, stream in streams.items():
                if stream.lacks and not stream.is_broken:
                    yield source, broker if source == client else client


def frames_in(path: Path, ports: frozenset[int], *, shows_secrets: bool) -> Iterator[ReadFrame]:
    """Yield what clients and brokers say in a capture, in the order of its packets.

    Brokers are known by their ports. Raises: click.ClickException where nothing is to be read, or no more.
    """
    connections = Connections(shows_secrets=shows_secrets)
    seen: set[int] = set()
    damage: Exception | None = None
    has_any = False
    segments = segments_in(path)
    while True:
        try:
            each = next(segments, None)
        except (CaptureError, OSError) as error:
            damage, each = error, None
        if each is None:
            break
        is_request = each.target[1] in ports
        if not is_request and each.source[1] not in ports:
            seen.update((each.source[1], each.target[1]))
            continue
        has_any = True
        yield from _frames_of(each, *connections.of(each, is_request=is_request), is_request=is_request)
    for source, target in connections.lacking():
        yield ReadFrame(0.0, source, target, None, f"{MISSING}: what came after is not shown")
    if damage is not None:
        raise click.ClickException(f"{path}: {damage}")
    if seen and not has_any:
        there = ", ".join(map(str, sorted(seen)[:20]))
        raise click.ClickException(
            f"no TCP packet has the broker's port; give --port: the capture has {there}"
        )


def _frames_of(
    segment: Segment, talk: Conversation, stream: Stream, *, is_request: bool
) -> Iterator[ReadFrame]:
    """Yield the frames that a segment completes, or why there are no more."""
    seconds, source, target = segment.seconds, segment.source, segment.target
    try:
        for frame in stream.take(segment):
            yield ReadFrame(
                seconds, source, target, talk.request(frame) if is_request else talk.answer(frame)
            )
    except WireError as error:
        stream.is_broken = True
        yield ReadFrame(seconds, source, target, None, str(error))
