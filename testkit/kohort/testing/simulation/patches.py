"""What a simulation replaces in Python while it runs: clocks, randomness, threads, and what would leave it.

    with simulated(kernel):
        kernel.run(until)

Clocks answer by the process whose code runs, randomness by the seed. Whatever would reach the real world,
such as a thread, a socket or a subprocess, raises `LeftSimulation`, which says what.

Modules take functions for themselves (`from time import monotonic`). So every module that has one of the real
functions gets its stand-in, once, and keeps it: outside of a simulation a stand-in calls the real function.
"""

import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from kohort.testing.simulation.errors import LeftSimulation
from kohort.testing.simulation.kernel import MILLISECOND, SECOND, START_WALL_NS, Kernel
from kohort.testing.simulation.sockets import FIRST_DESCRIPTOR, VirtualSocket
from kohort.testing.simulation.threads import inline_threads

_kernel: Kernel | None = None
_seen: set[str] = set()  # Modules whose functions were looked at.


@contextmanager
def simulated(kernel: Kernel) -> Iterator[None]:
    """Let the code within the block live in the simulation of `kernel`."""
    global _kernel  # noqa: PLW0603  # Clocks are functions without arguments.
    _put_stand_ins()
    before, state = _kernel, random.getstate()
    with ExitStack() as stack:
        for target, name, replacement in (*_refusals(), *_libraries()):
            stack.enter_context(patch.object(target, name, replacement))
        stack.enter_context(inline_threads(kernel))
        _kernel = kernel
        random.seed(kernel.random.getrandbits(64))
        try:
            yield
        finally:
            _kernel = before
            random.setstate(state)


# -- clocks and randomness ----------------------------------------------------------------------------------


def _wall_ns() -> int:
    if _kernel is None:
        return int(_real["time_ns"]())
    process = _kernel.current
    return START_WALL_NS + _kernel.time_ns if process is None else process.wall_ns()


def _wall() -> float:
    return _real["time"]() if _kernel is None else _wall_ns() / SECOND


def _monotonic_ns() -> int:
    if _kernel is None:
        return int(_real["monotonic_ns"]())
    process = _kernel.current
    return _kernel.time_ns if process is None else process.monotonic_ns()


def _monotonic() -> float:
    return _real["monotonic"]() if _kernel is None else _monotonic_ns() / SECOND


def _perf_counter_ns() -> int:
    return _real["perf_counter_ns"]() if _kernel is None else _monotonic_ns()


def _perf_counter() -> float:
    return _real["perf_counter"]() if _kernel is None else _monotonic_ns() / SECOND


def _clock_gettime_ns(clock: int) -> int:
    return int(_real["clock_gettime_ns"](clock)) if _kernel is None else _monotonic_ns()


def _sleep(seconds: float) -> None:
    if _kernel is not None:
        raise LeftSimulation("the code wanted time.sleep: it would hold up every process of the simulation")
    _real["sleep"](seconds)


def _urandom(size: int) -> bytes:
    return _real["urandom"](size) if _kernel is None else _kernel.random.randbytes(size)


def _sendfile(out_fd: int, in_fd: int, offset: int, count: int) -> int:
    """Send a part of a file, by a virtual socket if it is one."""
    if _kernel is None or out_fd < FIRST_DESCRIPTOR:
        return int(_real["sendfile"](out_fd, in_fd, offset, count))
    sock = _kernel.descriptors[_kernel.current, out_fd]
    assert isinstance(sock, VirtualSocket)
    return sock.send(os.pread(in_fd, count, offset))


_STAND_INS: dict[tuple[Any, str], Callable[..., Any]] = {
    (time, "time_ns"): _wall_ns,
    (time, "time"): _wall,
    (time, "monotonic_ns"): _monotonic_ns,
    (time, "monotonic"): _monotonic,
    (time, "perf_counter_ns"): _perf_counter_ns,
    (time, "perf_counter"): _perf_counter,
    (time, "clock_gettime_ns"): _clock_gettime_ns,
    (time, "sleep"): _sleep,
    (os, "urandom"): _urandom,
    (os, "sendfile"): _sendfile,
}
_real: dict[str, Any] = {name: getattr(module, name) for module, name in _STAND_INS if hasattr(module, name)}
_by_identity = {id(_real[name]): stand_in for (_, name), stand_in in _STAND_INS.items() if name in _real}


def _put_stand_ins() -> None:
    """Give each module that has one of the real functions its stand-in."""
    for name, module in tuple(sys.modules.items()):
        if name in _seen or module is None or name == __name__:
            continue
        _seen.add(name)
        names = getattr(module, "__dict__", {})
        for each, value in tuple(names.items()):
            stand_in = _by_identity.get(id(value))
            if stand_in is not None:
                setattr(module, each, stand_in)


def _libraries() -> list[tuple[Any, str, Any]]:
    """Return what has taken a clock where nobody can replace it, and what it is replaced with."""
    accumulator: Any = sys.modules.get("aiokafka.producer.message_accumulator")
    if accumulator is None:
        return []
    builder: Any = accumulator.DefaultRecordBatchBuilder

    class Builder(builder):  # type: ignore[misc]
        """aiokafka's, which would take the time of the machine for a record without a timestamp."""

        def append(self, offset: int, timestamp: int | None, *rest: Any, **more: Any) -> Any:
            """Append a record, with the time of the process."""
            now_ms = _wall_ns() // MILLISECOND
            return super().append(offset, now_ms if timestamp is None else timestamp, *rest, **more)

    return [(accumulator, "DefaultRecordBatchBuilder", Builder)]


# -- what would leave the simulation ------------------------------------------------------------------------


def _refusals() -> list[tuple[Any, str, Callable[..., Any]]]:
    return [
        (threading.Thread, "start", _refused("a thread", "use tasks, or the test kit without simulation")),
        (subprocess.Popen, "__init__", _refused("a subprocess", "it has no virtual time")),
        (socket.socket, "connect", _refused("a real connection", "connect by asyncio or trio")),
        (socket.socket, "bind", _refused("a real listener", "listen by asyncio or trio")),
    ]


def _refused(what: str, why: str) -> Callable[..., Any]:
    def refuse(*_arguments: object, **_options: object) -> Any:
        raise LeftSimulation(f"the code wanted {what}: {why}")

    return refuse
