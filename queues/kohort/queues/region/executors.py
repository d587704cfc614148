"""Where the user's operator runs: a thread, or a process of its own.

The member's event loop polls, commits and sends heartbeats whatever the operator does. An executor runs one
call at a time, in the order in which they were made. An operator with async methods has an event loop of its
own there, of the same library as the member's.
"""

import asyncio
import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from inspect import isawaitable
from math import inf
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from time import monotonic
from types import TracebackType
from typing import Any, Protocol, Self

import anyio
import anyio.lowlevel
import anyio.to_thread

from kohort.client.errors import ConfigurationError
from kohort.client.values import ConsumerRecord

BATCH_S = (
    0.02  # A batch ends behind the record that is under way then: so long does a drain wait, and no longer.
)
THREAD_ENDED = "the operator's thread has ended; a reset starts another one"
LOOK_S = 1.0  # So often an operator's process looks whether its member's is there.
END_S = 2.0  # So long may an operator's thread or process take to end.

Record = ConsumerRecord[bytes, bytes]
_threads: dict[int, threading.Thread] = {}  # By the id of the operator that each of them runs.
Answer = tuple[Any, str]  # What an operator's method returned, or why there is nothing.


class Isolation(StrEnum):
    """Where a member's operator runs."""

    THREAD = "thread"
    PROCESS = "process"


class Operator(Protocol):
    """What a member computes: its state is all that it knows of the records it was given.

    Each method may be plain or async.
    """

    def process(self, record: Record) -> Awaitable[None] | None:
        """Take a record into the state."""
        ...

    def save(self, sequence_id: int) -> bytes | Awaitable[bytes]:
        """Return the state."""
        ...

    def restore(self, state: bytes | None) -> Awaitable[None] | None:
        """Have this state, and no other; None for the one at the beginning."""
        ...


class OperatorError(Exception):
    """The operator raised, or its process ended."""


@dataclass(frozen=True, slots=True)
class Processed:
    """How many records of a batch were processed, and what the one behind them raised."""

    count: int
    failure: str = ""


class Executor(Protocol):
    """Runs an operator's methods, one after the other. To be opened by `async with`."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def process(self, records: Sequence[Record]) -> Processed:
        """Return how many of these were processed within a batch's time. Raises: OperatorError."""
        ...

    async def save(self, sequence_id: int) -> bytes:
        """Return the operator's state. Raises: OperatorError."""
        ...

    async def restore(self, state: bytes | None) -> None:
        """Let the operator have this state. Raises: OperatorError."""
        ...


def executor_for(operator: Operator, isolation: Isolation) -> Executor:
    """Return where this operator is to run."""
    return ThreadExecutor(operator) if isolation is Isolation.THREAD else ProcessExecutor(operator)


async def call_operator(operator: Operator, method: str, *arguments: Any) -> Any:
    """Return what a method of the operator returns, plain or async. Raises: OperatorError."""
    if method == "process":
        return await _process(operator, *arguments)
    try:
        found = getattr(operator, method)(*arguments)
        found = await found if isawaitable(found) else found
    except BaseException as error:
        _raise_if_cancelled(error)
        raise OperatorError(f"{method} raised {_told(error)}") from error
    if method != "save":
        return None
    if not isinstance(found, bytes):
        raise OperatorError(f"save returned {type(found).__name__}, and not bytes")
    # A type of its own may have no pickle.
    return found if type(found) is bytes else bytes(memoryview(found))


async def _process(operator: Operator, records: Sequence[Record]) -> Processed:
    until_s = monotonic() + BATCH_S
    process = operator.process
    count = 0
    for record in records:
        try:
            found = process(record)
            if found is not None:
                await found
        except BaseException as error:  # noqa: BLE001 - the user's code; the region resets for it.
            _raise_if_cancelled(error)
            return Processed(count, _told(error))
        count += 1
        if monotonic() >= until_s:
            break
    return Processed(count)


def _raise_if_cancelled(error: BaseException) -> None:
    """Raise the error again if the task that runs here is cancelled.

    SystemExit is a failure of the operator. So is the CancelledError of another task that it awaits.
    """
    if isinstance(error, Exception):
        return
    task = asyncio.current_task() if current_backend() == "asyncio" else None
    is_cancelled = task is not None and task.cancelling() > 0
    if is_cancelled or anyio.current_effective_deadline() == -inf:
        raise error


def _told(error: BaseException) -> str:
    """Return the error as text; its own words may fail."""
    try:
        return repr(error)
    except Exception:  # noqa: BLE001 - the user's code.
        return type(error).__name__


