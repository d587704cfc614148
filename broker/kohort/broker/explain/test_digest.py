import random

import pytest

from kohort.broker.explain.advice import advice_of
from kohort.broker.explain.digest import PAGE_LINES, digest, of_explanations, of_reports
from kohort.broker.explain.events import RebalanceReport
from kohort.broker.explain.findings import Explanation, Finding, FindingKind, Likelihood
from kohort.broker.explain.test_story import a_report
from kohort.broker.group.events import Cause, CauseKind

DAY, HOUR, MINUTE = 86_400_000, 3_600_000, 60_000
NOON = 20_000 * DAY


def at(ms: int, kind: CauseKind, client: str = "worker-b") -> RebalanceReport:
    cause = Cause(kind, ms, f"{client}-22222222-0000-0000-0000-000000000000", client, after_ms=45_000)
    return a_report(started_ms=ms, cause=cause, waited_for=(), join_ms=20, still_ms=100)


def page(reports: list[RebalanceReport]) -> list[str]:
    return [*digest("g", of_reports(advice_of(reports)), NOON)]


def test_a_night_of_expiries_among_other_things_is_told_by_its_cause() -> None:
    reports = [at(NOON + MINUTE, CauseKind.MEMBER_JOINED, "worker-a")]
    for step in range(40):
        began = NOON + 6 * HOUR + step * 2 * MINUTE
        reports.append(at(began, CauseKind.MEMBER_EXPIRED))
        reports.append(at(began + MINUTE, CauseKind.MEMBER_JOINED))
    reports += [at(NOON + hour * HOUR, CauseKind.MEMBER_LEFT, "worker-c") for hour in range(10, 20)]
    lines = page(reports)
    assert lines[0].endswith(": 91 rebalances.")
    assert "worker-b-22222222 missed its session timeout" in lines[1]  # The cause comes first.
    assert lines[1].startswith("  Most of it, ")
    assert len(lines) < 40
    place = next(index for index, line in enumerate(lines) if "80 rebalances" in line)
    assert "worker-b-22222222 missed its session timeout" in lines[place + 1]
    assert "  It happened 40 times: worker-b 40." in lines
    assert "  With it: a member joined, 40 times." in lines
    assert any("  What to change: " in line for line in lines)
    assert sum("worker-c-22222222 left" in line for line in lines) == 10


def test_a_page_does_not_grow_with_what_happened() -> None:
    reports = [at(NOON + step * 15 * MINUTE, CauseKind.MEMBER_LEFT) for step in range(1_000)]
    lines = page(reports)
    assert len(lines) < 40
    assert lines[-1] == "And 976 times more, with 976 rebalances in all."


def test_a_time_without_a_rebalance_is_told_as_that() -> None:
    assert page([])[1:] == ["  Nothing has happened since."]


def happened(ms: int, kind: FindingKind, changes: int, evidence: int) -> Explanation:
    facts = tuple(f"fact {each}" for each in range(evidence))
    return Explanation(ms, ms, (Finding(kind, Likelihood.LIKELY, "x", facts, "about"),), changes=changes)


@pytest.mark.parametrize("seed", range(20))
def test_a_page_is_one_page_whatever_happened(seed: int) -> None:
    chance = random.Random(seed)
    kinds = list(FindingKind)
    told = []
    at_ms = NOON
    for _ in range(chance.randrange(1, 300)):
        at_ms += chance.choice((MINUTE, 20 * MINUTE, HOUR))
        told.append(
            happened(at_ms, chance.choice(kinds), chance.choice((0, 0, 1, 2, 9)), chance.randrange(9))
        )
    lines = [*digest("g", of_explanations(told), NOON)]
    assert len(lines) <= PAGE_LINES


def test_one_reset_among_many_rebalances_is_not_left_out() -> None:
    left = [happened(NOON + step * HOUR, FindingKind.MEMBER_LEFT, 1, 2) for step in range(200)]
    resets = [
        happened(NOON + 40 * step * HOUR + 30 * MINUTE, FindingKind.OFFSETS_RESET, 0, 2) for step in range(5)
    ]
    lines = [*digest("g", of_explanations([*left, *resets]), NOON)]
    assert sum("fact 0" in line for line in lines) == 4
    assert lines[-1] == "And 177 times more, with 177 rebalances in all."


def test_no_cause_of_a_day_is_called_most_of_it_if_none_is() -> None:
    left = [happened(NOON + step * HOUR, FindingKind.MEMBER_LEFT, 5, 2) for step in range(3)]
    assert not any("Most of it" in line for line in digest("g", of_explanations(left), NOON))
    assert not any("Most of it" in line for line in digest("g", of_explanations(left[:1]), NOON))
