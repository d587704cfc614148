"""A commit that waits for its coordinator while partitions change hands."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import cast

import anyio
import pytest

from kohort.client import commits
from kohort.client.cluster import Cluster
from kohort.client.commits import Commits
from kohort.client.config import consumer_config
from kohort.client.consumer_records import ConsumerRecords, PolledOffsets
from kohort.client.errors import CommitFailedError, NetworkError
from kohort.client.membership import Membership
from kohort.client.positions import Positions
from kohort.client.retry import Deadline
from kohort.client.values import ConsumerRecord, OffsetAndMetadata, TopicPartition

KEPT, MOVED = TopicPartition("t", 0), TopicPartition("t", 1)
MEMBER = cast(Membership, SimpleNamespace(generation_id=3, member_id="m", lost={}))


class World:
    """A member that owns two partitions; its coordinator fails once, and then takes everything."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        config = consumer_config({"group_id": "g", "retry_backoff_ms": 1})
        self.member: Membership | None = MEMBER
        self.positions = Positions()
        self.positions.assign([KEPT, MOVED])
        self.commits = Commits(
            Cluster(config),
            config,
            self.positions,
            bound_to=lambda: self.member,
            departure_reason=lambda: "",
            news=lambda: None,
        )
        self.commits.assigned([KEPT, MOVED])
        self.kept: list[Mapping[TopicPartition, OffsetAndMetadata]] = []
        self.attempts = 0
        monkeypatch.setattr(commits, "commit_offsets", self.commit_offsets)

    async def commit_offsets(
        self,
        cluster: Cluster,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        **by: object,
    ) -> None:
        self.attempts += 1
        if self.attempts == 1:
            self.positions.assign([KEPT])  # It is lost, somebody else reads on, and it comes back ...
            self.positions.assign([KEPT, MOVED])
            self.commits.assigned([MOVED])
            raise NetworkError("the coordinator hangs")  # ... before the coordinator is heard again.
        self.kept.append(offsets)

    def commit(self, partition: TopicPartition) -> None:
        offsets = {partition: OffsetAndMetadata(100)}
        anyio.run(self.commits.commit, offsets, Deadline(5_000))


def test_a_partition_that_was_revoked_and_assigned_again_is_not_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    with pytest.raises(CommitFailedError, match="t-1 were not committed"):
        world.commit(MOVED)
    assert world.kept == []


def test_a_kept_partition_is_committed_when_the_coordinator_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.commit(KEPT)
    assert world.kept == [{KEPT: OffsetAndMetadata(100)}]


def test_a_lost_partition_is_not_committed_before_the_user_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The member is in its group and the broker would take it, but others may have read on."""
    world = World(monkeypatch)
    world.member = cast(Membership, SimpleNamespace(generation_id=3, member_id="m", lost={"t": (0,)}))
    with pytest.raises(CommitFailedError, match="t-0 were not committed"):
        world.commit(KEPT)
    assert world.kept == []


def test_offsets_are_not_committed_for_a_recreated_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No group has assigned it: who reads it by hand is told, too."""
    world = World(monkeypatch)
    world.member = None
    with pytest.raises(CommitFailedError, match="t-1 were not committed: the topic was deleted"):
        world.commit(MOVED)
    assert world.kept == []


def test_records_of_a_deleted_topic_are_not_committed_for_its_successor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.member = None
    record = ConsumerRecord("t", 1, 599, 0, None, b"old")
    records = ConsumerRecords([record], world.commits.assignments)
    world.commits.assigned([MOVED])
    with pytest.raises(CommitFailedError, match="t-1 were not committed: the topic was deleted"):
        anyio.run(world.commits.commit, records, Deadline(5_000))
    assert world.attempts == 0


def test_offsets_that_were_polled_are_committed_as_the_records_are(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.attempts = 1
    number = world.commits.assignments.number
    world.commits.assigned([MOVED])
    offsets = {MOVED: OffsetAndMetadata(7)}
    anyio.run(world.commits.commit, PolledOffsets({KEPT: OffsetAndMetadata(7)}, number), Deadline(5_000))
    with pytest.raises(CommitFailedError, match="t-1 were not committed"):
        anyio.run(world.commits.commit, PolledOffsets(offsets, number), Deadline(5_000))
    anyio.run(world.commits.commit, PolledOffsets(offsets, number + 1), Deadline(5_000))
    assert world.kept == [{KEPT: OffsetAndMetadata(7)}, offsets]


def test_records_read_by_another_thread_belong_to_their_own_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It looks at the assignments, a topic is made anew, and the first new records are there at once."""
    world = World(monkeypatch)
    before = world.commits.assignments
    old = ConsumerRecord("t", 0, 9, 0, None, b"old")
    new = ConsumerRecord("t", 1, 0, 0, None, b"new")
    assert world.commits.bind([old], before).assignments is before
    world.commits.assigned([MOVED])
    world.positions.get(MOVED).seek(1)
    bound = world.commits.bind([old, new], before)
    assert bound == [old, new]
    assert bound.assignments is world.commits.assignments
    world.commits.assigned([KEPT])
    world.positions.get(KEPT).seek(0)
    assert world.commits.bind([old], before) == [old]
    assert world.commits.bind([old], before).assignments is before
    assert world.commits.bind([old, new], before) == [new], "what is left of the old topic is gone"