class _Call:
    """A call of an operator's method that another loop runs."""

    def __init__(self, method: str, arguments: tuple[Any, ...]) -> None:
        self.method = method
        self.arguments = arguments
        self.done = anyio.Event()
        self.found: Any = None
        self.error: OperatorError | None = None
        self._wake_caller = poster()

    async def run(self, operator: Operator) -> None:
        """Run it, and wake the caller."""
        try:
            self.found = await call_operator(operator, self.method, *self.arguments)
        except OperatorError as error:
            self.error = error
        self.tell()

    def tell(self) -> None:
        """Wake the caller."""
        with suppress(RuntimeError):  # The caller's loop has ended.
            self._wake_caller(self.done.set)


class CallingExecutor:
    """The three methods of an executor, made of one."""

    async def _call(self, method: str, *arguments: Any) -> Any:
        raise NotImplementedError

    async def process(self, records: Sequence[Record]) -> Processed:
        """Return how many of these were processed within a batch's time. Raises: OperatorError."""
        found: Processed = await self._call("process", records)
        return found

    async def save(self, sequence_id: int) -> bytes:
        """Return the operator's state. Raises: OperatorError."""
        found: bytes = await self._call("save", sequence_id)
        return found

    async def restore(self, state: bytes | None) -> None:
        """Let the operator have this state. Raises: OperatorError."""
        await self._call("restore", state)


class ThreadExecutor(CallingExecutor):
    """Runs an operator in an event loop in a thread of its own.

    A call whose caller is cancelled is still run, before every later one. Nobody can end a thread: one that
    hangs in the operator is left to itself a while after the executor is closed, and the operator is refused
    to others until it ends. A thread that the operator has ended is replaced at the next `restore`.
    """

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._calls: deque[_Call] = deque()
        self._post: Callable[[Callable[[], object]], object] | None = None
        self._ready = threading.Event()
        self._ended = threading.Event()

    async def __aenter__(self) -> Self:
        """Start the thread.

        Raises: ConfigurationError if the operator has one already, OperatorError if no loop can begin there.
        """
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._post is not None
        self._is_closing = True  # The thread may run plain methods until it looks.
        with suppress(RuntimeError):  # Its loop has ended.
            self._post(self._scope.cancel)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._thread.join, END_S)

    async def restore(self, state: bytes | None) -> None:
        """Let the operator have this state, in a new thread if the last one has ended."""
        if self._ended.is_set():
            await anyio.to_thread.run_sync(self._thread.join)
            await self._start()
        await super().restore(state)

    async def _start(self) -> None:
        arguments = (current_backend(),)
        name = "kohort region operator"
        thread = threading.Thread(target=self._run, args=arguments, name=name, daemon=True)
        if _threads.setdefault(id(self._operator), thread) is not thread:
            raise ConfigurationError(
                "the operator runs in a thread of another member, or of one that has ended and whose call"
                " of the operator has not: give each member an operator of its own"
            )
        self._is_closing = False
        self._ready.clear()
        self._ended.clear()
        self._thread = thread
        thread.start()
        with anyio.CancelScope(shield=True):  # Who begins a thread also ends it.
            await anyio.to_thread.run_sync(self._ready.wait)
        if self._ended.is_set():
            raise OperatorError(THREAD_ENDED)

    def _run(self, backend: str) -> None:
        """Run the operator's loop, and tell those who wait for its answers when it has ended."""
        try:
            anyio.run(self._serve, backend=backend)
        finally:
            del _threads[id(self._operator)]
            self._ended.set()
            self._ready.set()  # Where its loop could not begin, as without a free file descriptor.
            while self._calls:
                call = self._calls.popleft()
                call.error = OperatorError(THREAD_ENDED)
                call.tell()

    async def _serve(self) -> None:
        self._wake = anyio.Event()
        self._post = poster()
        with anyio.CancelScope() as self._scope:
            self._ready.set()
            while True:
                await self._wake.wait()
                self._wake = anyio.Event()
                while self._calls and not self._is_closing:
                    await self._calls[0].run(self._operator)
                    self._calls.popleft()

    async def _call(self, method: str, *arguments: Any) -> Any:
        assert self._post is not None
        call = _Call(method, arguments)
        self._calls.append(call)
        with suppress(RuntimeError):  # Its loop has ended: `_run` tells the call, unless it has ended before.
            self._post(self._wake_up)
        if self._ended.is_set():
            raise OperatorError(THREAD_ENDED)
        await call.done.wait()
        if call.error is not None:
            raise OperatorError(str(call.error)) from call.error
        return call.found

    def _wake_up(self) -> None:
        self._wake.set()


