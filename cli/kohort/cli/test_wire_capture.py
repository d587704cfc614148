"""Captures: every link layer, IPv4 and IPv6, what is lost, doubled or out of order, damaged files."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from pathlib import Path
from random import Random

import click
import pytest

from kohort.cli.wire_capture import CONNECTIONS_MAX, MISSING, ReadFrame, frames_in
from kohort.cli.wire_packets import PACKET_BYTES_MAX, CaptureError, segments_in
from kohort.protocol.headers import ResponseHeader, frame_request
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

End = tuple[str, int]
CLIENT, BROKER = ("10.0.0.1", 40_000), ("10.0.0.2", 9_092)
CLIENT6, BROKER6 = ("fd00::1", 40_000), ("fd00::2", 9_092)
MOMENT = 1_700_000_000.5
SYN, ACK, PUSH = 0x02, 0x10, 0x08
REPLY = HeartbeatResponse(throttle_time_ms=0, error_code=27).encode(4)


def request(number: int = 7) -> bytes:
    message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m" * 300)
    return b"".join(frame_request(message, 4, number, "app"))


def answer(number: int = 7) -> bytes:
    return (5 + len(REPLY)).to_bytes(4, "big") + ResponseHeader(correlation_id=number).encode(1) + REPLY


# -- packets and files ------------------------------------------------------------------------------------


def tcp(source: End, target: End, sequence: int, data: bytes, flags: int = ACK | PUSH) -> bytes:
    options = b"\x01\x01\x08\x0a" + bytes(8)
    offset = (20 + len(options)) // 4 << 4
    head = struct.pack(">HHIIBBHHH", source[1], target[1], sequence % 2**32, 0, offset, flags, 1, 0, 0)
    return head + options + data


def ip(source: End, target: End, segment: bytes, *, extensions: bytes = b"", kind: int = 6) -> bytes:
    ends = ip_address(source[0]).packed + ip_address(target[0]).packed
    if len(ends) == 8:
        return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(segment), 1, 0x4000, 64, 6, 0) + ends + segment
    head = struct.pack(">IHBB", 6 << 28, len(extensions) + len(segment), kind, 64)
    return head + ends + extensions + segment


def ethernet(packet: bytes, *tags: int) -> bytes:
    kind = 0x0800 if packet[0] >> 4 == 4 else 0x86DD
    inside = b"".join(struct.pack(">HH", tag, 5) for tag in tags) + kind.to_bytes(2, "big") + packet
    return bytes(12) + inside + bytes(max(0, 46 - len(packet)))


def pcap(
    packets: Sequence[bytes], link_type: int = 1, order: str = "<", *, nanoseconds: bool = False
) -> bytes:
    magic, fraction = (0xA1B23C4D, 500_000_000) if nanoseconds else (0xA1B2C3D4, 500_000)
    parts = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 262_144, link_type)]
    for each in packets:
        parts.append(struct.pack(f"{order}IIII", int(MOMENT), fraction, len(each), len(each)) + each)
    return b"".join(parts)


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + size + body + size


def pcapng(
    packets: Sequence[bytes],
    link_type: int = 1,
    order: str = "<",
    resolution: int = 6,
    seconds: float = MOMENT,
) -> bytes:
    """Return a section with another interface in front, blocks of other kinds, and the packets."""
    parts = 2 ** (resolution & 0x7F) if resolution & 0x80 else 10**resolution
    option = struct.pack(f"{order}HHB3xHH", 9, 1, resolution, 0, 0)
    made = block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))
    made += block(order, 1, struct.pack(f"{order}HHI", 101, 0, 0))
    made += block(order, 1, struct.pack(f"{order}HHI", link_type, 0, 0) + option)
    made += block(order, 4, b"names of hosts, perhaps")
    for each in packets:
        moment = int(seconds * parts)
        head = struct.pack(f"{order}IIIII", 1, moment >> 32, moment & 0xFFFFFFFF, len(each), len(each))
        made += block(order, 6, head + each)
    return made


class Talk:
    """Packets of one connection."""

    def __init__(self, client: End = CLIENT, broker: End = BROKER) -> None:
        self.ends = client, broker
        self.firsts = 2**32 - 200, 1_000  # The client's numbers soon begin anew.
        self.opening = [self._packet(side, -1, b"", SYN) for side in (0, 1)]

    def _packet(self, side: int, position: int, data: bytes, flags: int = ACK | PUSH) -> bytes:
        source, target = self.ends[side], self.ends[1 - side]
        return ip(source, target, tcp(source, target, self.firsts[side] + 1 + position, data, flags))

    def says(self, data: bytes, size: int = 100, *, side: int = 0, begin: int = 0) -> list[bytes]:
        """Return the packets in which somebody says this, from that byte of its stream on."""
        starts = range(0, len(data), size)
        return [self._packet(side, begin + at, data[at : at + size]) for at in starts]

    def whole(self) -> list[bytes]:
        """Return the packets of one request and its answer."""
        return [*self.opening, *self.says(request()), *self.says(answer(), side=1)]


def heard(tmp_path: Path, content: bytes, *ports: int) -> list[ReadFrame]:
    path = tmp_path / "capture"
    path.write_bytes(content)
    return list(frames_in(path, frozenset(ports or (9_092,)), shows_secrets=False))


def titles(found: Sequence[ReadFrame]) -> list[str]:
    return [each.problem if each.reading is None else each.reading.title for each in found]


def title(number: int) -> str:
    return f"Heartbeat v4 request, correlation id {number}, {len(request(number))} bytes"


# -- what is read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", ["pcap", "pcap in nanoseconds", "pcapng", "pcapng in 2^-20 s"])
def test_files_of_every_kind_are_read(kind: str, order: str, tmp_path: Path) -> None:
    talk = Talk()
    packets = [ethernet(each) for each in talk.whole()]
    content = {
        "pcap": pcap(packets, order=order),
        "pcap in nanoseconds": pcap(packets, order=order, nanoseconds=True),
        "pcapng": pcapng(packets, order=order),
        "pcapng in 2^-20 s": pcapng(packets, order=order, resolution=0x80 | 20),
    }[kind]
    found = heard(tmp_path, content)
    assert titles(found) == [title(7), f"Heartbeat v4 answer, correlation id 7, {len(answer())} bytes"]
    assert [(each.source, each.target, each.seconds) for each in found] == [
        (CLIENT, BROKER, MOMENT),
        (BROKER, CLIENT, MOMENT),
    ]


def test_sections_that_follow_each_other_have_their_own_order_and_interfaces(tmp_path: Path) -> None:
    talk = Talk()
    first, second = talk.says(request(), 200)
    content = pcapng([ethernet(first)], order="<") + pcapng([bytes(4) + second], 0, ">")
    assert titles(heard(tmp_path, content)) == [title(7)]


def test_packets_without_a_time_are_read(tmp_path: Path) -> None:
    data = b"".join(block("<", 3, struct.pack("<I", len(each)) + each) for each in Talk().says(request()))
    section = block("<", 0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    content = section + block("<", 1, struct.pack("<HHI", 101, 0, 262_144)) + data
    assert titles(heard(tmp_path, content)) == [title(7)]


LINKED: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "BSD loopback": (0, lambda packet: struct.pack("<I", 2) + packet),
    "OpenBSD loopback": (108, lambda packet: struct.pack(">I", 2) + packet),
    "Ethernet": (1, ethernet),
    "Ethernet with two VLANs": (1, lambda packet: ethernet(packet, 0x88A8, 0x8100)),
    "IP alone": (101, lambda packet: packet),
    "IPv4 or IPv6 alone": (228, lambda packet: packet),
    "Linux cooked": (113, lambda packet: bytes(14) + ethernet(packet)[12:14] + packet),
    "Linux cooked 2": (276, lambda packet: ethernet(packet)[12:14] + bytes(18) + packet),
}


@pytest.mark.parametrize("name", LINKED)
@pytest.mark.parametrize("ends", [(CLIENT, BROKER), (CLIENT6, BROKER6)], ids=["IPv4", "IPv6"])
def test_every_link_layer_is_read(name: str, ends: tuple[End, End], tmp_path: Path) -> None:
    link_type, wrapped = LINKED[name]
    talk = Talk(*ends)
    packets = [wrapped(each) for each in [*talk.opening, *talk.says(request())]]
    [found] = heard(tmp_path, pcap(packets, link_type))
    assert (found.source, found.target, titles([found])) == (*ends, [title(7)])


def test_headers_between_ipv6_and_tcp_are_skipped(tmp_path: Path) -> None:
    segment = tcp(CLIENT6, BROKER6, 5, request(), SYN)
    hops, options = bytes((60, 1)) + bytes(14), bytes((44, 0)) + bytes(6)
    fragment = bytes((6, 0)) + bytes(6)
    packet = ip(CLIENT6, BROKER6, segment, extensions=hops + options + fragment, kind=0)
    assert titles(heard(tmp_path, pcap([packet], 101))) == [title(7)]


def test_packets_that_are_not_tcp_are_skipped(tmp_path: Path) -> None:
    talk = Talk()
    datagram = bytearray(talk.says(request())[0])
    datagram[9] = 17
    behind_the_first = bytearray(talk.says(b"of a packet that was cut up")[0])
    behind_the_first[6:8] = b"\x00\x10"
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    packets = [arp, *map(ethernet, (bytes(datagram), bytes(behind_the_first), *talk.says(request()))), b""]
    assert titles(heard(tmp_path, pcap(packets))) == [title(7)]


# -- what TCP does ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_duplicated_reordered_and_resplit_segments_are_reassembled(seed: int, tmp_path: Path) -> None:
    random, talk = Random(seed), Talk()
    numbers = range(1, 9)
    stream = b"".join(map(request, numbers))
    packets = talk.says(stream, random.choice((7, 50, 333)))
    packets += random.choices(packets, k=10)  # Sent twice.
    for _ in range(20):  # Sent again with other limits: some of it has come, some has not.
        begin = random.randrange(len(stream))
        packets += talk.says(stream[begin : begin + random.randrange(1, 600)], 600, begin=begin)
    random.shuffle(packets)
    packets += random.choices(talk.opening, k=2)
    assert titles(heard(tmp_path, pcap([*talk.opening, *packets], 101))) == [title(each) for each in numbers]


def test_every_packet_that_is_captured_twice_counts_once(tmp_path: Path) -> None:
    talk = Talk()
    packets = talk.whole()
    found = heard(tmp_path, pcap([each for each in packets for _ in range(2)], 101))
    assert len(found) == 2


def test_lost_segments_are_reported_and_earlier_frames_are_shown(tmp_path: Path) -> None:
    talk = Talk()
    first, second = request(1), request(2)
    packets = talk.says(first) + talk.says(second, begin=len(first))[1:] + talk.says(answer(1), side=1)
    found = heard(tmp_path, pcap([*talk.opening, *packets], 101))
    assert [text.partition(",")[0] for text in titles(found)] == [
        "Heartbeat v4 request",
        "Heartbeat v4 answer",
        f"{MISSING}: what came after is not shown",
    ]
    assert (found[-1].source, found[-1].target) == (CLIENT, BROKER)


def test_packets_that_the_capture_has_cut_are_missing(tmp_path: Path) -> None:
    talk = Talk()
    whole, *others = talk.says(request() + request(8), 250)
    found = heard(tmp_path, pcap([*talk.opening, whole[:96], *others], 101))
    assert titles(found) == [f"{MISSING}: what came after is not shown"]


def test_a_reused_port_starts_another_conversation(tmp_path: Path) -> None:
    before, after = Talk(), Talk()
    after.firsts = 77_000, 88_000
    opening = [after._packet(side, -1, b"", SYN) for side in (0, 1)]
    packets = [*before.opening, *before.says(request(1))[:2], *opening, *after.says(request(2))]
    packets += after.says(answer(2), side=1)
    found = heard(tmp_path, pcap(packets, 101))
    assert titles(found) == [title(2), f"Heartbeat v4 answer, correlation id 2, {len(answer())} bytes"]


def test_only_the_newest_of_many_connections_are_kept(tmp_path: Path) -> None:
    half = len(request()) // 2
    talks = [Talk((f"10.1.{n >> 8}.{n & 255}", 40_000)) for n in range(CONNECTIONS_MAX + 5)]
    packets = [talk.says(request()[:half], half)[0] for talk in talks]
    packets += [
        packet for talk in (talks[0], talks[-1]) for packet in talk.says(request()[half:], 999, begin=half)
    ]
    found = heard(tmp_path, pcap(packets, 101))
    assert [each.source for each in found if each.reading is not None and not each.reading.problem] == [
        talks[-1].ends[0]
    ]


# -- what is damaged --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pcap, pcapng])
def test_a_truncated_file_is_read_up_to_its_end(kind: object, tmp_path: Path) -> None:
    talk = Talk()
    packets = [*talk.opening, *talk.says(request(1), 999), *talk.says(request(2), 999, begin=len(request(1)))]
    content = (pcap if kind is pcap else pcapng)(packets, 101)
    path = tmp_path / "capture"
    before = 0
    for size in range(4, len(content)):
        path.write_bytes(content[:size])
        count = 0
        try:
            for _ in segments_in(path):
                count += 1
        except CaptureError as error:
            assert str(error) == "the capture is cut short"  # noqa: PT017 - Where it is not, the file ends with a packet.
        assert before <= count <= len(packets)
        before = count
    assert before == len(packets) - 1


def test_frames_before_a_damaged_packet_are_shown(tmp_path: Path) -> None:
    talk = Talk()
    path = tmp_path / "capture"
    path.write_bytes(pcap([*talk.opening, *talk.says(request()), *talk.says(request())], 101)[:-1])
    found = frames_in(path, frozenset((9_092,)), shows_secrets=False)
    assert titles([next(found)]) == [title(7)]
    with pytest.raises(click.ClickException, match="the capture is cut short"):
        next(found)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "neither pcap nor pcapng"),
        (b"nothing of that kind, for 24 bytes and more", "neither pcap nor pcapng"),
        (pcap([])[:23], "cut short"),
        (pcap([b"x"], 147), "link type 147"),
        (pcap([]) + struct.pack("<IIII", 0, 0, 0xFFFFFFF0, 0xFFFFFFF0), "a length of 4294967280"),
        (pcapng([]) + struct.pack("<II", 6, 4), "a length of -4"),
        (pcapng([]) + struct.pack("<II", 6, PACKET_BYTES_MAX + 9), "a length of"),
        (pcapng([]) + block("<", 6, bytes(8)), "a block that is too short"),
        (pcapng([]) + block("<", 6, struct.pack("<IIIII", 9, 0, 0, 0, 0)), "a block that is too short"),
        (block("<", 0x0A0D0D0A, bytes(16)), "a section without its order"),
    ],
)
def test_an_unreadable_capture_is_reported(content: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match=words):
        heard(tmp_path, content)


@pytest.mark.parametrize("seed", range(60))
def test_damaged_captures_raise_no_other_error(seed: int, tmp_path: Path) -> None:
    random, talk = Random(seed), Talk(*random_ends(seed))
    packets = [ethernet(each) for each in talk.whole()]
    content = bytearray((pcap if seed % 2 else pcapng)(packets))
    for _ in range(random.randrange(1, 30)):
        content[random.randrange(4, len(content))] = random.randrange(256)
    try:
        for each in heard(tmp_path, bytes(content)):
            assert each.problem or each.reading is not None
    except click.ClickException as error:
        assert error.message  # noqa: PT017 - Damage may be seen, or lie where nobody looks.


def random_ends(seed: int) -> tuple[End, End]:
    return (CLIENT, BROKER) if seed % 3 else (CLIENT6, BROKER6)


def test_a_port_without_a_broker_is_reported(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match="the capture has 9092, 40000"):
        heard(tmp_path, pcap(Talk().says(request()), 101), 1234)
