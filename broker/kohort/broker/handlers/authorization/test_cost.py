"""What it costs to refuse: as much more as more is asked, and not its square."""

from collections.abc import Sequence
from typing import Any

import pytest

from kohort.broker.handlers.authorization.table import RULES
from kohort.broker.handlers.authorization.test_table import requester
from kohort.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopicRequest,
)
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kohort.protocol.registry import BY_NAME
from tests.costs import times_as_costly
from tests.messages import message_of

NAMES = [f"topic-{number}" for number in range(20_000)]  # As many as one request may have.


def question(api: str, names: Sequence[str]) -> Any:
    if api == "FindCoordinator":
        return message_of(FindCoordinatorRequest, key_type=0, coordinator_keys=tuple(names))
    if api == "DescribeTopicPartitions":
        topics = tuple(message_of(DescribeTopicPartitionsRequestTopicRequest, name=each) for each in names)
        return message_of(DescribeTopicPartitionsRequest, topics=topics)
    wanted = tuple(message_of(OffsetFetchRequestTopics, name=each) for each in names)
    group = message_of(OffsetFetchRequestGroup, group_id="g", topics=wanted)
    return message_of(OffsetFetchRequest, groups=(group,))


@pytest.mark.parametrize(
    "api, version", [("FindCoordinator", 6), ("DescribeTopicPartitions", 0), ("OffsetFetch", 9)]
)
def test_many_denied_names_do_not_block_the_loop(
    api: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    who, allowed = requester(BY_NAME[api], version), {"g", *NAMES[::2]}
    monkeypatch.setattr(who.services.authorizer, "allows", lambda *question: question[4] in allowed)
    judge = RULES[BY_NAME[api].api_key].judge
    many, few = question(api, NAMES), question(api, NAMES[: len(NAMES) // 10])
    assert judge(who, many).finish is not None
    # Ten times as many names cost ten times as much, and not a hundred times.
    assert times_as_costly(lambda: judge(who, many), lambda: judge(who, few)) < 30
