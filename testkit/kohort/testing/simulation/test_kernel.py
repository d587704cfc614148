"""The kernel: what happens when, processes that stand still or die, and trio programs in them."""

import trio

from kohort.testing.simulation.kernel import SECOND, Kernel, Process
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
