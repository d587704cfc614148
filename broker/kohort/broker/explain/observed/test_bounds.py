"""However fast a group storms, the work for each of its changes is bounded."""

import pytest

from kohort.broker.explain.findings import Finding
from kohort.broker.explain.observed import explaining
from kohort.broker.explain.observed.events import GroupChanged, OwnedPartition
from kohort.broker.explain.observed.explaining import NEAR_MAX, explain
from kohort.broker.explain.observed.patterns import POISON_DEPARTURES_MAX, Run, poison
from kohort.broker.explain.observed.test_explaining import NOW, changed, flapping, gone


def test_a_change_is_compared_with_a_bounded_number_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def counting(change: GroupChanged, earlier: Run) -> Finding | None:
        compared.append(len(earlier))
        return poison(change, earlier)

    monkeypatch.setattr(explaining, "poison", counting)
    explain([changed(NOW + each * 100, each) for each in range(2 * NEAR_MAX)])
    assert max(compared) == NEAR_MAX


def test_a_poison_record_counts_a_bounded_number_of_departures() -> None:
    storm = flapping(80, (OwnedPartition("t", 3, 117, 400),))
    newest = changed(storm[-1].at_ms, 500, gone=(gone(owned=(OwnedPartition("t", 3, 117, 400),)),))
    found = poison(newest, storm)
    assert found is not None
    assert found.evidence[0].startswith(f"the {POISON_DEPARTURES_MAX} members that were gone in the last ")
