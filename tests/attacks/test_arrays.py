"""One frame with hundreds of thousands of elements, in every array of every API."""

from __future__ import annotations

import os

import pytest

from kohort.protocol.limits import MAX_ITEMS, MAX_NAMED
from kohort.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kohort.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.registry import APIS, Api
from kohort.protocol.schema import Message
from tests.attacks.grown import Path, array_paths, grown
from tests.attacks.producing import create
from tests.attacks.trial import StartTrial
from tests.attacks.wire import Line

FRAME_BYTES = 7_500_000  # Below what a frame may have, so that its size alone refuses nothing.
NIGHTLY = "KOHORT_TEST_NIGHTLY"
ELEMENTS_MAX = 300_000 if NIGHTLY in os.environ else 50_000
SAMPLE = 200
TOPIC = "wide"
TOPIC_RESOURCE = 2
TOGETHER = 8
PORTIONS = [list(APIS.values())[first : first + TOGETHER] for first in range(0, len(APIS), TOGETHER)]


def crowded(api: Api, version: int, path: Path) -> Message:
    """Return a request with as many elements there as fit into a frame."""
    sample = grown(api.request, version, path, SAMPLE, TOPIC).encode(version)
    each_bytes = max(1, -(-len(sample) // SAMPLE)) + 2
    return grown(api.request, version, path, min(ELEMENTS_MAX, FRAME_BYTES // each_bytes), TOPIC)


@pytest.mark.parametrize("apis", PORTIONS, ids=lambda apis: f"{apis[0].name} to {apis[-1].name}")
def test_hundreds_of_thousands_of_elements_in_one_frame(trial: StartTrial, apis: list[Api]) -> None:
    with trial() as attacked:
        create(attacked.connect(), TOPIC)
        for api in apis:
            version = api.versions.highest
            for path in array_paths(api.request, version):
                request = crowded(api, version, path)
                attacked.note(f"{api.name} with many {'.'.join(path)}")
                send(attacked.connect(), request, version)


def send(line: Line, request: Message, version: int) -> None:
    """Send it, and take what comes: an answer, or the end of the connection."""
    try:
        line.send(request, version)
        line.take()
    except ConnectionError:
        line.close()


def test_the_same_name_hundreds_of_thousands_of_times(trial: StartTrial) -> None:
    """A question whose answer is larger by what is known of the name."""
    with trial() as attacked:
        create(attacked.connect(), TOPIC, 1_000)
        for name in ("Metadata", "DescribeTopicPartitions", "DescribeConfigs", "FindCoordinator"):
            api = next(each for each in APIS.values() if each.name == name)
            version = api.versions.highest
            [path] = [each for each in array_paths(api.request, version) if len(each) == 1][:1]
            one = grown(api.request, version, path, 1)
            element = renamed(getattr(one, path[0])[0])
            send(attacked.connect(), with_field(one, path[0], (element,) * 100_000), version)


def named_most() -> dict[str, Message]:
    """Return requests that name as much as they may, by what they name."""
    settings = tuple(
        IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=0, value="1")
        for name in ("retention.ms", "flush.ms")
    )
    assigned = tuple(
        CreatableReplicaAssignment(partition_index=each, broker_ids=(1,)) for each in range(MAX_ITEMS - 1)
    )
    wide = CreatableTopic(
        name="new", num_partitions=-1, replication_factor=-1, assignments=assigned, configs=()
    )

    def altering(name: str, count: int, each: int) -> Message:
        resources = tuple(
            IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=TOPIC_RESOURCE, resource_name=f"{name}{number}", configs=settings * each
            )
            for number in range(count)
        )
        return IncrementalAlterConfigsRequest(resources=resources, validate_only=False)

    return {
        "topics that are not there": MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=f"topic-{each}") for each in range(MAX_NAMED)),
            allow_auto_topic_creation=False,
        ),
        "partitions with a place": CreateTopicsRequest(topics=(wide,), timeout_ms=1_000, validate_only=False),
        "settings of many topics": altering("topic-", MAX_NAMED // 3 - 100, 1),
        "settings of one topic": altering("wide", 1, MAX_NAMED // 2 - 100),
    }


def test_the_maximum_number_of_names_in_one_request(trial: StartTrial) -> None:
    with trial() as attacked:
        create(attacked.connect(), "wide0")
        for what, request in named_most().items():
            attacked.note(what)
            line = attacked.connect()
            version = APIS[type(request).declaration().api_key].versions.highest
            line.send(request, version)
            assert line.take(), "an answer, and not the end of the connection"


def renamed(element: object) -> object:
    """Return the element under the name of the topic that is there."""
    if not isinstance(element, Message):
        return TOPIC
    for name in ("name", "resource_name"):
        if hasattr(element, name):
            changed = with_field(element, name, TOPIC)
            return with_field(changed, "resource_type", 2) if name == "resource_name" else changed
    return element


def with_field(message: Message, name: str, value: object) -> Message:
    """Return the message with one field changed."""
    values = {each.name: getattr(message, each.name) for each in type(message).declaration().fields}
    return type(message)(**values | {name: value})
