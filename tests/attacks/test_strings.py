"""Strings as long as the wire lets them be, and strings that mean something to a terminal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
)
from kohort.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kohort.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kohort.protocol.messages.offset_commit import OffsetCommitResponse
from kohort.protocol.registry import APIS, BY_NAME
from kohort.protocol.schema import Message
from tests.attacks.answers import codes_in
from tests.attacks.commits import commit_of
from tests.attacks.grown import LONGEST, longest
from tests.attacks.innocent import TOPIC
from tests.attacks.members import Member, joining
from tests.attacks.trial import StartTrial, Trial
from tests.attacks.wire import Line

GROUP = "shared"
CLI_TIMEOUT_S = 30.0
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SETTINGS = (
    (LONGEST, "1"),
    ("cleanup.policy", LONGEST),
    ("max.connections", LONGEST),
    ("retention.ms", LONGEST),
)
RESOURCES = (
    (TOPIC_RESOURCE, TOPIC),
    (TOPIC_RESOURCE, LONGEST),
    (BROKER_RESOURCE, "1"),
    (BROKER_RESOURCE, LONGEST),
)
FORGED = "x\r\nkohort ready kafka=10.6.6.6:9092 http=- data=-\n\x1b[2J\x1b]0;owned\x07\x9b31m\u202e"
CONTROLS = {chr(code) for code in (*range(32), *range(127, 160))} - {"\n"} | {"\u202e"}


def creations() -> Iterator[Message]:
    """Topics with a long name, or with a setting whose name or value is long."""
    for name, configs in ((LONGEST, ()), *(("fine", (setting,)) for setting in SETTINGS)):
        wanted = tuple(CreatableTopicConfig(name=key, value=value) for key, value in configs)
        topic = CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=(), configs=wanted
        )
        yield CreateTopicsRequest(topics=(topic,))


def alterations() -> Iterator[Message]:
    """Resources with a long name, settings with a long name or value."""
    for kind, resource in RESOURCES:
        for key, value in SETTINGS:
            configs = (AlterConfigsRequestAlterableConfig(name=key, value=value),)
            altered = AlterConfigsRequestAlterConfigsResource(
                resource_type=kind, resource_name=resource, configs=configs
            )
            yield AlterConfigsRequest(resources=(altered,), validate_only=False)


def increments() -> Iterator[Message]:
    """The same, set, deleted, appended and subtracted."""
    for kind, resource in RESOURCES:
        for operation, (key, value) in enumerate(SETTINGS):
            config = IncrementalAlterConfigsRequestAlterableConfig(
                name=key, config_operation=operation if key == LONGEST else 0, value=value
            )
            altered = IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=kind, resource_name=resource, configs=(config,)
            )
            yield IncrementalAlterConfigsRequest(resources=(altered,), validate_only=False)


def more_partitions() -> Iterator[Message]:
    """A topic with a long name is to have more partitions."""
    topic = CreatePartitionsTopic(name=LONGEST, count=3, assignments=None)
    yield CreatePartitionsRequest(topics=(topic,), timeout_ms=1_000, validate_only=False)


def deletions() -> Iterator[Message]:
    """A topic with a long name is to go: named in one way and in the other."""
    yield DeleteTopicsRequest(topic_names=(LONGEST,), topics=(), timeout_ms=1_000)
    yield DeleteTopicsRequest(topics=(DeleteTopicState(name=LONGEST),), timeout_ms=1_000)


NAMING = (creations, alterations, increments, more_partitions, deletions)
"""The requests whose errors repeat the name that they complain about."""


@pytest.mark.parametrize("requests", NAMING, ids=lambda each: each.__name__)
def test_the_longest_names_and_values_are_refused(trial: StartTrial, requests: type) -> None:
    with trial() as attacked:
        for request in requests():
            api = APIS[request.declaration().api_key]
            for version in range(api.versions.lowest, api.versions.highest + 1):
                try:
                    request.encode(version)
                except ValueError:
                    continue  # This version says it in another way.
                attacked.note(f"{api.name} v{version}")
                answer = attacked.connect().ask_or_lose(request, api.response, version)
                codes = set() if answer is None else codes_in(answer)
                assert codes != {ErrorCode.NONE}, f"{api.name} v{version} took it"


def test_the_longest_strings_in_every_api(trial: StartTrial) -> None:
    with trial() as attacked:
        for api in APIS.values():
            for version in sorted({api.versions.lowest, api.versions.highest}):
                attacked.note(f"{api.name} v{version}")
                line = attacked.connect()
                line.send(longest(api.request, version), version, client_id=LONGEST)
                line.is_closed(within_s=0.05)  # What it is told is its own affair.


@pytest.mark.parametrize("client_id, instance_id, version", [(LONGEST, None, 3), ("short", LONGEST, 5)])
def test_a_member_with_the_longest_ids_poisons_no_group(
    trial: StartTrial, client_id: str, instance_id: str | None, version: int
) -> None:
    """Its member id begins with one of them, and stands in the answer to the leader."""
    with trial() as attacked:
        honest = Member(attacked.connect(), GROUP)
        assert honest.join() == ErrorCode.NONE
        assert honest.sync() == ErrorCode.NONE
        attacked.connect().send(joining(GROUP, instance_id=instance_id), version, client_id)
        for _ in range(3):
            assert honest.beat() in {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}
            assert honest.join() == ErrorCode.NONE
        described = honest.line.ask(DescribeGroupsRequest(groups=(GROUP,)), DescribeGroupsResponse)
        assert described.groups[0].error_code == ErrorCode.NONE


def test_an_answer_that_cannot_be_encoded_affects_no_other(trial: StartTrial) -> None:
    """A commit and a join whose answer is too long, in one write, share a flush with the innocent client."""
    with trial() as attacked:
        for number in range(40):
            line = attacked.connect()
            line.send(commit_of(f"alone-{number}"), 8)
            line.send(joining(f"poisoned-{number}"), 3 + number % 2, client_id=LONGEST)
            line.is_closed(within_s=0.02)


def test_no_name_controls_the_terminal_of_the_command_line(trial: StartTrial) -> None:
    with trial() as attacked:
        forge(attacked)
        bootstrap = attacked.broker.bootstrap
        shown = cli(bootstrap, "list") + cli(bootstrap, "describe", "--all-groups", "--verbose")
        shown += cli(bootstrap, "describe", FORGED, "--members", "--verbose")
    assert not CONTROLS & set(shown), shown
    assert not [line for line in shown.splitlines() if line.startswith("kohort ready")]


def test_no_name_forges_a_log_line(trial: StartTrial) -> None:
    with trial() as attacked:
        forge(attacked)
        send_garbage(attacked.connect(), FORGED)
        logged = attacked.broker.log_path.read_text()
    assert "x" in logged
    assert not CONTROLS & set(logged), logged
    assert not [line for line in logged.splitlines() if line.startswith("kohort ready")]


def forge(attacked: Trial) -> None:
    """Put control characters into a client id, a member id and two group ids."""
    member = Member(attacked.connect(), FORGED)
    assert member.join(client_id=FORGED) == ErrorCode.NONE
    assert member.sync() == ErrorCode.NONE
    member.line.ask(commit_of(FORGED + "2"), OffsetCommitResponse, 8, FORGED)


def send_garbage(line: Line, client_id: str) -> None:
    """Send a request that cannot be read, so that the log speaks of it."""
    request = DescribeGroupsRequest(groups=(client_id,))
    line.send(request, BY_NAME["DescribeGroups"].versions.highest, client_id)
    line.socket.sendall(b"\x00\x00\x00\x04GET ")
    line.is_closed(within_s=2.0)


def cli(bootstrap: str, *words: str) -> str:
    """Return what `kohort groups` prints, on both ways."""
    command = [sys.executable, "-m", "kohort.cli", "groups", words[0], "-b", bootstrap, *words[1:]]
    done = subprocess.run(command, capture_output=True, timeout=CLI_TIMEOUT_S, check=False)
    return (done.stdout + done.stderr).decode(errors="backslashreplace")
