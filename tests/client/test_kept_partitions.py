"""Whoever keeps a partition in a cooperative rebalance never stops reading it; measured."""

from __future__ import annotations

import pytest
from benchmarks.rebalances import STRATEGIES, WORK_S, line, measure


@pytest.mark.requirement("R14")
def test_a_kept_partition_is_read_on_during_a_cooperative_rebalance_alone(
    bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    gaps = {name: measure(bootstrap, strategy) for name, strategy in STRATEGIES.items()}
    with capsys.disabled():
        print("", *(line(name, gap) for name, gap in gaps.items()), sep="\n  ")  # noqa: T201  # The figures.
    eager, cooperative = gaps["eager"], gaps["cooperative"]
    assert (eager.kept, cooperative.kept) == (2, 2)
    assert cooperative.longest_ms < WORK_S * 1_000 / 2, "it did not wait for the member that works"
    assert cooperative.longest_ms < eager.longest_ms
