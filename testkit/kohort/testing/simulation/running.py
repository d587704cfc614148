"""`@simulate`: a test that runs once for each seed, each time in a world of its own.

A test that fails runs again with fewer faults, as long as it still fails. The failure has the seed, the
command that repeats it, and the story.
"""

import asyncio
import gc
import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import closing, contextmanager
from multiprocessing import get_all_start_methods
from typing import Any

from kohort.testing.simulation.asyncio_process import AsyncioProcess
from kohort.testing.simulation.kernel import SimulationStuck
from kohort.testing.simulation.patches import simulated
from kohort.testing.simulation.sharing_out import WorkerDied, shared_out
from kohort.testing.simulation.world import World

Test = Callable[..., Coroutine[Any, Any, None]]

SEED_VARIABLE = "KOHORT_SEED"
"""Names the one seed to run. `pytest --kohort-seed` sets it."""
HASH_SEED_VARIABLE = "PYTHONHASHSEED"
VIRTUAL_SECONDS_MAX = 24 * 3600
RUNS_TO_SHRINK_MAX = 60


class SimulationFailed(AssertionError):
    """A simulated test failed: the seed, the command that has it again, and the story."""


def run_seed(
    test: Test,
    seed: int,
    *arguments: object,
    without: frozenset[int] = frozenset(),
    on_line: Callable[[str], object] | None = None,
) -> tuple[World, BaseException | None]:
    """Run the test once. Return its world, and what it has raised. `on_line` is given all that happens.

    Raises: what broke the simulation itself, with the seed in a note.
    """
    with _Noted(seed):
        world = World(seed, without)
        world.kernel.trace.on_line = on_line
        return _run_seed(world, test, *arguments)


class _Noted:
    """Adds the seed to an error that leaves the block."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:
            error.add_note(f"this came of seed {self._seed}")


def _run_seed(world: World, test: Test, *arguments: object) -> tuple[World, BaseException | None]:
    with _quick_collections(), world.kernel.collecting(), simulated(world.kernel):
        try:
            process = AsyncioProcess(
                world.kernel, world.network, world.network.host("test"), test, world, *arguments
            )
            try:
                world.kernel.run(lambda: process.outcome is not None, VIRTUAL_SECONDS_MAX)
            except SimulationStuck as stuck:
                return world, stuck
            assert process.outcome is not None
            try:
                return world, process.outcome.exception()
            except asyncio.CancelledError as cancelled:
                return world, cancelled
        finally:
            world.close()


@contextmanager
def _quick_collections() -> Iterator[None]:
    """Let the garbage collector skip the objects that exist before: each run ends with a collection."""
    if gc.get_freeze_count():  # Somebody else has a reason to do the same.
        gc.collect()  # Nothing that was dropped before ends within the run.
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def shrunk(test: Test, seed: int, faults: list[int]) -> tuple[World, BaseException] | None:
    """Return the world and the error of a run that fails with as few of the faults as was found.

    Halves, then quarters and so on of the faults are left out as long as the test still fails (delta
    debugging, Zeller and Hildebrandt 2002).
    """
    kept, best, runs = list(faults), None, 0
    size = max(1, len(kept) // 2)
    while kept:
        is_smaller = False
        for start in range(0, len(kept), size):
            if runs >= RUNS_TO_SHRINK_MAX:
                return best
            left = kept[:start] + kept[start + size :]
            runs += 1
            world, error = run_seed(test, seed, without=frozenset(faults) - frozenset(left))
            if error is not None:
                kept, best, is_smaller = left, (world, error), True
                break
        if not is_smaller:
            if size == 1:
                break
            size = max(1, size // 2)
        else:
            size = min(size, max(1, len(kept) // 2))
    return best


def simulate(seeds: int = 100, *, processes: int = 1) -> Callable[[Test], Callable[..., None]]:
    """Make a test of a coroutine function: it runs in a world of its own for each of the `seeds`.

    More than one of `processes` share the seeds where the system can fork. Then what the test keeps outside
    of its world, such as a list of a module, is another one in each.
    """

    def decorate(test: Test) -> Callable[..., None]:
        def run_all() -> None:
            chosen = chosen_seeds(seeds)
            if processes > 1 and len(chosen) > 1 and "fork" in get_all_start_methods():
                chosen = _failing_seed(test, chosen, processes)
            for seed in chosen:
                world, error = run_seed(test, seed)
                if error is not None:
                    raise failure(test, world, error) from error

        run_all.__name__ = test.__name__
        run_all.__qualname__ = test.__qualname__
        run_all.__doc__ = test.__doc__
        run_all.__module__ = test.__module__
        return run_all

    return decorate


def _again(test: Test, seed: int) -> str:
    """Return the command that has this run again. The order of sets of strings depends on the hash seed."""
    chosen = os.environ.get(HASH_SEED_VARIABLE, "random")
    is_random = chosen == "random"
    command = (
        f"{HASH_SEED_VARIABLE}={0 if is_random else chosen} pytest -k {test.__name__} --kohort-seed {seed}"
    )
    if not is_random:
        return command
    return (
        f"{command}\nPython's hash seed was random in this run: sets of strings had an order of this process "
        f"alone. If the seed passes now, run all seeds with {HASH_SEED_VARIABLE}=0."
    )


def _failing_seed(test: Test, seeds: Sequence[int], processes: int) -> Sequence[int]:
    """Return the first seed that fails in one of the processes, if any does.

    Raises: SimulationFailed if it passes when it is run again here, or a process has died.
    """

    def passes(seed: int) -> bool:
        return run_seed(test, seed)[1] is None

    try:
        with closing(shared_out(passes, seeds, processes)) as outcomes:
            failed = next((seed for seed, is_passed in outcomes if not is_passed), None)
    except WorkerDied as error:
        raise SimulationFailed(f"{test.__name__}: {error}; run each of these seeds alone") from error
    if failed is None:
        return ()
    if run_seed(test, failed)[1] is None:
        raise SimulationFailed(
            f"seed {failed} failed in a process of its own and passes here: {test.__name__} depends on "
            "something outside of its world"
        )
    return (failed,)


def chosen_seeds(seeds: int) -> Sequence[int]:
    """Return the seeds to run: the one that was asked for, or as many as the test says."""
    asked = os.environ.get(SEED_VARIABLE)
    return range(seeds) if asked is None else [int(asked)]


def failure(test: Test, world: World, error: BaseException) -> SimulationFailed:
    """Return the failure of a test, made as small as it can be."""
    numbers = [each.number for each in world.faults]
    smaller = shrunk(test, world.seed, numbers)
    shown, shown_error = (world, error) if smaller is None else smaller
    needed = len([each for each in shown.faults if each.words != "nothing"])
    return SimulationFailed(
        f"seed {world.seed}: {type(shown_error).__name__}: {shown_error}\n"
        f"Again: {_again(test, world.seed)}\n"
        f"The story, with {needed} of {len(numbers)} faults, {shown.seconds:.0f} virtual seconds:\n"
        f"{shown.story_told}"
    )
