"""What is said of a run that has failed: which rule was violated, or what was not reached."""

from subprocess import CompletedProcess

import pytest

from tests.simulation.judging import Verdict, judge_each, verdict_of
from tests.simulation.mutant import Mutant

AGAIN = 'to see it again: make sim-whole SEED=7 ARGS="--scenario three"'
VIOLATION = "tests.simulation.whole.rules.Violation: what was acknowledged survives: {'p0-1'}"
WAITED = "the condition did not hold within 900 virtual seconds"
NOT_REACHED = f"kohort.testing.simulation.world.NotReached: {WAITED}"


def failed(*lines: str) -> CompletedProcess[str]:
    return CompletedProcess([], 1, "", "\n".join(lines))


def test_a_violated_rule_is_named_with_its_seed() -> None:
    verdict = verdict_of(failed("the story", VIOLATION, AGAIN))
    assert verdict == Verdict(None, "7", "what was acknowledged survives")
    assert verdict.caught


def test_a_run_that_waited_in_vain_violates_no_rule() -> None:
    verdict = verdict_of(failed("the story", NOT_REACHED, AGAIN))
    assert verdict == Verdict(None, "7", None, WAITED)
    assert str(verdict) == f"seed 7: NOT REACHED: {WAITED}"
    assert verdict.has_failed
    assert not verdict.caught


def test_steps_that_no_run_came_to_violate_no_rule() -> None:
    steps = ("no run of three came so far that a log is cut", "no run of one came so far that it ends")
    verdict = verdict_of(failed(*steps))
    assert str(verdict) == f"NOT REACHED: {steps[0]}; {steps[1]}"
    assert not verdict.caught


def test_a_violation_counts_though_something_was_not_reached_either() -> None:
    assert verdict_of(failed(NOT_REACHED, VIOLATION, AGAIN)).caught


def test_a_run_without_a_word_has_failed_by_an_error() -> None:
    assert verdict_of(failed("Killed")).caught


def test_a_run_that_ended_well_has_not_failed() -> None:
    verdict = verdict_of(CompletedProcess([], 0, "", NOT_REACHED))
    assert str(verdict) == "ESCAPED"
    assert not verdict.has_failed


def test_a_mutant_is_not_caught_by_what_was_not_reached(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts = {
        "lossy": Verdict(None, "1", "a rule"),
        "slow": Verdict(None, "2", None, WAITED),
        "harmless": Verdict(None, None, None),
    }

    def judge(mutant: Mutant | None) -> Verdict:
        return Verdict(None, None, None) if mutant is None else verdicts[mutant.name]

    monkeypatch.setattr("sys.argv", ["mutants"])
    assert judge_each([Mutant(each) for each in verdicts], judge, "mutants", None) == 1
    told = capsys.readouterr().out
    assert "1 of 3 mutants caught, 1 not reached, 1 escaped, 0 undecided" in told
    assert judge_each([Mutant("lossy")], judge, "mutants", None) == 0


def test_nothing_is_judged_where_the_source_as_it_is_comes_to_no_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["mutants"])
    healthy = Verdict(None, "3", None, WAITED)
    assert judge_each([Mutant("any")], lambda mutant: healthy, "mutants", None) == 1
    assert capsys.readouterr().out == f"the source as it is fails: {healthy}\n"
