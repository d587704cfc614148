"""Variable length integers of flexible versions: unsigned LEB128.

Source: KIP-482; org.apache.kafka.common.utils.ByteUtils.
"""

from kohort.protocol.errors import EncodeError, WireError

MAX_STRING_BYTES = 0x7FFF  # Compact strings have this limit, too, as in Kafka's generated classes.
UVARINTS = tuple(bytes((number,)) for number in range(128))


def encode_uvarint(number: int) -> bytes:
    """Return `number` in seven bits a byte, the lowest first."""
    if number < 128:
        return UVARINTS[number]
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_uvarint_rest(data: bytes | bytearray | memoryview, position: int, first: int) -> tuple[int, int]:
    """Return the number with the first byte `first`, and the position behind it.

    Raises: WireError for more than 32 bits, IndexError where the data ends.
    """
    number, shift = first & 127, 7
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 28:
            raise WireError("a variable length integer of more than five bytes")
    if number > 0xFFFFFFFF:
        raise WireError("a variable length integer of more than 32 bits")
    return number, position


def read_uvarint(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Return the number at `position` and the position behind it. Raises: WireError, IndexError."""
    first = data[position]
    if first < 128:
        return first, position + 1
    return read_uvarint_rest(data, position + 1, first)


def skip_tags(data: bytes | bytearray | memoryview, position: int, count: int) -> int:
    """Return the position behind `count` tagged fields. Raises: WireError, IndexError where the data ends."""
    for _ in range(count):
        _, position = read_uvarint(data, position)
        length, position = read_uvarint(data, position)
        if position + length > len(data):
            raise IndexError(f"the end of the bytes before a length of {length}")
        position += length
    return position


def read_string_length_rest(
    data: bytes | bytearray | memoryview, position: int, first: int
) -> tuple[int, int]:
    """Return a compact string's length plus one, as `read_uvarint_rest` does.

    Raises: WireError for a string that is too long, IndexError where the data ends.
    """
    number, position = read_uvarint_rest(data, position, first)
    if number > MAX_STRING_BYTES + 1:
        raise WireError(f"a string of {number - 1} bytes; the limit is {MAX_STRING_BYTES}")
    return number, position


def encode_string_length(number: int) -> bytes:
    """Return a compact string's length plus one. Raises: EncodeError for a string that is too long."""
    if number > MAX_STRING_BYTES + 1:
        raise EncodeError(f"a string of {number - 1} bytes; the limit is {MAX_STRING_BYTES}")
    return encode_uvarint(number)
