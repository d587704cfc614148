"""Topics by the thousand, partitions by the million."""

from __future__ import annotations

import time

from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kohort.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.attacks.answers import codes_in
from tests.attacks.producing import creatable, create
from tests.attacks.trial import StartTrial
from tests.attacks.wire import Line, Lost

TOPICS = 1_000
TOPICS_WITHIN_S = 12.0
ABSURD = 2**31 - 1


def answered(line: Line) -> None:
    """Take what comes, in its time."""
    line.socket.settimeout(2 * TOPICS_WITHIN_S)
    try:
        line.take()
    except Lost:
        return


def test_a_thousand_topics_are_created_in_one_request(trial: StartTrial) -> None:
    with trial() as attacked:
        line = attacked.connect()
        request = CreateTopicsRequest(topics=tuple(creatable(f"t-{number}") for number in range(TOPICS)))
        began_s = time.monotonic()
        line.send(request)
        answered(line)
        assert time.monotonic() - began_s < TOPICS_WITHIN_S


def test_a_thousand_topics_are_created_one_by_one(trial: StartTrial) -> None:
    with trial() as attacked:
        line = attacked.connect()
        began_s = time.monotonic()
        for number in range(TOPICS // 4):
            create(line, f"t-{number}")
        assert time.monotonic() - began_s < TOPICS_WITHIN_S


def test_absurd_partition_counts_are_refused(trial: StartTrial) -> None:
    with trial() as attacked:
        line = attacked.connect()
        create(line, "small")
        for partitions in (ABSURD, 1_000_000, 50_000):
            for validate_only in (True, False):
                attacked.note(f"{partitions} partitions, {validate_only=}")
                refuse(line, partitions, validate_only)


def refuse(line: Line, partitions: int, validate_only: bool) -> None:
    """Ask for so many partitions of a new topic and of an old one."""
    request = CreateTopicsRequest(topics=(creatable("large", partitions),), validate_only=validate_only)
    assert ErrorCode.NONE not in codes_in(line.ask(request, CreateTopicsResponse))
    more = CreatePartitionsTopic(name="small", count=partitions, assignments=None)
    wanted = CreatePartitionsRequest(topics=(more,), timeout_ms=5_000, validate_only=validate_only)
    assert ErrorCode.NONE not in codes_in(line.ask(wanted, CreatePartitionsResponse))


def test_names_by_the_thousand_that_would_become_topics(trial: StartTrial) -> None:
    """Metadata makes what it is asked for and has not."""
    names = tuple(MetadataRequestTopic(name=f"asked-{number}") for number in range(TOPICS))
    with trial() as attacked:
        line = attacked.connect()
        line.send(MetadataRequest(topics=names, allow_auto_topic_creation=True))
        answered(line)
        found = attacked.connect().ask(MetadataRequest(topics=None), MetadataResponse)
        assert len(found.topics) < 2 * TOPICS
