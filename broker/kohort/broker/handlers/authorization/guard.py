"""A `Dispatch` that looks who asks, and about what, before it lets anybody answer.

It stands there only where an authorizer does: a broker without one has nothing in its place.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from kohort.broker.handlers.authorization.asker import Asker, Grounds
from kohort.broker.handlers.authorization.rules import Finish, Rule, Verdict
from kohort.broker.handlers.authorization.table import FREE, RULES
from kohort.broker.transport.dispatch import Dispatch, Handle
from kohort.broker.transport.request import Request
from kohort.protocol.acls import AclOperation
from kohort.protocol.schema import Message

log = structlog.get_logger("kohort.authorizer")


class Judged(Request):
    """A request whose answer is completed before it is sent."""

    __slots__ = ("_asker", "_finish", "_original")

    def __init__(self, asker: Asker, finish: Finish | None) -> None:
        request = asker.request
        super().__init__(
            request.connection, request.api, request.version, request.correlation_id, request.client_id
        )
        self._asker = asker
        self._original = request
        self._finish = finish

    @property
    def may_describe(self) -> Callable[[str], bool]:
        """Which topics whoever asks may know of."""
        return self._asker.sees

    @property
    def may_describe_transaction(self) -> Callable[[str], bool]:
        """Which transactional ids whoever asks may know of."""
        return self._asker.sees_transaction

    @property
    def may_create(self) -> Callable[[str], bool]:
        """Which topics whoever asks may have made."""
        return self._asker.may_create

    def may_have(self, size_bytes: int) -> bool:
        """Return whether whoever asks may be answered so many bytes of records now."""
        return self._original.may_have(size_bytes)

    def respond(self, message: Message) -> None:
        """Answer the request with what becomes of this answer."""
        self._original.respond(message if self._finish is None else self._finish(message))

    def abandon(self) -> None:
        """Never answer."""
        self._original.abandon()


class Guard:
    """Hands on what may be asked, and answers the rest. The loop's thread only."""

    def __init__(self, inner: Dispatch, grounds: Grounds) -> None:
        self._inner = inner
        self._grounds = grounds
        self._guarded: dict[int, Handle] = {}

    def handler_of(self, api_key: int) -> Handle:
        """Return the function that answers the API if it may be asked."""
        handle = self._guarded.get(api_key)
        if handle is None:
            rule = RULES.get(api_key)
            if rule is None:
                handle = _refused_unseen
            elif rule is FREE:
                handle = self._inner.handler_of(api_key)
            else:
                handle = self._behind(rule, self._inner.handler_of(api_key))
            self._guarded[api_key] = handle
        return handle

    def lets_act_as_broker(self, request: Request) -> bool:
        """Return whether who asks may do what brokers do."""
        return Asker(self._grounds, request).may_cluster(AclOperation.CLUSTER_ACTION, quietly=True)

    def _behind(self, rule: Rule, handle: Handle) -> Handle:
        grounds = self._grounds

        def judged(message: Any, request: Request) -> Any:
            asker = Asker(grounds, request)
            verdict = rule.judge(asker, message)
            if verdict.hangs_up:
                return _closed_behind(asker, verdict, handle)
            if verdict.answer is not None:
                return verdict.answer
            finish = verdict.finish
            answer = handle(verdict.message, Judged(asker, finish))
            if finish is None or answer is None:
                return answer
            return _later(answer, finish) if isinstance(answer, Awaitable) else finish(answer)

        return judged


def _closed_behind(asker: Asker, verdict: Verdict, handle: Handle) -> None:
    """Do what may be done, and let the end of the connection tell of the rest."""
    if verdict.message is not None:
        handle(verdict.message, Judged(asker, None))
    asker.request.hang_up()


async def _later(answer: Awaitable[Any], finish: Finish) -> Any:
    found = await answer
    return None if found is None else finish(found)  # None: it comes by `respond`, which finishes it.


def _refused_unseen(_message: object, request: Request) -> None:
    """Close the connection of who asks something that nobody has said a rule for."""
    log.error("there is no rule who may ask this", api=request.api.name)
    request.hang_up()
