"""What the end of a `with` block commits: what was handled, not what it failed at. No broker is there."""

from collections.abc import Mapping

import pytest

from kohort.client import Consumer, OffsetAndMetadata, TopicPartition
from kohort.client.fetch_buffer import Chunk
from kohort.client.retry import Deadline
from kohort.protocol.records import build_batch

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


class Kept:
    """A consumer with five records of each of two partitions, and what it has committed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.committed: dict[int, int] = {}
        self.consumer = Consumer(
            bootstrap_servers="127.0.0.1:1", group_id="g", auto_commit_interval_ms=60_000
        )
        monkeypatch.setattr(self.consumer._session.commits, "commit", self.commit)
        self.consumer.assign(ZERO, ONE)
        for each in (ZERO, ONE):
            self.consumer.seek(each, 0)
            state = self.consumer._session.positions.get(each)
            self.consumer._buffer.add(Chunk(state, build_batch([(1, None, b"v", ())] * 5)))

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: Deadline) -> None:
        self.committed = {each.partition: value.offset for each, value in offsets.items()}


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    return Kept(monkeypatch)


def test_a_loop_that_fails_at_a_record_commits_those_before_it(kept: Kept) -> None:
    def handle_three() -> None:
        with kept.consumer as consumer:
            for record in consumer:
                if record.offset == 2:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        handle_three()
    assert kept.committed == {0: 2, 1: 0}


def test_a_loop_that_ends_commits_its_last_record_as_well(kept: Kept) -> None:
    with kept.consumer as consumer:
        for record in consumer:
            if record.offset == 2:
                break
    assert kept.committed == {0: 3, 1: 0}


def test_what_a_poll_gave_out_before_the_block_failed_is_not_committed(kept: Kept) -> None:
    def handle_seven() -> None:
        with kept.consumer as consumer:
            assert len(consumer.poll(max_records=4)) == 4
            assert [each.offset for each in consumer.poll(max_records=3)] == [4, 0, 1]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        handle_seven()
    assert kept.committed == {0: 4, 1: 0}


def test_a_close_commits_all_that_was_given_out(kept: Kept) -> None:
    kept.consumer.poll(max_records=7)
    kept.consumer.close()
    assert kept.committed == {0: 5, 1: 2}


def test_a_seek_takes_a_leader_epoch(kept: Kept) -> None:
    kept.consumer.seek(ZERO, OffsetAndMetadata(3, leader_epoch=7))
    state = kept.consumer._session.positions.get(ZERO)
    assert (state.position, state.stand.leader_epoch, state.needs_validation(8)) == (3, 7, True)
    kept.consumer.close()
