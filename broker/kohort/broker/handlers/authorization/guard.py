"""A `Dispatch` that checks the requester and the resources before the handler runs.

It exists only with an authorizer: a broker without one has nothing in its place.
"""

from typing import Any

import structlog

from kohort.broker.handlers.authorization.requester import AuthorizationServices, Requester
from kohort.broker.handlers.authorization.rules import Finish, Rule, Verdict
from kohort.broker.handlers.authorization.table import FREE, RULES
from kohort.broker.handlers.wrapping import WrappedRequest, ask
from kohort.broker.transport.dispatch import Dispatch, Handle
from kohort.broker.transport.permissions import Permissions
from kohort.broker.transport.request import Request
from kohort.protocol.acls import AclOperation

log = structlog.get_logger("kohort.authorizer")


class AuthorizedRequest(WrappedRequest):
    """A request that its principal may send: with his permissions, and what completes its answer."""

    __slots__ = ("_asker", "_finish")

    def __init__(self, requester: Requester, finish: Finish | None) -> None:
        super().__init__(requester.request)
        self._asker = requester
        self._finish = finish

    @property
    def permissions(self) -> Permissions:
        """Those of the principal that sent it."""
        return self._asker

    def finish(self, answer: Any) -> Any:
        """Return what becomes of the answer."""
        return answer if self._finish is None else self._finish(answer)


class Guard:
    """Passes permitted requests on, and refuses the others. The loop's thread only."""

    def __init__(self, inner: Dispatch, services: AuthorizationServices) -> None:
        self._inner = inner
        self._services = services
        self._guarded: dict[int, Handle] = {}

    def handler_of(self, api_key: int) -> Handle:
        """Return the function that answers permitted requests of the API."""
        handle = self._guarded.get(api_key)
        if handle is None:
            rule = RULES.get(api_key)
            if rule is None:
                handle = _close_without_rule
            elif rule is FREE:
                handle = self._inner.handler_of(api_key)
            else:
                handle = self._guard(rule, self._inner.handler_of(api_key))
            self._guarded[api_key] = handle
        return handle

    def may_act_as_broker(self, request: Request) -> bool:
        """Return whether the principal of a request may do what brokers do."""
        return Requester(self._services, request).may_cluster(AclOperation.CLUSTER_ACTION, quietly=True)

    def _guard(self, rule: Rule, handle: Handle) -> Handle:
        services = self._services

        def handle_if_permitted(message: Any, request: Request) -> Any:
            requester = Requester(services, request)
            verdict = rule.judge(requester, message)
            if verdict.hangs_up:
                return _handle_and_close(requester, verdict, handle)
            if verdict.answer is not None:
                return verdict.answer
            authorized = AuthorizedRequest(requester, verdict.finish)
            if verdict.finish is None:
                return handle(verdict.message, authorized)
            return ask(handle, verdict.message, authorized)

        return handle_if_permitted


def _handle_and_close(requester: Requester, verdict: Verdict, handle: Handle) -> None:
    """Handle the parts that are permitted, then close the connection: such a request has no answer."""
    if verdict.message is not None:
        handle(verdict.message, AuthorizedRequest(requester, None))
    requester.request.hang_up()


def _close_without_rule(_message: object, request: Request) -> None:
    """Close the connection: there is no rule for this request."""
    log.error("no authorization rule exists for this API", api=request.api.name)
    request.hang_up()
