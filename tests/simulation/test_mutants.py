"""Every mutant still applies, and two are caught; `make mutants` judges them all."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.simulation.cluster.mutations import MUTANTS as OF_CLUSTERS
from tests.simulation.mutant import Edit, Mutant, StaleMutant, changed
from tests.simulation.mutants import judge
from tests.simulation.mutations import MUTANTS
from tests.simulation.operations import drop_call
from tests.simulation.replicas.mutations import MUTANTS as OF_REPLICAS

EVERY = (*MUTANTS, *OF_CLUSTERS, *OF_REPLICAS)
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
