"""Random and mutated bytes into every decoder: WireError or a message comes out, nothing else.

    python -m tests.fuzz.wire [--bytes 50000000] [--seed 7]

Prints its seed first, and again with whatever breaks. Memory is watched: no input may make a decoder
hold more than a small multiple of its own size. Now and then construct reads the same bytes: it must
find the same message, or refuse them too.
"""

import argparse
import random
import sys
import time
import tracemalloc
from collections.abc import Callable

from kohort.protocol import constructs
from kohort.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kohort.protocol.errors import WireError
from kohort.protocol.framing import Frame, FrameReader
from kohort.protocol.headers import RequestHeader
from kohort.protocol.offsets_topic import GroupMetadataValue, OffsetCommitValue, decode_key, decode_value
from kohort.protocol.registry import APIS
from kohort.protocol.schema import Message
from tests.messages import EVERY_MESSAGE, Random, random_message, versions_of

DEFAULT_BYTES = 50_000_000
MAX_FRAME_BYTES = 1 << 20
MEMORY_PER_BYTE = 300  # An array of the smallest structs: a Python object for each byte or two.
MEMORY_ALWAYS_BYTES = 3 << 20  # What a frame reader may set aside for a frame under way.
MEASURED_ONE_IN = 16  # Measuring makes a decoder ten times as slow,
COMPARED_ONE_IN = 8  # and so does construct.

# Numbers that break decoders which trust them, as they stand on the wire.
NASTY = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x7f\xff",
    b"\xff\xfe",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x08",
    b"\x80\x80\x80\x80\x80\x80",
    b"\x80",
    b"\x00",
    b"\x01",
    b"\xed\xa0\x80",
)

Decode = Callable[[bytes], object]


class Broken(AssertionError):
    """A decoder did something else than to return a message or to raise WireError."""


def mutated(data: bytes, rng: Random) -> bytes:
    """Return `data` with one to four pieces changed, cut, doubled or replaced by nasty numbers."""
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        place = rng.randrange(len(changed) + 1)
        kind = rng.randrange(6)
        if kind == 0 and changed:
            changed[place % len(changed)] ^= 1 << rng.randrange(8)
        elif kind == 1 and changed:
            changed[place % len(changed)] = rng.randrange(256)
        elif kind == 2:
            del changed[place : place + rng.randrange(1, 9)]
        elif kind == 3:
            changed[place:place] = changed[place : place + rng.randrange(1, 17)]
        elif kind == 4:
            nasty = rng.choice(NASTY)
            changed[place : place + len(nasty)] = nasty
        else:
            del changed[place:]
    return bytes(changed)


def garbage(rng: Random) -> bytes:
    """Return random bytes, often with many zeros or ones, which decoders go further with."""
    data = rng.randbytes(rng.choice((0, 1, 3, 10, 40, 200)))
    kind = rng.randrange(3)
    if kind == 0:
        return data
    return bytes(each & 1 if kind == 1 or each & 3 else each for each in data)


def message_decoder(cls: type[Message], version: int) -> Decode:
    """Return the decoder of one message in one version, with the buffer that a connection hands it."""
    return lambda data: cls.decode(memoryview(data), version)


def outcome(decode: Callable[[], Message]) -> Message | None:
    """Return what `decode` returns, or None where it raises WireError."""
    try:
        return decode()
    except WireError:
        return None


def read_connection(data: bytes) -> list[Message]:
    """Return the requests in a stream, as a broker reads them: frames, header, body. Raises: WireError."""
    reader = FrameReader(MAX_FRAME_BYTES)
    half = len(data) // 2
    frames = reader.receive(data[:half])
    room = reader.buffer()
    if room is None:
        frames += reader.receive(data[half:])
    else:
        count = min(len(room), len(data) - half)
        room[:count] = data[half : half + count]
        frames += reader.filled(count) + reader.receive(data[half + count :])
    return [read_request(frame) for frame in frames]


def read_request(frame: Frame) -> Message:
    """Return the request in a frame. Raises: WireError."""
    if len(frame) < 4:
        raise WireError("a frame without an API key and version")
    api = APIS.get(int.from_bytes(frame[:2], "big", signed=True))
    version = int.from_bytes(frame[2:4], "big", signed=True)
    if api is None or version not in api.versions:
        raise WireError("an API or version that kohort does not speak")
    header_version = api.request_header_version(version)
    header = RequestHeader.decode(frame, header_version, exact=False)
    start = len(header.encode(header_version))
    return api.request.decode(memoryview(frame)[start:], version)


