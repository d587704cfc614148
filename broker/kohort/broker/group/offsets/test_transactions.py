"""Offsets of transactions: pending, then committed or gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from kohort.broker.group import EndOffsets, ExpireOffsets, GroupConfig, GroupCoordinator, OffsetFetch
from kohort.broker.group import TxnOffsetCommit as Commit
from kohort.broker.group.commands import DeleteGroup, OffsetCommit, OffsetDelete, TopicsDeleted
from kohort.broker.group.decision import Reply
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kohort.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kohort.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kohort.protocol.schema import ZERO_UUID

DAY_MS = 86_400_000
OLD, NEW = UUID(int=1), UUID(int=2)


class World:
    def __init__(self) -> None:
        self.core = GroupCoordinator(GroupConfig())
        self.now_ms = 1_000_000

    def do(self, command: Any) -> Any:
        decision = self.core.handle(command, self.now_ms)
        write = decision.transaction
        for record in decision.records:
            if write is None:
                self.core.replay(record)
            else:
                self.core.replay_pending(write.producer_id, record)
        if write is not None and write.end is not None:
            self.core.end_pending(write.producer_id, write.end.is_commit)
        return next((each.message for each in decision.effects if isinstance(each, Reply)), None)

    def pend(
        self,
        offset: int,
        producer_id: int = 5,
        index: int = 0,
        topic_id: UUID = ZERO_UUID,
        **of_member: Any,
    ) -> int:
        partition = TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=of_member.pop("metadata", "")
        )
        message = TxnOffsetCommitRequest(
            transactional_id="a",
            group_id="g",
            producer_id=producer_id,
            producer_epoch=0,
            topics=(TxnOffsetCommitRequestTopic(name="t", topic_id=topic_id, partitions=(partition,)),),
            **of_member,
        )
        answer = self.do(Commit(1, message))
        return int(answer.topics[0].partitions[0].error_code)

    def end(self, *, commit: bool, producer_id: int = 5) -> None:
        assert self.do(EndOffsets(2, producer_id, 0, commit, 0)).error_code == 0

    def commit(self, offset: int, topic: str = "t", topic_id: UUID = ZERO_UUID) -> None:
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        message = OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=(OffsetCommitRequestTopic(name=topic, topic_id=ZERO_UUID, partitions=(partition,)),),
        )
        self.do(OffsetCommit(3, message, 9, (topic_id,)))

    def fetch(self, *, stable: bool = True, every: bool = False) -> list[tuple[int, int]]:
        topics = (OffsetFetchRequestTopics(name="t", topic_id=ZERO_UUID, partition_indexes=(0,)),)
        group = OffsetFetchRequestGroup(group_id="g", topics=None if every else topics)
        answer = self.do(OffsetFetch(4, group, stable))
        return [
            (each.committed_offset, each.error_code) for topic in answer.topics for each in topic.partitions
        ]


@pytest.fixture
def world() -> World:
    return World()


UNSTABLE = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)


def test_a_pending_offset_counts_from_its_commit(world: World) -> None:
    world.commit(1)
    assert world.pend(7) == 0
    assert world.fetch() == [UNSTABLE]
    assert world.fetch(every=True) == [UNSTABLE]
    assert world.fetch(stable=False) == [(1, 0)]
    world.end(commit=True)
    assert world.fetch() == [(7, 0)]


def test_an_aborted_offset_never_counts(world: World) -> None:
    world.pend(7)
    assert "g" not in world.core.groups
    world.end(commit=False)
    assert world.fetch() == [(-1, 0)]


def test_an_offset_is_unstable_until_all_its_transactions_have_ended(world: World) -> None:
    world.pend(7)
    world.pend(8, producer_id=6)
    world.end(commit=True)
    assert world.fetch() == [UNSTABLE]
    world.end(commit=True, producer_id=6)
    assert world.fetch() == [(8, 0)]


def test_a_later_plain_commit_stays(world: World) -> None:
    world.pend(7)
    world.commit(9)
    world.end(commit=True)
    assert world.fetch() == [(9, 0)]


def test_an_end_without_offsets_changes_nothing(world: World) -> None:
    world.commit(1)
    world.end(commit=True, producer_id=77)
    assert world.fetch() == [(1, 0)]


def test_an_offset_in_an_open_transaction_does_not_expire(world: World) -> None:
    world.commit(1)
    world.pend(7)
    world.now_ms += 30 * DAY_MS
    world.do(ExpireOffsets())
    assert world.fetch(stable=False) == [(1, 0)]
    world.end(commit=False)
    world.do(ExpireOffsets())
    assert world.fetch(stable=False) == [(-1, 0)]


def test_a_member_of_no_group_is_refused_and_metadata_has_a_limit(world: World) -> None:
    assert world.pend(7, generation_id_or_member_epoch=3, member_id="m") == ErrorCode.ILLEGAL_GENERATION
    assert world.pend(7, metadata="x" * 5000) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    world.commit(1)
    assert world.pend(7, generation_id_or_member_epoch=3, member_id="m") == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.pend(7) == 0


def delete_group(world: World) -> None:
    assert world.do(DeleteGroup(5, "g")).error_code == 0


def delete_offset(world: World) -> None:
    partitions = (OffsetDeleteRequestPartition(partition_index=0),)
    topics = (OffsetDeleteRequestTopic(name="t", partitions=partitions),)
    answer = world.do(OffsetDelete(5, OffsetDeleteRequest(group_id="g", topics=topics)))
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0)


def delete_topic(world: World) -> None:
    world.do(TopicsDeleted(frozenset({"t"})))


@pytest.mark.parametrize("delete", [delete_group, delete_offset, delete_topic])
def test_a_transaction_does_not_restore_deleted_offsets(
    world: World, delete: Callable[[World], None]
) -> None:
    world.commit(1, topic="another")
    world.pend(7)
    delete(world)
    world.end(commit=True)
    assert world.fetch() == [(-1, 0)]
    world.pend(8)
    world.end(commit=True)
    assert world.fetch() == [(8, 0)]


def test_a_topic_that_only_a_transaction_has_an_offset_of_is_forgotten_with_it(world: World) -> None:
    world.pend(7)
    assert "g" not in world.core.groups
    delete_topic(world)
    world.end(commit=True)
    assert world.fetch() == [(-1, 0)]


@pytest.mark.parametrize("names", [frozenset[str](), frozenset({"t"})])
def test_offsets_of_a_deleted_topic_go_and_those_of_its_successor_stay(
    world: World, names: frozenset[str]
) -> None:
    deleted = TopicsDeleted(names, {"t": NEW})
    world.commit(7, topic_id=OLD)
    assert world.core.topic_ids() == {"t": {OLD}}
    world.do(deleted)
    assert world.fetch() == [(-1, 0)]
    world.commit(8, topic_id=NEW)
    world.do(deleted)
    assert world.fetch() == [(8, 0)]
    world.commit(9)
    world.do(deleted)
    assert world.fetch() == [(-1 if names else 9, 0)], "who says no id is of whatever has the name"


def test_a_transaction_restores_no_offset_of_a_recreated_topic(world: World) -> None:
    deleted = TopicsDeleted(frozenset(), {"t": NEW})
    world.pend(7, topic_id=OLD)
    assert world.core.topic_ids() == {"t": {OLD}}
    world.do(deleted)
    world.end(commit=True)
    assert world.fetch() == [(-1, 0)]
    world.pend(7, topic_id=OLD)
    world.commit(8, topic_id=NEW)
    world.pend(9, producer_id=6, topic_id=OLD)
    world.do(deleted)
    world.end(commit=True, producer_id=6)
    world.end(commit=True)
    assert world.fetch() == [(8, 0)]
    world.pend(10, topic_id=NEW)
    world.do(deleted)
    world.end(commit=True)
    assert world.fetch() == [(10, 0)]
