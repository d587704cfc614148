"""A service that records are pushed to through one stream of gRPC, under asyncio.

push.proto has the messages. A call for each record costs gRPC more than the record itself. On a stream a
record is one message, and its answer is another one, in any order. A stream that breaks is opened again with
the next record. Records that it had and did not answer are pushed again.
"""

import asyncio
import itertools
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import anyio

from kohort.client.values import AnyRecord
from kohort.queues.forward.grpc import grpc_aio, is_unreached, open_channel
from kohort.queues.forward.http import authorization, metadata_of
from kohort.queues.forward.push_messages import push_messages
from kohort.queues.forward.settings import Destination
from kohort.queues.forward.verdict import Action, Verdict, of_grpc, timed_out, unreached

REFUSED_CODES = {"UNIMPLEMENTED", "UNAUTHENTICATED", "PERMISSION_DENIED"}
"""Codes of a stream that the service does not take, whatever the record is."""


class BrokenStreamError(Exception):
    """The stream has ended, with a code of gRPC by its name."""

    def __init__(self, code: str, details: str) -> None:
        super().__init__(f"the stream ended: {code} {details}".rstrip())
        self.code = code
        self.details = details


class GrpcStreamService:
    """One destination's stream, open within `async with`. Raises: MissingExtraError without grpcio."""

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._messages = push_messages()
        grpc_aio()
        self._stream: _Stream | None = None

    async def __aenter__(self) -> Self:
        self._channel = open_channel(self._destination)
        self._open = self._channel.stream_stream(
            self._destination.parts.path,
            request_serializer=self._messages.record.SerializeToString,
            response_deserializer=self._messages.answer.FromString,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            if self._stream is not None:
                await self._stream.close()
            await self._channel.close()

    async def push(self, record: AnyRecord, attempt: int) -> Verdict:
        """Return what the service says of the record: all of it within the time-out."""
        destination = self._destination
        try:
            stream = self._current()
        except (OSError, ValueError) as error:
            return unreached(f"no token: {error}")
        message = self._messages.record(
            value=record.value or b"",
            metadata=metadata_of(record, destination, attempt),
            timeout_ms=destination.timeout_ms,
        )
        answers_before = stream.answers
        with anyio.move_on_after(destination.timeout_ms / 1000):
            try:
                answer = await stream.ask(message)
            except BrokenStreamError as error:
                return _of_broken(error)
            return of_grpc(answer.code or "OK", answer.metadata, answer.details)
        if stream.answers == answers_before:  # It may stand still for ever.
            stream.cancel()
        return timed_out(destination.timeout_ms)

    def _current(self) -> "_Stream":
        """Return the open stream, or a new one. Raises: OSError, ValueError without a token."""
        if self._stream is None or self._stream.has_ended:
            told = tuple(authorization(self._destination).items())
            self._stream = _Stream(self._open(metadata=told))
        return self._stream


class _Stream:
    """One call, the records that wait for their answers, and a task that reads these."""

    def __init__(self, call: Any) -> None:
        self.answers = 0
        self._call = call
        self._aio = grpc_aio()
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._writing = asyncio.Lock()
        self._broken: BrokenStreamError | None = None
        self._reader = asyncio.create_task(self._read())

    @property
    def has_ended(self) -> bool:
        """Whether another stream is needed."""
        return self._broken is not None or bool(self._call.done())

    async def ask(self, message: Any) -> Any:
        """Send a record and return its answer. Raises: BrokenStreamError."""
        message.id = next(self._ids)
        if self._broken is not None:
            raise self._broken
        answer = self._waiting[message.id] = asyncio.get_running_loop().create_future()
        try:
            async with self._writing:
                await self._write(message)
            return await answer
        finally:
            del self._waiting[message.id]
            answer.cancel()

    async def _write(self, message: Any) -> None:
        """Write, unless the stream has ended: its reader says why to whoever waits.

        gRPC raises CancelledError from here, too, where another push has cancelled the stream.
        """
        with suppress(self._aio.AioRpcError, asyncio.InvalidStateError):
            try:
                await self._call.write(message)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise

    def cancel(self) -> None:
        """End it: the service does not answer."""
        self._call.cancel()

    async def close(self) -> None:
        """End it, and return when its task has ended."""
        self._call.cancel()
        await self._reader

    async def _read(self) -> None:
        code, details = "CANCELLED", ""
        try:
            while (answer := await self._call.read()) is not self._aio.EOF:
                self.answers += 1
                waiting = self._waiting.get(answer.id)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
            code, details = (await self._call.code()).name, await self._call.details() or ""
        except self._aio.AioRpcError as error:
            code, details = error.code().name, error.details() or ""
        except asyncio.CancelledError:
            if not self._call.done():  # Not the call was cancelled but this task.
                raise
        finally:
            self._broken = BrokenStreamError(code, details)
            for each in self._waiting.values():
                if not each.done():
                    each.set_exception(self._broken)


def _of_broken(error: BrokenStreamError) -> Verdict:
    """Return the verdict of a record on a stream that ended: it says nothing of the record itself."""
    if is_unreached(error.code, error.details) or error.code in REFUSED_CODES:
        return unreached(str(error))
    return Verdict(Action.RETRY, None, str(error), is_failure=True)
