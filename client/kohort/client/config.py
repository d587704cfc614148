"""The clients' settings, under Kafka's names with underscores, checked when a client is created."""

import os
from collections.abc import Callable, Mapping
from typing import Annotated, TypedDict, TypeVar

import msgspec
from msgspec import Meta

from kohort.client.addresses import parse_address
from kohort.client.assignors import ASSIGNORS, Assignor
from kohort.client.durations import is_duration
from kohort.client.errors import ConfigurationError
from kohort.client.partitioner import Partitioner
from kohort.client.setting_names import unknown_setting

Milliseconds = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
BufferBytes = Annotated[int, Meta(ge=-1)]
Serializer = Callable[..., bytes | None]
"""Encodes a key or a value as bytes; None stays None without a call."""
Deserializer = Callable[[bytes], object]
"""Makes a key or a value of bytes; None stays None without being asked."""
INSTANCE_ID_VARIABLE = "KOHORT_GROUP_INSTANCE_ID"
"""The environment variable with the group_instance_id of consumers that are given none: a pod's name."""


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
    metadata_recovery_strategy: str
    metadata_recovery_rebootstrap_trigger_ms: int
    socket_connection_setup_timeout_ms: int
    receive_buffer_bytes: int
    send_buffer_bytes: int
    security_protocol: str
    ssl_truststore_type: str
    ssl_truststore_location: str | None
    ssl_truststore_certificates: str | None
    ssl_keystore_type: str
    ssl_keystore_location: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_keystore_key: str | None
    ssl_key_password: str | None
    ssl_endpoint_identification_algorithm: str
    ssl_enabled_protocols: str | list[str]
    sasl_mechanism: str | None
    sasl_plain_username: str | None
    sasl_plain_password: str | None
    sasl_jaas_config: str | None
    sasl_oauth_token_provider: object


class AdminOptions(ClientOptions, total=False):
    """What an Admin takes."""


class ConsumerOptions(ClientOptions, total=False):
    """The options of a Consumer, without its deserializers.

    Those are separate, because they type its records.
    """

    group_id: str | None
    group_instance_id: str | None
    group_protocol: str
    group_remote_assignor: str | None
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
    prefetch_max_bytes: int
    check_crcs: bool
    exclude_internal_topics: bool
    allow_auto_create_topics: bool


class ProducerOptions(ClientOptions, total=False):
    """The options of a Producer, without its serializers.

    Those are separate, because they type its records.
    """

    acks: int | str
    enable_idempotence: bool
    linger_ms: int
    batch_size: int
    batch_max_size: int
    buffer_memory: int
    compression_type: str | None
    compression_level: int | None
    max_in_flight: int
    retries: int
    max_block_ms: int
    delivery_timeout_ms: int
    max_request_size: int
    transactional_id: str | None
    transaction_timeout_ms: int
    partitioner: Partitioner | None


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
    metadata_recovery_strategy: str = "rebootstrap"
    metadata_recovery_rebootstrap_trigger_ms: Milliseconds = 300_000
    socket_connection_setup_timeout_ms: Positive = 10_000
    # The system grows it; the 65,536 of Java halve the throughput of fetches.
    receive_buffer_bytes: BufferBytes = -1
    send_buffer_bytes: BufferBytes = 131_072
    security_protocol: str = "PLAINTEXT"
    ssl_truststore_type: str = "PEM"
    ssl_truststore_location: str | None = None
    ssl_truststore_certificates: str | None = None
    ssl_keystore_type: str = "PEM"
    ssl_keystore_location: str | None = None
    ssl_keystore_certificate_chain: str | None = None
    ssl_keystore_key: str | None = None
    ssl_key_password: str | None = None
    ssl_endpoint_identification_algorithm: str = "https"
    ssl_enabled_protocols: str | list[str] = "TLSv1.2,TLSv1.3"
    sasl_mechanism: str | None = None
    sasl_plain_username: str | None = None
    sasl_plain_password: str | None = None
    sasl_jaas_config: str | None = None
    sasl_oauth_token_provider: object = None  # A function: msgspec can't check it, `sasl` does.

    @property
    def bootstrap_addresses(self) -> tuple[tuple[str, int], ...]:
        """The bootstrap hosts and ports. Raises: ConfigurationError."""
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
    group_remote_assignor: str | None = None
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
    prefetch_max_bytes: Positive = 104_857_600
    check_crcs: bool = True
    exclude_internal_topics: bool = True
    allow_auto_create_topics: bool = True
    key_deserializer: object = None  # A Deserializer, as the next: msgspec can't check functions.
    value_deserializer: object = None

    @property
    def reads_committed(self) -> bool:
        """Whether records of open and of aborted transactions are kept from the user."""
        return self.isolation_level == "read_committed"

    @property
    def can_reset(self) -> bool:
        """Whether a lost position may be reset."""
        return self.auto_offset_reset != "none"

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
    enable_idempotence: bool = True
    linger_ms: Milliseconds = 5
    batch_size: Positive = 16_384
    batch_max_size: Positive = 262_144
    buffer_memory: Positive = 33_554_432
    compression_type: str | None = None
    compression_level: int | None = None
    max_in_flight: Positive = 5
    retries: Annotated[int, Meta(ge=0)] = 2_147_483_647
    max_block_ms: Milliseconds = 60_000
    delivery_timeout_ms: Positive = 120_000
    max_request_size: Positive = 1_048_576
    transactional_id: str | None = None
    transaction_timeout_ms: Positive = 60_000
    partitioner: object = None  # A Partitioner, and Serializers: msgspec can't check functions.
    key_serializer: object = None
    value_serializer: object = None

    @property
    def required_acks(self) -> int:
        """`acks` as the protocol has it: 0, 1 or -1 for all. Raises: ConfigurationError."""
        acks = {"all": -1, "-1": -1, "0": 0, "1": 1, -1: -1, 0: 0, 1: 1}.get(self.acks)
        if acks is None:
            raise ConfigurationError(f"acks is {self.acks!r}: give 0, 1 or 'all'")
        return acks


