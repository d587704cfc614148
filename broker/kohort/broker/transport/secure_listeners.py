"""Creates the connections of listeners with TLS or SASL."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.current import CurrentConfig
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.lock_out import LockOut
from kohort.broker.runtime.supervisor import Part
from kohort.broker.runtime.throttled_log import ThrottledLog
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.workers import Workers
from kohort.broker.transport.connection import Connection
from kohort.broker.transport.counters import TransportCounters
from kohort.broker.transport.reactor import Open, open_plain
from kohort.broker.transport.sasl import mechanisms
from kohort.broker.transport.sasl.conversation import Mechanism
from kohort.broker.transport.sasl.gate import Gate, Logins, UnauthenticatedConnections
from kohort.broker.transport.sasl.mechanisms import SASL, ListenAddress, UserStore

if TYPE_CHECKING:
    from kohort.broker.transport.sasl.keys import KeySource
    from kohort.broker.transport.tls.handshakes import Handshakes

Run = Callable[[Part], Awaitable[object]]
SSL, SASL_SSL, SASL_PLAINTEXT = "SSL", "SASL_SSL", "SASL_PLAINTEXT"


class SecureListeners:
    """The TLS handshakes and SASL gates of all listeners. The loop's thread only."""

    def __init__(
        self,
        current: CurrentConfig,
        users: UserStore,
        *,
        counters: TransportCounters,
        workers: Workers,
        timers: Timers,
        clock: Clock,
        log: ThrottledLog,
        on_authenticated: Callable[[Connection], None],
        on_login: Logins = lambda *_: None,
    ) -> None:
        """Accept the SCRAM users of `users`, and those of the settings.

        `on_authenticated` is called with each authenticated connection, `on_login` with each attempt.
        """
        self._on_login = on_login
        self._on_authenticated = on_authenticated
        self._current = current
        self.users = users
        self._counters = counters
        self._workers = workers
        self._timers = timers
        self._clock = clock
        self._log = log
        self._lock_out = LockOut()
        self._unauthenticated = UnauthenticatedConnections(timers, clock, log)
        self._handshakes: dict[str, Handshakes] = {}
        self._bearer: Mechanism | None = None
        self.tasks: dict[str, Run] = {}
        """Background tasks of the listeners, by name."""

    def opens(self, listeners: Sequence[ListenAddress]) -> Mapping[int, Open]:
        """Return the factory of connections by listener number, without PLAINTEXT. Raises: ConfigError."""
        mechanisms.check_names(listeners, self._current.config)
        found = {}
        for number, each in enumerate(listeners):
            opens = self._encrypted(each.protocol) if each.protocol in (SSL, SASL_SSL) else open_plain
            if each.protocol.startswith(SASL):
                opens = self._gate(opens, each).open
            if opens is not open_plain:
                found[number] = opens
        return found

    def _encrypted(self, protocol: str) -> Open:
        from kohort.broker.transport.tls.handshakes import Handshakes  # noqa: PLC0415  # SASL_PLAINTEXT has none.

        handshakes = self._handshakes.get(protocol)
        if handshakes is None:
            handshakes = self._handshakes[protocol] = Handshakes(
                self._current,
                self._counters,
                self._workers,
                self._log,
                self._clock,
                asks_clients=protocol == SSL,
                on_authenticated=self._on_authenticated,
                on_login=self._on_login,
            )
            self.tasks[f"certificates of {protocol}"] = handshakes.reload_regularly
        return handshakes.open

    def _gate(self, opens: Open, listener: ListenAddress) -> Gate:
        return Gate(
            opens,
            mechanisms.mechanisms_of(listener, self._current.config, self.users, self._tokens),
            self._unauthenticated,
            self._current,
            timers=self._timers,
            clock=self._clock,
            counters=self._counters,
            log=self._log,
            on_authenticated=self._on_authenticated,
            lock_out=self._lock_out,
            on_login=self._on_login,
        )

    def _tokens(self) -> Mechanism:
        """Return the OAUTHBEARER mechanism, one for all listeners. Raises: ConfigError."""
        if self._bearer is None:
            keys = mechanisms.keys_module()
            from kohort.broker.transport.sasl.bearer import Bearer, rules_of  # noqa: PLC0415  # As above.

            source: KeySource = keys.KeySource(self._current.config, self._workers)
            self.tasks["keys of tokens"] = source.reload_regularly
            rules = rules_of(self._current.config)
            self._bearer = lambda: Bearer(source.keys, rules, self._clock.wall_ms)
        return self._bearer


def check(listeners: Sequence[ListenAddress], config: BrokerConfig) -> None:
    """Check the settings of the listeners. Reads files. Raises: ConfigError."""
    mechanisms.check(listeners, config)
    if any(each.protocol in (SSL, SASL_SSL) for each in listeners):
        from kohort.broker.transport.tls import contexts  # noqa: PLC0415  # SASL_PLAINTEXT has none.

        contexts.check(config)
