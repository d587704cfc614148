"""The processing side: what is queued waits while the region drains, and is processed behind it."""

import time
from collections.abc import Sequence

import anyio
import anyio.lowlevel
import pytest

from kohort.client.values import ConsumerRecord
from kohort.queues.region.executors import Isolation, Operator, Processed, Record, call_operator, executor_for
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


class SameLoop:
    """Runs an operator in the test's own loop."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    async def __aenter__(self) -> "SameLoop":
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def process(self, records: Sequence[Record]) -> Processed:
        found: Processed = await call_operator(self._operator, "process", records)
        return found

    async def save(self, sequence_id: int) -> bytes:
        found: bytes = await call_operator(self._operator, "save", sequence_id)
        return found

    async def restore(self, state: bytes | None) -> None:
        await call_operator(self._operator, "restore", state)


def records(count: int, value: bytes = b"") -> list[ConsumerRecord[bytes, bytes]]:
    return [ConsumerRecord("t", 0, offset, 0, None, value) for offset in range(count)]


@pytest.mark.trio
async def test_a_hold_waits_for_the_record_under_way_and_for_no_other() -> None:
    operator = Count()
    processing = Processing(SameLoop(operator))
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
        assert await processing.save(1) == b"1"
        processing.go_on()
        await anyio.wait_all_tasks_blocked()
        assert (operator.count, len(processing)) == (MANY, 0)
        assert processing.noted == {"t-0": MANY}
        tasks.cancel_scope.cancel()


@pytest.mark.trio
async def test_a_restore_drops_what_was_held_and_goes_on_with_what_comes() -> None:
    operator = Count()
    processing = Processing(SameLoop(operator))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(processing.run)
        await processing.hold()
        processing.put(records(10))
        await anyio.wait_all_tasks_blocked()
        assert operator.count == 0
        await processing.restore(b"7", 1)
        processing.put(records(2))
        await anyio.wait_all_tasks_blocked()
        assert operator.count == 9
        tasks.cancel_scope.cancel()


@pytest.mark.trio
async def test_after_a_failure_nothing_is_processed_until_a_restore() -> None:
    operator = Count()
    processing = Processing(SameLoop(operator))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(processing.run)
        processing.put([*records(1, b"bad"), *records(3)])
        await anyio.wait_all_tasks_blocked()
        assert processing.failure == "ValueError(0)"
        assert (operator.count, len(processing), processing.noted) == (0, 0, {})
        await processing.restore(None, 1)
        assert processing.failure == ""
        tasks.cancel_scope.cancel()


@pytest.mark.trio
@pytest.mark.parametrize("what, left", [("forget", {"t-1": 3}), ("drop", {"t-0": 1})])
async def test_what_is_dropped_while_it_is_processed_does_not_come_back(
    what: str, left: dict[str, int]
) -> None:
    operator = Count()
    processing = Processing(SameLoop(operator))
    processing._batch_size = 6
    operator.may_end = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(processing.run)
        others = [ConsumerRecord("t", 1, offset, 0, None, b"") for offset in range(3)]
        processing.put([*records(3), *others])
        await anyio.wait_all_tasks_blocked()
        if what == "forget":
            processing.forget("t-0")
        else:
            processing.drop()
        await anyio.sleep(0.03)  # Longer than a batch takes: it ends behind its first record.
        operator.may_end.set()
        await anyio.wait_all_tasks_blocked()
        assert (processing.noted, len(processing)) == (left, 0)
        tasks.cancel_scope.cancel()


class Hangs:
    """Sleeps for ever with a record, and begins anew with a state."""

    def process(self, record: Record) -> None:
        time.sleep(600)

    def save(self, sequence_id: int) -> bytes:
        return b"begun anew"

    def restore(self, state: bytes | None) -> None: ...


@pytest.mark.trio
async def test_an_operator_that_hangs_in_a_process_is_ended_by_a_restore() -> None:
    async with executor_for(Hangs(), Isolation.PROCESS) as executor, anyio.create_task_group() as tasks:
        processing = Processing(executor)
        await processing.restore(None, 1)
        tasks.start_soon(processing.run)
        processing.put(records(3))
        await anyio.sleep(0.1)
        assert len(processing) == 3
        with anyio.fail_after(20):
            await processing.restore(b"", 0.1)
        assert (await processing.save(1), len(processing), processing.failure) == (b"begun anew", 0, "")
        tasks.cancel_scope.cancel()


def test_a_member_is_made_before_any_loop_runs() -> None:
    operator = Count()

    async def main(processing: Processing) -> None:
        await processing.restore(b"7", 1)
        assert await processing.save(1) == b"7"

    anyio.run(main, Processing(SameLoop(operator)), backend="trio")
