"""A worker's side of its channel: asks the supervisor what brokers ask etcd, and other workers for pages."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count

import trio

from kohort.broker.etcd.calls import Calls, rejection
from kohort.broker.etcd.errors import EtcdSilent, EtcdUnavailable
from kohort.broker.etcd.messages import Json
from kohort.broker.host.channel import Channel

CALL_SECONDS = 10.0
PAGE_SECONDS = 5.0
SUPERVISOR = "the supervisor"


class KeysClient(Calls):
    """A channel to the supervisor, on which `run` has to run. Many tasks."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._numbers = count(1)
        self._receivers: dict[int, trio.MemorySendChannel[Json]] = {}
        self.gone = trio.Event()
        """Set once the supervisor is gone: then this worker has no metadata, and ends."""
        self.on_asked: Callable[[int, Json], None] = self._answer_nothing
        """Called with a question of another worker, which `tell` answers under its number."""

    async def run(self) -> None:
        """Send and receive, until the supervisor is gone or this is cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._channel.write)
            async for message in self._channel.messages():
                if "asked" in message:
                    self.on_asked(message["asked"], message["question"])
                    continue
                receiver = self._receivers.get(message["to"])
                if receiver is not None:
                    receiver.send_nowait(message)
            self.gone.set()
            for receiver in tuple(self._receivers.values()):
                receiver.close()
            nursery.cancel_scope.cancel()

    @property
    def at(self) -> int:
        """Which endpoint is asked: there is one."""
        return 0

    def avoid(self, at: int) -> None:
        """Do nothing: there is no other."""

    def say(self, message: Json) -> None:
        """Send a message that is not a question."""
        self._channel.send(message)

    async def ask(self, worker: int, question: object) -> Json | None:
        """Return what another worker answers, None where it does not run, or not in time."""
        try:
            with self._hearing() as (number, answers), trio.move_on_after(PAGE_SECONDS):
                self._channel.send({"ask": number, "of": worker, "question": question})
                answer: Json | None = (await answers.receive())["answer"]
                return answer
        except (EtcdUnavailable, trio.EndOfChannel):
            return None
        return None

    def answer(self, number: int, answer: object) -> None:
        """Answer a question."""
        self._channel.send({"told": number, "answer": answer})

    def _answer_nothing(self, number: int, question: Json) -> None:
        self.answer(number, None)

    async def call(
        self, path: str, form: object, *, seconds: float | None = None, again: bool = False
    ) -> Json:
        """Return the answer. Raises: EtcdError."""
        with self._hearing() as (number, answers):
            self._channel.send({"call": number, "path": path, "form": form})
            try:
                with trio.fail_after(CALL_SECONDS if seconds is None else seconds):
                    told = await answers.receive()
            except trio.TooSlowError as error:
                raise EtcdUnavailable(f"{SUPERVISOR}: no answer in time", maybe_done=True) from error
            except trio.EndOfChannel as error:
                raise EtcdUnavailable(f"{SUPERVISOR} is gone", maybe_done=True) from error
        if "refused" in told:
            raise rejection(SUPERVISOR, told["refused"])
        answer: Json = told["answer"]
        return answer

    @contextmanager
    def _hearing(self) -> "Iterator[tuple[int, trio.MemoryReceiveChannel[Json]]]":
        """Give a number, and the messages with it. Raises: EtcdUnavailable."""
        if self.gone.is_set():
            raise EtcdUnavailable(f"{SUPERVISOR} is gone", maybe_done=False)
        number = next(self._numbers)
        told, hearing = trio.open_memory_channel[Json](float("inf"))
        self._receivers[number] = told
        try:
            yield number, hearing
        finally:
            del self._receivers[number]

    @asynccontextmanager
    async def stream(
        self, path: str, form: object, *, idle_seconds: float
    ) -> AsyncIterator[AsyncIterator[Json]]:
        """Give the messages of a watch. Raises: EtcdError."""
        with self._hearing() as (number, news):
            self._channel.send({"watch": number, "form": form})
            try:
                yield self._news(news, idle_seconds)
            finally:
                self._channel.send({"end": number})

    async def _news(
        self, news: "trio.MemoryReceiveChannel[Json]", idle_seconds: float
    ) -> AsyncIterator[Json]:
        while True:
            try:
                with trio.fail_after(idle_seconds):
                    told = await news.receive()
            except trio.TooSlowError as error:
                raise EtcdSilent(f"{SUPERVISOR}: nothing for {idle_seconds} s", maybe_done=False) from error
            except trio.EndOfChannel:
                return
            yield told["news"]
