"""The clients' settings, under Kafka's names with underscores, checked when a client is made."""

import difflib
import re
from collections.abc import Mapping
from typing import Annotated, TypedDict, TypeVar

import msgspec
from msgspec import Meta

from kohort.client.assignors import ASSIGNORS, Assignor
from kohort.client.errors import ConfigurationError

Milliseconds = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
BufferBytes = Annotated[int, Meta(ge=-1)]
DEFAULT_PORT = 9092


class ClientOptions(TypedDict, total=False):
    """What every client takes."""

    bootstrap_servers: str | list[str]
    client_id: str
    default_api_timeout_ms: int
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    connections_max_idle_ms: int
    metadata_max_age_ms: int
    receive_buffer_bytes: int
    send_buffer_bytes: int


class AdminOptions(ClientOptions, total=False):
    """What an Admin takes."""


class ConsumerOptions(ClientOptions, total=False):
    """What a Consumer takes."""

    group_id: str | None
    group_instance_id: str | None
    group_protocol: str
    client_rack: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    max_poll_records: int
    partition_assignment_strategy: "str | Assignor | list[str | Assignor]"
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    auto_offset_reset: str
    isolation_level: str
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    check_crcs: bool
    exclude_internal_topics: bool
    allow_auto_create_topics: bool


class ProducerOptions(ClientOptions, total=False):
    """What a Producer takes."""

    acks: int | str
    enable_idempotence: bool
    linger_ms: int
    batch_size: int
    buffer_memory: int
    compression_type: str | None
    max_block_ms: int
    delivery_timeout_ms: int
    max_request_size: int


class ClientConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings that every client has."""

    bootstrap_servers: str | list[str] = "localhost:9092"
    client_id: str = "kohort"
    default_api_timeout_ms: Milliseconds = 60_000
    request_timeout_ms: Positive = 30_000
    retry_backoff_ms: Milliseconds = 100
    retry_backoff_max_ms: Milliseconds = 1_000
    reconnect_backoff_ms: Milliseconds = 50
    reconnect_backoff_max_ms: Milliseconds = 1_000
    connections_max_idle_ms: Annotated[int, Meta(ge=-1)] = 540_000
    metadata_max_age_ms: Positive = 300_000
    receive_buffer_bytes: BufferBytes = 65_536
    send_buffer_bytes: BufferBytes = 131_072

    @property
    def bootstrap_addresses(self) -> tuple[tuple[str, int], ...]:
        """The hosts and ports to begin with. Raises: ConfigurationError."""
        given = self.bootstrap_servers
        entries = given.split(",") if isinstance(given, str) else given
        found = tuple(parse_address(each.strip()) for each in entries if each.strip())
        if not found:
            raise ConfigurationError("bootstrap_servers is empty: give HOST:PORT")
        return found


class AdminConfig(ClientConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An Admin's settings."""


