"""The processing side: what is queued waits while the region drains, and is processed behind it."""

import anyio
import anyio.lowlevel
import pytest

from kohort.client.values import ConsumerRecord
from kohort.queues.region.processing import Processing

MANY = 50_000


class Count:
    def __init__(self) -> None:
        self.count = 0
        self.may_end = anyio.Event()
        self.may_end.set()

    async def process(self, record: ConsumerRecord[bytes, bytes]) -> None:
        await anyio.lowlevel.checkpoint()
        await self.may_end.wait()
        if record.value == b"bad":
            raise ValueError(record.offset)
        self.count += 1

    def save(self, sequence_id: int) -> bytes:
        return b"%d" % self.count

    def restore(self, state: bytes | None) -> None:
        self.count = int(state or b"0")


def records(count: int, value: bytes = b"") -> list[ConsumerRecord[bytes, bytes]]:
    return [ConsumerRecord("t", 0, offset, 0, None, value) for offset in range(count)]


@pytest.mark.trio
async def test_a_hold_waits_for_the_record_under_way_and_for_no_other() -> None:
    operator = Count()
    processing = Processing(operator)
    operator.may_end = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(processing.run)
        processing.put(records(MANY))
        await anyio.wait_all_tasks_blocked()  # In the midst of the first one.
        tasks.start_soon(processing.hold)
        await anyio.wait_all_tasks_blocked()
        operator.may_end.set()
        await anyio.wait_all_tasks_blocked()
        assert (operator.count, len(processing)) == (1, MANY - 1)
        assert processing.noted == {"t-0": 1}
        assert processing.save(1) == b"1"
        processing.go_on()
        await anyio.wait_all_tasks_blocked()
        assert (operator.count, len(processing)) == (MANY, 0)
        assert processing.noted == {"t-0": MANY}
        tasks.cancel_scope.cancel()


@pytest.mark.trio
async def test_a_restore_drops_what_was_held_and_goes_on_with_what_comes() -> None:
    operator = Count()
    processing = Processing(operator)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(processing.run)
        await processing.hold()
        processing.put(records(10))
        await anyio.wait_all_tasks_blocked()
        assert operator.count == 0
        await processing.restore(b"7")
        processing.put(records(2))
        await anyio.wait_all_tasks_blocked()
        assert operator.count == 9
        tasks.cancel_scope.cancel()


@pytest.mark.trio
async def test_after_a_failure_nothing_is_processed_until_a_restore() -> None:
    operator = Count()
    processing = Processing(operator)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(processing.run)
        processing.put([*records(1, b"bad"), *records(3)])
        await anyio.wait_all_tasks_blocked()
        assert isinstance(processing.failure, ValueError)
        assert (operator.count, len(processing), processing.noted) == (0, 0, {})
        await processing.restore(None)
        assert processing.failure is None
        tasks.cancel_scope.cancel()
