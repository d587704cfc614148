"""However fast a group storms, the work for each of its changes is bounded."""

from collections.abc import Sequence

import pytest

from kohort.broker.explain.findings import Finding
from kohort.broker.explain.observed import explaining
from kohort.broker.explain.observed.changes import change_findings
from kohort.broker.explain.observed.events import (
    CoordinatorMoved,
    GroupChanged,
    OwnedPartition,
    TopicsChanged,
    TransactionStands,
)
from kohort.broker.explain.observed.explaining import NEAR_MAX, explain
from kohort.broker.explain.observed.patterns import POISON_DEPARTURES_MAX, Run, poison
from kohort.broker.explain.observed.test_explaining import NOW, changed, flapping, gone, member


def test_a_change_is_compared_with_a_bounded_number_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def counting(
        change: GroupChanged, earlier: Run, transactions: Sequence[TransactionStands]
    ) -> Finding | None:
        compared.append(len(earlier))
        return poison(change, earlier, transactions)

    monkeypatch.setattr(explaining, "poison", counting)
    explain([changed(NOW + each * 100, each) for each in range(2 * NEAR_MAX)])
    assert max(compared) == NEAR_MAX


def test_a_poison_record_counts_a_bounded_number_of_departures() -> None:
    storm = flapping(80, (OwnedPartition("t", 3, 117, 400),))
    newest = changed(storm[-1].at_ms, 500, gone=(gone(owned=(OwnedPartition("t", 3, 117, 400),)),))
    found = poison(newest, storm)
    assert found is not None
    assert found.evidence[0].startswith(f"the {POISON_DEPARTURES_MAX} members that were gone in the last ")


def test_a_long_history_is_explained_in_time_for_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change is explained by those near it: a whole history for each would take its length squared."""
    seen: list[tuple[int, int]] = []

    def counted(
        change: GroupChanged,
        earlier: Sequence[GroupChanged],
        later: Sequence[GroupChanged],
        topics: Sequence[TopicsChanged],
        coordinator_moves: Sequence[CoordinatorMoved],
    ) -> list[Finding]:
        seen.append((len(earlier), len(later)))
        return change_findings(change, earlier, later, topics, coordinator_moves)

    monkeypatch.setattr(explaining, "change_findings", counted)
    minute_ms, hour_ms = 60_000, 3_600_000
    often = [changed(NOW + minute_ms * each, each, joined=(member("b"),)) for each in range(200)]
    seldom = [changed(NOW + hour_ms * each, each, joined=(member("b"),)) for each in range(10, 20)]
    assert len(explain([*often, *seldom])) == 210
    assert max(seen) == (30, 10)
    assert seen[-1] == (1, 0)  # The one before is looked at, however old it is.
