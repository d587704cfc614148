"""Two mutants are caught, and every one still applies; `make mutants` judges them all."""

import pytest

from tests.simulation.mutants import REPOSITORY, StalePatch, judge, patched
from tests.simulation.mutations import MUTANTS, Edit, Mutant

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_still_applies(mutant: Mutant) -> None:
    for edit in mutant.edits:
        source = (REPOSITORY / edit.path).read_text(encoding="utf-8")
        assert patched(edit, source) != source


def test_a_mutant_of_the_core_is_caught_by_a_scenario() -> None:
    assert judge(BY_NAME["an old generation may heartbeat"], seeds=1).scenario is not None


def test_a_mutant_of_the_shards_order_is_caught_by_the_simulation() -> None:
    assert judge(BY_NAME["answers do not wait for the flush"]).rule is not None


def test_a_mutant_that_does_not_apply_any_more_is_told() -> None:
    with pytest.raises(StalePatch, match="0 places"):
        patched(Edit("broker/x.py", "what stood here", ""), "what stands here")
