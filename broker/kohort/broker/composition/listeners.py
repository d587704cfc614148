"""Which listeners authenticate clients or encrypt, and by which one brokers reach each other."""

import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import structlog

from kohort.broker.composition.machine import Machine
from kohort.broker.config import BrokerConfig, ConfigError
from kohort.broker.config.current import CurrentConfig
from kohort.broker.metadata import BrokerState, MetadataStore
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.throttled_log import ThrottledLog
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.workers import Workers
from kohort.broker.transport.addresses import PLAINTEXT, Address, Listener
from kohort.broker.transport.connection import Connection
from kohort.broker.transport.counters import TransportCounters
from kohort.storage import StorageError

if TYPE_CHECKING:
    from kohort.broker.transport.secure_listeners import SecureListeners

log = structlog.get_logger("kohort.broker")


def inter_broker_listener(places: Sequence[Address], config: BrokerConfig) -> int:
    """Return the number of the listener by which brokers reach each other. Raises: ConfigError."""
    wanted = config.inter_broker_listener_name
    names = [each.name or each.protocol for each in places]
    if wanted is not None:
        if wanted.upper() not in names:
            raise ConfigError(
                f"inter.broker.listener.name={wanted}: there is no such listener; "
                f"give one of {', '.join(names)}"
            )
        return names.index(wanted.upper())
    protocols = [each.protocol for each in places]
    if config.security_inter_broker_protocol not in protocols:
        raise ConfigError(
            f"brokers speak {config.security_inter_broker_protocol} to each other, and no listener does: "
            "security.inter.broker.protocol or inter.broker.listener.name"
        )
    return protocols.index(config.security_inter_broker_protocol)


def is_secure(listeners: Sequence[Address], config: BrokerConfig) -> bool:
    """Return whether any listener needs more than plaintext."""
    return config.kohort_listener_settings is not None or any(
        each.protocol != PLAINTEXT for each in listeners
    )


def super_users_of(config: BrokerConfig) -> Callable[[str], bool]:
    """Return the function that tells which principals are super users."""
    if not config.super_users:
        return lambda _: False
    from kohort.broker.authorization.authorizer import super_users  # noqa: PLC0415  # Most brokers have none.

    return frozenset(super_users(config.super_users)).__contains__


def secure_listeners(
    places: Sequence[Address],
    current: CurrentConfig,
    metadata: MetadataStore,
    *,
    counters: TransportCounters,
    workers: Workers,
    timers: Timers,
    clock: Clock,
    log: ThrottledLog,
    on_authenticated: Callable[[Connection], None],
    on_login: Callable[[str, str, str, str], None],
) -> "SecureListeners | None":
    """Return what authenticates and encrypts, None if all listeners are PLAINTEXT. Raises: ConfigError."""
    if not is_secure(places, current.config):
        return None
    from kohort.broker.metadata.scram_users import Iterations, credential  # noqa: PLC0415
    from kohort.broker.transport.sasl.mechanisms import UserStore  # noqa: PLC0415
    from kohort.broker.transport.secure_listeners import SecureListeners  # noqa: PLC0415  # Most brokers have none.

    counted, snapshot = Iterations(), metadata.snapshot
    return SecureListeners(
        current,
        UserStore(
            lambda user, mechanism: credential(snapshot(), user, mechanism),
            lambda mechanism: counted.of(snapshot(), mechanism),
        ),
        counters=counters,
        workers=workers,
        timers=timers,
        clock=clock,
        log=log,
        on_authenticated=on_authenticated,
        on_login=on_login,
    )


async def keep_salts(listeners: "SecureListeners", metadata: MetadataStore) -> None:
    """Let all brokers answer the same for unknown users; a full disk does not end the start."""
    if not listeners.users.is_used:
        return
    from kohort.broker.metadata.scram_users import salt_secret  # noqa: PLC0415  # Few brokers have users.

    try:
        listeners.users.keep(await salt_secret(metadata))
    except StorageError as error:
        log.error(
            "unauthenticated clients may learn which users exist until the next start", error=str(error)
        )


def bind_all(
    stack: ExitStack, machine: Machine, listeners: Sequence[Listener], shared: Sequence[Address]
) -> tuple[list[socket.socket], list[socket.socket]]:
    """Return the sockets of all listeners, and those that workers share. Raises: OSError.

    They are closed with the stack.
    """
    is_shared = bool(shared)
    own = [stack.enter_context(machine.bind(each.listen, is_shared=is_shared)) for each in listeners]
    return own, [stack.enter_context(machine.bind(each, is_shared=is_shared)) for each in shared]


def broker_state(config: BrokerConfig, advertised: Sequence[tuple[str, int]]) -> BrokerState:
    """Return the registration of a broker with these addresses."""
    (host, port), *others = advertised
    return BrokerState(
        config.node_id,
        host,
        port,
        config.broker_rack,
        is_drained=config.kohort_drained,
        more_addresses=tuple(others),
    )
