"""Small requests that would make a broker work for long: patterns, keys that collide, long answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from uuid import UUID

import pytest

from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatTopicPartitions,
)
from kohort.protocol.messages.create_topics import CreateTopicsRequest
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.messages.list_transactions import ListTransactionsRequest
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kohort.protocol.messages.produce import ProduceRequest, TopicProduceData
from kohort.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchTopic
from kohort.protocol.schema import Message
from tests.attacks.producing import creatable
from tests.attacks.test_amplification import GROUP, TOPIC, many_offsets
from tests.attacks.trial import StartTrial, Trial
from tests.attacks.wire import Line, api_of, frame
from tests.messages import message_of
from tests.repetitions import some_by_day

ATTACKERS = 4
ATTACKED_S = 2.5
GROUP_RESOURCE = 32
MANY = 19_900
LETTERS = "".join(chr(0x4E00 + 2 * number) for number in range(4_000))
PATTERNS = {
    "nothing, often": "(){4000000000}",
    "nothing, up to often": "(){0,4000000000}",
    "many letters, often": f"[{LETTERS}]{{9990}}",
    "many letters": f"[{LETTERS}]{{990}}",
    "groups in groups": "(" * 200 + ")" * 200,
    "as many groups as fit": "(" * 2_000 + ")" * 2_000,
    "repetitions of repetitions": "((a{1000}){1000}){1000}",
    "every letter in either case": "(?i)" + "[\0-\U0010ffff]" * 800,
    "many ways": "(.?.?.?.?){250}x",
    "the longest": "a" * 4_096,
    "many choices": "|" * 4_000,
}
IDS = tuple(UUID(int=7 + number * (2**61 - 1)) for number in range(12_000))


def asked_by_all(attacked: Trial, messages: Iterable[Message], version: int | None = None) -> None:
    """Have several connections ask these again and again for a while; a closed one is opened again."""
    attacked.is_fair = True
    wanted = [frame(each, api_of(each).versions.highest if version is None else version) for each in messages]
    ends_s = time.monotonic() + ATTACKED_S

    def ask() -> None:
        while time.monotonic() < ends_s:
            line = Line(attacked.broker.address)
            try:
                while time.monotonic() < ends_s:
                    for data in wanted:
                        line.socket.sendall(data)
                        line.take()
            except OSError:
                pass
            finally:
                line.close()

    threads = [threading.Thread(target=ask) for _ in range(ATTACKERS)]
    for each in threads:
        each.start()
    assert attacked.is_healthy()
    for each in threads:
        each.join()


@pytest.mark.parametrize("name", some_by_day(PATTERNS, "nothing, often", "many ways"))
def test_patterns_of_transactional_ids(trial: StartTrial, name: str) -> None:
    request = ListTransactionsRequest(
        state_filters=(), producer_id_filters=(), duration_filter=-1, transactional_id_pattern=PATTERNS[name]
    )
    with trial() as attacked:
        asked_by_all(attacked, [request])


def test_patterns_of_topics(trial: StartTrial) -> None:
    requests = [
        message_of(
            ConsumerGroupHeartbeatRequest,
            group_id=f"g{number}",
            member_id=f"member-{number}",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=None,
            subscribed_topic_regex=pattern,
            topic_partitions=(),
        )
        for number, pattern in enumerate(PATTERNS.values())
    ]
    with trial() as attacked:
        asked_by_all(attacked, requests)
        logged = attacked.broker.log_path.read_text()
    assert "RecursionError" not in logged
    assert max(map(len, logged.splitlines())) < 4_096


def fetching(ids: Iterable[UUID]) -> Message:
    wanted = (FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1),)
    topics = tuple(FetchTopic(topic_id=each, partitions=wanted) for each in ids)
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics, forgotten_topics_data=())


WITH_IDS: dict[str, Callable[[], Message]] = {
    "Fetch": lambda: fetching(IDS),
    "Metadata": lambda: MetadataRequest(
        topics=tuple(MetadataRequestTopic(name=None, topic_id=each) for each in IDS),
        allow_auto_topic_creation=False,
    ),
    "DeleteTopics": lambda: DeleteTopicsRequest(
        topics=tuple(DeleteTopicState(name=None, topic_id=each) for each in IDS), timeout_ms=1_000
    ),
    "OffsetCommit": lambda: OffsetCommitRequest(
        group_id="g",
        topics=tuple(OffsetCommitRequestTopic(topic_id=each, partitions=()) for each in IDS),
    ),
    "OffsetFetch": lambda: OffsetFetchRequest(
        groups=(
            OffsetFetchRequestGroup(
                group_id="g",
                topics=tuple(OffsetFetchRequestTopics(topic_id=each, partition_indexes=(0,)) for each in IDS),
            ),
        )
    ),
    "Produce": lambda: ProduceRequest(
        acks=1,
        timeout_ms=1_000,
        topic_data=tuple(TopicProduceData(topic_id=each, partition_data=()) for each in IDS),
    ),
    "ShareFetch": lambda: message_of(
        ShareFetchRequest,
        group_id="g",
        member_id="m",
        topics=tuple(message_of(ShareFetchTopic, topic_id=each, partitions=()) for each in IDS),
    ),
    "ConsumerGroupHeartbeat": lambda: message_of(
        ConsumerGroupHeartbeatRequest,
        group_id="g",
        member_id="m",
        topic_partitions=tuple(
            ConsumerGroupHeartbeatTopicPartitions(topic_id=each, partitions=(0,)) for each in IDS
        ),
    ),
}


@pytest.mark.parametrize("name", some_by_day(WITH_IDS, "Fetch", "Metadata"))
def test_ids_with_one_hash_are_refused(trial: StartTrial, name: str) -> None:
    with trial() as attacked:
        asked_by_all(attacked, [WITH_IDS[name]()])


def test_ids_with_one_hash_cannot_be_added_to_a_fetch_session_one_by_one(trial: StartTrial) -> None:
    with trial() as attacked:
        attacked.is_fair = True
        line = attacked.connect()
        session_id, epoch = 0, 0
        for start in range(0, 1_600, 8):
            request = fetching(IDS[start : start + 8])
            assert isinstance(request, FetchRequest)
            answer = line.ask(
                message_of(
                    FetchRequest,
                    session_id=session_id,
                    session_epoch=epoch,
                    topics=request.topics,
                    max_wait_ms=0,
                ),
                Message,
            )
            session_id, epoch = answer.session_id, epoch + 1  # type: ignore[attr-defined]
        assert attacked.is_healthy()


def configs_of_groups(*, is_long: bool) -> Message:
    return DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(
                resource_type=GROUP_RESOURCE, resource_name=f"{number}", configuration_keys=None
            )
            for number in range(MANY)
        ),
        include_synonyms=is_long,
        include_documentation=is_long,
    )


OFFSETS = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=(0,) * 50_000)
ANSWERED: dict[str, tuple[Message, int | None]] = {
    "configs of groups": (configs_of_groups(is_long=False), None),
    "configs of groups, and what they mean": (configs_of_groups(is_long=True), None),
    "topics that could be made": (
        message_of(
            CreateTopicsRequest,
            topics=tuple(creatable(f"t-{number}") for number in range(5_000)),
            validate_only=True,
            timeout_ms=30_000,
        ),
        None,
    ),
    "topics that are not there": (
        MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=f"m{number}") for number in range(MANY)),
            allow_auto_topic_creation=False,
        ),
        12,
    ),
    "groups that are not there": (
        DescribeGroupsRequest(groups=tuple(f"g{number}" for number in range(MANY))),
        None,
    ),
    "one offset, often": (
        OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=GROUP, topics=(OFFSETS,)),)),
        9,
    ),
}


@pytest.mark.parametrize(
    "name", some_by_day(ANSWERED, "configs of groups, and what they mean", "topics that could be made")
)
def test_long_answers_to_short_questions(trial: StartTrial, name: str) -> None:
    message, version = ANSWERED[name]
    with trial() as attacked:
        if name == "one offset, often":
            many_offsets(attacked)
        asked_by_all(attacked, [message], version)
        attacked.is_fair = False  # One such answer is encoded for longer than a turn is.
