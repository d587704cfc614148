"""The common part of every serving process: its stop, its output, and its exit status."""

import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import trio

from kohort.broker.broker import Broker
from kohort.broker.config import BrokerConfig, ConfigError, ConfigSource
from kohort.broker.runtime.watchdog import Watchdog
from kohort.broker.transport.addresses import PLAINTEXT, Address, BrokerAddresses, reachable_host
from kohort.storage import StorageError

if TYPE_CHECKING:
    from kohort.broker.http.security import HttpSecurity

PROBLEM = 1
REGISTRY_URL = "kohort.schema.registry.url"
ServeRegistry = Callable[[socket.socket, str, Sequence[str], "HttpSecurity | None"], Awaitable[None]]
"""Serves a schema registry on a socket that listens, for the broker at an address, under host names, closed
as the broker's HTTP address is."""
ServeControlled = Callable[[dict[str, str], Address, Address, Address, Address | None], None]
"""Serves a test's broker: settings, and the addresses of Kafka, HTTP, control port and schema registry."""

log = structlog.get_logger("kohort.broker")


def status_of(run: Callable[[], None]) -> int:
    """Return the exit status: 0 after a clean stop, 1 with one line that says why not."""
    try:
        run()
    except (ConfigError, StorageError, OSError) as problem:
        return complain(problem)
    except BaseExceptionGroup as group:
        expected, others = group.split((ConfigError, StorageError, OSError))
        if expected is None or others is not None:
            raise
        return complain(*leaves(expected))
    return 0


def closed_http(config: BrokerConfig) -> "HttpSecurity | None":
    """Return how the HTTP side is protected, None if it is open. Raises: ConfigError."""
    if config.kohort_http_security_protocol == "PLAINTEXT" and config.kohort_http_credentials_file is None:
        return None
    from kohort.broker.http.security import HttpSecurity  # noqa: PLC0415  # Most brokers have it open.

    return HttpSecurity(config)


def with_own_registry(config: BrokerConfig, address: Address) -> BrokerConfig:
    """Return the settings with the URL of this process's schema registry, unless they have one.

    A registry that is closed to strangers is closed to the page as well, which has no secret.
    """
    texts = config.layer(ConfigSource.STATIC_BROKER)
    url = f"http://{Address(reachable_host(address.host), address.port)}"
    named = BrokerConfig.parsed({REGISTRY_URL: url, **texts})
    return named.with_dynamic(
        config.layer(ConfigSource.DYNAMIC_BROKER), config.layer(ConfigSource.DYNAMIC_DEFAULT_BROKER)
    )


def complain(*problems: BaseException) -> int:
    """Print what stopped the start, one line each, and return the exit status."""
    for problem in problems:
        print(f"kohort serve: {problem}", file=sys.stderr)  # noqa: T201  # The command's own message.
    return PROBLEM


def leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """Return the exceptions in the group and in the groups within."""
    found: list[BaseException] = []
    for each in group.exceptions:
        found += leaves(each) if isinstance(each, BaseExceptionGroup) else [each]
    return found


@contextmanager
def watchdog(config: BrokerConfig, parent: int | None = None) -> Iterator[Watchdog | None]:
    """Give the watchdog that ends this process if its loop is blocked inside the block, unless it is
    disabled."""
    if not config.kohort_loop_stall_timeout_ms:
        yield None
        return
    dog = Watchdog(config.kohort_loop_stall_timeout_ms / 1_000, parent=parent)
    dog.start()
    try:
        yield dog
    finally:
        dog.stop()


@contextmanager
def watched(broker: Broker, dog: Watchdog | None) -> Iterator[None]:
    """Let the watchdog watch the broker's loop inside the block."""
    if dog is None:
        yield
        return
    broker.on_beat = dog.beat
    try:
        yield
    finally:
        dog.rest()
        broker.on_beat = lambda: None


async def hand_over(broker: Broker, signals: AsyncIterator[int]) -> None:
    """Let others lead the broker's partitions; a second signal shortens that."""

    async def hurry(scope: trio.CancelScope) -> None:
        async for _ in signals:
            scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hurry, nursery.cancel_scope)
        await broker.hand_over()
        nursery.cancel_scope.cancel()


def stop_signals() -> list[signal.Signals]:
    """Return what asks for a clean stop: SIGHUP, too, unless `nohup` has it ignored.

    Windows has no SIGHUP; there Ctrl-Break asks, and whatever ends a process from outside kills it.
    """
    others = [getattr(signal, name) for name in ("SIGHUP", "SIGBREAK") if hasattr(signal, name)]
    heard = [each for each in others if signal.getsignal(each) is not signal.SIG_IGN]
    return [signal.SIGTERM, signal.SIGINT, *heard]


def http_hosts(broker: Broker, http: Address, config: BrokerConfig) -> tuple[str, ...]:
    """Return the names by which HTTP clients may call this broker."""
    listen = http.host
    names = (host for host, _ in broker.advertised)
    return listen, reachable_host(listen), *names, *config.kohort_http_allowed_hosts


def stopped_by(number: int) -> None:
    """Say which signal has asked for the end."""
    log.info("stopping", signal=signal.Signals(number).name)


def plaintext_address(broker: Broker, places: BrokerAddresses) -> str:
    """Return where a client in this process reaches the broker without TLS and SASL."""
    pairs = zip(places.listeners, broker.listening, strict=True)
    found = next(address for each, address in pairs if each.listen.protocol == PLAINTEXT)
    return str(Address(reachable_host(found.host), found.port))


def say_listening(
    kafka: Sequence[Address], http: Address, folder: Path, registry: socket.socket | None = None
) -> None:
    """Print the addresses of the broker, and of its schema registry if it has one."""
    listening, data = ",".join(map(str, kafka)), folder.resolve()
    more = "" if registry is None else f" schema-registry={Address(*registry.getsockname()[:2])}"
    sys.stdout.write(f"kohort ready kafka={listening} http={http}{more} data={data}\n")
    sys.stdout.flush()
    log.info("ready", kafka=listening, http=str(http), data=str(data), pid=os.getpid())