Config = TypeVar("Config", bound=ClientConfig)
COMPRESSION_TYPES = ("none", "gzip", "snappy", "lz4", "zstd")
COMPRESSION_LEVELS = {"gzip": range(1, 10), "lz4": range(1, 18), "zstd": range(-131_072, 23)}
"""As Kafka has them. Source: CompressionType."""


def parse_setting(name: str, text: str) -> str | int:
    """Return the value of a setting that every client has, of text as files and Spark's options have it.

    Raises: ConfigurationError for an unknown name, or a value that is not text.
    """
    if name not in ClientConfig.__struct_fields__ or name in _NO_TEXT:
        raise ConfigurationError(f"unknown setting {name!r}")
    return int(text) if name.endswith(("_ms", "_bytes")) and text.lstrip("-").isdecimal() else text


_NO_TEXT = ("sasl_oauth_token_provider",)


def admin_config(options: Mapping[str, object]) -> AdminConfig:
    """Return an Admin's settings. Raises: ConfigurationError."""
    return converted(options, AdminConfig)


def connection_config(options: Mapping[str, object]) -> ClientConfig:
    """Return the settings of a connection that several clients share. Raises: ConfigurationError."""
    return converted(options, ClientConfig)


def consumer_config(options: Mapping[str, object]) -> ConsumerConfig:
    """Return a Consumer's settings. Raises: ConfigurationError."""
    config = converted(_with_instance_id(options), ConsumerConfig)
    require(
        config.isolation_level in {"read_uncommitted", "read_committed"},
        f"isolation_level is {config.isolation_level!r}: give 'read_uncommitted' or 'read_committed'",
    )
    _require_protocol(config, options)
    require(
        config.auto_offset_reset in {"earliest", "latest", "none"} or is_duration(config.auto_offset_reset),
        f"auto_offset_reset is {config.auto_offset_reset!r}: give 'earliest', 'latest', 'none' or"
        " 'by_duration:' with an ISO 8601 duration such as PT1H",
    )
    require(
        config.heartbeat_interval_ms < config.session_timeout_ms,
        f"heartbeat_interval_ms ({config.heartbeat_interval_ms}) has to be below"
        f" session_timeout_ms ({config.session_timeout_ms}), better a third of it",
    )
    require(config.group_id != "", "group_id is empty: give a name, or leave it out to read without a group")
    require(
        config.group_instance_id is None or config.group_id is not None,
        "group_instance_id needs a group_id",
    )
    require_callables(config, "key_deserializer", "value_deserializer")
    assert config.assignors  # Looked up now, so that a wrong name is an error at once.
    return config


def _with_instance_id(options: Mapping[str, object]) -> Mapping[str, object]:
    """Return a member's options, with the group_instance_id of the environment if none is given."""
    instance_id = os.environ.get(INSTANCE_ID_VARIABLE)
    if not instance_id or options.get("group_id") is None or "group_instance_id" in options:
        return options
    return {**options, "group_instance_id": instance_id}


def _require_protocol(config: ConsumerConfig, options: Mapping[str, object]) -> None:
    """Refuse settings that the group's protocol does not use, as Kafka's consumer does."""
    protocol = config.group_protocol
    require(
        protocol in {"classic", "consumer"}, f"group_protocol is {protocol!r}: give 'classic' or 'consumer'"
    )
    if protocol == "consumer":
        given = [each for each in _OF_CLASSIC_GROUPS if each in options]
        require(
            not given,
            f"{', '.join(given)}: with group_protocol='consumer' the broker decides, by its"
            " group.consumer.* settings or those of the group",
        )
    require(
        config.group_remote_assignor is None or protocol == "consumer",
        "group_remote_assignor needs group_protocol='consumer'; partition_assignment_strategy is for others",
    )


