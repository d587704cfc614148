import msgspec
import pytest

from kohort.broker.explain.findings import Explanation, Finding, FindingKind, Likelihood
from kohort.cli import explain_observed
from kohort.cli.explain_observed import Answer, ObservedTelling, answer_of, read_since

MINUTE = 60_000
NOON = 1_800_000_000_000


def left(at_ms: int) -> Explanation:
    found = Finding(FindingKind.MEMBER_LEFT, Likelihood.LIKELY, f"worker-{at_ms - NOON} left")
    return Explanation(at_ms, at_ms, (found,), generation_id=1, changes=1)


class Parts:
    """Answers two explanations at a time, the newest first, as an observer does with many."""

    def __init__(self, count: int) -> None:
        self.told = [left(NOON + each * MINUTE) for each in range(count)]
        self.asked: list[str] = []

    def ask(self, query: str) -> bytes:
        self.asked.append(query)
        until = query.partition("&until_ms=")[2]
        told = [each for each in self.told if not until or each.started_ms < int(until)]
        begins = told[-2].started_ms if len(told) > 2 else None
        return msgspec.json.encode(Answer(tuple(told[-2:]), ("a right",), begins))


def test_all_since_a_time_is_read_part_by_part() -> None:
    parts = Parts(5)
    answer = read_since(parts.ask, NOON)
    assert answer.observed == tuple(parts.told)
    assert (answer.explained_since_ms, answer.cannot_know) == (None, ("a right",))
    assert parts.asked == [
        f"?since_ms={NOON}",
        f"?since_ms={NOON}&until_ms={NOON + 3 * MINUTE}",
        f"?since_ms={NOON}&until_ms={NOON + MINUTE}",
    ]


def test_what_is_too_much_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(explain_observed, "PAGES_MAX", 2)
    answer = read_since(Parts(5).ask, NOON)
    assert len(answer.observed) == 4
    ObservedTelling("g", as_json=False, since_ms=NOON).all(answer, 3)
    shown = capsys.readouterr().out
    assert ": 4 rebalances." in shown
    assert "is too much to tell." in shown


def test_an_observer_that_answers_all_at_once_is_understood() -> None:
    body = msgspec.json.encode({"observed": [left(NOON)], "cannot_know": []})
    assert read_since(lambda _query: body, NOON) == answer_of(body)


def test_following_tells_nothing_that_was_before(capsys: pytest.CaptureFixture[str]) -> None:
    telling = ObservedTelling("g", as_json=False, since_ms=NOON)
    telling.all(Answer((left(NOON),)), 3)
    capsys.readouterr()
    newest = Answer((left(NOON - MINUTE), left(NOON), left(NOON + MINUTE)))
    telling.news(msgspec.json.encode(newest))
    shown = capsys.readouterr().out
    assert f"worker-{MINUTE} left" in shown
    assert shown.count("left") == 1
