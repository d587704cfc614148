"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from kohort.broker.config import ConfigSource
from kohort.broker.handlers.administration.describe_configs import ENTRIES_MAX
from kohort.broker.handlers.administration.test_admin_support import AdminWorld
from kohort.broker.metadata import OFFSETS_TOPIC, ResourceType
from kohort.broker.metadata.internal_topics import offsets_topic
from kohort.broker.transport.request import ReceivedRequest
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    AlterConfigsResponse,
)
from kohort.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kohort.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from kohort.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kohort.protocol.registry import BY_NAME

if TYPE_CHECKING:
    from kohort.broker.transport.connection import Connection

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER

Step = tuple[str, int, str | None]


async def described(
    world: AdminWorld, kind: int, name: str, *keys: str, details: bool = False, version: int = 4
) -> DescribeConfigsResult:
    request = DescribeConfigsRequest(
        resources=(
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys or None),
        ),
        include_synonyms=details,
        include_documentation=details and version >= 3,
    )
    [result] = (await world.ask(request, DescribeConfigsResponse, version)).results
    return result


async def value(world: AdminWorld, kind: int, name: str, key: str) -> DescribeConfigsResourceResult:
    [entry] = (await described(world, kind, name, key, details=True)).configs
    return entry


async def stepped(
    world: AdminWorld, kind: int, name: str, *steps: Step, times: int = 1, validate_only: bool = False
) -> int:
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=operation, value=text)
            for key, operation, text in steps
        ),
    )
    request = IncrementalAlterConfigsRequest(resources=(resource,) * times, validate_only=validate_only)
    answer = await world.ask(request, IncrementalAlterConfigsResponse)
    codes = [each.error_code for each in answer.responses]
    assert len(set(codes)) == 1
    return codes[0]


async def replaced(world: AdminWorld, kind: int, name: str, **configs: str | None) -> int:
    resource = AlterConfigsRequestAlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            AlterConfigsRequestAlterableConfig(name=key.replace("_", "."), value=text)
            for key, text in configs.items()
        ),
    )
    request = AlterConfigsRequest(resources=(resource,), validate_only=False)
    [answer] = (await world.ask(request, AlterConfigsResponse)).responses
    return answer.error_code


async def world_with_topic(folder: Path, **configs: str) -> AdminWorld:
    world = await AdminWorld(folder).start()
    await world.create("t", 1, **configs)
    return world


# -- describe -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 5))
async def test_a_topics_values_have_their_sources(tmp_path: Path, version: int) -> None:
    world = await world_with_topic(tmp_path, retention_ms="5")
    result = await described(world, TOPIC, "t", details=True, version=version)
    assert (result.error_code, result.resource_type, result.resource_name) == (0, TOPIC, "t")
    entries = {entry.name: entry for entry in result.configs}
    assert (entries["retention.ms"].value, entries["retention.ms"].config_source) == ("5", 1)
    assert (entries["segment.bytes"].value, entries["segment.bytes"].config_source) == ("1073741824", 5)
    assert entries["retention.ms"].synonyms[0].name == "retention.ms"
    if version >= 3:
        assert entries["retention.ms"].config_type == 5
        assert entries["retention.ms"].documentation


async def test_only_known_requested_names_are_described(tmp_path: Path) -> None:
    world = await world_with_topic(tmp_path)
    result = await described(world, TOPIC, "t", "retention.ms", "nope")
    assert [entry.name for entry in result.configs] == ["retention.ms"]
    assert (result.configs[0].synonyms, result.configs[0].documentation) == ((), None)


async def test_a_broker_is_described_by_its_own_number(tmp_path: Path) -> None:
    world = await world_with_topic(tmp_path)
    entry = await value(world, BROKER, "1", "num.partitions")
    assert (entry.value, entry.config_source, entry.read_only, entry.config_type) == ("1", 5, True, 3)
    assert (await described(world, BROKER, "")).configs == ()


