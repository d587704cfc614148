"""Kafka's frames in a capture of packets: TCP put together, each connection a conversation. Needs scapy."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import click

from kohort.cli.wire_frames import Conversation, Reading
from kohort.protocol.errors import WireError
from kohort.protocol.framing import LENGTH_BYTES, FrameReader

FRAME_BYTES_MAX = 512 << 20
SEQUENCE_BITS = 32
WAITING_BYTES_MAX = 64 << 20  # Of one side: what came too early, since packets were lost.

End = tuple[str, int]


class Heard(NamedTuple):
    """One frame of a connection, or why there are no more of them."""

    seconds: float
    source: End
    target: End
    reading: Reading | None
    problem: str = ""


class Segment(NamedTuple):
    """The part of a TCP packet that counts."""

    seconds: float
    source: End
    target: End
    sequence: int
    begins: bool
    data: bytes


class Stream:
    """One direction of a connection: bytes in their order, whatever order packets came in."""

    def __init__(self, first: Segment) -> None:
        # Where the capture began later than the connection, it is with a frame's beginning, hopefully.
        self._next = _after(first.sequence, 1) if first.begins else first.sequence
        self._early: dict[int, bytes] = {}
        self._frames = FrameReader(FRAME_BYTES_MAX)
        self.is_broken = False

    def take(self, segment: Segment) -> Iterator[bytes]:
        """Yield the frames that are whole now, with their lengths. Raises: WireError where there are none."""
        if not segment.data or self.is_broken:
            return
        sequence = _after(segment.sequence, 1) if segment.begins else segment.sequence
        self._early[sequence] = max(self._early.get(sequence, b""), segment.data, key=len)
        while (data := self._due()) is not None:
            for frame in self._frames.receive(data):
                yield len(frame).to_bytes(LENGTH_BYTES, "big") + bytes(frame)
        if sum(map(len, self._early.values())) > WAITING_BYTES_MAX:
            raise WireError("packets are missing in the capture")

    @property
    def lacks(self) -> bool:
        """Whether packets are missing before some that came."""
        return bool(self._early)

    def _due(self) -> bytes | None:
        """Return the next bytes, without what was sent twice; None until they have come."""
        assert self._next is not None
        for sequence, data in sorted(
            self._early.items(), key=lambda each: _distance(self._next or 0, each[0])
        ):
            overlap = -_distance(self._next, sequence)
            if overlap < 0:
                return None
            del self._early[sequence]
            if overlap < len(data):
                self._next = _after(sequence, len(data))
                return data[overlap:]
        return None


def _after(sequence: int, count: int) -> int:
    return (sequence + count) % (1 << SEQUENCE_BITS)


def _distance(start: int, sequence: int) -> int:
    """Return how far a sequence number is ahead, negative where it is behind: they wrap around."""
    ahead = (sequence - start) % (1 << SEQUENCE_BITS)
    return ahead - (1 << SEQUENCE_BITS) if ahead >= 1 << (SEQUENCE_BITS - 1) else ahead


def heard_in(path: Path, ports: frozenset[int], *, shows_secrets: bool) -> Iterator[Heard]:
    """Yield what clients and brokers say in a capture, in the order of its packets.

    Brokers are known by their ports. Raises: click.ClickException where nothing is to be read.
    """
    conversations: dict[tuple[End, End], Conversation] = {}
    streams: dict[tuple[End, End], Stream] = {}
    seen: set[int] = set()
    for each in _segments(path):
        seen.update((each.source[1], each.target[1]))
        is_request = each.target[1] in ports
        if not is_request and each.source[1] not in ports:
            continue
        client, broker = (each.source, each.target) if is_request else (each.target, each.source)
        if each.begins and is_request:
            conversations[client, broker] = Conversation(shows_secrets=shows_secrets)
        talk = conversations.setdefault((client, broker), Conversation(shows_secrets=shows_secrets))
        if each.begins or (each.source, each.target) not in streams:
            streams[each.source, each.target] = Stream(each)
        stream = streams[each.source, each.target]
        try:
            for frame in stream.take(each):
                reading = talk.request(frame) if is_request else talk.answer(frame)
                yield Heard(each.seconds, each.source, each.target, reading)
        except WireError as error:
            stream.is_broken = True
            yield Heard(each.seconds, each.source, each.target, None, str(error))
    if seen and not streams:
        there = ", ".join(map(str, sorted(seen)[:20]))
        raise click.ClickException(f"no TCP packet has a broker's port; --port says which: there are {there}")
    for (source, target), stream in streams.items():
        if stream.lacks and not stream.is_broken:
            yield Heard(
                0.0, source, target, None, "packets are missing in the capture: what came after is not shown"
            )


def _segments(path: Path) -> Iterator[Segment]:
    """Yield the TCP packets of a pcap or pcapng file. Raises: click.ClickException."""
    try:
        utils: Any = import_module("scapy.utils")
        inet: Any = import_module("scapy.layers.inet")
        inet6: Any = import_module("scapy.layers.inet6")
        import_module("scapy.layers.l2")
        error_kind: Any = import_module("scapy.error").Scapy_Exception
    except ModuleNotFoundError:
        raise click.ClickException("captures need scapy: pip install 'kohort[capture]'") from None
    try:
        with utils.PcapReader(str(path)) as packets:
            for packet in packets:
                tcp = packet.getlayer(inet.TCP)
                ip = packet.getlayer(inet.IP) or packet.getlayer(inet6.IPv6)
                if tcp is None or ip is None:
                    continue
                yield Segment(
                    seconds=float(packet.time),
                    source=(ip.src, tcp.sport),
                    target=(ip.dst, tcp.dport),
                    sequence=tcp.seq,
                    begins="S" in tcp.flags,
                    data=_payload(ip, tcp),
                )
    except (error_kind, EOFError) as error:
        raise click.ClickException(f"{path}: {error}") from None


def _payload(ip: Any, tcp: Any) -> bytes:
    """Return the bytes behind a TCP header, without what fills a short Ethernet frame up."""
    data = bytes(tcp.payload.original if hasattr(tcp.payload, "original") else tcp.payload)
    if ip.version == 4 and ip.len is not None:
        return data[: max(0, ip.len - ip.ihl * 4 - tcp.dataofs * 4)]
    return data
