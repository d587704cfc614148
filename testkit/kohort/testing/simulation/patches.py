"""What a simulation replaces in Python while it runs: clocks, randomness, threads, and what would leave it.

    with simulated(kernel):
        kernel.run(until)

Clocks answer by the process whose code runs, randomness by the seed. Whatever would reach the real world,
such as a thread, a socket or a subprocess, raises `LeftSimulation`, which says what.

Modules take functions for themselves (`from time import monotonic`). So every module that has one of the real
functions gets its stand-in, once, and keeps it: outside of a simulation, and in other threads, a stand-in
calls the real function.
"""

import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from typing import Any, cast

import trio

from kohort.testing.simulation.errors import LeftSimulation
from kohort.testing.simulation.kernel import MILLISECOND, SECOND, START_WALL_NS, Kernel
from kohort.testing.simulation.sockets import FIRST_DESCRIPTOR, VirtualSocket
from kohort.testing.simulation.threads import run_inline


class _State(threading.local):
    """The simulation of this thread. Other threads, such as those of the test kit's brokers, live on."""

    kernel: Kernel | None = None
    random = random.Random()
    """What the functions of the module `random` draw from in a simulation."""


AIOKAFKA_BUILDS_IN = "aiokafka.producer.message_accumulator"

_state = _State()
_seen: set[str] = set()  # Modules whose functions were looked at.


@contextmanager
def simulated(kernel: Kernel) -> Iterator[None]:
    """Let the code of this thread within the block live in the simulation of `kernel`."""
    _put_stand_ins()
    before, drawn_from = _state.kernel, _state.random
    _state.kernel = kernel
    _state.random = random.Random(kernel.random.getrandbits(64))
    try:
        yield
    finally:
        _state.kernel, _state.random = before, drawn_from


# -- clocks and randomness ----------------------------------------------------------------------------------


def _wall_ns() -> int:
    kernel = _state.kernel
    if kernel is None:
        return int(_real["time_ns"]())
    process = kernel.current
    return START_WALL_NS + kernel.time_ns if process is None else process.wall_ns()


def _wall() -> float:
    return _real["time"]() if _state.kernel is None else _wall_ns() / SECOND


def _monotonic_ns() -> int:
    kernel = _state.kernel
    if kernel is None:
        return int(_real["monotonic_ns"]())
    process = kernel.current
    slept_ns = 0 if kernel.work is None else kernel.work.slept_ns
    return slept_ns + (kernel.time_ns if process is None else process.monotonic_ns())


def _monotonic() -> float:
    return _real["monotonic"]() if _state.kernel is None else _monotonic_ns() / SECOND


def _perf_counter_ns() -> int:
    return _real["perf_counter_ns"]() if _state.kernel is None else _monotonic_ns()


def _perf_counter() -> float:
    return _real["perf_counter"]() if _state.kernel is None else _monotonic_ns() / SECOND


def _clock_gettime_ns(clock: int) -> int:
    return int(_real["clock_gettime_ns"](clock)) if _state.kernel is None else _monotonic_ns()


def _sleep(seconds: float) -> None:
    kernel = _state.kernel
    if kernel is None:
        _real["sleep"](seconds)
    elif kernel.work is None:
        raise LeftSimulation("the code wanted time.sleep: it would hold up every process of the simulation")
    else:
        kernel.work.slept_ns += int(seconds * SECOND)


def _urandom(size: int) -> bytes:
    kernel = _state.kernel
    return _real["urandom"](size) if kernel is None else kernel.random.randbytes(size)


def _drawing(name: str) -> Callable[..., Any]:
    """Return the stand-in for a function of the module `random`: other threads draw from another source."""

    def draw(*arguments: Any, **options: Any) -> Any:
        if _state.kernel is None:
            return _real[name](*arguments, **options)
        return getattr(_state.random, name)(*arguments, **options)

    return draw


def _sendfile(out_fd: int, in_fd: int, offset: int, count: int) -> int:
    """Send a part of a file, by a virtual socket if it is one."""
    kernel = _state.kernel
    if kernel is None or out_fd < FIRST_DESCRIPTOR:
        return int(_real["sendfile"](out_fd, in_fd, offset, count))
    assert kernel.current is not None
    sock = kernel.current.descriptors[out_fd]
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
    **{
        (random, name): _drawing(name)
        for name in random.__all__
        if isinstance(getattr(getattr(random, name), "__self__", None), random.Random)
    },
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
        if name == AIOKAFKA_BUILDS_IN:
            _give_aiokafka_the_time(module)


class _WhenImported(MetaPathFinder):
    """Sees to it that aiokafka has the time of the process, too, where it is first imported in one."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return how to import that module, None for all others."""
        if name != AIOKAFKA_BUILDS_IN:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            run = loader.exec_module

            def exec_module(module: Any) -> None:
                run(module)
                if name not in _seen:
                    _seen.add(name)
                    _give_aiokafka_the_time(module)

            loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _WhenImported())


def _give_aiokafka_the_time(accumulator: Any) -> None:
    """Replace the builder of record batches: it takes the time of the machine where nobody can replace it."""
    builder: Any = accumulator.DefaultRecordBatchBuilder

    class Builder(builder):  # type: ignore[misc]
        """aiokafka's, which gives a record without a timestamp the time of the process."""

        def append(self, offset: int, timestamp: int | None, *rest: Any, **more: Any) -> Any:
            """Append a record."""
            now_ms = _wall_ns() // MILLISECOND
            return super().append(offset, now_ms if timestamp is None else timestamp, *rest, **more)

    accumulator.DefaultRecordBatchBuilder = Builder


# -- what would leave the simulation ------------------------------------------------------------------------


def _refuse(owner: Any, name: str, what: str, why: str) -> None:
    """Replace a method by one that raises LeftSimulation in a simulation."""
    real = getattr(owner, name)

    def instead(*arguments: Any, **options: Any) -> Any:
        if _state.kernel is not None:
            raise LeftSimulation(f"the code wanted {what}: {why}")
        return real(*arguments, **options)

    setattr(owner, name, instead)


_refuse(threading.Thread, "start", "a thread", "use tasks, or the test kit without simulation")
_refuse(subprocess.Popen, "__init__", "a subprocess", "it has no virtual time")
_refuse(socket.socket, "connect", "a real connection", "connect by asyncio or trio")
_refuse(socket.socket, "bind", "a real listener", "listen by asyncio or trio")

_run_in_thread = trio.to_thread.run_sync


async def _run_sync(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    kernel = _state.kernel
    if kernel is None:
        return await _run_in_thread(function, *arguments, **options)
    return await run_inline(kernel, function, *arguments, limiter=options.get("limiter"))


cast(Any, trio.to_thread).run_sync = _run_sync
