"""The steps between the transport and the handlers: quotas, the audit log, the lease, permissions."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kohort.broker.composition.audit import Audit
from kohort.broker.composition.standalone import Standalone
from kohort.broker.config.current import CurrentConfig
from kohort.broker.handlers.data.fetch_sessions import FetchSessions
from kohort.broker.handlers.quota_switch import QuotaSwitch
from kohort.broker.http.view_facts import QuotaUse
from kohort.broker.metadata import MetadataStore
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.loop import Mailbox
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.workers import Workers
from kohort.broker.transport.dispatch import Dispatch
from kohort.broker.transport.permissions import ALLOW_ALL, DENY_ALL
from kohort.broker.transport.reactor import Reactor
from kohort.broker.transport.request import Request

if TYPE_CHECKING:
    from kohort.broker.composition.membership import Membership
    from kohort.broker.handlers.authorization.guard import Guard
    from kohort.broker.handlers.quotas.metering import Metering
    from kohort.broker.http.asking import InHouse


class RequestPath:
    """Wraps what answers requests. The loop's thread only."""

    def __init__(
        self,
        dispatch: Dispatch,
        *,
        parts: "Standalone | Membership",
        audit: Audit,
        metadata: MetadataStore,
        current: CurrentConfig,
        fetch_sessions: FetchSessions,
        timers: Timers,
        clock: Clock,
        workers: Workers,
    ) -> None:
        self._parts = parts
        self._audit = audit
        self._metadata = metadata
        self._current = current
        self._fetch_sessions = fetch_sessions
        self._timers = timers
        self._clock = clock
        self._workers = workers
        self._guard: Guard | None = None
        self._metering: Metering | None = None
        self._reactor: Reactor | None = None
        is_judged = bool(current.config.authorizer_class_name) or audit.audit_log is not None
        self.permissions = DENY_ALL if is_judged else ALLOW_ALL
        guarded = self._guarded(dispatch) if is_judged else dispatch
        dispatch, guarded = map(parts.behind_lease, (dispatch, guarded))
        dispatch, guarded = map(audit.audited, (dispatch, guarded))
        self.in_house = dispatch
        """Answers requests of the broker itself, without permissions and quotas."""
        self.dispatch = QuotaSwitch(guarded, metadata, self._metered)
        """Answers requests of clients."""

    def begin(self, reactor: Reactor) -> None:
        """Measure clients from now on, if there are quotas, and whenever there are some."""
        self._reactor = reactor
        self.dispatch.begin(reactor.handlers.rebind)

    def asks(self, mailbox: Mailbox) -> "InHouse":
        """Return what asks this broker, as a Kafka client would; who may ask by HTTP is decided there."""
        from kohort.broker.http.asking import InHouse  # noqa: PLC0415  # Where the page may write.

        return InHouse(self.in_house, mailbox, self._workers)

    def quota_uses(self, most: int) -> Iterable[QuotaUse]:
        """Return the clients' use of their quotas."""
        return () if self._metering is None else self._metering.uses(most)

    def _metered(self, dispatch: Dispatch) -> Dispatch:
        """Return what measures clients before the handlers answer, and how often they connect."""
        from kohort.broker.handlers.quotas.metering import Metering  # noqa: PLC0415  # Most brokers need none.

        self._metering = metering = Metering(
            dispatch,
            self._metadata,
            self._current,
            timers=self._timers,
            clock=self._clock,
            workers=self._workers,
            is_broker=self._is_broker,
        )
        assert self._reactor is not None, "quotas begin with the reactor"
        self._reactor.admit_by(metering.connection_wait_ms)
        self._reactor.note_turn = metering.note_turn
        return metering

    def _is_broker(self, request: Request, node_id: int, epoch: int) -> bool:
        """Return whether the requester is another broker of the cluster, which is not limited."""
        return self._parts.is_broker(self._guard, request, node_id, epoch)

    def _guarded(self, dispatch: Dispatch) -> Dispatch:
        """Return the handlers behind a check of permissions."""
        from kohort.broker.handlers.authorization.following import guarded  # noqa: PLC0415  # Most have none.

        found = guarded(
            dispatch,
            self._metadata,
            self._fetch_sessions,
            self._current,
            self._clock,
            audit_log=self._audit.audit_log,
        )
        if self._current.config.authorizer_class_name:
            self._guard = found
        return found
