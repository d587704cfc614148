"""A question that the broker asks itself on behalf of an HTTP client, as a Kafka client would ask it."""

from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from typing import Protocol

import trio

from kohort.broker.runtime.loop import Mailbox
from kohort.broker.runtime.workers import Workers
from kohort.broker.transport.dispatch import Dispatch
from kohort.broker.transport.permissions import ALLOW_ALL
from kohort.broker.transport.request import ANONYMOUS, ReceivedRequest, Request
from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import Message

ANSWER_SECONDS = 10.0
CLIENT_ID = "kohort-http"


class NotAnswered(Exception):
    """No answer came: the part that had to give it has failed, or takes too long."""


class Ask(Protocol):
    """Asks the broker."""

    async def __call__(self, api: str, version: int, message: Message, /) -> Message:
        """Return the answer. Raises: NotAnswered."""
        ...


class InHouse:
    """Asks those who answer Kafka's requests, in a round of the loop; with their checks, and their errors."""

    def __init__(self, dispatch: Dispatch, mailbox: Mailbox, workers: Workers) -> None:
        self._dispatch = dispatch
        self._mailbox = mailbox
        self._workers = workers

    async def __call__(self, api: str, version: int, message: Message, /) -> Message:
        """Return the answer. Raises: NotAnswered."""
        origin = _Origin()
        request = ReceivedRequest(origin, BY_NAME[api], version, 0, CLIENT_ID)
        self._mailbox.post(partial(self._begin, message, request))
        try:
            with trio.move_on_after(ANSWER_SECONDS):
                await origin.ended.wait()
        finally:
            origin.close()  # Those who remember who has asked forget it.
        if origin.answer is None:
            raise NotAnswered(f"{api} was not answered")
        return origin.answer

    def _begin(self, message: Message, request: Request) -> None:
        try:
            answer = self._dispatch.handler_of(request.api.api_key)(message, request)
        except BaseException:
            request.hang_up()
            raise
        if isawaitable(answer):
            self._workers.spawn(self._later, request, answer)
        elif answer is not None:
            request.respond(answer)

    async def _later(self, request: Request, answer: Awaitable[Message]) -> None:
        try:
            request.respond(await answer)
        finally:
            request.hang_up()  # Where nothing came of it.


class _Origin:
    """What stands for the connection that the question came over."""

    def __init__(self) -> None:
        self.client_host = "/http"
        self.client_software = CLIENT_ID
        self.principal = ANONYMOUS
        self.listener = 0
        self.permissions = ALLOW_ALL
        self.closed = False
        self.on_close: list[Callable[[], None]] = []
        self.answer: Message | None = None
        self.ended = trio.Event()

    def complete(self, request: ReceivedRequest, message: Message) -> None:
        """Take the answer."""
        if not self.ended.is_set():
            self.answer = message
            self.ended.set()

    def abandon(self, request: ReceivedRequest) -> None:
        """Take it that there is no answer."""
        self.ended.set()

    def mute(self) -> None:
        """Take it that the next one has to wait: it comes from elsewhere."""

    def unmute(self) -> None:
        """Take it that the next one need not."""

    def close(self) -> None:
        """Take it that there will be no other answer."""
        self.closed = True
        self.ended.set()
        actions, self.on_close = self.on_close, []
        for action in actions:
            action()
