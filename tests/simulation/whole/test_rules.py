"""What has to come true in time is a rule: it says what is missing."""

import pytest

from kohort.testing.simulation import World
from kohort.testing.simulation.running import run_seed
from tests.simulation.whole.rules import Rules, Violation


@pytest.mark.parametrize(("seconds", "told"), [(5, None), (20, r"all is done: \['the rest'\]")])
def test_what_does_not_come_true_in_time_violates_its_rule(seconds: int, told: str | None) -> None:
    rules = Rules()

    async def wait(world: World) -> None:
        missing = ["the rest"]
        world.kernel.call_after(seconds * 1_000_000_000, missing.clear)
        await rules.hold_within(world, "all is done", lambda: missing, 10)

    _, error = run_seed(wait, 1)
    assert rules.checked["all is done"] == 1
    if told is None:
        assert error is None
    else:
        assert error is not None
        with pytest.raises(Violation, match=told):
            raise error
