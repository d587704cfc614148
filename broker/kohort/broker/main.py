"""`kohort serve`: options in, a broker that runs until it is told to stop."""

import argparse
import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import kohort.broker.lean_imports  # noqa: F401  # isort: skip  # Before structlog.
import structlog
import trio

from kohort.broker.broker import Address, Broker, Places, bind, reachable_host, running
from kohort.broker.config import BrokerConfig, ConfigError, load_config
from kohort.broker.http import LISTEN_BACKLOG, serve_http
from kohort.broker.logs import configure_logs
from kohort.storage import StorageError

DEFAULT_LISTEN = "127.0.0.1:9092"
DEFAULT_HTTP = "127.0.0.1:9644"
DEFAULT_DATA = "kohort-data"
PROBLEM = 1
USAGE = 2

log = structlog.get_logger("kohort.broker")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What the command line says."""

    places: Places
    http: Address
    config_file: Path | None
    settings: tuple[tuple[str, str], ...]
    log_format: str
    log_level: str
    forget_stored_settings: bool = False


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}. See {self.prog} --help\n")


def address(text: str) -> Address:
    """Return the address that HOST:PORT names. Raises: argparse.ArgumentTypeError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not HOST:PORT, such as 127.0.0.1:9092 (port 0: a free one)"
        )
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def setting(text: str) -> tuple[str, str]:
    """Return the name and the value of NAME=VALUE. Raises: argparse.ArgumentTypeError."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, such as num.partitions=4")
    return name.strip(), value.strip()


def parse(argv: Sequence[str], program: str = "kohort serve") -> ServeOptions:
    """Return the options. Raises: SystemExit with status 2 and one line on standard error."""
    parser = _Parser(prog=program, description="Run a broker until SIGTERM, SIGINT or SIGHUP.")
    add = parser.add_argument
    add("--listen", metavar="HOST:PORT", type=address, default=address(DEFAULT_LISTEN),
        help=f"where Kafka clients connect (default {DEFAULT_LISTEN}; port 0 picks a free one)")  # fmt: skip
    add("--advertise", metavar="HOST:PORT", type=address, default=None,
        help="what clients are told to connect to (default: the listen address)")  # fmt: skip
    add("--data", metavar="DIR", type=Path, default=Path(DEFAULT_DATA),
        help=f"the data folder (default ./{DEFAULT_DATA})")  # fmt: skip
    add("--http", metavar="HOST:PORT", type=address, default=address(DEFAULT_HTTP),
        help=f"where /metrics, /health and /api are served (default {DEFAULT_HTTP})")  # fmt: skip
    add("--config", metavar="FILE.toml", type=Path, default=None, help="a TOML file of Kafka's dotted names")
    add("--set", metavar="NAME=VALUE", type=setting, action="append", default=[], dest="settings",
        help="one setting under Kafka's dotted name; more than one --set is fine")  # fmt: skip
    add(
        "--log-format",
        choices=("console", "json"),
        default="console",
        help="how log lines look (default console)",
    )
    add("--log-level", choices=("debug", "info", "warning", "error"), default="info",
        help="the least level that is logged (default info)")  # fmt: skip
    add("--forget-stored-settings", action="store_true",
        help="drop what admin clients have altered of the broker's settings; topics keep theirs")  # fmt: skip
    found = parser.parse_args(argv)
    return ServeOptions(
        places=Places(found.listen, found.data, found.advertise),
        http=found.http,
        config_file=found.config,
        settings=tuple(found.settings),
        log_format=found.log_format,
        log_level=found.log_level,
        forget_stored_settings=found.forget_stored_settings,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run a broker and return the exit status: 0 after a clean stop, 1 with one line that says why not."""
    options = parse(sys.argv[1:] if argv is None else argv)
    configure_logs(options.log_format, options.log_level)
    try:
        config = load_config(options.config_file, options.settings)
        trio.run(serve, options, config)
    except (ConfigError, StorageError, OSError) as problem:
        return complain(problem)
    except BaseExceptionGroup as group:
        expected, others = group.split((StorageError, OSError))
        if expected is None or others is not None:
            raise
        return complain(*leaves(expected))
    return 0


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


async def serve(options: ServeOptions, config: BrokerConfig) -> None:
    """Serve until a signal. Raises: StorageError, OSError where the start fails."""
    with trio.open_signal_receiver(*stop_signals()) as signals:
        http = bind(options.http)
        forget = options.forget_stored_settings
        async with (
            running(config, options.places, forget_stored_settings=forget) as broker,
            trio.open_nursery() as nursery,
        ):
            http.listen(LISTEN_BACKLOG)  # Who reads the line that says where may ask at once.
            nursery.start_soon(serve_http, broker.view(), http, http_hosts(broker, options, config))
            say_ready(broker, options, http)
            async for number in signals:
                log.info("stopping", signal=signal.Signals(number).name)
                break
            nursery.cancel_scope.cancel()
    log.info("stopped")


def stop_signals() -> list[signal.Signals]:
    """Return what asks for a clean stop: SIGHUP, too, unless `nohup` has it ignored."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, *([] if ignored else [signal.SIGHUP])]


def http_hosts(broker: Broker, options: ServeOptions, config: BrokerConfig) -> tuple[str, ...]:
    """Return the names by which HTTP clients may call this broker."""
    listen = options.http.host
    return listen, reachable_host(listen), broker.advertised[0], *config.kohort_http_allowed_hosts


def say_ready(broker: Broker, options: ServeOptions, http: socket.socket) -> None:
    """Print the line that tells where the broker can be reached."""
    http_address = Address(options.http.host, http.getsockname()[1])
    data = options.places.data.resolve()
    sys.stdout.write(f"kohort ready kafka={broker.listening} http={http_address} data={data}\n")
    sys.stdout.flush()
    log.info("ready", kafka=str(broker.listening), http=str(http_address), data=str(data), pid=os.getpid())
