"""An exception that comes out of nowhere, at any point of a send: Ctrl-C in a notebook, or no memory.

The producer that it leaves works: what is sent afterwards is written, without a flush, and no memory is lost.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from kohort.client.test_sender import World, numbers

TRACED = ("accumulator.py", "batch.py", "builder.py", "partition_queue.py", "partitioner.py", "sequences.py")
TURNS_MOST = 10_000
HARMLESS = frozenset(
    {
        "CACHE",
        "COPY",
        "EXTENDED_ARG",
        "LOAD_ATTR",
        "LOAD_CONST",
        "LOAD_FAST",
        "LOAD_GLOBAL",
        "LOAD_METHOD",
        "NOP",
        "POP_TOP",
        "PUSH_NULL",
        "STORE_ATTR",
        "STORE_FAST",
        "SWAP",
    }
)
"""What only moves a value: it takes no memory, and the interpreter looks for no signals before it."""
SIGNALLED = frozenset(["CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD", "RESUME"])
"""After these it does, in Python 3.11 and later."""


class Interrupted(KeyboardInterrupt):
    """What a signal handler raises."""


class Tracer:
    """Raises at one operation of what runs in the client's modules; counts them."""

    def __init__(self, at: int, traced: tuple[str, ...] = TRACED) -> None:
        self.at = at
        self.traced = traced
        self.count = 0
        self.where = ""
        self._last: dict[FrameType, str] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> Tracer | None:
        if not frame.f_code.co_filename.endswith(self.traced):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and self._may_raise(frame):
            if self.count == self.at:
                self.where = f"{frame.f_code.co_qualname}:{frame.f_lineno} at {frame.f_lasti}"
                self.count += 1
                raise Interrupted(self.where)
            self.count += 1
        return self

    def _may_raise(self, frame: FrameType) -> bool:
        """Whether an exception may come before the operation that is next: the one before may let it in."""
        name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        before = self._last.get(frame, "RESUME")
        if name == "PRECALL":  # Python 3.11 has it before each CALL.
            return False
        self._last[frame] = name
        if name == "CALL" and before == "LOAD_CONST":  # Of what leaves a `with`: there is no place before it.
            return False
        return name not in HARMLESS or before in SIGNALLED

    def run(self, function: Callable[[], object]) -> bool:
        """Return whether it has raised."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            function()
        except Interrupted:
            return True
        finally:
            sys.settrace(before)
        return False


def prepared(monkeypatch: pytest.MonkeyPatch, kind: str) -> tuple[World, Callable[[], object], list[bool]]:
    """Return a producer, the send that is to be interrupted, and when its sender was woken."""
    options: dict[str, Any] = {"batch_size": 200, "batch_max_size": 2_000, "linger_ms": 5}
    world = World(monkeypatch, partitions=2, **options)
    woken: list[bool] = []
    world.accumulator._wake = lambda: woken.append(True)
    key = b"k" * 300 if kind == "long key" else b"k" if kind == "key" else None
    partition = 0 if kind == "partition" else None
    headers = (("h", b"v"),) if kind == "headers" else ()

    def send() -> object:
        number = len(world.appended)
        value = (b"%d" % number).ljust(150, b".")
        found = world.accumulator.append("t", value, key, partition, world.now_ms, headers)
        assert found is not None
        world.appended.append(found)
        return found

    if kind == "grown":
        send()
    return world, send, woken


@pytest.mark.parametrize("kind", ["plain", "key", "long key", "partition", "headers", "grown"])
def test_a_send_interrupted_anywhere_leaves_a_working_producer(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    for at in range(TURNS_MOST):
        world, send, woken = prepared(monkeypatch, kind)
        tracer = Tracer(at)
        if not tracer.run(send):
            break
        assert not world.accumulator._lock.locked(), tracer.where
        before = len(world.appended)
        for _ in range(5):
            send()
        assert woken, f"nobody wakes the sender: {tracer.where}"
        for _ in range(1_000):
            world.pass_time(5)
            while world.wire.waiting:
                world.look()
            if all(each.is_done for each in world.appended):
                break
        assert all(each.is_done for each in world.appended), f"some are never written: {tracer.where}"
        for each in world.appended:
            assert each.known_metadata().offset >= 0
        world.pass_time(10)
        while world.wire.waiting:
            world.look()
        assert world.accumulator.buffered_bytes == 0, f"memory is lost: {tracer.where}"
        written = sorted(numbers(world.logs[0]) + numbers(world.logs[1]))
        own = list(range(before + 5))
        assert written in (own, sorted([*own, before])), tracer.where
    else:
        raise AssertionError("it never ends")
    assert at > 50
