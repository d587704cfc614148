"""Which offsets of a log a query may read, and what is said where they are not there."""

import pytest

from kohort.client import TopicPartition
from kohort.pipeline.errors import DataLossError
from kohort.pipeline.ranges import LogEnds, check_range

ORDERS = TopicPartition("orders", 0)
LOG = LogEnds(10, 50)


@pytest.mark.parametrize(
    "start, end, says, left",
    [
        (5, 40, "begins at 10 now: offsets from 5 on were deleted", (10, 40)),
        (20, 60, "ends at 50, before 60: what was asked for is not written yet", (20, 50)),
        (100, 50, "begins at 100 and ends at 50: what was asked for is not written yet", (50, 50)),
        (40, 30, "begins at 40 and ends at 30", (30, 30)),
    ],
)
def test_offsets_that_are_not_there_are_an_error_or_left_out(
    start: int, end: int, says: str, left: tuple[int, int]
) -> None:
    with pytest.raises(DataLossError, match=says):
        check_range(ORDERS, start, end, LOG, fail_on_data_loss=True)
    assert check_range(ORDERS, start, end, LOG, fail_on_data_loss=False) == left


@pytest.mark.parametrize("start, end", [(10, 50), (50, 50), (5, 5), (20, 30)])
def test_offsets_that_are_there_are_read(start: int, end: int) -> None:
    assert check_range(ORDERS, start, end, LOG, fail_on_data_loss=True) == (start, end)