class ProcessExecutor(CallingExecutor):
    """Runs an operator in a process of its own, to which it is pickled.

    A process that dies, or whose caller was cancelled while it worked, is replaced at the next `restore`.
    """

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._backend = ""
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._is_busy = False
        self._turn = anyio.Lock()

    async def __aenter__(self) -> Self:
        self._backend = current_backend()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    async def restore(self, state: bytes | None) -> None:
        """Let the operator have this state, in a new process if the last one is gone."""
        async with self._turn:
            if self._process is None or self._is_busy or not self._process.is_alive():
                self._end()
                await anyio.to_thread.run_sync(self._start)
        await super().restore(state)

    async def _call(self, method: str, *arguments: Any) -> Any:
        async with self._turn:
            pipe = self._pipe
            if pipe is None or self._is_busy:
                raise OperatorError("the operator's process was interrupted; a reset starts another one")
            self._is_busy = True  # Until it has answered.
            found, failure = await anyio.to_thread.run_sync(
                partial(_ask, pipe, method, arguments), abandon_on_cancel=True
            )
            self._is_busy = False
        if failure:
            raise OperatorError(failure)
        return found

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, self._operator, self._backend)
        process = context.Process(target=serve_operator, args=arguments, daemon=True)
        process.start()
        theirs.close()
        self._process, self._is_busy = process, False

    def _end(self) -> None:
        """End the process, and whoever waits for its answer."""
        if self._process is not None:
            self._process.kill()
            self._process.join(END_S)
        # While it is busy, a thread reads from the pipe, and meets its end.
        if self._pipe is not None and not self._is_busy:
            self._pipe.close()
        self._process = self._pipe = None


def _ask(pipe: Connection, method: str, arguments: tuple[Any, ...]) -> Answer:
    """Return what the operator's process answers. Raises: OperatorError if it has ended."""
    try:
        question = ForkingPickler.dumps((method, arguments))
    except Exception as error:  # noqa: BLE001 - a type of the user's decides what its pickle raises.
        return None, f"{method}: what the operator is given cannot be pickled: {_told(error)}"
    try:
        pipe.send_bytes(question)
        answer = pipe.recv_bytes()
    except (EOFError, OSError) as error:
        raise OperatorError("the operator's process ended") from error
    try:
        found: Answer = pickle.loads(answer)
    except Exception as error:  # noqa: BLE001 - as above.
        return None, f"{method}: the answer of the operator cannot be read from its pickle: {_told(error)}"
    return found


def serve_operator(pipe: Connection, operator: Operator, backend: str) -> None:
    """Answer the calls that come by this pipe until it ends.

    An interrupt from the terminal is the member's: it ends this process when it is done.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_member, name="kohort region member's end", daemon=True).start()
    anyio.run(_serve_operator, pipe, operator, backend=backend)


def _end_with_member() -> None:
    """End this process when the member's has ended, also one whose operator hangs."""
    member = multiprocessing.parent_process()
    member_id = os.getppid()
    while member is not None and member.is_alive() and os.getppid() == member_id:
        member.join(LOOK_S)
    os._exit(1)


async def _serve_operator(pipe: Connection, operator: Operator) -> None:
    while True:
        try:
            question = await anyio.to_thread.run_sync(pipe.recv_bytes)
        except (EOFError, OSError):
            return
        answer = await _answer(operator, question)
        try:
            pipe.send_bytes(answer)
        except OSError:
            return


async def _answer(operator: Operator, question: bytes) -> memoryview:
    """Return the operator's answer as it is sent: a result, or why there is none."""
    answer: Answer
    method = "a call"
    try:
        method, arguments = pickle.loads(question)
        answer = (await call_operator(operator, method, *arguments), "")
        return ForkingPickler.dumps(answer)
    except OperatorError as error:
        answer = (None, str(error))
    except Exception as error:  # noqa: BLE001 - a type of the user's decides what its pickle raises.
        answer = (None, f"{method}: this cannot be pickled, or read from its pickle: {_told(error)}")
    return ForkingPickler.dumps(answer)


def current_backend() -> str:
    """Return the name of the event loop's library that runs, as `anyio.run` takes it."""
    return "trio" if hasattr(_native_token(), "run_sync_soon") else "asyncio"


def poster() -> Callable[[Callable[[], object]], object]:
    """Return what has the loop that runs here call a function soon, from any thread and without waiting."""
    native = _native_token()
    post: Callable[[Callable[[], object]], object] = (
        native.run_sync_soon if hasattr(native, "run_sync_soon") else native.call_soon_threadsafe
    )
    return post


def _native_token() -> Any:
    return anyio.lowlevel.current_token().native_token
