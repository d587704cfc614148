"""`kohort serve`: options in, a broker that runs until it is stopped."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import kohort.broker.lean_imports  # noqa: F401  # isort: skip  # Before structlog.
import msgspec
import structlog
import trio

from kohort.broker import ephemeral
from kohort.broker.broker import running
from kohort.broker.composition.listeners import is_secure
from kohort.broker.config import BrokerConfig, ConfigError, ConfigSource
from kohort.broker.config.serve import FLAGS, SEVERAL, changed_settings, load_serve_config
from kohort.broker.host.worker_folders import is_of_workers
from kohort.broker.http.server import LISTEN_BACKLOG, serve_http
from kohort.broker.logs import configure_logs
from kohort.broker.runtime.memory import return_free_memory
from kohort.broker.serving import (
    ServeControlled,
    ServeRegistry,
    closed_http,
    hand_over,
    http_hosts,
    plaintext_address,
    say_listening,
    status_of,
    stop_signals,
    stopped_by,
    watchdog,
    watched,
    with_own_registry,
)
from kohort.broker.transport.addresses import (
    PLAINTEXT,
    Address,
    BrokerAddresses,
    Listener,
    bind,
)
from kohort.storage import FileSystem
from kohort.storage.data_directory import META_PROPERTIES
from kohort.storage.layout import MetaProperties

if TYPE_CHECKING:
    from kohort.broker.host.order import Order

DEFAULT_LISTEN = "127.0.0.1:9092"
DEFAULT_HTTP = "127.0.0.1:9644"
DEFAULT_DATA = "kohort-data"
ANY_HOST = "*"
SPOKEN = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
LOOPBACK = ("127.", "localhost", "::1")
USAGE = 2

OPTION = "--worker"

log = structlog.get_logger("kohort.broker")


class ServeOptions(msgspec.Struct, frozen=True):
    """The options of the command line."""

    places: BrokerAddresses
    http: Address
    config_file: Path | None
    settings: tuple[tuple[str, str], ...]
    log_format: str
    log_level: str
    forget_stored_settings: bool = False
    check_config: bool = False
    ephemeral: bool = False
    schema_registry: Address | None = None
    control: Address | None = None
    given: frozenset[str] = frozenset()
    """Which of listen, advertise, data and http the command line says: the file has no say in these."""


EPHEMERAL_SETTINGS = (
    ("group.initial.rebalance.delay.ms", "0"),
    ("group.min.session.timeout.ms", "1"),
    ("group.consumer.min.session.timeout.ms", "1"),
    ("group.consumer.min.heartbeat.interval.ms", "1"),
    ("group.share.min.session.timeout.ms", "1"),
    ("group.share.min.heartbeat.interval.ms", "1"),
    ("group.share.min.record.lock.duration.ms", "1000"),
)
"""Settings without delays, for tests. Given settings override them."""


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


def listen_address(text: str) -> Address:
    """Return the address that [[NAME:]PROTOCOL://]HOST:PORT names. Raises: argparse.ArgumentTypeError."""
    before, scheme, place = text.rpartition("://")
    name, _, protocol = before.upper().rpartition(":")
    if scheme and protocol not in SPOKEN:
        raise argparse.ArgumentTypeError(f"{text!r} begins with none of {', '.join(SPOKEN)}")
    return msgspec.structs.replace(address(place), protocol=protocol or PLAINTEXT, name=name)


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
    add("--listen", metavar="[PROTOCOL://]HOST:PORT", type=listen_address, action="append", default=None,
        help=f"where Kafka clients connect (default {DEFAULT_LISTEN}; port 0 picks a free one); more than one is fine")  # fmt: skip  # noqa: E501
    add("--advertise", metavar="HOST:PORT", type=address, action="append", default=None,
        help="what clients are told to connect to (default: the listen address); the n-th is for the n-th --listen")  # fmt: skip  # noqa: E501
    add("--data", metavar="DIR", type=Path, default=None,
        help=f"the data folder (default ./{DEFAULT_DATA})")  # fmt: skip
    add("--http", metavar="HOST:PORT", type=address, default=None,
        help=f"where /metrics, /health and /api are served (default {DEFAULT_HTTP})")  # fmt: skip
    add("--schema-registry", metavar="HOST:PORT", type=address, default=None,
        help="serve a schema registry there, with its schemas in a topic of this broker")  # fmt: skip
    add("--http-allow-writes", action="store_true",
        help="let the live page delete groups, reset their offsets and remove members")  # fmt: skip
    add("--mcp", action="store_true",
        help="let agents ask about groups at /mcp of --http, by the Model Context Protocol")  # fmt: skip
    add("--node-id", metavar="N", type=int, default=None,
        help="this broker's number, its own in its cluster (default: the data folder's, or 1)")  # fmt: skip
    add("--cluster", metavar="etcd://HOST:PORT,.../NAME", default=None,
        help="be a broker of this cluster, whose metadata are in etcd (etcds:// for TLS)")  # fmt: skip
    add("--workers", metavar="N", type=int, default=None,
        help="be N processes behind one address, for the cores of one machine (default 1)")  # fmt: skip
    add(
        "--rack",
        metavar="RACK",
        default=None,
        help="where this broker stands: replicas go to different racks",
    )
    add("--config", metavar="FILE", type=Path, default=None,
        help="TOML with Kafka's names, and listen, advertise, data, http; or .properties")  # fmt: skip
    add("--check-config", action="store_true", help="say what is wrong with file and settings, and end")
    add("--ephemeral", action="store_true",
        help="for tests: free ports, data that goes with the broker, no initial delay of groups")  # fmt: skip
    add("--control", metavar="HOST:PORT", type=address, default=None,
        help="for tests, with --ephemeral: take orders over HTTP there: time, faults, barriers, expectations")  # fmt: skip  # noqa: E501
    add("--set", metavar="NAME=VALUE", type=setting, action="append", default=[], dest="settings",
        help="one setting under Kafka's dotted name; more than one --set is fine; "
        "the list of processes shows it: give secrets as NAME=${file:PATH} or NAME=${env:NAME}")  # fmt: skip
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
    if found.ephemeral and found.data is not None:
        parser.error("--ephemeral keeps no data: leave --data out")
    free = Address("127.0.0.1", 0) if found.ephemeral else None
    listen = found.listen or [free or address(DEFAULT_LISTEN)]
    if len(found.advertise or ()) > len(listen):
        parser.error("there are more --advertise than --listen: the n-th belongs to the n-th")
    places = BrokerAddresses(listen[0], found.data or Path(DEFAULT_DATA))
    return ServeOptions(
        places=with_listeners(places, listen, found.advertise or ()),
        http=found.http or free or address(DEFAULT_HTTP),
        config_file=found.config,
        settings=(*found.settings, *_short_forms(found)),
        log_format=found.log_format,
        log_level=found.log_level,
        forget_stored_settings=found.forget_stored_settings,
        check_config=found.check_config,
        ephemeral=found.ephemeral,
        schema_registry=found.schema_registry,
        control=found.control,
        given=frozenset(name for name in FLAGS if getattr(found, name) is not None),
    )


def with_listeners(
    places: BrokerAddresses, listen: Sequence[Address], advertise: Sequence[Address | None]
) -> BrokerAddresses:
    """Return the places with these listeners, each with the address of the same number, if there is one."""
    first, *others = (
        Listener(each, advertise[number] if number < len(advertise) else None)
        for number, each in enumerate(listen)
    )
    return msgspec.structs.replace(places, listen=first.listen, advertise=first.advertise, more=tuple(others))


def _short_forms(found: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the settings that have their own options."""
    given = (
        ("node.id", found.node_id),
        ("kohort.cluster", found.cluster),
        ("kohort.workers", found.workers),
        ("broker.rack", found.rack),
        ("kohort.http.writes.enable", "true" if found.http_allow_writes else None),
        ("kohort.mcp.enable", "true" if found.mcp else None),
    )
    return [(name, str(value)) for name, value in given if value is not None]


def main(
    argv: Sequence[str] | None = None,
    serve_registry: ServeRegistry | None = None,
    serve_controlled: ServeControlled | None = None,
) -> int:
    """Run a broker and return the exit status: 0 after a clean stop, 1 with one line that says why not.

    `serve_registry` and `serve_controlled` are what --schema-registry and --control need, which the broker
    alone does not have.
    """
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == [OPTION]:
        from kohort.broker.worker import main as work  # noqa: PLC0415  # A supervisor has started this process.

        return work(int(arguments[1]))
    options = parse(arguments)
    configure_logs(options.log_format, options.log_level)
    if options.control is not None:
        return status_of(partial(run_controlled, options, options.control, serve_controlled))
    return status_of(partial(run, options, serve_registry))


def run_controlled(options: ServeOptions, control: Address, serve_controlled: ServeControlled | None) -> None:
    """Run a test's broker with a control port. Raises: ConfigError, StorageError, OSError."""
    if serve_controlled is None:
        raise ConfigError("--control is an option of `kohort serve`")
    if not options.ephemeral:
        raise ConfigError("--control is for tests: give --ephemeral as well")
    if options.places.more or options.places.advertise or options.places.listen.protocol != PLAINTEXT:
        raise ConfigError("--control is for a broker with one --listen, without TLS, SASL and --advertise")
    if options.config_file is not None or options.check_config:
        raise ConfigError("--control takes settings by --set, not from a file")
    serve_controlled(
        dict(options.settings), options.places.listen, options.http, control, options.schema_registry
    )


def run(options: ServeOptions, serve_registry: ServeRegistry | None = None) -> None:
    """Run the broker with the options. Raises: ConfigError, StorageError, OSError."""
    settings = (*EPHEMERAL_SETTINGS, *options.settings) if options.ephemeral else options.settings
    loaded = load_serve_config(options.config_file, settings)
    options = with_file(options, loaded.flags)
    check_listeners(options.places, loaded.config)  # Before there is a folder.
    closed_http(loaded.config)
    if options.check_config:
        say_checked(loaded.config, loaded.flags)
        return
    if loaded.passed_over:
        log.info("settings of Apache Kafka without a use here", names=" ".join(loaded.passed_over))
    config = with_node_id_of(options.places.data, loaded.config)
    check_writes(config, options.http)
    check_agents(config)
    check_registry(options, config, serve_registry)
    with throw_away_data(options) as (options, filesystem):
        if config.kohort_workers != 1 or is_of_workers(options.places.data):
            from kohort.broker.supervise import supervise  # noqa: PLC0415  # Where one process is not enough.

            trio.run(supervise, order_of(options), config)
        else:
            trio.run(serve, options, config, filesystem, serve_registry)


def with_file(options: ServeOptions, flags: Mapping[str, str]) -> ServeOptions:
    """Return the options with the file's values for those that the command line omits.

    Raises: ConfigError.
    """
    places, http = options.places, options.http
    kept = {*options.given, *(("data",) if options.ephemeral else ())}
    said: dict[str, list[Address | None]] = {}
    for name, text in flags.items():
        if name in kept:
            continue
        if name == "data":
            places = msgspec.structs.replace(places, data=Path(text))
            continue
        try:
            texts = text.split(",") if name in SEVERAL else [text]
            read = listen_address if name == "listen" else address
            said[name] = [read(each.strip()) if each else None for each in texts]
        except argparse.ArgumentTypeError as error:
            raise ConfigError(f"{options.config_file}: {name}: {error}") from None
    listen = [each for each in said.get("listen", ()) if each] or [each.listen for each in places.listeners]
    advertise = said.get("advertise", [each.advertise for each in places.listeners])
    if len(advertise) > len(listen) and any(advertise[len(listen) :]):
        raise ConfigError(
            f"{options.config_file}: {len(advertise)} addresses are advertised of {len(listen)} listeners: "
            "the n-th belongs to the n-th"
        )
    places = with_listeners(places, listen, advertise)
    for found in said.get("http", ()):
        http = found or http
    return msgspec.structs.replace(options, places=places, http=http)


def order_of(options: ServeOptions) -> "Order":
    """Return the common part of all workers. Raises: ConfigError."""
    from kohort.broker.host.order import Order  # noqa: PLC0415  # Where one process is not enough.

    if options.forget_stored_settings:
        raise ConfigError("--forget-stored-settings is for a broker of one process")
    return Order(
        listeners=options.places.listeners,
        http=options.http,
        data=str(options.places.data),
        log_format=options.log_format,
        log_level=options.log_level,
        is_ephemeral=options.ephemeral,
    )


def say_checked(config: BrokerConfig, flags: Mapping[str, str]) -> None:
    """Print what would hold at a start."""
    for name, value in {**flags, **changed_settings(config)}.items():
        sys.stdout.write(f"{name}={value}\n")


def check_listeners(places: BrokerAddresses, config: BrokerConfig) -> None:
    """Return if certificates and users are as they must be, where there are any. Raises: ConfigError."""
    if not is_secure([each.listen for each in places.listeners], config):
        return
    from kohort.broker.transport.secure_listeners import check  # noqa: PLC0415  # Most brokers have none.

    check([each.listen for each in places.listeners], config)


def with_node_id_of(folder: Path, config: BrokerConfig) -> BrokerConfig:
    """Return the settings with the node id of the broker whose data it is, unless they say one themselves.

    Raises: StorageError where the folder's meta.properties is damaged.
    """
    texts = config.layer(ConfigSource.STATIC_BROKER)
    if "node.id" in texts or "broker.id" in texts:
        return config
    try:
        content = (folder / META_PROPERTIES).read_bytes()
    except OSError:
        return config  # It is new, or will be complained of when it is opened.
    return BrokerConfig.parsed({**texts, "node.id": str(MetaProperties.decode(content).node_id)})


def check_agents(config: BrokerConfig) -> None:
    """Raises: ConfigError where agents cannot be answered for lack of a library."""
    if not config.kohort_mcp_enable:
        return
    from kohort.broker.http.mcp_sdk import HOW_TO_INSTALL, is_installed  # noqa: PLC0415  # Most have no agents.

    if not is_installed():
        raise ConfigError(f"kohort.mcp.enable: {HOW_TO_INSTALL}")


def check_writes(config: BrokerConfig, http: Address) -> None:
    """Say so where others may change groups. Raises: ConfigError where any page of any site might."""
    if not config.kohort_http_writes_enable:
        return
    if ANY_HOST in config.kohort_http_allowed_hosts:
        raise ConfigError("kohort.http.allowed.hosts=* and --http-allow-writes: name the hosts instead")
    if not http.host.startswith(LOOPBACK) and config.kohort_http_credentials_file is None:
        log.warning("every client that reaches the HTTP address may change groups", http=str(http))


@contextmanager
def throw_away_data(options: ServeOptions) -> Iterator[tuple[ServeOptions, FileSystem | None]]:
    """Yield the options with a folder that goes behind the block, if asked, and how its files are written."""
    if not options.ephemeral:
        yield options, None
        return
    with ephemeral.throw_away_folder() as folder:
        places = msgspec.structs.replace(options.places, data=folder / "data")
        yield msgspec.structs.replace(options, places=places), ephemeral.file_system()


def check_registry(options: ServeOptions, config: BrokerConfig, serve_registry: ServeRegistry | None) -> None:
    """Return if --schema-registry can be had, or is not asked for. Raises: ConfigError."""
    if options.schema_registry is None:
        return
    if serve_registry is None:
        raise ConfigError("--schema-registry is an option of `kohort serve`")
    if config.kohort_workers != 1 or is_of_workers(options.places.data):
        raise ConfigError("--schema-registry is for a broker of one process: run `kohort registry`")
    if not any(each.listen.protocol == PLAINTEXT for each in options.places.listeners):
        raise ConfigError(
            "--schema-registry needs a PLAINTEXT listener: run `kohort registry --command-config FILE`"
        )


async def serve(
    options: ServeOptions,
    config: BrokerConfig,
    filesystem: FileSystem | None = None,
    serve_registry: ServeRegistry | None = None,
) -> None:
    """Serve until a signal. Raises: StorageError, OSError where the start fails."""
    with trio.open_signal_receiver(*stop_signals()) as signals, watchdog(config) as dog:
        http, security = bind(options.http), closed_http(config)
        registry = None if options.schema_registry is None else bind(options.schema_registry)
        if registry is not None and security is None:
            config = with_own_registry(config, Address(*registry.getsockname()[:2]))
        forget = options.forget_stored_settings
        async with (
            running(config, options.places, filesystem=filesystem, forget_stored_settings=forget) as broker,
            trio.open_nursery() as nursery,
        ):
            with watched(broker, dog):
                http.listen(LISTEN_BACKLOG)  # A reader of this line may send requests at once.
                hosts = http_hosts(broker, options.http, config)
                nursery.start_soon(serve_http, broker.view(), http, hosts, security)
                http_address = Address(options.http.host, http.getsockname()[1])
                if registry is not None and serve_registry is not None:
                    registry.listen(LISTEN_BACKLOG)
                    kafka = plaintext_address(broker, options.places)
                    nursery.start_soon(serve_registry, registry, kafka, hosts, security)
                say_listening(broker.listening, http_address, options.places.data, registry)
                return_free_memory()
                async for number in signals:
                    stopped_by(number)
                    break
                await hand_over(broker, signals)
                nursery.cancel_scope.cancel()
    log.info("stopped")
