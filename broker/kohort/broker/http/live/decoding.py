"""Shows records by their schemas: a process of its own decodes them (`kohort.registry.decoder_process`).

It is started for the first record that begins with the id of a schema, and ended when none has come for a
while. Where it takes too long for a record, or ends by itself, it is ended, and the record is shown without.
"""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import structlog
import trio

from kohort.broker.runtime.supervisor import Part

MAGIC = 0
HEADER_BYTES = 5
"""A zero and the id of a schema, in front of what Confluent's serializers write."""
DATA_BYTES_MAX = 256 * 1024
ANSWER_SECONDS_MAX = 2.5
"""The limit for all records of one answer. In a cluster others wait for it, and not for ever."""
DATUM_SECONDS_MAX = 1.0
IDLE_SECONDS = 60.0
LENGTH_BYTES = 4
FRAME_BYTES_MAX = 1024 * 1024
RECEIVE_BYTES = 64 * 1024
START = "from kohort.registry.decoder_process import main; main()"
"""A text, since the broker must import nothing of the registry."""
NOTHING = {"type": None, "subject": None, "version": None, "text": None, "is_cut": False}
"""The fields of `decoded` for data that the process did not decode."""
NO_TIME = "there was no time left to decode it: ask again"

log = structlog.get_logger("kohort.http")


class Datum(NamedTuple):
    """A key or a value, and its JSON in the answer, which gets what is decoded."""

    topic: str
    is_key: bool
    data: bytes
    shown: dict[str, Any]

    @property
    def has_schema(self) -> bool:
        """Whether it may begin with the id of a schema."""
        return len(self.data) >= HEADER_BYTES and self.data[0] == MAGIC

    @property
    def request(self) -> dict[str, object]:
        """What the process is asked."""
        return {"topic": self.topic, "is_key": self.is_key, "data": self.data}

    @property
    def schema_id(self) -> int:
        """The id in its first bytes."""
        return int.from_bytes(self.data[1:HEADER_BYTES], signed=True)


class DecoderFailed(Exception):
    """The process does not answer, and was ended."""


class RecordDecoder:
    """The process that decodes, from its start to its end: one datum at a time."""

    def __init__(self, urls: str) -> None:
        self._urls = urls.encode()
        self._lock = trio.Lock()
        self._process: trio.Process | None = None
        self._has_started = False
        self._received = bytearray()
        self._used = trio.current_time()

    async def run(self, part: Part) -> None:
        """End the process when it is idle, and at the end."""
        try:
            while True:
                await trio.sleep(IDLE_SECONDS / 4)
                async with self._lock:
                    if trio.current_time() - self._used > IDLE_SECONDS:
                        await self._end()
        finally:
            with trio.CancelScope(shield=True):
                await self._end()

    async def decode(self, found: Sequence[Datum]) -> None:
        """Add `decoded` to the JSON of data that begin with a schema id: the text, or why there is none."""
        deadline = trio.current_time() + ANSWER_SECONDS_MAX
        for each in found:
            if each.has_schema:
                each.shown["decoded"] = await self._decoded(each, deadline)

    async def _decoded(self, datum: Datum, deadline: float) -> object:
        problem = NO_TIME
        if len(datum.data) > DATA_BYTES_MAX:
            problem = f"it is larger than {DATA_BYTES_MAX:,} bytes"
        else:
            with trio.move_on_at(deadline):
                try:
                    async with self._lock:
                        await self._start()
                        return await self._ask(datum)
                except (DecoderFailed, OSError) as error:
                    problem = str(error)
        return {**NOTHING, "schema_id": datum.schema_id, "problem": problem}

    async def _start(self) -> None:
        """Return when the process runs. A start that is cancelled goes on. Raises: DecoderFailed, OSError."""
        self._used = trio.current_time()
        if self._process is None:
            with trio.CancelScope(shield=True):  # Short: so little has room in the pipe.
                self._process = await trio.lowlevel.open_process(
                    [sys.executable, "-P", "-c", START],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    process_group=0,  # A terminal's signals are for the broker.
                )
                await self._send(self._urls)
        if not self._has_started:
            await self._receive()
            self._has_started = True

    async def _ask(self, datum: Datum) -> object:
        """Return the answer for one datum. Raises: DecoderFailed."""
        answer = None
        try:
            with trio.move_on_after(DATUM_SECONDS_MAX):
                await self._send(msgspec.msgpack.encode(datum.request))
                answer = msgspec.msgpack.decode(await self._receive())
        finally:
            if answer is None:  # What it may still send belongs to no other question.
                await self._end()
        if answer is None:
            raise DecoderFailed(f"decoding it took longer than {DATUM_SECONDS_MAX:.0f} s")
        return answer

    async def _send(self, content: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(trio.BrokenResourceError):  # It has ended: `_receive` says so.
            await self._process.stdin.send_all(len(content).to_bytes(LENGTH_BYTES) + content)

    async def _receive(self) -> bytes:
        """Return what comes next. What has come stays where this is cancelled. Raises: DecoderFailed."""
        assert self._process is not None
        assert self._process.stdout is not None
        while True:
            end = LENGTH_BYTES + int.from_bytes(self._received[:LENGTH_BYTES])
            if len(self._received) >= max(end, LENGTH_BYTES):
                content = bytes(self._received[LENGTH_BYTES:end])
                del self._received[:end]
                return content
            more = await self._process.stdout.receive_some(RECEIVE_BYTES)
            if not more or len(self._received) > FRAME_BYTES_MAX:
                status = await self._end()
                log.warning("the process that decodes records has ended", status=status)
                raise DecoderFailed("the process that decodes has ended: it may need too much memory")
            self._received += more

    async def _end(self) -> int | None:
        """End the process, and return its status."""
        process, self._process = self._process, None
        self._has_started = False
        self._received.clear()
        if process is None:
            return None
        with trio.CancelScope(shield=True):
            process.kill()
            for each in (process.stdin, process.stdout):
                if each is not None:
                    await each.aclose()
            await process.wait()
        return process.returncode
