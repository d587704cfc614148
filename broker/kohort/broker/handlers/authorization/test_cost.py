"""What it costs to refuse: as much more as more is asked, and not its square."""

import time
from typing import Any

import pytest

from kohort.broker.handlers.authorization.table import RULES
from kohort.broker.handlers.authorization.test_table import requester
from kohort.broker.runtime.garbage import without_collections
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
from tests.messages import message_of

NAMES = [f"topic-{number}" for number in range(20_000)]  # As many as one request may have.
SECONDS_MAX = 1.0  # On a busy machine; the square takes many.


def question(api: str) -> Any:
    if api == "FindCoordinator":
        return message_of(FindCoordinatorRequest, key_type=0, coordinator_keys=tuple(NAMES))
    if api == "DescribeTopicPartitions":
        topics = tuple(message_of(DescribeTopicPartitionsRequestTopicRequest, name=each) for each in NAMES)
        return message_of(DescribeTopicPartitionsRequest, topics=topics)
    wanted = tuple(message_of(OffsetFetchRequestTopics, name=each) for each in NAMES)
    group = message_of(OffsetFetchRequestGroup, group_id="g", topics=wanted)
    return message_of(OffsetFetchRequest, groups=(group,))


@pytest.mark.parametrize(
    "api, version", [("FindCoordinator", 6), ("DescribeTopicPartitions", 0), ("OffsetFetch", 9)]
)
def test_many_denied_names_do_not_block_the_loop(
    api: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    who, allowed = requester(BY_NAME[api], version), {"g", *NAMES[-10_000:]}
    monkeypatch.setattr(who.services.authorizer, "allows", lambda *question: question[4] in allowed)
    asked = question(api)
    with without_collections():  # A look through all that other tests have left takes more than the request.
        began_s = time.process_time()
        verdict = RULES[BY_NAME[api].api_key].judge(who, asked)
        took_s = time.process_time() - began_s
    assert took_s < SECONDS_MAX
    assert verdict.finish is not None