def random_stream(rng: Random) -> bytes:
    """Return a few requests as a client sends them."""
    frames = []
    for _ in range(rng.randrange(1, 4)):
        api = rng.choice(list(APIS.values()))
        version = rng.choice(range(api.versions.lowest, api.versions.highest + 1))
        header = RequestHeader(
            request_api_key=api.api_key, request_api_version=version, correlation_id=1, client_id="fuzz"
        )
        body = random_message(api.request, version, rng).encode(version)
        frame = header.encode(api.request_header_version(version)) + body
        frames.append(len(frame).to_bytes(4, "big") + frame)
    return b"".join(frames)


EXTRA: tuple[tuple[str, Decode], ...] = (
    ("decode_key", decode_key),
    ("offset value", lambda data: decode_value(OffsetCommitValue, data)),
    ("group value", lambda data: decode_value(GroupMetadataValue, data)),
    ("subscription", ConsumerProtocolSubscription.decode_versioned),
    ("assignment", ConsumerProtocolAssignment.decode_versioned),
)


class Fuzzer:
    """Feeds decoders, and counts what came of it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.bytes = self.inputs = self.decoded = self.refused = 0
        self._rng = random.Random(seed)
        self._messages = [(cls, version) for cls in EVERY_MESSAGE for version in versions_of(cls)]

    def run(self, until_bytes: int) -> None:
        """Feed at least `until_bytes` bytes, going round every message and version. Raises: Broken."""
        while self.bytes < until_bytes:
            for cls, version in self._messages:
                self._feed_around(cls, version)
                if self.bytes >= until_bytes:
                    return
            for title, decode in EXTRA:
                self.feed(title, decode, b"\0" + bytes((self._rng.randrange(4),)) + garbage(self._rng))

    def _feed_around(self, cls: type[Message], version: int) -> None:
        """Feed a good message, ruins of it, garbage, and a ruined stream of requests."""
        title, decode = f"{cls.__name__} v{version}", message_decoder(cls, version)
        good = random_message(cls, version, self._rng).encode(version)
        decode(good)  # Compiles the decoder before its memory is measured.
        for _ in range(8):
            for data in (mutated(good, self._rng), garbage(self._rng)):
                self.feed(title, decode, data)
                if self.inputs % COMPARED_ONE_IN == 0:
                    self.compare(cls, version, data)
        self.feed("connection", read_connection, mutated(random_stream(self._rng), self._rng))

    def compare(self, cls: type[Message], version: int, data: bytes) -> None:
        """Let construct read `data` as well. Raises: Broken where the two do not agree."""
        compiled = outcome(lambda: cls.decode(data, version))
        interpreted = outcome(lambda: constructs.parse(cls, data, version))
        if compiled != interpreted and repr(compiled) != repr(interpreted):  # No NaN equals another.
            raise Broken(
                f"seed {self.seed}: {cls.__name__} v{version} on {data!r}: "
                f"compiled {compiled!r}, construct {interpreted!r}"
            )

    def feed(self, title: str, decode: Decode, data: bytes) -> None:
        """Let `decode` read `data`. Raises: Broken, with what is needed to see it again."""
        self.bytes += len(data)
        self.inputs += 1
        measured = self.inputs % MEASURED_ONE_IN == 0
        if measured:
            tracemalloc.start()
        try:
            decode(data)
            self.decoded += 1
        except WireError:
            self.refused += 1
        except Exception as error:  # Anything else is what a fuzzer looks for.
            raise Broken(f"seed {self.seed}: {title} raised {error!r} on {data!r}") from error
        finally:
            peak = tracemalloc.get_traced_memory()[1] if measured else 0
            tracemalloc.stop()
        if peak > MEMORY_ALWAYS_BYTES + MEMORY_PER_BYTE * len(data):
            raise Broken(f"seed {self.seed}: {title} took {peak} bytes of memory for {data!r}")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bytes", type=int, default=DEFAULT_BYTES)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    sys.stdout.write(f"fuzzing the wire: seed {options.seed}, {options.bytes} bytes\n")
    sys.stdout.flush()  # Before anything can go wrong.
    fuzzer = Fuzzer(options.seed)
    began = time.perf_counter()
    fuzzer.run(options.bytes)
    took_s = time.perf_counter() - began
    sys.stdout.write(
        f"{fuzzer.inputs} inputs, {fuzzer.bytes} bytes in {took_s:.1f} s: {fuzzer.decoded} were messages, "
        f"{fuzzer.refused} were refused with WireError, nothing else\n"
    )


if __name__ == "__main__":
    main()
