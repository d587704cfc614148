"""Which rebalances are a storm."""

from kohort.pipeline.analytics.storms import Rebalance, find_storms

MINUTE_MS = 60_000


def rebalance(
    minute: float, still_ms: int = 1_000, cause: str = "a member joined", client: str = "a"
) -> Rebalance:
    return Rebalance(int(minute * MINUTE_MS), still_ms, cause, client)


def test_rebalances_that_follow_each_other_are_a_storm_with_its_causes() -> None:
    causes = ["a member left", "a member joined", "a member joined", "a member joined"]
    (storm,) = find_storms(rebalance(number / 2, cause=cause) for number, cause in enumerate(causes))
    assert (storm.rebalances, storm.still_ms) == (4, 4_000)
    assert list(storm.causes.items()) == [("a member joined", 3), ("a member left", 1)]
    assert (storm.started_ms, storm.ended_ms) == (0, 91_000)
    assert storm.clients == {"a": 4}
    assert round(storm.still_share, 3) == round(4 / 91, 3)


def test_a_few_rebalances_in_a_row_are_a_start() -> None:
    assert find_storms(rebalance(number / 10) for number in range(3)) == []


def test_a_quiet_time_separates_two_storms() -> None:
    first = [rebalance(number / 2) for number in range(4)]
    second = [rebalance(60 + number / 2) for number in range(5)]
    assert [each.rebalances for each in find_storms([*second, *first])] == [4, 5]


def test_a_quiet_time_starts_when_a_rebalance_has_ended() -> None:
    slow = [rebalance(1.5 * number, still_ms=MINUTE_MS) for number in range(4)]
    assert len(find_storms(slow)) == 1
    assert find_storms(rebalance(1.5 * number) for number in range(4)) == []
