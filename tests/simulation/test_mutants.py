"""Every mutant still applies, and two are caught; `make mutants` judges them all."""

import ast
import os
from functools import cache
from pathlib import Path

import pytest

from tests.simulation.cluster.mutations import MUTANTS as OF_CLUSTERS
from tests.simulation.judging import Undecided, Verdict, judge_each, mutated, run
from tests.simulation.mutant import Edit, Mutant, StaleMutant, changed, file_of
from tests.simulation.mutants import judge
from tests.simulation.mutations import MUTANTS
from tests.simulation.operations import drop_call
from tests.simulation.replicas.mutations import MUTANTS as OF_REPLICAS
from tests.simulation.whole.mutations import MUTANTS as WHOLE
from tests.simulation.whole.mutations import SHARED

OF_WHOLE = [each for each in WHOLE if each.name not in SHARED]  # The others are listed with those of parts.
EVERY = (*MUTANTS, *OF_CLUSTERS, *OF_REPLICAS, *OF_WHOLE)
BY_NAME = {mutant.name: mutant for mutant in EVERY}


@cache
def unchanged(path: Path) -> str:
    """Return a module's source as a mutant has it that changes nothing."""
    return ast.unparse(ast.parse(path.read_text(encoding="utf-8"))) + "\n"


@pytest.mark.parametrize("mutant", EVERY, ids=lambda mutant: mutant.name)
def test_a_mutant_still_applies(mutant: Mutant) -> None:
    for path, source in mutant.apply().items():
        compile(source, str(path), "exec")
        assert source != unchanged(path)


def test_a_mutant_has_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(EVERY)


def test_a_mutant_of_the_core_is_caught_by_a_scenario() -> None:
    assert judge(BY_NAME["an old generation may heartbeat"], seeds=1).scenario is not None


def test_a_mutant_of_the_shards_order_is_caught_by_the_simulation() -> None:
    assert judge(BY_NAME["answers do not wait for the flush"]).rule is not None


def test_a_mutant_of_transactions_is_caught() -> None:
    mutant = BY_NAME["what is stable does not end before open transactions"]
    assert judge(mutant, seeds=2).rule == "only what is committed is shown"


def test_a_mutant_whose_module_has_moved_says_where_its_function_is() -> None:
    moved = Mutant("moved", Edit("kohort.broker.where_it_was", "WritableLog.sync", drop_call("sync")))
    with pytest.raises(
        StaleMutant, match=r"no module kohort.broker.where_it_was; .*writable_log, WritableLog.sync"
    ):
        moved.apply()


def test_a_mutant_whose_function_has_gone_says_where_one_of_its_name_is() -> None:
    with pytest.raises(StaleMutant, match=r"kohort.x has no Log.sync; .*WritableLog.sync"):
        changed(Edit("kohort.x", "Log.sync", drop_call("sync")), "class Log:\n    pass")


def test_a_mutant_that_does_not_match_once_says_what_there_is() -> None:
    edit = Edit("kohort.x", "end", drop_call("sync"))
    twice = "def end():\n    first.sync()\n    second.sync()"
    with pytest.raises(
        StaleMutant, match=r"drop the call of sync: matches 2 places.*\n  0: first.sync\(\)\n  1: second"
    ):
        changed(edit, twice)
    with pytest.raises(StaleMutant, match="matches 0 places"):
        changed(edit, "def end():\n    first.close()")
    with pytest.raises(StaleMutant, match="has no place number 2"):
        changed(Edit("kohort.x", "end", drop_call("sync", index=2)), twice)


def test_python_compiles_only_what_a_mutant_changes() -> None:
    mutant = BY_NAME["an old generation may heartbeat"]
    with mutated(mutant) as environment:
        root = Path(environment["PYTHONPATH"].split(os.pathsep)[0]).parent
        changed_file = file_of(mutant.edits[0], root)
        left_alone = [each for each in changed_file.parent.glob("*.py") if each != changed_file]
        assert left_alone
        assert all(list(each.parent.glob(f"__pycache__/{each.stem}.*.pyc")) for each in left_alone)
        assert not list(changed_file.parent.glob(f"__pycache__/{changed_file.stem}.*.pyc"))


def test_a_run_that_takes_too_long_is_undecided() -> None:
    with pytest.raises(Undecided, match=r"timeit .* took longer than 1 s"):
        run(["timeit", "-n", "1", "while True: pass"], dict(os.environ), 1)


@pytest.mark.parametrize(("undecided", "code"), [(2, 1), (1, 0)])
def test_an_undecided_mutant_fails_the_run_unless_it_is_caught_when_it_is_repeated(
    undecided: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mutants = [Mutant("slow"), Mutant("plain")]
    judged: list[str] = []

    def judge_late(mutant: Mutant | None) -> Verdict:
        if mutant is None:
            return Verdict(None, None, None)
        judged.append(mutant.name)
        if mutant.name == "slow" and judged.count("slow") <= undecided:
            raise Undecided("it took too long")
        return Verdict(None, "7", "a rule")

    monkeypatch.setattr("sys.argv", ["mutants"])
    assert judge_each(mutants, judge_late, "mutants", None) == code
    assert judged == ["slow", "plain", "slow"]
    assert (
        f"{1 + (code == 0)} of 2 mutants caught, 0 not reached, 0 escaped, {code} undecided"
        in capsys.readouterr().out
    )
