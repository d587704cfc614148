"""The kernel: what happens when, processes that stand still or die, and trio programs in them."""

import asyncio
import gc
import random
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import trio

from kohort.testing.simulation.asyncio_process import AsyncioProcess
from kohort.testing.simulation.kernel import SECOND, Kernel, Process
from kohort.testing.simulation.network import Network
from kohort.testing.simulation.patches import simulated
from kohort.testing.simulation.threads import VirtualQueue, VirtualWriters
from kohort.testing.simulation.trio_process import TrioProcess


def test_actions_run_in_order_of_time_and_then_as_they_were_made() -> None:
    kernel, seen = Kernel(1), list[str]()
    kernel.call_after(2 * SECOND, lambda: seen.append("late"))
    kernel.call_after(SECOND, lambda: seen.append("first"))
    kernel.call_after(SECOND, lambda: seen.append("second"))
    kernel.call_after(SECOND, lambda: seen.append("cancelled")).cancel()
    kernel.run_for(3 * SECOND)
    assert seen == ["first", "second", "late"]
    assert kernel.time_ns == 3 * SECOND


def test_a_process_that_stands_still_does_later_what_came_meanwhile() -> None:
    kernel, seen = Kernel(1), list[int]()
    process = Process(kernel, "shop")
    process.pause(5 * SECOND)
    process.post(lambda: seen.append(kernel.time_ns))
    kernel.run_for(SECOND)
    assert not seen
    kernel.run_for(5 * SECOND)
    assert seen == [5 * SECOND]


def test_a_killed_process_runs_nothing_any_more() -> None:
    kernel, seen = Kernel(1), list[str]()

    async def main() -> None:
        try:
            await trio.sleep(10)
            seen.append("slept")
        finally:
            seen.append("a finally block")

    process = TrioProcess(kernel, "shop", main)
    kernel.call_after(SECOND, process.kill)
    kernel.run_for(60 * SECOND)
    assert not process.alive
    assert process.outcome is None
    assert not seen
    kernel.close()


async def ticks(kernel: Kernel, name: str, seen: list[tuple[str, int, float]]) -> None:
    async def child(number: int) -> None:
        for _ in range(4):
            await trio.sleep(1)
            seen.append((name, number, trio.current_time()))

    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(child, number)
        with trio.move_on_after(2.5):
            await trio.sleep_forever()
        assert kernel.current is not None
        seen.append((kernel.current.name, -1, trio.current_time()))


