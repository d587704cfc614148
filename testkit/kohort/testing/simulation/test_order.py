"""Once a process has simulated something, trio and anyio still do in it what they do elsewhere."""

import anyio
import pytest
import trio

import kohort.testing.simulation.trio_process  # noqa: F401 - It puts the orders.
from kohort.testing.simulation.order import OrderedSet


def test_a_set_keeps_the_order_of_insertion() -> None:
    ordered = OrderedSet([3, 1, 2, 1])
    ordered.add(0)
    ordered.remove(1)
    ordered.discard(7)
    assert list(ordered) == [3, 2, 0]
    with pytest.raises(KeyError):
        ordered.remove(1)


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_a_task_that_says_that_it_has_started_goes_on(backend: str) -> None:
    async def child(*, task_status: anyio.abc.TaskStatus[str]) -> None:
        async with anyio.create_task_group() as inner:
            inner.start_soon(anyio.sleep_forever)
            task_status.started("begun")
            await anyio.sleep_forever()

    async def main() -> str:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                begun: str = await tasks.start(child)
                tasks.cancel_scope.cancel()
            return begun

    assert anyio.run(main, backend=backend) == "begun"


def test_a_deadline_passes() -> None:
    async def main() -> bool:
        with trio.move_on_after(0.01) as scope:
            await trio.sleep_forever()
        return scope.cancelled_caught

    assert trio.run(main)
