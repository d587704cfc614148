"""The gate of a listener with SASL: it answers a client until that has authenticated.

A client that has not authenticated may send ApiVersions, SaslHandshake and SaslAuthenticate; any other
request closes its connection. The number of its requests, its time, and the number of such connections are
limited: each further connection displaces another (`PendingConnections` chooses which). After the
authentication the broker's own handlers answer directly.

Source: Kafka's SaslServerAuthenticator; KIP-43, KIP-152, KIP-368.
"""

import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import structlog

from kohort.broker.config.current import CurrentConfig
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.lock_out import LockOut
from kohort.broker.runtime.throttled_log import ThrottledLog
from kohort.broker.runtime.timers import Timers
from kohort.broker.transport.connection import Connection, Driver
from kohort.broker.transport.counters import TransportCounters
from kohort.broker.transport.dispatch import Handle
from kohort.broker.transport.pending_connections import PendingConnections
from kohort.broker.transport.request import Request
from kohort.broker.transport.sasl.conversation import Conversation, Mechanism, Refused, Step
from kohort.broker.transport.sasl.peer import SaslPeer
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kohort.protocol.schema import Message

if TYPE_CHECKING:
    from kohort.broker.transport.reactor import Open

UNAUTHENTICATED_MAX = 256
AUTHENTICATION_MS_MAX = 10_000
REQUESTS_MAX = 16  # ApiVersions, handshake and a few tokens
HANDSHAKE, AUTHENTICATE, API_VERSIONS = 17, 36, 18

log = structlog.get_logger("kohort.sasl")


Logins = Callable[[str, str, str, str], None]
"""Takes the principal, host and mechanism of a login attempt, and why it failed, if it did."""


