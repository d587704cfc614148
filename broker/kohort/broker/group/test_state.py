import itertools

import pytest

from kohort.broker.group import GroupState
from kohort.broker.group.classic.group import ClassicGroup

WAYS = {
    ("Empty", "PreparingRebalance"),
    ("PreparingRebalance", "CompletingRebalance"),
    ("PreparingRebalance", "Empty"),
    ("CompletingRebalance", "Stable"),
    ("CompletingRebalance", "PreparingRebalance"),
    ("Stable", "PreparingRebalance"),
    *((state, "Dead") for state in ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable")),
}


@pytest.mark.parametrize("source, target", list(itertools.product(GroupState, GroupState)))
@pytest.mark.requirement("R7")
def test_state_transitions_are_those_of_kafka(source: GroupState, target: GroupState) -> None:
    group = ClassicGroup("g")
    group.state = source
    if (source.value, target.value) in WAYS:
        group.become(target, 5)
        assert (group.state, group.state_since_ms) == (target, 5)
    else:
        with pytest.raises(AssertionError):
            group.become(target, 5)
