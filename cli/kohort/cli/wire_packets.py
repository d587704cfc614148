"""TCP segments out of captures of packets: pcap and pcapng, the link layers that tcpdump writes, IPv4, IPv6.

Sources: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng, https://www.tcpdump.org/linktypes.html, RFC 791,
RFC 8200 and RFC 9293.
"""

import struct
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import BinaryIO, NamedTuple

End = tuple[str, int]

PACKET_BYTES_MAX = 16 << 20
"""No packet is larger, and no block of options: a damaged length does not take the memory."""
PCAP_MAGICS = {
    b"\xd4\xc3\xb2\xa1": ("<", 1_000_000),
    b"\xa1\xb2\xc3\xd4": (">", 1_000_000),
    b"\x4d\x3c\xb2\xa1": ("<", 1_000_000_000),
    b"\xa1\xb2\x3c\x4d": (">", 1_000_000_000),
}
"""How numbers stand there, and how many parts a second has."""
SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, PACKET = 0x0A0D0D0A, 1, 2, 3, 6
"""Blocks of pcapng that matter; the others are passed over."""
SECTION_BYTES = SECTION.to_bytes(4, "big")
SECTION_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
TIME_RESOLUTION, TIME_OFFSET = 9, 14
MICROSECONDS = 1_000_000

VLAN_TYPES = frozenset((0x8100, 0x88A8, 0x9100))
IPV4, IPV6, TCP, FRAGMENT, AUTHENTICATION = 0x0800, 0x86DD, 6, 44, 51
EXTENSIONS = frozenset((0, 43, 60, AUTHENTICATION, FRAGMENT))
"""Headers between IPv6's and TCP's: hop by hop, routing, destination options and so on."""
SYN = 0x02


class CaptureError(Exception):
    """The file is none that can be read, or ends in the middle; what stands before the damage was read."""


class Segment(NamedTuple):
    """The part of a TCP packet that counts."""

    seconds: float
    source: End
    target: End
    sequence: int
    begins: bool
    data: bytes


class Packet(NamedTuple):
    """A captured packet."""

    seconds: float
    link_type: int
    data: bytes


class Interface(NamedTuple):
    """Where packets of a pcapng file were captured, and how it counts time."""

    link_type: int
    snap_bytes: int
    parts_a_second: int
    offset_seconds: int


def segments_in(path: Path) -> Iterator[Segment]:
    """Yield the TCP segments of a capture in its order. Raises: CaptureError, OSError."""
    with path.open("rb") as file:
        for packet in _packets(file):
            within = LINKS.get(packet.link_type)
            if within is None:
                raise CaptureError(f"packets of link type {packet.link_type} are none that kohort can read")
            segment = _segment(packet.seconds, within(packet.data))
            if segment is not None:
                yield segment


# -- files ------------------------------------------------------------------------------------------------


def _packets(file: BinaryIO) -> Iterator[Packet]:
    magic = file.read(4)
    if magic in PCAP_MAGICS:
        yield from _pcap(file, *PCAP_MAGICS[magic])
    elif magic == SECTION_BYTES:
        yield from _pcapng(file)
    else:
        raise CaptureError("this is neither pcap nor pcapng")


def _taken(file: BinaryIO, size: int) -> bytes:
    """Return so many bytes. Raises: CaptureError where there are fewer."""
    if not 0 <= size <= PACKET_BYTES_MAX:
        raise CaptureError(f"the capture is damaged: a length of {size}")
    data = file.read(size)
    if len(data) < size:
        raise CaptureError("the capture is cut short")
    return data


def _pcap(file: BinaryIO, order: str, parts_a_second: int) -> Iterator[Packet]:
    (network,) = struct.unpack(f"{order}16xI", _taken(file, 20))
    header = struct.Struct(f"{order}IIII")
    while begin := file.read(1):
        seconds, parts, size, _ = header.unpack(begin + _taken(file, header.size - 1))
        yield Packet(seconds + parts / parts_a_second, network & 0xFFFF, _taken(file, size))


def _pcapng(file: BinaryIO) -> Iterator[Packet]:
    """Yield the packets of sections, each with an order of its own; the first block's type was read."""
    kind, order = SECTION_BYTES, "<"
    interfaces: list[Interface] = []
    while kind:
        if kind == SECTION_BYTES:  # Reads the same in both orders.
            size, magic = _taken(file, 4), _taken(file, 4)
            if magic not in SECTION_ORDERS:
                raise CaptureError("the capture is damaged: a section without its order")
            order, interfaces = SECTION_ORDERS[magic], []
            _taken(file, struct.unpack(f"{order}I", size)[0] - 12)
        else:
            number, size_bytes = struct.unpack(f"{order}II", kind + _taken(file, 4))
            body = _taken(file, size_bytes - 8)[:-4]  # The size stands there once more.
            try:
                packet = _of_block(number, body, order, interfaces)
            except (struct.error, IndexError):
                raise CaptureError("the capture is damaged: a block that is too short") from None
            if packet is not None:
                yield packet
        kind = file.read(4)
        if 0 < len(kind) < 4:
            raise CaptureError("the capture is cut short")


