"""A `Dispatch` that looks who asks, and about what, before it lets anybody answer.

It stands there only where an authorizer does: a broker without one has nothing in its place.
"""

from typing import Any

import structlog

from kohort.broker.handlers.authorization.requester import Grounds, Requester
from kohort.broker.handlers.authorization.rules import Finish, Rule, Verdict
from kohort.broker.handlers.authorization.table import FREE, RULES
from kohort.broker.handlers.wrapping import WrappedRequest, ask
from kohort.broker.transport.dispatch import Dispatch, Handle
from kohort.broker.transport.permissions import Permissions
from kohort.broker.transport.request import Request
from kohort.protocol.acls import AclOperation

log = structlog.get_logger("kohort.authorizer")


class Judged(WrappedRequest):
    """A request that may be asked: its permissions are looked up, and its answer is completed."""

    __slots__ = ("_asker", "_finish")

    def __init__(self, requester: Requester, finish: Finish | None) -> None:
        super().__init__(requester.request)
        self._asker = requester
        self._finish = finish

    @property
    def permissions(self) -> Permissions:
        """Those of who asks."""
        return self._asker

    def finish(self, answer: Any) -> Any:
        """Return what becomes of the answer."""
        return answer if self._finish is None else self._finish(answer)


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
        return Requester(self._grounds, request).may_cluster(AclOperation.CLUSTER_ACTION, quietly=True)

    def _behind(self, rule: Rule, handle: Handle) -> Handle:
        grounds = self._grounds

        def unless_refused(message: Any, request: Request) -> Any:
            requester = Requester(grounds, request)
            verdict = rule.judge(requester, message)
            if verdict.hangs_up:
                return _closed_behind(requester, verdict, handle)
            if verdict.answer is not None:
                return verdict.answer
            judged = Judged(requester, verdict.finish)
            if verdict.finish is None:
                return handle(verdict.message, judged)
            return ask(handle, verdict.message, judged)

        return unless_refused


def _closed_behind(requester: Requester, verdict: Verdict, handle: Handle) -> None:
    """Do what may be done, and let the end of the connection tell of the rest."""
    if verdict.message is not None:
        handle(verdict.message, Judged(requester, None))
    requester.request.hang_up()


def _refused_unseen(_message: object, request: Request) -> None:
    """Close the connection of who asks something that nobody has said a rule for."""
    log.error("there is no rule who may ask this", api=request.api.name)
    request.hang_up()
