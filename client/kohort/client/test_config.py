from collections.abc import Mapping
from pathlib import Path

import pytest

from kohort.client import Assignor, ConfigurationError
from kohort.client.addresses import parse_address
from kohort.client.assignors import assign_range
from kohort.client.config import (
    AdminConfig,
    AdminOptions,
    ClientConfig,
    ConsumerConfig,
    ConsumerOptions,
    ProducerConfig,
    ProducerOptions,
    admin_config,
    consumer_config,
    producer_config,
)
from kohort.client.durations import duration_ms


@pytest.mark.parametrize(
    "options, config",
    [(AdminOptions, AdminConfig), (ConsumerOptions, ConsumerConfig), (ProducerOptions, ProducerConfig)],
)
def test_every_option_that_is_typed_is_a_setting(options: type, config: type[ClientConfig]) -> None:
    named_apart: set[str] = set()
    if config is ConsumerConfig:
        named_apart = {"key_deserializer", "value_deserializer"}
    if config is ProducerConfig:
        named_apart = {"key_serializer", "value_serializer"}
    assert {*options.__annotations__, *named_apart} == set(config.__struct_fields__)


@pytest.mark.requirement("R6")
@pytest.mark.requirement("R24")
def test_defaults_are_kafkas() -> None:
    consumer = ConsumerConfig()
    assert (consumer.session_timeout_ms, consumer.heartbeat_interval_ms) == (45_000, 3_000)
    assert (consumer.max_poll_interval_ms, consumer.max_poll_records) == (300_000, 500)
    assert (consumer.fetch_max_bytes, consumer.max_partition_fetch_bytes) == (52_428_800, 1_048_576)
    producer = ProducerConfig()
    assert (producer.linger_ms, producer.batch_size, producer.delivery_timeout_ms) == (5, 16_384, 120_000)
    assert (producer.acks, producer.enable_idempotence, producer.max_in_flight) == ("all", True, 5)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"grup_id": "g"}, "unknown setting 'grup_id'; did you mean 'group_id'?"),
        ({"consumer_timeout_ms": 3_000}, "unknown setting 'consumer_timeout_ms': poll(timeout_ms=...)"),
        ({"auto.offset.reset": "earliest"}, "did you mean 'auto_offset_reset'?"),
        ({"zzz": 1}, "unknown setting 'zzz'"),
        ({"fetch_min_bytes": "many"}, "fetch_min_bytes is 'many': expected `int`, got `str`"),
        ({"fetch_min_bytes": 0}, "fetch_min_bytes is 0: expected `int` >= 1"),
        ({"auto_offset_reset": "begin"}, "auto_offset_reset is 'begin': give 'earliest'"),
        ({"auto_offset_reset": "by_duration:P"}, "auto_offset_reset is"),
        (
            {"heartbeat_interval_ms": 9_000, "session_timeout_ms": 9_000},
            "heartbeat_interval_ms (9000) has to",
        ),
        ({"isolation_level": "serializable"}, "give 'read_uncommitted' or 'read_committed'"),
        (
            {"partition_assignment_strategy": "rnage"},
            "'rnage' is unknown; there are cooperative-sticky, range",
        ),
        ({"group_protocol": "modern"}, "give 'classic' or 'consumer'"),
        (
            {"group_protocol": "consumer", "session_timeout_ms": 9_000},
            "session_timeout_ms: with group_protocol='consumer' the broker decides",
        ),
        ({"group_remote_assignor": "range"}, "group_remote_assignor needs group_protocol='consumer'"),
        ({"partition_assignment_strategy": []}, "give names or Assignors"),
        ({"bootstrap_servers": ""}, "bootstrap_servers is empty"),
        ({"bootstrap_servers": "a b:1"}, "'a b:1' is not an address"),
        ({"group_id": ""}, "group_id is empty"),
        ({"auto.commit.offset": True}, "did you mean 'enable_auto_commit'?"),
        ({"auto.commit.enable": True}, "did you mean 'enable_auto_commit'?"),
        ({"enable.auto.commit": True}, "did you mean 'enable_auto_commit'?"),
        ({"group": "g"}, "did you mean 'group_id'?"),
        ({"transactional_id": "t"}, "a Producer has it, but not a Consumer"),
        ({"group_instance_id": "i"}, "group_instance_id needs a group_id"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_right_one(options: Mapping[str, object], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        consumer_config(options)
    assert words in str(caught.value)
    assert not caught.value.retriable


@pytest.mark.parametrize(
    "options, words",
    [
        ({"acks": 2}, "acks is 2: give 0, 1 or 'all'"),
        ({"enable_idempotence": True, "acks": 1}, "enable_idempotence=True needs acks='all'"),
        ({"enable_idempotence": True, "max_in_flight": 6}, "they are 'all', 2147483647 and 6"),
        ({"compression_type": "gzip", "compression_level": 10}, "for 'gzip' give 1 to 9"),
        ({"compression_type": "snappy", "compression_level": 1}, "'snappy' has no levels"),
        ({"value_serializer": "utf-8"}, "value_serializer is 'utf-8': give a function"),
        ({"max.in.flight.requests.per.connection": 1}, "did you mean 'max_in_flight'?"),
        ({"group_id": "g"}, "unknown setting 'group_id': a Consumer has it, but not a Producer"),
        ({"sasl_kerberos_service_name": "k"}, "this client's SASL has no such setting"),
        ({"security.protocol": "SSL"}, "did you mean 'security_protocol'?"),
        ({"metadata_recovery_strategy": "maybe"}, "give 'rebootstrap' or 'none'"),
        ({"compression_type": "zip"}, "compression_type is 'zip': give one of none, gzip"),
        ({"delivery_timeout_ms": 1_000}, "delivery_timeout_ms (1000) has to be at least"),
    ],
)
def test_a_wrong_producer_setting_is_refused_with_the_right_one(
    options: Mapping[str, object], words: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        producer_config(options)
    assert words in str(caught.value)


@pytest.mark.parametrize("options", [{"acks": 1}, {"acks": 0}, {"retries": 0}, {"max_in_flight": 6}])
def test_a_producer_is_idempotent_unless_another_setting_forbids_it(options: Mapping[str, object]) -> None:
    assert producer_config({}).enable_idempotence
    assert not producer_config(options).enable_idempotence


def test_assignors_are_given_by_name_or_as_objects() -> None:
    own = Assignor("own", assign_range)
    assert [each.name for each in consumer_config({}).assignors] == [
        "range",
        "cooperative-sticky",
        "roundrobin",
    ]
    assert consumer_config({"partition_assignment_strategy": own}).assignors == (own,)
    javas = "org.apache.kafka.clients.consumer.RangeAssignor, CooperativeStickyAssignor"
    found = consumer_config({"partition_assignment_strategy": javas}).assignors
    assert [each.name for each in found] == ["range", "cooperative-sticky"]
    mixed = consumer_config({"partition_assignment_strategy": [own, "sticky"]}).assignors
    assert [each.name for each in mixed] == ["own", "sticky"]


@pytest.mark.parametrize(
    "text, address",
    [
        ("h:1", ("h", 1)),
        ("h", ("h", 9092)),
        ("[::1]:9", ("::1", 9)),
        ("127.0.0.1:65535", ("127.0.0.1", 65_535)),
        ("PLAINTEXT://h:1", ("h", 1)),
        ("SASL_SSL://[::1]:9", ("::1", 9)),
        ("my-listener.1://h", ("h", 9092)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    ["", ":1", "h:x", "h:65536", "::1:9", "h:1:2", "PLAINTEXT://", "a://b://c:1", "h/x:1", "http://h:1/"],
)
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_address(text)


def test_a_duration_in_milliseconds() -> None:
    assert duration_ms("by_duration:P1DT2H3M4.5S") == ((26 * 60 + 3) * 60) * 1000 + 4_500


def test_a_password_from_a_stranger_reads_no_file_if_that_is_disabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("sesame\n")
    options = {"sasl_plain_password": f"${{file:{tmp_path}/secret}}"}
    assert admin_config(options).sasl_plain_password == "sesame"
    monkeypatch.setenv("KOHORT_CONFIG_PROVIDERS", "none")
    assert admin_config(options).sasl_plain_password == options["sasl_plain_password"]
    monkeypatch.setenv("KOHORT_CONFIG_PROVIDERS", "all")
    with pytest.raises(ConfigurationError, match="KOHORT_CONFIG_PROVIDERS has all"):
        admin_config(options)


def test_the_environment_names_a_member_that_has_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOHORT_GROUP_INSTANCE_ID", "orders-0")
    assert consumer_config({"group_id": "g"}).group_instance_id == "orders-0"
    assert consumer_config({"group_id": "g", "group_protocol": "consumer"}).group_instance_id == "orders-0"
    assert consumer_config({"group_id": "g", "group_instance_id": "mine"}).group_instance_id == "mine"
    assert consumer_config({"group_id": "g", "group_instance_id": None}).group_instance_id is None
    assert consumer_config({}).group_instance_id is None, "a reader without a group needs none"
    monkeypatch.setenv("KOHORT_GROUP_INSTANCE_ID", "")
    assert consumer_config({"group_id": "g"}).group_instance_id is None
