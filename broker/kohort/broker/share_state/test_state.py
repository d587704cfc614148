"""Batches of states laid over each other: single cases, and a plain list of offsets beside them."""

from itertools import pairwise
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kohort.broker.share_state.state import ShareKey, ShareState, drop_before, overlay
from kohort.protocol.share_state_log import ShareSnapshotValue, ShareStateBatch


def batch(first: int, last: int, state: int = 2, count: int = 1) -> ShareStateBatch:
    return ShareStateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)


def test_adjacent_equal_batches_are_merged() -> None:
    batches: list[ShareStateBatch] = []
    for first, last in ((5, 6), (9, 9), (7, 8), (3, 4)):
        overlay(batches, batch(first, last))
    assert batches == [batch(3, 9)]


def test_a_later_batch_overwrites_and_splits_earlier_ones() -> None:
    batches = [batch(0, 9)]
    overlay(batches, batch(3, 5, 0, 2))
    assert batches == [batch(0, 2), batch(3, 5, 0, 2), batch(6, 9)]
    drop_before(batches, 4)
    assert batches == [batch(4, 5, 0, 2), batch(6, 9)]
    drop_before(batches, 10)
    assert batches == []


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8), st.sampled_from((0, 2, 4)), st.integers(1, 2))),
    st.integers(0, 40),
)
def test_each_offset_has_the_state_of_its_last_batch(
    said: list[tuple[int, int, int, int]], start: int
) -> None:
    batches: list[ShareStateBatch] = []
    offsets: dict[int, tuple[int, int]] = {}
    for first, more, state, count in said:
        overlay(batches, batch(first, first + more, state, count))
        offsets.update(dict.fromkeys(range(first, first + more + 1), (state, count)))
    drop_before(batches, start)
    found = {
        offset: (each.delivery_state, each.delivery_count)
        for each in batches
        for offset in range(each.first_offset, each.last_offset + 1)
    }
    assert found == {offset: each for offset, each in offsets.items() if offset >= start}
    for one, next_one in pairwise(batches):
        assert one.last_offset < next_one.first_offset
        assert one.last_offset + 1 < next_one.first_offset or (one.delivery_state, one.delivery_count) != (
            next_one.delivery_state,
            next_one.delivery_count,
        )


def test_a_share_partition_is_named_as_kafka_names_it() -> None:
    assert ShareKey("g", UUID(int=0), 3).text == "g:AAAAAAAAAAAAAAAAAAAAAA:3"


def state(start_offset: int, done_count: int, *batches: ShareStateBatch) -> ShareState:
    return ShareState(
        ShareSnapshotValue(
            snapshot_epoch=0,
            state_epoch=0,
            leader_epoch=0,
            start_offset=start_offset,
            delivery_complete_count=done_count,
            create_timestamp=0,
            write_timestamp=0,
            state_batches=batches,
        )
    )


def test_completed_batches_at_the_front_move_the_start() -> None:
    assert state(5, 0).progress() == (5, 0)
    assert state(-1, -1).progress() == (-1, -1)
    assert state(5, 3, batch(5, 7)).progress() == (8, 0)
    assert state(5, 4, batch(5, 7, 2), batch(8, 8, 4)).progress() == (9, 0)
    assert state(5, 5, batch(5, 6), batch(7, 7, 0), batch(8, 10)).progress() == (7, 3)
    assert state(5, 2, batch(6, 7)).progress() == (5, 2)  # The first one is in nobody's hands yet.