def run_three(seed: int) -> list[tuple[str, int, float]]:
    kernel, seen = Kernel(seed), list[tuple[str, int, float]]()
    names = ("a", "b", "c")
    processes = [TrioProcess(kernel, each, ticks, kernel, each, seen) for each in names]
    kernel.call_after(SECOND * 3 // 2, processes[1].kill)
    kernel.call_after(SECOND * 3 // 2, lambda: processes[2].pause(10 * SECOND))
    kernel.run(lambda: not any(each.alive for each in processes))
    assert kernel.time_ns >= 11 * SECOND  # The one that stood still went on.
    kernel.close()
    return seen


def test_several_trio_programs_run_beside_each_other_and_a_seed_gives_the_same_run() -> None:
    seen = run_three(7)
    assert len([each for each in seen if each[0] == "a"]) == 13
    assert len([each for each in seen if each[0] == "b"]) == 3  # It was killed after its first second.
    assert len([each for each in seen if each[0] == "c"]) == 13
    assert run_three(7) == seen
    assert any(run_three(seed) != seen for seed in range(8, 12))  # The order of tasks is the seed's.


@pytest.mark.parametrize("kind", ["asyncio", "trio"])
def test_what_happens_between_two_steps_of_a_busy_process_does_not_wait_for_it(kind: str) -> None:
    kernel, seen = Kernel(1), list[tuple[str, int]]()

    async def main() -> None:
        for _ in range(200):
            seen.append(("a step", kernel.time_ns))
            await (asyncio.sleep(0) if kind == "asyncio" else trio.lowlevel.checkpoint())

    def tick() -> None:
        seen.append(("a tick", kernel.time_ns))
        kernel.call_after(100_000, tick)

    network = Network(kernel)
    process = (
        AsyncioProcess(kernel, network, network.host("busy"), main)
        if kind == "asyncio"
        else TrioProcess(kernel, "busy", main)
    )
    tick()
    kernel.run_for(950_000)
    assert process.alive
    assert max(time_ns for _, time_ns in seen) <= kernel.time_ns == 950_000
    kernel.run(lambda: not process.alive)
    times_ns = [time_ns for _, time_ns in seen]
    assert times_ns == sorted(times_ns)
    ticks_ns = [time_ns for name, time_ns in seen if name == "a tick"]
    assert ticks_ns == [number * 100_000 for number in range(len(ticks_ns))]
    kernel.close()


def test_a_fast_clock_lets_deadlines_come_early() -> None:
    kernel = Kernel(1)

    async def main() -> None:
        await trio.sleep(100)

    process = TrioProcess(kernel, "fast", main, clock_rate=2.0)
    kernel.run(lambda: not process.alive)
    assert 50 * SECOND <= kernel.time_ns < 51 * SECOND


def test_a_cancelled_process_cleans_up() -> None:
    kernel, seen = Kernel(1), list[str]()

    async def main() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            seen.append("cleaned up")

    process = TrioProcess(kernel, "shop", main)
    kernel.call_after(SECOND, process.cancel)
    kernel.run(lambda: not process.alive)
    assert seen == ["cleaned up"]


def test_a_process_may_be_paused_or_cancelled_before_it_has_begun() -> None:
    kernel, seen = Kernel(1), list[str]()

    async def main(name: str) -> None:
        seen.append(name)

    paused, cancelled = (TrioProcess(kernel, each, main, each) for each in ("paused", "cancelled"))
    paused.pause(SECOND)
    cancelled.cancel()
    kernel.run_for(2 * SECOND)
    assert seen == ["paused"]
    assert not cancelled.alive


def test_a_cancelled_program_has_not_failed() -> None:
    kernel = Kernel(1)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(trio.sleep_forever)

    async def fail() -> None:
        raise ValueError("a fault")

    process, failing = TrioProcess(kernel, "cancelled", main), TrioProcess(kernel, "failing", fail)
    kernel.call_after(SECOND, process.cancel)
    kernel.run_for(2 * SECOND)
    assert process.outcome is not None
    assert process.error is None
    assert isinstance(failing.error, ValueError)


def test_a_seed_gives_the_same_run_while_another_thread_runs_trio() -> None:
    alone, is_over = run_three(7), threading.Event()

    async def others() -> None:
        async def spin() -> None:
            while not is_over.is_set():
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(spin)
            nursery.start_soon(spin)

    thread = threading.Thread(target=trio.run, args=(others,))
    thread.start()
    try:
        assert all(run_three(7) == alone for _ in range(5))
    finally:
        is_over.set()
        thread.join()


def test_work_of_a_thread_may_sleep_and_takes_that_time() -> None:
    kernel, seen = Kernel(1), list[tuple[str, float]]()

    def work() -> None:
        began = time.monotonic()
        time.sleep(5)
        seen.append(("work", round(time.monotonic() - began)))

    async def main() -> None:
        began = trio.current_time()
        await trio.to_thread.run_sync(work)
        seen.append(("task", int(trio.current_time() - began)))

    with simulated(kernel):
        process = TrioProcess(kernel, "shop", main)
        kernel.run(lambda: not process.alive)
    assert process.error is None
    assert seen == [("work", 5), ("task", 5)]


def test_random_numbers_of_other_threads_do_not_change_a_run() -> None:
    def drawn(between: Callable[[], object]) -> list[float]:
        """Return random numbers of a simulation; `between` is called after each."""
        found = []
        with simulated(Kernel(1)):
            for _ in range(3):
                found.append(random.random())
                between()
        return found

    with ThreadPoolExecutor(1) as others:
        others.submit(random.random).result()  # Its thread begins: none may within a simulation.
        alone = drawn(lambda: None)
        assert drawn(lambda: others.submit(random.random).result()) == alone
    assert len({*alone}) == 3


def test_writers_end_the_run_with_their_error_and_a_queue_keeps_it_for_who_asks() -> None:
    kernel = Kernel(1)
    process = Process(kernel, "broker")

    def fail() -> None:
        raise ValueError("a fault")

    queue = VirtualQueue(process)
    asked, cancelled = queue.submit(fail), queue.submit(fail)
    cancelled.cancel()
    kernel.run_for(SECOND)
    assert isinstance(asked.exception(), ValueError)
    dropped = queue.submit(fail)
    queue.shutdown(cancel_futures=True)
    assert dropped.cancelled()
    VirtualWriters(process).submit(fail)
    with pytest.raises(ValueError, match="a fault"):
        kernel.run_for(SECOND)


def garbage_told(make: Callable[[Kernel, list[object]], object]) -> list[str]:
    """Return what Python tells of the garbage that a killed process leaves."""
    kernel, kept, told = Kernel(1), list[object](), list[str]()
    process: Any = make(kernel, kept)
    kernel.run_for(SECOND)
    assert kept
    process.kill()
    kernel.close()
    hook, sys.unraisablehook = sys.unraisablehook, lambda each: told.append(repr(each.exc_value))
    try:
        kept.clear()
        del process
        gc.collect()
    finally:
        sys.unraisablehook = hook
    return told


async def numbers(sleep: Callable[[float], Awaitable[object]]) -> AsyncIterator[int]:
    try:
        yield 1
    finally:
        for _ in range(3):
            try:
                await sleep(1)
            finally:
                await sleep(1)


async def read_one(kept: list[object], sleep: Callable[[float], Awaitable[object]]) -> None:
    generator = numbers(sleep)
    kept.append(generator)
    try:
        async for _ in generator:
            await sleep(100)
    finally:
        await sleep(1)


def test_a_killed_trio_program_leaves_no_garbage_that_tells_of_itself() -> None:
    assert not garbage_told(lambda kernel, kept: TrioProcess(kernel, "app", read_one, kept, trio.sleep))


def test_a_killed_asyncio_program_leaves_no_garbage_that_tells_of_itself() -> None:
    def make(kernel: Kernel, kept: list[object]) -> AsyncioProcess:
        network = Network(kernel)
        return AsyncioProcess(kernel, network, network.host("app"), read_one, kept, asyncio.sleep)

    assert not garbage_told(make)


def test_tasks_of_a_killed_asyncio_program_end_in_the_order_of_their_making() -> None:
    kernel, ended = Kernel(1), list[int]()
    network = Network(kernel)

    async def child(number: int) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            ended.append(number)

    async def main() -> None:
        tasks = [asyncio.create_task(child(number), name=f"child {9 - number}") for number in range(10)]
        await asyncio.gather(*tasks)

    process = AsyncioProcess(kernel, network, network.host("app"), main)
    kernel.run_for(SECOND)
    process.kill()
    kernel.close()
    assert ended == list(range(10))
