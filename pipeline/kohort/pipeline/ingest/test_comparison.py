"""Where a group stands beside a checkpoint, and what is done about it."""

import pytest

from kohort.client import TopicPartition
from kohort.pipeline.ingest.comparison import (
    GroupAheadError,
    GroupBusyError,
    Step,
    compare,
    require_no_members,
)

AIR = [TopicPartition("air", number) for number in range(3)]


def test_a_group_that_lags_or_is_new_moves_forward() -> None:
    found = compare({AIR[0]: 9, AIR[1]: 4}, {AIR[0]: 7})
    assert [each.step for each in found.rows] == [Step.FORWARD, Step.FORWARD]
    assert found.commit(backwards=False) == {AIR[0]: 9, AIR[1]: 4}


def test_a_group_at_the_checkpoint_stays() -> None:
    found = compare({AIR[0]: 9}, {AIR[0]: 9})
    assert found.commit(backwards=True) == {}
    found.require_not_ahead("g")


def test_a_group_ahead_of_the_checkpoint_moves_back_only_when_told() -> None:
    found = compare({AIR[0]: 9, AIR[1]: 9}, {AIR[0]: 10, AIR[1]: 8})
    assert found.commit(backwards=False) == {AIR[1]: 9}
    assert found.commit(backwards=True) == {AIR[0]: 9, AIR[1]: 9}
    with pytest.raises(GroupAheadError, match="air-0 at 10, the checkpoint at 9"):
        found.require_not_ahead("g")


def test_partitions_unknown_to_the_checkpoint_are_not_changed() -> None:
    found = compare({AIR[0]: 9}, {AIR[0]: 9, AIR[2]: 100})
    assert found.commit(backwards=True) == {}
    found.require_not_ahead("g")


def test_a_group_with_members_is_refused() -> None:
    require_no_members("g", 0)
    with pytest.raises(GroupBusyError, match="2 live members"):
        require_no_members("g", 2)