@pytest.mark.parametrize(
    "kind, name, code",
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (ResourceType.CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
        (ResourceType.GROUP, "", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
        (0, "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_resource_that_cannot_be_described_has_an_error(
    tmp_path: Path, kind: int, name: str, code: ErrorCode
) -> None:
    world = await world_with_topic(tmp_path)
    result = await described(world, kind, name)
    assert (result.error_code, result.configs) == (code, ())
    assert (result.error_message is None) == (code == ErrorCode.NONE)


# -- single values of topics --------------------------------------------------------------------------------


async def test_a_value_is_set_and_deleted(tmp_path: Path) -> None:
    world = await world_with_topic(tmp_path)
    topic_id = world.snapshot.topics["t"].topic_id
    assert await stepped(world, TOPIC, "t", ("retention.ms", SET, "5"), ("segment.ms", SET, "9")) == 0
    assert await stepped(world, TOPIC, "t", ("retention.ms", DELETE, None), ("nope", DELETE, None)) == 0
    assert world.snapshot.topics["t"].configs == {"segment.ms": "9"}
    assert world.snapshot.topics["t"].topic_id == topic_id


async def test_lists_are_appended_to_and_subtracted_from(tmp_path: Path) -> None:
    world = await world_with_topic(tmp_path)

    async def policy(operation: int, text: str) -> str | None:
        assert await stepped(world, TOPIC, "t", ("cleanup.policy", operation, text)) == 0
        return (await value(world, TOPIC, "t", "cleanup.policy")).value

    assert await policy(APPEND, "compact") == "delete,compact"
    assert await policy(APPEND, "compact,delete") == "delete,compact"
    assert await policy(SUBTRACT, "delete") == "compact"
    assert await policy(SUBTRACT, "delete") == "compact"


@pytest.mark.parametrize(
    "step, code",
    [
        (("nope", SET, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SUBTRACT, "1"), ErrorCode.INVALID_CONFIG),
        (("nope", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (("cleanup.policy", APPEND, None), ErrorCode.INVALID_REQUEST),
        (("cleanup.policy", APPEND, "bogus"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        (("min.compaction.lag.ms", SET, str(2**63 - 1)), ErrorCode.NONE),
    ],
)
async def test_invalid_operations_change_nothing(tmp_path: Path, step: Step, code: ErrorCode) -> None:
    world = await world_with_topic(tmp_path, retention_bytes="7")
    assert await stepped(world, TOPIC, "t", ("retention.bytes", SET, "8"), step) == code
    expected = "8" if code == ErrorCode.NONE else "7"
    assert world.snapshot.topics["t"].configs["retention.bytes"] == expected


@pytest.mark.parametrize(
    "kind, name, code",
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ErrorCode.INVALID_REQUEST),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (ResourceType.GROUP, "g", ErrorCode.INVALID_CONFIG),
        (ResourceType.BROKER_LOGGER, "1", ErrorCode.INVALID_CONFIG),
        (99, "g", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_resource_that_cannot_be_altered_has_an_error(
    tmp_path: Path, kind: int, name: str, code: ErrorCode
) -> None:
    world = await world_with_topic(tmp_path)
    assert await stepped(world, kind, name, ("retention.ms", SET, "1")) == code


async def test_a_name_or_a_resource_twice_is_refused(tmp_path: Path) -> None:
    world = await world_with_topic(tmp_path)
    twice = ("retention.ms", SET, "1"), ("retention.ms", SET, "2")
    assert await stepped(world, TOPIC, "t", *twice) == ErrorCode.INVALID_REQUEST
    assert await stepped(world, TOPIC, "t", twice[0], times=2) == ErrorCode.INVALID_REQUEST
    assert world.snapshot.topics["t"].configs == {}


async def test_validate_only_alters_nothing(tmp_path: Path) -> None:
    world = await world_with_topic(tmp_path)
    before = world.snapshot
    assert await stepped(world, TOPIC, "t", ("retention.ms", SET, "1"), validate_only=True) == 0
    code = await stepped(world, TOPIC, "t", ("retention.ms", SET, "x"), validate_only=True)
    assert code == ErrorCode.INVALID_CONFIG
    assert world.snapshot is before


async def test_two_resources_of_one_request_are_both_altered(tmp_path: Path) -> None:
    world = await world_with_topic(tmp_path)
    await world.create("u")
    resources = tuple(
        IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=(
                IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=SET, value="6000"),
            ),
        )
        for kind, name, key in (
            (TOPIC, "t", "retention.ms"),
            (TOPIC, "nope", "retention.ms"),
            (BROKER, "", "log.retention.ms"),
            (TOPIC, "u", "segment.ms"),
            (BROKER, "1", "log.roll.ms"),
        )
    )
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    answer = await world.ask(request, IncrementalAlterConfigsResponse)
    assert [each.error_code for each in answer.responses] == [0, 3, 0, 0, 0]
    assert world.snapshot.topics["t"].configs == {"retention.ms": "6000"}
    assert world.snapshot.topics["u"].configs == {"segment.ms": "6000"}
    assert (world.current.config.log_retention_ms, world.current.config.log_roll_ms) == (6000, 6000)


# -- whole configurations -----------------------------------------------------------------------------------


async def test_altering_replaces_all_that_was_set(tmp_path: Path) -> None:
    world = await world_with_topic(tmp_path, retention_ms="5", segment_ms="9")
    assert await replaced(world, TOPIC, "t", retention_ms="6") == 0
    assert world.snapshot.topics["t"].configs == {"retention.ms": "6"}
    assert await replaced(world, TOPIC, "t") == 0
    assert world.snapshot.topics["t"].configs == {}


async def test_altering_is_checked_as_well(tmp_path: Path) -> None:
    world = await world_with_topic(tmp_path, retention_ms="5")
    assert await replaced(world, TOPIC, "t", retention_ms=None) == ErrorCode.INVALID_REQUEST
    assert await replaced(world, TOPIC, "t", nope="1") == ErrorCode.INVALID_CONFIG
    assert await replaced(world, TOPIC, "gone", retention_ms="1") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await replaced(world, BROKER, "1", node_id="9") == ErrorCode.INVALID_REQUEST
    assert world.snapshot.topics["t"].configs == {"retention.ms": "5"}


# -- brokers ------------------------------------------------------------------------------------------------


async def test_a_running_broker_applies_new_defaults_to_its_topics(tmp_path: Path) -> None:
    world = await world_with_topic(tmp_path)
    assert await stepped(world, BROKER, "", ("log.retention.ms", SET, "200000")) == 0
    assert await stepped(world, BROKER, "1", ("log.retention.ms", SET, "100000")) == 0
    assert world.current.config.log_retention_ms == 100_000
    entry = await value(world, TOPIC, "t", "retention.ms")
    assert (entry.value, entry.config_source) == ("100000", 2)
    assert [(each.value, each.source) for each in entry.synonyms[:2]] == [("100000", 2), ("200000", 3)]
    common = await value(world, BROKER, "", "log.retention.ms")
    assert (common.value, common.config_source) == ("200000", 3)
    assert await stepped(world, BROKER, "1", ("log.retention.ms", DELETE, None)) == 0
    assert world.current.config.log_retention_ms == 200_000
    assert await replaced(world, BROKER, "") == 0
    assert world.current.config.log_retention_ms is None


async def test_altered_settings_survive_a_restart(tmp_path: Path) -> None:
    world = await world_with_topic(tmp_path)
    await stepped(world, BROKER, "1", ("log.retention.ms", SET, "100000"))
    assert AdminWorld(tmp_path).current.config.log_retention_ms == 100_000


@pytest.mark.parametrize(
    "name, key, text, code",
    [
        ("1", "node.id", "3", ErrorCode.INVALID_REQUEST),
        ("1", "num.partitions", "5", ErrorCode.INVALID_REQUEST),
        ("1", "nope", "3", ErrorCode.INVALID_CONFIG),
        ("1", "log.retention.ms", "x", ErrorCode.INVALID_REQUEST),
        ("7", "log.retention.ms", "5", ErrorCode.INVALID_REQUEST),
        ("x", "log.retention.ms", "5", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_running_broker_refuses_unsupported_settings(
    tmp_path: Path, name: str, key: str, text: str, code: ErrorCode
) -> None:
    world = await world_with_topic(tmp_path)
    assert await stepped(world, BROKER, name, (key, SET, text)) == code
    assert world.snapshot.configs == {}


async def test_a_default_that_a_topic_could_not_live_with_is_refused(tmp_path: Path) -> None:
    world = await world_with_topic(tmp_path, max_compaction_lag_ms="10")
    step = ("log.cleaner.min.compaction.lag.ms", SET, "11")
    assert await stepped(world, BROKER, "1", step) == ErrorCode.INVALID_REQUEST
    assert world.snapshot.configs == {}


# -- list ---------------------------------------------------------------------------------------------------


async def listed(world: AdminWorld, *kinds: int, version: int = 1) -> tuple[int, list[tuple[str, int]]]:
    request = ListConfigResourcesRequest(resource_types=kinds)
    answer = await world.ask(request, ListConfigResourcesResponse, version)
    return answer.error_code, [(each.resource_name, each.resource_type) for each in answer.config_resources]


async def test_topics_and_brokers_are_listed(tmp_path: Path) -> None:
    world = await world_with_topic(tmp_path)
    assert await listed(world) == (0, [("t", TOPIC), ("1", BROKER)])
    assert await listed(world, TOPIC) == (0, [("t", TOPIC)])
    assert await listed(world, ResourceType.GROUP) == (0, [])
    assert await listed(world, version=0) == (0, [])
    assert await listed(world, 99) == (ErrorCode.UNSUPPORTED_VERSION, [])


# -- groups -------------------------------------------------------------------------------------------------


async def test_a_groups_settings_are_set_described_listed_and_deleted(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    group = ResourceType.GROUP
    name = "consumer.session.timeout.ms"
    assert await stepped(world, group, "g", (name, SET, "60000")) == ErrorCode.NONE
    result = await described(world, group, "g")
    found = {each.name: (each.value, each.config_source) for each in result.configs}
    assert found == {
        name: ("60000", ConfigSource.GROUP),
        "consumer.heartbeat.interval.ms": ("5000", ConfigSource.DEFAULT),
        "consumer.assignment.interval.ms": ("1000", ConfigSource.DEFAULT),
        "errors.deadletterqueue.topic.name": ("", ConfigSource.DEFAULT),
        "errors.deadletterqueue.copy.record.enable": ("false", ConfigSource.DEFAULT),
        "share.session.timeout.ms": ("45000", ConfigSource.DEFAULT),
        "share.heartbeat.interval.ms": ("5000", ConfigSource.DEFAULT),
        "share.assignment.interval.ms": ("1000", ConfigSource.DEFAULT),
        "share.record.lock.duration.ms": ("30000", ConfigSource.DEFAULT),
        "share.delivery.count.limit": ("5", ConfigSource.DEFAULT),
        "share.partition.max.record.locks": ("2000", ConfigSource.DEFAULT),
        "share.auto.offset.reset": ("latest", ConfigSource.DEFAULT),
        "share.isolation.level": ("read_uncommitted", ConfigSource.DEFAULT),
        "share.renew.acknowledge.enable": ("true", ConfigSource.DEFAULT),
        "streams.session.timeout.ms": ("45000", ConfigSource.DEFAULT),
        "streams.heartbeat.interval.ms": ("5000", ConfigSource.DEFAULT),
        "streams.assignment.interval.ms": ("1000", ConfigSource.DEFAULT),
        "streams.initial.rebalance.delay.ms": ("3000", ConfigSource.DEFAULT),
        "streams.num.standby.replicas": ("0", ConfigSource.DEFAULT),
        "streams.acceptable.recovery.lag": ("10000", ConfigSource.DEFAULT),
        "streams.task.offset.interval.ms": ("60000", ConfigSource.DEFAULT),
    }
    assert await listed(world, group) == (0, [("g", group)])
    assert await stepped(world, group, "g", (name, DELETE, None)) == ErrorCode.NONE
    assert await listed(world, group) == (0, [])


@pytest.mark.parametrize(
    ("group_id", "name", "value", "code"),
    [
        (
            "g",
            "consumer.session.timeout.ms",
            "5000",
            ErrorCode.INVALID_CONFIG,
        ),  # No longer than a heartbeat's.
        ("g", "consumer.heartbeat.interval.ms", "x", ErrorCode.INVALID_CONFIG),
        ("g", "retention.ms", "1", ErrorCode.INVALID_CONFIG),
        ("g", "share.auto.offset.reset", "by_duration:1H", ErrorCode.INVALID_CONFIG),
        ("g", "share.record.lock.duration.ms", "999", ErrorCode.INVALID_CONFIG),
        ("g", "share.record.lock.duration.ms", "14999", ErrorCode.INVALID_CONFIG),
        ("g", "share.record.lock.duration.ms", "60001", ErrorCode.INVALID_CONFIG),
        ("g", "share.partition.max.record.locks", "4001", ErrorCode.INVALID_CONFIG),
        ("g", "share.delivery.count.limit", "11", ErrorCode.INVALID_CONFIG),
        ("g", "consumer.session.timeout.ms", "44999", ErrorCode.INVALID_CONFIG),
        ("g", "consumer.session.timeout.ms", "60001", ErrorCode.INVALID_CONFIG),
        ("g", "consumer.heartbeat.interval.ms", "4999", ErrorCode.INVALID_CONFIG),
        ("g", "consumer.assignment.interval.ms", "15001", ErrorCode.INVALID_CONFIG),
        ("g", "share.session.timeout.ms", "5000", ErrorCode.INVALID_CONFIG),
        ("g", "streams.session.timeout.ms", "5000", ErrorCode.INVALID_CONFIG),
        ("g", "streams.num.standby.replicas", "3", ErrorCode.INVALID_CONFIG),
        ("", "consumer.session.timeout.ms", "60000", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_wrong_setting_of_a_group_is_refused(
    tmp_path: Path, group_id: str, name: str, value: str, code: ErrorCode
) -> None:
    world = await AdminWorld(tmp_path).start()
    assert await stepped(world, ResourceType.GROUP, group_id, (name, SET, value)) == code
    assert not world.snapshot.configs


# -- what would lock everybody out, or lose what groups have committed --------------------------------------


@pytest.mark.parametrize("name", ["max.connections", "max.connections.per.ip"])
@pytest.mark.parametrize("resource", ["1", ""])
async def test_a_limit_of_zero_connections_is_refused(tmp_path: Path, name: str, resource: str) -> None:
    world = await AdminWorld(tmp_path).start()
    assert await stepped(world, BROKER, resource, (name, SET, "0")) == ErrorCode.INVALID_REQUEST
    assert await stepped(world, BROKER, resource, (name, SET, "1")) == ErrorCode.NONE
    assert await stepped(world, BROKER, resource, (name, DELETE, None)) == ErrorCode.NONE


@pytest.mark.parametrize("policy", ["delete", "compact,delete", ""])
async def test_the_offsets_topic_stays_compacted(tmp_path: Path, policy: str) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.topics.ensure(offsets_topic(world.current.config))
    step = ("cleanup.policy", SET, policy)
    assert await stepped(world, TOPIC, OFFSETS_TOPIC, step) == ErrorCode.INVALID_CONFIG
    assert world.snapshot.topics[OFFSETS_TOPIC].configs["cleanup.policy"] == "compact"
    assert await stepped(world, TOPIC, OFFSETS_TOPIC, ("retention.ms", SET, "1")) == ErrorCode.NONE


async def test_the_offsets_topic_does_not_fall_back_to_the_default_policy(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.topics.ensure(offsets_topic(world.current.config))
    step = ("cleanup.policy", DELETE, None)
    assert await stepped(world, TOPIC, OFFSETS_TOPIC, step) == ErrorCode.INVALID_CONFIG


async def test_a_resource_that_is_named_again_and_again_is_described_once(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    one = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=("broker.id",))
    other = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=None)
    answer = await world.ask(DescribeConfigsRequest(resources=(one, other) * 50), DescribeConfigsResponse, 4)
    assert len(answer.results) == 1


async def test_many_resources_are_described_in_turns(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    wanted = tuple(
        DescribeConfigsResource(resource_type=TOPIC, resource_name=f"t{each}", configuration_keys=None)
        for each in range(100)
    )
    answer = await world.ask(DescribeConfigsRequest(resources=wanted), DescribeConfigsResponse, 4)
    assert [each.resource_name for each in answer.results] == [f"t{each}" for each in range(100)]


async def test_a_list_setting_cannot_grow_beyond_an_answer(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.create("t")
    name = "leader.replication.throttled.replicas"
    codes = []
    for first in (0, 4_000):
        replicas = ",".join(f"{each}:1" for each in range(first, first + 4_000))
        codes.append(await stepped(world, TOPIC, "t", (name, APPEND, replicas)))
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert (await value(world, TOPIC, "t", name)).value is not None


def groups_asked(*names: str) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(
                resource_type=ResourceType.GROUP, resource_name=name, configuration_keys=None
            )
            for name in names
        ),
        include_synonyms=True,
    )


async def test_groups_with_equal_settings_share_their_description(tmp_path: Path) -> None:
    world = await world_with_topic(tmp_path)
    await stepped(world, ResourceType.GROUP, "other", ("consumer.session.timeout.ms", SET, "50000"))
    names = (*(f"group-{number}" for number in range(1_000)), "other")
    request = ReceivedRequest(cast("Connection", world.connection), BY_NAME["DescribeConfigs"], 4, 1, "test")
    answering = cast(
        Awaitable[DescribeConfigsResponse], world.handlers.handler_of(32)(groups_asked(*names), request)
    )
    results = (await answering).results
    assert [each.resource_name for each in results] == list(names)
    assert {each.error_code for each in results} == {ErrorCode.NONE}
    assert len({id(each.configs) for each in results}) == 2
    found = {each.name: each.value for each in results[-1].configs}
    assert found["consumer.session.timeout.ms"] == "50000"


async def test_the_number_of_settings_in_an_answer_is_limited(tmp_path: Path) -> None:
    world = await world_with_topic(tmp_path)
    asked = groups_asked(*map(str, range(19_900)))
    results = (await world.ask(asked, DescribeConfigsResponse)).results
    assert len(results) == 19_900
    told = [each for each in results if each.error_code == ErrorCode.NONE]
    assert 0 < sum(1 + len(entry.synonyms) for each in told for entry in each.configs) <= ENTRIES_MAX
    assert results[-1].error_code == ErrorCode.INVALID_REQUEST
    assert "ask for fewer resources" in (results[-1].error_message or "")


async def test_nothing_is_described_after_the_client_disconnected(tmp_path: Path) -> None:
    world = await world_with_topic(tmp_path)
    request = ReceivedRequest(cast("Connection", world.connection), BY_NAME["DescribeConfigs"], 4, 1, "test")
    asked = groups_asked(*map(str, range(1_000)))
    answering = cast(Awaitable[object], world.handlers.handler_of(32)(asked, request))
    world.connection.closed = True
    assert await answering is None


# -- client metrics -----------------------------------------------------------------------------------------


async def test_a_subscription_to_clients_metrics_is_set_described_listed_and_deleted(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    kind = ResourceType.CLIENT_METRICS
    steps = [("metrics", SET, "a.,b."), ("match", SET, "client_id=x.*,client_software_name=y")]
    assert await stepped(world, kind, "slow", *steps) == ErrorCode.NONE
    found = {
        each.name: (each.value, each.config_source) for each in (await described(world, kind, "slow")).configs
    }
    assert found == {
        "interval.ms": ("300000", ConfigSource.DEFAULT),
        "metrics": ("a.,b.", ConfigSource.CLIENT_METRICS),
        "match": ("client_id=x.*,client_software_name=y", ConfigSource.CLIENT_METRICS),
    }
    assert await listed(world, kind) == (0, [("slow", kind)])
    assert await listed(world, version=0) == (0, [("slow", kind)])
    assert await stepped(world, kind, "slow", ("interval.ms", SET, "50")) == ErrorCode.INVALID_CONFIG
    assert await stepped(world, kind, "slow", ("match", SET, "who=x")) == ErrorCode.INVALID_CONFIG
    assert await stepped(world, kind, "", ("metrics", SET, "*")) == ErrorCode.INVALID_REQUEST
    assert (
        await stepped(world, kind, "slow", ("metrics", DELETE, None), ("match", DELETE, None))
        == ErrorCode.NONE
    )
    assert await listed(world, kind) == (0, [])