class LockedOut(Refused):
    """A client's network has sent too many wrong passwords before."""

    def __init__(self, user: str, wait_ms: int) -> None:
        seconds = -(-wait_ms // 1000)
        super().__init__(
            f"too many failures of {user} or others from its address, {seconds} s have to pass",
            "Authentication failed: there were too many failures from this address; "
            f"try again in {seconds} s",
        )


class Session:
    """The authentication state of one connection."""

    __slots__ = ("connection", "conversation", "is_expired", "is_known", "mechanism", "peer", "requests")

    def __init__(self, connection: Connection, peer: SaslPeer) -> None:
        self.connection = connection
        self.peer = peer
        self.conversation: Conversation | None = None
        """The current attempt."""
        self.mechanism = ""
        self.requests = 0
        """The number of requests before the authentication."""
        self.is_known = False
        self.is_expired = False


class UnauthenticatedConnections:
    """The connections of all listeners that have not authenticated. Used by the loop's thread only."""

    def __init__(self, timers: Timers, clock: Clock, log: ThrottledLog) -> None:
        self._timers = timers
        self._clock = clock
        self._log = log
        self._pending = PendingConnections[Connection](UNAUTHENTICATED_MAX)

    def __len__(self) -> int:
        return len(self._pending)

    def make_room(self) -> None:
        """Close a connection if there are too many."""
        if (connection := self._pending.to_displace()) is not None:
            self._give_up(connection, "there are too many connections without authentication")

    def add(self, connection: Connection) -> None:
        """Add a connection; it is closed unless it authenticates in time."""
        self._pending.add(connection, self._clock.now_ms())
        if len(self._pending) == 1:
            self._look()

    def remove(self, connection: Connection) -> None:
        """Remove a connection that has closed or has authenticated."""
        self._pending.remove(connection)

    def _look(self) -> None:
        """Close the connections whose time is over, and look again when that of the next one is."""
        while (oldest := self._pending.oldest()) is not None:
            connection, since_ms = oldest
            due_ms = since_ms + AUTHENTICATION_MS_MAX
            if self._clock.now_ms() < due_ms:
                self._timers.set("sasl authentication", due_ms, self._look)
                return
            self._give_up(connection, "the client did not authenticate in time")

    def _give_up(self, connection: Connection, reason: str) -> None:
        self._pending.remove(connection)
        self._log.warning("a connection is closed", peer=connection.name, reason=reason)
        connection.close()


class Gate:
    """The gate of one listener. The loop's thread only."""

    def __init__(
        self,
        opens: "Open",
        mechanisms: Mapping[str, Mechanism],
        unauthenticated: UnauthenticatedConnections,
        current: CurrentConfig,
        *,
        timers: Timers,
        clock: Clock,
        counters: TransportCounters,
        log: ThrottledLog,
        on_authenticated: Callable[[Connection], None],
        lock_out: LockOut,
        on_login: Logins = lambda *_: None,
    ) -> None:
        """Authenticate connections that `opens` creates, with these `mechanisms`.

        `on_authenticated` is called once for each connection, when its principal is known, and `on_login` at
        each attempt.
        """
        self._on_authenticated = on_authenticated
        self._lock_out = lock_out
        self._on_login = on_login
        self._opens = opens
        self._mechanisms = mechanisms
        self._unauthenticated = unauthenticated
        self._current = current
        self._timers = timers
        self._clock = clock
        self._counters = counters
        self._log = log
        self._sessions: dict[Connection, Session] = {}
        self._for_unauthenticated = _Answers(
            {API_VERSIONS: self._versions, HANDSHAKE: self._handshake, AUTHENTICATE: self._authenticate},
            lambda _: self._not_yet,
        )
        self._for_expired = _Answers(
            {HANDSHAKE: self._handshake, AUTHENTICATE: self._authenticate}, lambda _: self._expired
        )
        self._for_known: dict[int, Handle] = {}
        self._for_all: dict[int, Handle] = {}

    def open(  # It is an `Open`.
        self,
        driver: Driver,
        sock: socket.socket,
        address: tuple[str, int],
        frame_bytes_max: int,
        listener: int,
    ) -> Connection:
        """Return a new connection that must authenticate. Raises: OSError if the client is gone."""
        self._unauthenticated.make_room()
        limit = min(frame_bytes_max, self._current.config.sasl_server_max_receive_size)
        connection = self._opens(driver, sock, address, limit, listener)
        if not self._for_known:
            self._for_all = driver.handlers
            again: dict[int, Handle] = {HANDSHAKE: self._handshake, AUTHENTICATE: self._authenticate}
            self._for_known = known = _Answers(again, driver.handlers.__getitem__)
            driver.handlers.copies.append(known.forget)
        peer = SaslPeer(connection, driver.in_flight.allowance, frame_bytes_max=limit, now_ms=driver.now_ms)
        connection.peer = peer
        connection.handlers = self._for_unauthenticated
        connection.on_close.append(partial(self._left, connection))
        self._sessions[connection] = Session(connection, peer)
        self._unauthenticated.add(connection)
        return connection

    def _left(self, connection: Connection) -> None:
        session = self._sessions.pop(connection)
        self._unauthenticated.remove(connection)
        self._timers.cancel(session)

    # -- requests -----------------------------------------------------------------------------------------

    def _session(self, request: Request) -> Session | None:
        """Return the session of a request, or close the connection after too many requests."""
        connection = request.connection
        assert isinstance(connection, Connection)
        session = self._sessions[connection]
        session.requests += not session.is_known
        if session.requests > REQUESTS_MAX:
            self._hang_up(request, "the client has sent too many requests without authentication")
            return None
        return session

    def _hang_up(self, request: Request, reason: str) -> None:
        self._counters.failed_authentications += 1
        self._log.warning("authentication failed", peer=_name(request), reason=reason)
        request.hang_up()

    def _not_yet(self, _message: Message, request: Request) -> None:
        self._hang_up(request, f"the client has sent {request.api.name} without authentication")

    def _expired(self, _message: Message, request: Request) -> None:
        self._counters.expired_connections += 1
        log.info("a client did not authenticate again in time", peer=_name(request))
        request.hang_up()

    def _versions(self, message: Message, request: Request) -> "Message | Awaitable[Message | None] | None":
        session = self._session(request)
        if session is None:
            return None
        if session.conversation is not None:
            self._hang_up(request, "ApiVersions in the middle of authentication")
            return None
        return self._for_all[API_VERSIONS](message, request)

    def _handshake(self, message: SaslHandshakeRequest, request: Request) -> SaslHandshakeResponse | None:
        session = self._session(request)
        if session is None:
            return None
        if session.conversation is not None:
            self._hang_up(request, "a handshake in the middle of authentication")
            return None
        begin = self._mechanisms.get(message.mechanism)
        if session.is_known and message.mechanism != session.mechanism:
            begin = None
        names = tuple(self._mechanisms)
        if begin is None:
            refusal = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=names)
            self._refuse(session, request, Refused("the mechanism is not enabled"), refusal)
            return None
        session.mechanism = message.mechanism
        session.conversation = begin()
        session.peer.is_bare = request.version == 0
        return SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=names)

    def _authenticate(
        self, message: SaslAuthenticateRequest, request: Request
    ) -> SaslAuthenticateResponse | None:
        session = self._session(request)
        if session is None:
            return None
        if session.conversation is None:
            if not session.is_known:
                self._hang_up(request, "a token without a handshake")
                return None
            return SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE,
                error_message="SaslAuthenticate request received after successful authentication",
                auth_bytes=b"",
            )
        try:
            step = self._judged(session, session.conversation, bytes(message.auth_bytes))
            lifetime_ms = self._entered(session, step) if step.user else 0
        except Refused as refused:
            answer = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=refused.told, auth_bytes=b""
            )
            self._refuse(session, request, refused, answer)
            return None
        return SaslAuthenticateResponse(
            error_code=ErrorCode.NONE,
            error_message=None,
            auth_bytes=step.answer,
            session_lifetime_ms=lifetime_ms,
        )

    def _judged(self, session: Session, conversation: Conversation, token: bytes) -> Step:
        """Return the result of a token. Raises: Refused, also for a right password during a lockout.

        A lockout answers right and wrong passwords alike, so that a client learns nothing from it.
        """
        connection, step, refused = session.connection, None, None
        try:
            step = conversation.take(token)
        except Refused as error:
            refused = error
        user, now_ms = conversation.user, self._clock.now_ms()
        is_itself = session.is_known and connection.principal == f"User:{user}"
        if user and (step is None or step.user) and not is_itself:
            longest_ms = self._current.config.kohort_lockout_max_ms
            wait_ms = self._lock_out.wait_ms(connection.host, user, now_ms, longest_ms=longest_ms)
            if wait_ms:
                self._counters.locked_out += 1
                raise LockedOut(user, wait_ms)
            if step is None:
                self._lock_out.failed(connection.host, user, now_ms)
            else:
                self._lock_out.succeeded(connection.host, user)
        if step is None:
            assert refused is not None
            raise refused
        return step

    # -- results ------------------------------------------------------------------------------------------

    def _entered(self, session: Session, step: Step) -> int:
        """Authenticate the connection. Return the session lifetime, 0 for no limit. Raises: Refused."""
        connection, principal = session.connection, f"User:{step.user}"
        if session.is_known and connection.principal != principal:
            raise Refused(
                "the user has changed in a re-authentication",
                "Cannot change principals during re-authentication",
            )
        lifetime_ms = self._lifetime_ms(step)
        session.conversation = None
        session.peer.is_bare = False
        session.peer.allow(self._current.config.socket_request_max_bytes)
        was_known, session.is_known = session.is_known, True
        connection.principal = principal
        connection.handlers = self._for_known
        self._unauthenticated.remove(connection)
        self._counters.authentications += 1
        self._on_login(principal, connection.host, session.mechanism, "")
        log.debug("authenticated", peer=connection.name, principal=principal, mechanism=session.mechanism)
        self._timers.cancel(session)
        if not was_known:
            self._on_authenticated(connection)
        if lifetime_ms and not connection.closed:
            self._timers.set(session, self._clock.now_ms() + lifetime_ms, partial(self._expire, session))
        return lifetime_ms

    def _lifetime_ms(self, step: Step) -> int:
        """Return the session lifetime, 0 for no limit. Raises: Refused for expired credentials."""
        most_ms = max(self._current.config.connections_max_reauth_ms, 0)
        if step.expires_ms is None:
            return most_ms
        left_ms = step.expires_ms - self._clock.wall_ms()
        if left_ms <= 0:
            raise Refused("the credentials have expired")
        return min(left_ms, most_ms) if most_ms else left_ms

    def _expire(self, session: Session) -> None:
        """Accept only a re-authentication from now on."""
        session.connection.handlers = self._for_expired

    def _refuse(self, session: Session, request: Request, refused: Refused, answer: Message) -> None:
        """Answer after a delay, and close. The delay slows down the guessing of passwords."""
        self._counters.failed_authentications += 1
        self._log.warning(
            "authentication failed",
            peer=session.connection.name,
            mechanism=session.mechanism,
            reason=str(refused),
        )
        user = session.conversation.user if session.conversation is not None else ""
        self._on_login(f"User:{user}", session.connection.host, session.mechanism, str(refused))
        session.connection.handlers = _NOBODY
        session.peer.is_bare = False
        wait_ms = self._current.config.connection_failed_authentication_delay_ms
        self._timers.set(session, self._clock.now_ms() + wait_ms, partial(_tell_and_close, request, answer))


class _Answers(dict[int, Handle]):
    """Handlers by API key, with a default for other APIs."""

    def __init__(self, answers: Mapping[int, Handle], otherwise: Callable[[int], Handle]) -> None:
        super().__init__(answers)
        self._own = answers
        self._otherwise = otherwise

    def forget(self) -> None:
        """Clear the cached defaults."""
        self.clear()
        self.update(self._own)

    def __missing__(self, api_key: int) -> Handle:
        handle = self[api_key] = self._otherwise(api_key)
        return handle


def _name(request: Request) -> str:
    assert isinstance(request.connection, Connection)
    return request.connection.name


def _tell_and_close(request: Request, answer: Message) -> None:
    connection = request.connection
    assert isinstance(connection, Connection)
    if request.version >= 0:  # A raw token cannot be answered with an error.
        connection.complete(request.received, answer)
        connection.send_answers()
    connection.close()


def _ended(_message: Message, request: Request) -> None:
    """Close the connection of a client that sends requests after a failure."""
    request.hang_up()


_NOBODY = _Answers({}, lambda _: _ended)
