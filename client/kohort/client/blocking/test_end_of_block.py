"""What the end of a `with` block commits: what was handled, not what it failed at. No broker is there."""

from collections.abc import Callable, Mapping

import pytest
from msgspec.structs import replace

from kohort.client import Consumer, KohortError, NetworkError, OffsetAndMetadata, TopicPartition, commits
from kohort.client.cluster import Cluster
from kohort.client.fetched_chunk import Chunk
from kohort.protocol.records import build_batch

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


class Kept:
    """A consumer with five records of each of two partitions, and what it has committed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.committed: dict[int, int] = {}
        self.consumer = Consumer(
            bootstrap_servers="127.0.0.1:1", group_id="g", auto_commit_interval_ms=60_000
        )
        monkeypatch.setattr(commits, "commit_offsets", self.commit_offsets)
        self.consumer.assign(ZERO, ONE)
        for each in (ZERO, ONE):
            self.consumer.seek(each, 0)
            state = self.consumer._session.positions.get(each)
            self.consumer._buffer.add(Chunk(state, build_batch([(1, None, b"v", ())] * 5)))

    async def commit_offsets(
        self,
        cluster: Cluster,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        **by: object,
    ) -> None:
        self.committed |= {each.partition: value.offset for each, value in offsets.items()}

    def fail(self, handle: Callable[[Consumer], object]) -> None:
        """Let the user's code do this within the block, and then raise an error."""

        def block() -> None:
            with self.consumer as consumer:
                handle(consumer)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            block()


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    return Kept(monkeypatch)


def test_a_loop_that_fails_at_a_record_commits_the_records_before_it(kept: Kept) -> None:
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


def test_records_of_the_last_poll_before_a_failure_are_not_committed(kept: Kept) -> None:
    def handle_seven() -> None:
        with kept.consumer as consumer:
            assert len(consumer.poll(max_records=4)) == 4
            assert [each.offset for each in consumer.poll(max_records=3)] == [4, 0, 1]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        handle_seven()
    assert kept.committed == {0: 4, 1: 0}


def test_a_close_commits_all_returned_records(kept: Kept) -> None:
    kept.consumer.poll(max_records=7)
    kept.consumer.close()
    assert kept.committed == {0: 5, 1: 2}


def test_a_seek_accepts_a_leader_epoch(kept: Kept) -> None:
    kept.consumer.seek(ZERO, OffsetAndMetadata(3, leader_epoch=7))
    state = kept.consumer._session.positions.get(ZERO)
    assert (state.position, state.stand.leader_epoch, state.needs_validation(8)) == (3, 7, True)
    kept.consumer.close()


def test_a_block_that_fails_after_a_commit_keeps_the_commit(kept: Kept) -> None:
    def commit_all(consumer: Consumer) -> None:
        assert len(consumer.poll(max_records=5)) == 5
        consumer.commit()

    kept.fail(commit_all)
    assert kept.committed == {0: 5, 1: 0}


def test_a_loop_that_fails_after_a_commit_keeps_the_commit(kept: Kept) -> None:
    def commit_third(consumer: Consumer) -> None:
        for record in consumer:
            if record.offset == 2:
                consumer.commit()
                return

    kept.fail(commit_third)
    assert kept.committed == {0: 3, 1: 0}


def test_committed_records_stay_committed_when_the_block_fails(kept: Kept) -> None:
    kept.fail(lambda consumer: consumer.commit(consumer.poll(max_records=4)))
    assert kept.committed == {0: 4, 1: 0}


def test_a_committed_offset_within_the_last_poll_stays_when_the_block_fails(kept: Kept) -> None:
    def commit_two(consumer: Consumer) -> None:
        consumer.poll(max_records=7)
        consumer.commit({ZERO: OffsetAndMetadata(2)})

    kept.fail(commit_two)
    assert kept.committed == {0: 2, 1: 0}


def test_a_commit_in_flight_is_not_reverted_when_the_block_fails(kept: Kept) -> None:
    def commit_soon(consumer: Consumer) -> None:
        consumer.poll(max_records=5)
        consumer.commit_async()

    kept.fail(commit_soon)
    assert kept.committed == {0: 5, 1: 0}


def test_a_commit_without_an_answer_is_not_reverted(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    async def take_without_a_word(
        cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], **by: object
    ) -> None:
        await kept.commit_offsets(cluster, group_id, offsets)
        raise NetworkError("the connection broke")

    def commit(consumer: Consumer) -> None:
        consumer.poll(max_records=5)
        monkeypatch.setattr(commits, "commit_offsets", take_without_a_word)
        try:
            consumer.commit()
        except KohortError:
            monkeypatch.setattr(commits, "commit_offsets", kept.commit_offsets)

    kept.consumer._session.config = replace(kept.consumer._session.config, default_api_timeout_ms=50)
    kept.fail(commit)
    assert kept.committed == {0: 5, 1: 0}


def test_a_close_does_not_lower_an_offset_committed_ahead(kept: Kept) -> None:
    with kept.consumer as consumer:
        consumer.poll(max_records=3)
        consumer.commit({ZERO: OffsetAndMetadata(100)})
    assert kept.committed == {0: 100, 1: 0}


def test_automatic_commits_do_not_lower_an_offset_committed_ahead(kept: Kept) -> None:
    kept.consumer.poll(max_records=3)
    kept.consumer.commit({ZERO: OffsetAndMetadata(100)})
    kept.consumer._session.commits.next_auto_ms = 0
    kept.consumer.poll(max_records=1)
    kept.consumer.commit_async({})
    kept.consumer.close()
    assert kept.committed == {0: 100, 1: 0}


def test_an_earlier_position_after_a_seek_is_committed(kept: Kept) -> None:
    def begin_again(consumer: Consumer) -> None:
        consumer.poll(max_records=5)
        consumer.commit()
        consumer.seek(ZERO, 1)

    kept.fail(begin_again)
    assert kept.committed == {0: 1, 1: 0}


def test_a_later_position_within_the_last_poll_after_a_seek_is_committed(kept: Kept) -> None:
    """A command that prints records seeks to the first that it has not printed."""

    def seek_on(consumer: Consumer) -> None:
        consumer.poll(max_records=5)
        consumer.seek(ZERO, 3)

    kept.fail(seek_on)
    assert kept.committed == {0: 3, 1: 0}


def test_a_table_that_was_in_hand_when_the_block_failed_is_not_committed(kept: Kept) -> None:
    pytest.importorskip("pyarrow")

    def take_table(consumer: Consumer) -> None:
        assert consumer.poll_arrow().num_rows == 10

    kept.fail(take_table)
    assert kept.committed == {0: 0, 1: 0}
