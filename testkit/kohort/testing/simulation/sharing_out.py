"""Shares work out among processes that are forks of this one."""

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import get_context
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_functions: list[Callable[[Any], Any]] = []  # Processes have theirs from their birth: it cannot be sent.


class WorkerDied(Exception):
    """A process died, so the results of the running items are unknown."""

    def __init__(self, items: list[Any]) -> None:
        super().__init__(f"a process died in the middle of one of {items}")
        self.items = items


def shared_out(
    function: Callable[[T], R], items: Iterable[T], processes: int, *, items_per_process: int | None = None
) -> Generator[tuple[T, R], None, None]:
    """Yield each item with what the function returns for it, in the order of the items.

    Processes are replaced by new ones after `items_per_process` of each. Raises: WorkerDied, and what the
    function raises.
    """
    left = iter(items)
    size = None if items_per_process is None else processes * items_per_process
    while batch := list(islice(left, size)):
        yield from _shared_batch(function, batch, processes)


def _shared_batch(function: Callable[[T], R], items: list[T], processes: int) -> Iterator[tuple[T, R]]:
    waiting, done = iter(items), dict[int, R]()
    context, following = get_context("fork"), 0
    with ProcessPoolExecutor(processes, context, _functions.append, (function,)) as pool:
        running: dict[Future[R], tuple[int, T]] = {}
        number = 0
        while True:
            for item in islice(waiting, processes - len(running)):  # The earlier ones are running.
                running[pool.submit(_call, item)] = (number, item)
                number += 1
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                place, _ = running[future]
                done[place] = _result(future, [each for _, each in running.values()])
                del running[future]
            while following in done:
                yield items[following], done.pop(following)
                following += 1


def _result(future: "Future[R]", running: list[T]) -> R:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise WorkerDied(running) from error


def _call(item: Any) -> Any:
    return _functions[-1](item)
