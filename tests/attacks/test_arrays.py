"""One frame with hundreds of thousands of elements, in every array of every API."""

from __future__ import annotations

import os

import pytest

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