def _of_block(kind: int, body: bytes, order: str, interfaces: list[Interface]) -> Packet | None:
    """Return the packet of a block, if it has one. Raises: struct.error, IndexError."""
    if kind == INTERFACE:
        interfaces.append(_interface(body, order))
    elif kind in (PACKET, OLD_PACKET):
        head = struct.Struct(f"{order}IIII" if kind == PACKET else f"{order}HxxIII")
        index, high, low, size = head.unpack_from(body)
        interface = interfaces[index]
        moment = (high << 32 | low) / interface.parts_a_second + interface.offset_seconds
        return Packet(moment, interface.link_type, body[20 : 20 + size])
    elif kind == SIMPLE_PACKET:
        (size,) = struct.unpack_from(f"{order}I", body)
        interface = interfaces[0]
        data = body[4 : 4 + min(size, interface.snap_bytes or size)]
        return Packet(0.0, interface.link_type, data)
    return None


def _interface(body: bytes, order: str) -> Interface:
    """Return what a block says of an interface. Raises: struct.error, IndexError."""
    link_type, snap_bytes = struct.unpack_from(f"{order}HxxI", body)
    parts_a_second, offset_seconds = MICROSECONDS, 0
    position = 8
    while position + 4 <= len(body):
        code, size = struct.unpack_from(f"{order}HH", body, position)
        value = body[position + 4 : position + 4 + size]
        if code == TIME_RESOLUTION:
            parts_a_second = (2 if value[0] & 0x80 else 10) ** (value[0] & 0x7F)
        elif code == TIME_OFFSET:
            (offset_seconds,) = struct.unpack(f"{order}q", value)
        position += 4 + (size + 3) // 4 * 4
    return Interface(link_type, snap_bytes, parts_a_second, offset_seconds)


# -- link layers ------------------------------------------------------------------------------------------


def _behind(size: int) -> Callable[[bytes], bytes]:
    """Return what finds an IP packet behind a header of that size; of which version it is, it says itself."""
    return lambda data: data[size:]


def _in_ethernet(data: bytes) -> bytes:
    position = 12
    while int.from_bytes(data[position : position + 2], "big") in VLAN_TYPES:
        position += 4
    return _of_type(data[position : position + 2], data[position + 2 :])


def _of_type(ether_type: bytes, data: bytes) -> bytes:
    """Return the IP packet that lies behind its type, nothing where it is another kind."""
    return data if int.from_bytes(ether_type, "big") in (IPV4, IPV6) else b""


LINKS: dict[int, Callable[[bytes], bytes]] = {
    0: _behind(4),  # BSD's loopback
    1: _in_ethernet,
    12: _behind(0),  # IP as it is, by several numbers
    14: _behind(0),
    101: _behind(0),
    108: _behind(4),  # OpenBSD's loopback
    113: lambda data: _of_type(data[14:16], data[16:]),  # Linux cooked: any interface
    228: _behind(0),
    229: _behind(0),
    276: lambda data: _of_type(data[0:2], data[20:]),  # Linux cooked, version 2
}
"""How an IP packet is found in a packet, by the capture's link type."""


# -- IP and TCP -------------------------------------------------------------------------------------------


def _segment(seconds: float, packet: bytes) -> Segment | None:
    """Return the TCP segment in an IP packet, None where there is none, or its header is not there."""
    if not packet:
        return None
    version = packet[0] >> 4
    found = _in_ipv4(packet) if version == 4 else _in_ipv6(packet) if version == 6 else None
    if found is None:
        return None
    source, target, payload = found
    if len(payload) < 20:
        return None
    source_port, target_port, sequence = struct.unpack_from(">HHI", payload)
    return Segment(
        seconds=seconds,
        source=(str(ip_address(source)), source_port),
        target=(str(ip_address(target)), target_port),
        sequence=sequence,
        begins=bool(payload[13] & SYN),
        data=payload[max(20, (payload[12] >> 4) * 4) :],
    )


def _in_ipv4(packet: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Return source, target and payload, without what fills a short Ethernet frame up."""
    if len(packet) < 20 or packet[9] != TCP or int.from_bytes(packet[6:8], "big") & 0x1FFF:
        return None  # Of a fragment behind the first nobody knows to which connection it belongs.
    total = int.from_bytes(packet[2:4], "big") or len(packet)  # 0: the network card cuts it up.
    header = max(20, (packet[0] & 0x0F) * 4)
    return packet[12:16], packet[16:20], packet[header:total]


def _in_ipv6(packet: bytes) -> tuple[bytes, bytes, bytes] | None:
    if len(packet) < 40:
        return None
    size = int.from_bytes(packet[4:6], "big")
    end = 40 + size if size else len(packet)
    kind, position = packet[6], 40
    while kind in EXTENSIONS and position + 8 <= len(packet):
        if kind == FRAGMENT and int.from_bytes(packet[position + 2 : position + 4], "big") >> 3:
            return None
        length = packet[position + 1]
        step = 8 if kind == FRAGMENT else (length + 2) * 4 if kind == AUTHENTICATION else (length + 1) * 8
        kind, position = packet[position], position + step
    return (packet[8:24], packet[24:40], packet[position:end]) if kind == TCP else None