def producer_config(options: Mapping[str, object]) -> ProducerConfig:
    """Return a Producer's settings. Raises: ConfigurationError."""
    config = converted(options, ProducerConfig)
    if "enable_idempotence" not in options and not _may_be_idempotent(config):
        config = msgspec.structs.replace(config, enable_idempotence=False)  # As Kafka's producer does.
    require(
        not config.enable_idempotence or _may_be_idempotent(config),
        "enable_idempotence=True needs acks='all', retries above 0 and max_in_flight of 5 at most; they are"
        f" {config.acks!r}, {config.retries} and {config.max_in_flight}",
    )
    require(
        config.transactional_id is None or (bool(config.transactional_id) and config.enable_idempotence),
        f"transactional_id is {config.transactional_id!r}: give one that is not empty, and leave"
        " enable_idempotence as it is",
    )
    _require_compression(config)
    require(
        config.delivery_timeout_ms >= config.linger_ms + config.request_timeout_ms,
        f"delivery_timeout_ms ({config.delivery_timeout_ms}) has to be at least"
        f" linger_ms + request_timeout_ms ({config.linger_ms + config.request_timeout_ms})",
    )
    require_callables(config, "partitioner", "key_serializer", "value_serializer")
    return config


def _may_be_idempotent(config: ProducerConfig) -> bool:
    return config.required_acks == -1 and config.retries > 0 and config.max_in_flight <= 5


def _require_compression(config: ProducerConfig) -> None:
    name, level = config.compression_type or "none", config.compression_level
    require(
        name in COMPRESSION_TYPES,
        f"compression_type is {config.compression_type!r}: give one of {', '.join(COMPRESSION_TYPES)}",
    )
    levels = COMPRESSION_LEVELS.get(name)
    if level is not None and levels is None:
        raise ConfigurationError(f"compression_level is {level}, but {name!r} has no levels: leave it out")
    if level is not None and levels is not None and level not in levels:
        raise ConfigurationError(
            f"compression_level is {level}: for {name!r} give {levels.start} to {levels.stop - 1}"
        )


def require_callables(config: ClientConfig, *names: str) -> None:
    """Return if these settings are functions, or not given. Raises: ConfigurationError."""
    for name in names:
        given: object = getattr(config, name)
        require(given is None or callable(given), f"{name} is {given!r}: give a function")


def describe_servers(config: ClientConfig) -> str:
    """Return bootstrap_servers as they are shown."""
    given = config.bootstrap_servers
    return given if isinstance(given, str) else ",".join(given)


def _assignor(given: object) -> Assignor:
    name = str(given).strip()
    name = _CLASSES.get(name.removeprefix("org.apache.kafka.clients.consumer."), name)
    if name in ASSIGNORS:
        return ASSIGNORS[name]
    raise ConfigurationError(
        f"partition_assignment_strategy: {name!r} is unknown; there are {', '.join(sorted(ASSIGNORS))}"
    )


_CLASSES = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
"""Java's classes, as its settings name them."""


def converted(options: Mapping[str, object], kind: type[Config]) -> Config:
    """Return the settings of a client of this kind. Raises: ConfigurationError."""
    known = kind.__struct_fields__
    for name in options:
        if name not in known:
            raise ConfigurationError(unknown_setting(name, kind, (ConsumerConfig, ProducerConfig)))
    try:
        config = msgspec.convert(_with_secrets(options), kind)
    except msgspec.ValidationError as error:
        raise ConfigurationError(_explain(str(error), options)) from None
    assert config.bootstrap_addresses
    require(
        config.metadata_recovery_strategy in RECOVERY_STRATEGIES,
        f"metadata_recovery_strategy is {config.metadata_recovery_strategy!r}:"
        f" give {' or '.join(map(repr, RECOVERY_STRATEGIES))}",
    )
    require(
        config.security_protocol in PROTOCOLS,
        f"security_protocol is {config.security_protocol!r}: give {' or '.join(map(repr, PROTOCOLS))}",
    )
    return config


def _with_secrets(options: Mapping[str, object]) -> dict[str, object]:
    """Return the settings with passwords and keys from files or the environment.

    Raises: ConfigurationError.
    """
    found = dict(options)
    for name in SECRETS:
        text = options.get(name)
        if isinstance(text, str) and "${" in text:
            from kohort.protocol.config_providers import resolve  # noqa: PLC0415  # Few have any.

            try:
                found[name] = resolve(text)
            except ValueError as error:
                raise ConfigurationError(f"{name}: {error}") from None
    return found


SECRETS = (
    "sasl_plain_password",
    "sasl_jaas_config",
    "ssl_key_password",
    "ssl_keystore_key",
    "ssl_keystore_certificate_chain",
    "ssl_truststore_certificates",
)
"""Settings that can be references: ${file:PATH}, ${env:NAME}."""

_OF_CLASSIC_GROUPS = ("session_timeout_ms", "heartbeat_interval_ms", "partition_assignment_strategy")
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
RECOVERY_STRATEGIES = ("rebootstrap", "none")


def _explain(text: str, options: Mapping[str, object]) -> str:
    problem, _, place = text.partition(" - at `$.")
    name = place.rstrip("`").partition("[")[0]
    return f"{name} is {options[name]!r}: {problem[0].lower()}{problem[1:]}" if name in options else text


def require(holds: bool, message: str) -> None:
    """Return if it holds. Raises: ConfigurationError with the message."""
    if not holds:
        raise ConfigurationError(message)