class ConsumerConfig(ClientConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A Consumer's settings."""

    group_id: str | None = None
    group_instance_id: str | None = None
    session_timeout_ms: Positive = 45_000
    heartbeat_interval_ms: Positive = 3_000
    max_poll_interval_ms: Positive = 300_000
    max_poll_records: Positive = 500
    group_protocol: str = "classic"
    client_rack: str | None = None
    # Kafka's defaults, and the one that every other client has. msgspec can't check it: `assignors` does.
    partition_assignment_strategy: object = "range,cooperative-sticky,roundrobin"
    enable_auto_commit: bool = True
    auto_commit_interval_ms: Milliseconds = 5_000
    auto_offset_reset: str = "latest"
    isolation_level: str = "read_uncommitted"
    fetch_min_bytes: Positive = 1
    fetch_max_wait_ms: Milliseconds = 500
    fetch_max_bytes: Positive = 52_428_800
    max_partition_fetch_bytes: Positive = 1_048_576
    check_crcs: bool = True
    exclude_internal_topics: bool = True
    allow_auto_create_topics: bool = True

    @property
    def assignors(self) -> tuple[Assignor, ...]:
        """The assignors in order of preference. Raises: ConfigurationError."""
        given = self.partition_assignment_strategy
        entries = given.split(",") if isinstance(given, str) else given
        if isinstance(entries, Assignor):
            return (entries,)
        if not isinstance(entries, list | tuple) or not entries:
            raise ConfigurationError(f"partition_assignment_strategy is {given!r}: give names or Assignors")
        return tuple(each if isinstance(each, Assignor) else _assignor(each) for each in entries)


class ProducerConfig(ClientConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A Producer's settings."""

    acks: int | str = "all"
    enable_idempotence: bool = False
    linger_ms: Milliseconds = 5
    batch_size: Positive = 16_384
    buffer_memory: Positive = 33_554_432
    compression_type: str | None = None
    max_block_ms: Milliseconds = 60_000
    delivery_timeout_ms: Positive = 120_000
    max_request_size: Positive = 1_048_576

    @property
    def required_acks(self) -> int:
        """`acks` as the protocol has it: 0, 1 or -1 for all. Raises: ConfigurationError."""
        acks = {"all": -1, "-1": -1, "0": 0, "1": 1, -1: -1, 0: 0, 1: 1}.get(self.acks)
        if acks is None:
            raise ConfigurationError(f"acks is {self.acks!r}: give 0, 1 or 'all'")
        return acks


Config = TypeVar("Config", bound=ClientConfig)
COMPRESSION_TYPES = ("none", "gzip", "snappy", "lz4", "zstd")


def admin_config(options: Mapping[str, object]) -> AdminConfig:
    """Return an Admin's settings. Raises: ConfigurationError."""
    return _convert(options, AdminConfig)


def consumer_config(options: Mapping[str, object]) -> ConsumerConfig:
    """Return a Consumer's settings. Raises: ConfigurationError."""
    config = _convert(options, ConsumerConfig)
    _require(
        config.isolation_level == "read_uncommitted",
        f"isolation_level is {config.isolation_level!r}: only 'read_uncommitted' is supported",
    )
    _require(
        config.group_protocol == "classic",
        f"group_protocol is {config.group_protocol!r}: "
        + (
            "the protocol of KIP-848 is not supported yet, give 'classic'"
            if config.group_protocol == "consumer"
            else "give 'classic'"
        ),
    )
    _require(
        config.auto_offset_reset in {"earliest", "latest", "none"} or _is_duration(config.auto_offset_reset),
        f"auto_offset_reset is {config.auto_offset_reset!r}: give 'earliest', 'latest', 'none' or"
        " 'by_duration:' with an ISO 8601 duration such as PT1H",
    )
    _require(
        config.heartbeat_interval_ms < config.session_timeout_ms,
        f"heartbeat_interval_ms ({config.heartbeat_interval_ms}) has to be below"
        f" session_timeout_ms ({config.session_timeout_ms}), better a third of it",
    )
    _require(config.group_id != "", "group_id is empty: give a name, or leave it out to read without a group")
    _require(
        config.group_instance_id is None or config.group_id is not None,
        "group_instance_id needs a group_id",
    )
    assert config.assignors  # Looked up now, so that a wrong name is an error at once.
    return config


def producer_config(options: Mapping[str, object]) -> ProducerConfig:
    """Return a Producer's settings. Raises: ConfigurationError."""
    config = _convert(options, ProducerConfig)
    _require(not config.enable_idempotence, "enable_idempotence=True is not supported; leave it out")
    assert config.required_acks in {-1, 0, 1}
    _require(
        config.compression_type is None or config.compression_type in COMPRESSION_TYPES,
        f"compression_type is {config.compression_type!r}: give one of {', '.join(COMPRESSION_TYPES)}",
    )
    _require(
        config.delivery_timeout_ms >= config.linger_ms + config.request_timeout_ms,
        f"delivery_timeout_ms ({config.delivery_timeout_ms}) has to be at least"
        f" linger_ms + request_timeout_ms ({config.linger_ms + config.request_timeout_ms})",
    )
    return config


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of `host:port`, `host` or `[ipv6]:port`. Raises: ConfigurationError."""
    found = re.fullmatch(r"(?:\[(?P<six>[^\]]+)\]|(?P<host>[^:\s]+))(?::(?P<port>\d+))?", text)
    if found is None or int(found["port"] or DEFAULT_PORT) > 65_535:
        raise ConfigurationError(f"{text!r} is not an address: give HOST:PORT, such as localhost:9092")
    return found["six"] or found["host"], int(found["port"] or DEFAULT_PORT)


_DURATION = re.compile(
    r"by_duration:P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


def _is_duration(text: str) -> bool:
    found = _DURATION.fullmatch(text)
    return found is not None and any(found.groupdict().values())


def duration_ms(text: str) -> int:
    """Return the milliseconds of `by_duration:PnDTnHnMnS`, which has been checked before."""
    found = _DURATION.fullmatch(text)
    assert found is not None, text
    days, hours, minutes, seconds = (float(each or 0) for each in found.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def _assignor(given: object) -> Assignor:
    name = str(given).strip()
    if name in ASSIGNORS:
        return ASSIGNORS[name]
    raise ConfigurationError(
        f"partition_assignment_strategy: {name!r} is unknown; there are {', '.join(sorted(ASSIGNORS))}"
    )


def _convert(options: Mapping[str, object], kind: type[Config]) -> Config:
    known = kind.__struct_fields__
    for name in options:
        if name not in known:
            raise ConfigurationError(_unknown(name, known))
    try:
        config = msgspec.convert(dict(options), kind)
    except msgspec.ValidationError as error:
        raise ConfigurationError(_explain(str(error), options)) from None
    assert config.bootstrap_addresses
    return config


def _unknown(name: str, known: tuple[str, ...]) -> str:
    nearest = difflib.get_close_matches(name.replace(".", "_").lower(), known, n=1, cutoff=0.5)
    return f"unknown setting {name!r}" + (f"; did you mean {nearest[0]!r}?" if nearest else "")


def _explain(text: str, options: Mapping[str, object]) -> str:
    problem, _, place = text.partition(" - at `$.")
    name = place.rstrip("`").partition("[")[0]
    return f"{name} is {options[name]!r}: {problem[0].lower()}{problem[1:]}" if name in options else text


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigurationError(message)
