"""What a follower's fetch does not look at has nothing to tell, whatever has happened before."""

from random import Random
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from msgspec.structs import replace

from kohort.broker.handlers.data.fetch_reading import answer_changes, read_targets, remember_sent
from kohort.broker.handlers.data.fetch_sessions import FetchContext, FetchSession, FetchSessions
from kohort.broker.handlers.data.fetch_target import FetchTarget
from kohort.broker.handlers.data.follower_targets import (
    FULL_CHECK_MS,
    targets_to_read,
    targets_with_records,
)
from kohort.broker.handlers.data.reader import Reader
from kohort.broker.partitions.test_replicas import STATE, Here
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.storage import Slice

VERSION = 17
FOLLOWER, OTHER = 2, 3
BYTES_MAX = 1 << 20
TOPICS = [UUID(int=number + 1) for number in range(5)]


class Follower:
    """Broker 2's session with a leader of several partitions; its logs are nothing but their ends."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.leaders = {topic: Here() for topic in TOPICS}
        self.ends = dict.fromkeys(TOPICS, 0)
        self.told = dict.fromkeys(TOPICS, -1)
        self.broker_epoch = 10 * FOLLOWER
        self.sessions = FetchSessions(1)
        self.session: FetchSession | None = None

    @property
    def table(self) -> Any:
        return cast(
            Any,
            SimpleNamespace(
                get_by_id=lambda topic, index: self.leaders[topic].partition,
                why_missing=lambda topic, index: None,
            ),
        )

    def reader(self) -> Reader:
        return Reader(
            cast(Any, Roles(self.leaders)), FOLLOWER, self.broker_epoch, has_arrived=True, is_follower=True
        )

    def begin(self) -> FetchContext:
        """Fetch: name what is other than before."""
        changed = [topic for topic in TOPICS if self.told[topic] != self.ends[topic]]
        session = self.session
        request = FetchRequest(
            session_id=0 if session is None else session.session_id,
            session_epoch=0 if session is None else session.epoch,
            max_wait_ms=0,
            min_bytes=1,
            topics=tuple(
                FetchTopic(
                    topic_id=topic,
                    partitions=(
                        FetchPartition(
                            partition=0,
                            current_leader_epoch=self.leaders[topic].state.leader_epoch,
                            fetch_offset=self.ends[topic],
                            partition_max_bytes=BYTES_MAX,
                        ),
                    ),
                )
                for topic in changed
            ),
        )
        for topic in changed:
            self.told[topic] = self.ends[topic]
        return self.sessions.begin(request, VERSION, self.now_ms)

    def fetch(self) -> list[FetchTarget]:
        """Fetch and take the records; return the partitions that the leader did not check."""
        context = self.begin()
        looked_at = list(targets_to_read(context, self.reader(), self.now_ms))
        reading = read_targets(context, self.table, BYTES_MAX, self.reader(), looked_at)
        if context.session is None:
            self.session = self.sessions.create(context, self.now_ms)
            remember_sent(reading)
        else:
            answer_changes(context.session, reading, 0)
        for target, outcome in reading.outcomes:
            if isinstance(outcome, Slice):
                self.ends[target.topic_id] = self.leaders[target.topic_id].partition.log.flushed_offset
        return [each for each in context.targets if each not in looked_at]


class Roles:
    """The `Replicas` of each topic, as if they were one."""

    def __init__(self, leaders: dict[UUID, Here]) -> None:
        self._of = {id(here.partition): here.replicas for here in leaders.values()}

    def fetched(self, partition: Any, **asked: Any) -> Any:
        return self._of[id(partition)].fetched(partition, **asked)

    def holds_back(self, partition: Any, node_id: int) -> bool:
        return self._of[id(partition)].holds_back(partition, node_id)


def happen(dice: Random, follower: Follower) -> None:
    """Let something happen to one of the partitions."""
    here = follower.leaders[dice.choice(TOPICS)]
    kind = dice.randrange(7)
    if kind <= 2:
        if here.partition.error_code is None:
            here.commit("a record")
    elif kind == 3:
        here.fetch(OTHER, here.partition.log.flushed_offset, here.state.leader_epoch)
    elif kind == 4 and here.partition.leadership is not None:
        isr = dice.choice([(1,), (1, OTHER), (1, FOLLOWER, OTHER)])
        epoch = here.state.partition_epoch + 1
        here.settle(replace(here.state, isr=isr, partition_epoch=epoch), leads=True)
    elif kind == 5:
        here.settle(here.state, leads=dice.random() < 0.7)
    elif here.partition.log.flushed_offset > 0:
        here.partition.log.delete_records_before(
            dice.randrange(here.partition.log.flushed_offset) + 1, follower.now_ms
        )


@pytest.mark.parametrize("seed", range(40))
def test_a_skipped_partition_has_no_news_for_the_follower(seed: int) -> None:
    dice, follower, skipped = Random(seed), Follower(), 0
    for _ in range(200):
        for _ in range(dice.randrange(3)):
            happen(dice, follower)
        follower.now_ms += dice.randrange(FULL_CHECK_MS // 4)
        for target in follower.fetch():
            skipped += 1
            partition = target.partition
            assert partition is not None
            assert partition.leadership is not None
            assert FOLLOWER in partition.leadership.state.isr, "it may join"
            before = partition.high_watermark
            context = FetchContext((target,), uses_topic_ids=True)
            ((_, outcome),) = read_targets(context, follower.table, BYTES_MAX, follower.reader()).outcomes
            assert outcome is None
            assert partition.high_watermark == before == target.sent_high_watermark
            assert partition.log.log_start_offset == target.sent_log_start_offset
            assert target not in targets_with_records(context)
    assert skipped > 100


def test_all_partitions_are_checked_at_intervals_and_in_a_new_session() -> None:
    follower = Follower()
    follower.fetch()
    follower.now_ms = 1
    assert not follower.fetch(), "the first one that is told only what is other"
    assert len(follower.fetch()) == len(TOPICS)
    follower.now_ms += FULL_CHECK_MS - 1
    assert len(follower.fetch()) == len(TOPICS)
    follower.now_ms += 1
    assert not follower.fetch()
    assert len(follower.fetch()) == len(TOPICS)
    follower.broker_epoch += 1
    assert not follower.fetch()


def test_records_for_a_waiting_follower_are_found() -> None:
    follower = Follower()
    follower.fetch()
    follower.fetch()
    assert follower.session is not None
    context = FetchContext(follower.session.targets.values(), uses_topic_ids=True, session=follower.session)
    assert targets_with_records(context) == []
    follower.leaders[TOPICS[3]].commit("a record")
    assert [each.topic_id for each in targets_with_records(context)] == [TOPICS[3]]
    follower.leaders[TOPICS[1]].settle(STATE, leads=False)
    assert [each.topic_id for each in targets_with_records(context)] == [TOPICS[1], TOPICS[3]]
