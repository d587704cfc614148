import random
import time

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
    by_cause = "a member missed its session timeout (worker-b) 40; a member joined 40"
    assert f"  Rebalances by cause: {by_cause}." in lines
    assert any("  What to change: " in line for line in lines)
    assert sum("worker-c-22222222 left" in line for line in lines) == 10


def test_a_page_does_not_grow_with_what_happened() -> None:
    reports = [at(NOON + step * 15 * MINUTE, CauseKind.MEMBER_LEFT) for step in range(1_000)]
    lines = page(reports)
    assert len(lines) < 40
    assert lines[-3] == "And 976 more that are not shown, with 976 rebalances."


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
    assert lines[-3] == "And 177 more that are not shown, with 177 rebalances."


def test_no_cause_of_a_day_is_called_most_of_it_if_none_is() -> None:
    left = [happened(NOON + step * HOUR, FindingKind.MEMBER_LEFT, 5, 2) for step in range(3)]
    assert not any("Most of it" in line for line in digest("g", of_explanations(left), NOON))
    assert not any("Most of it" in line for line in digest("g", of_explanations(left[:1]), NOON))


def counts(line: str) -> int:
    return sum(int(each.rpartition(" ")[2]) for each in line.partition(": ")[2].rstrip(".").split("; "))


@pytest.mark.parametrize("seed", range(20))
def test_the_counts_of_causes_add_up_to_the_rebalances(seed: int) -> None:
    chance = random.Random(seed)
    at_ms, told = NOON, []
    for _ in range(chance.randrange(20, 60)):
        at_ms += chance.choice((MINUTE, 5 * MINUTE, HOUR))
        told.append(happened(at_ms, chance.choice([*FindingKind]), chance.choice((0, 1, 2, 9)), 1))
    lines = [*digest("g", of_explanations(told), NOON)]
    rebalances = sum(each.changes for each in told)
    assert lines[0].endswith(f": {rebalances} rebalances.")
    (whole, *parts) = (each for each in lines if each.startswith("  Rebalances by cause: "))
    assert counts(whole) == rebalances
    headers = [each for each in lines if "% of all" in each]
    assert {counts(each) for each in parts} <= {int(each.split("  ")[1].split()[0]) for each in headers}
    by_hour = next(each for each in lines if each.startswith("  Rebalances by the hour: "))
    assert sum(int(each.rpartition(" ")[2]) for each in by_hour.rstrip(".").split(",")) == rebalances
    assert any(each.startswith("  Without a rebalance: ") for each in lines)


def test_two_things_that_a_cause_is_about_are_told_with_their_counts() -> None:
    reports = [at(NOON + step * MINUTE, CauseKind.MEMBER_EXPIRED, "worker-a") for step in range(3)]
    reports += [at(NOON + (3 + step) * MINUTE, CauseKind.MEMBER_EXPIRED, "worker-b") for step in range(2)]
    told = "a member missed its session timeout (worker-a 3, worker-b 2) 5"
    assert f"  Rebalances by cause: {told}." in page(reports)


def test_the_page_says_the_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        told = [happened(NOON, FindingKind.OFFSETS_RESET, 0, 1)]
        assert " 02:00:00 (UTC+02:00): " in next(digest("g", of_explanations(told), NOON))
        winter = NOON + 90 * DAY
        told = [happened(winter, FindingKind.OFFSETS_RESET, 0, 1)]
        assert "(UTC+02:00, later UTC+01:00): " in next(digest("g", of_explanations(told), NOON))
    finally:
        monkeypatch.undo()
        time.tzset()


def test_names_of_members_are_explained_where_there_are_some() -> None:
    lines = page([at(NOON, CauseKind.MEMBER_LEFT)])
    assert lines[-1].startswith("Names of members: group.instance.id, or client id and 8 digits of")
    told = [happened(NOON, FindingKind.OFFSETS_RESET, 0, 1)]
    assert not any("Names of members" in each for each in digest("g", of_explanations(told), NOON))
