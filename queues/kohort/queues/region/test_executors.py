"""An operator in a thread or a process: the member's loop goes on, whatever the operator does."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

import anyio
import anyio.to_thread
import pytest

from kohort.client.errors import ConfigurationError
from kohort.client.values import ConsumerRecord
from kohort.queues.region import executors
from kohort.queues.region.executors import Isolation, OperatorError, Processed, executor_for

EACH = pytest.mark.parametrize("isolation", list(Isolation))
BACKENDS = ("asyncio", "trio")


class Plain:
    """Does what a record says, with plain methods."""

    def __init__(self) -> None:
        self.count = 0

    def process(self, record: ConsumerRecord[bytes, bytes]) -> None:
        match (record.value or b"").split():
            case [b"sleep", seconds]:
                time.sleep(float(seconds))
            case [b"wait", path]:
                while not Path(path.decode()).exists():
                    time.sleep(0.01)
            case [b"raise"]:
                raise ValueError("bad record")
            case [b"die"]:
                os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1

    def save(self, sequence_id: int) -> bytes:
        return b"%d %d %d" % (self.count, os.getpid(), threading.get_ident())

    def restore(self, state: bytes | None) -> None:
        self.count = int(state or b"0")


class Async(Plain):
    """The same with async methods."""

    async def process(self, record: ConsumerRecord[bytes, bytes]) -> None:  # type: ignore[override]
        await anyio.sleep(0)
        super().process(record)

    async def save(self, sequence_id: int) -> bytes:  # type: ignore[override]
        await anyio.sleep(0)
        return super().save(sequence_id)


def records(*values: bytes) -> list[ConsumerRecord[bytes, bytes]]:
    return [ConsumerRecord("t", 0, offset, 0, None, value) for offset, value in enumerate(values)]


@EACH
@pytest.mark.parametrize("operator", [Plain, Async])
@pytest.mark.parametrize("backend", BACKENDS)
def test_methods_plain_or_async_run_elsewhere(
    isolation: Isolation, operator: type[Plain], backend: str
) -> None:
    async def main() -> None:
        async with executor_for(operator(), isolation) as executor:
            await executor.restore(b"7")
            assert await executor.process(records(b"", b"")) == Processed(2)
            count, process, thread = map(int, (await executor.save(1)).split())
            assert count == 9
            assert (process, thread) != (os.getpid(), threading.get_ident())
            assert (process == os.getpid()) == (isolation is Isolation.THREAD)

    anyio.run(main, backend=backend)


@EACH
@pytest.mark.trio
async def test_the_loop_goes_on_while_an_operator_waits(isolation: Isolation, tmp_path: Path) -> None:
    path = tmp_path / "goes-on"
    async with executor_for(Plain(), isolation) as executor, anyio.create_task_group() as tasks:
        await executor.restore(None)

        async def go_on() -> None:
            await anyio.sleep(2 * executors.BATCH_S)
            path.touch()

        tasks.start_soon(go_on)
        waits = records(b"wait " + bytes(path), b"")
        assert await executor.process(waits) == Processed(1), "a batch ends in time"


@EACH
@pytest.mark.trio
async def test_what_a_record_raises_is_told_with_the_records_before_it(isolation: Isolation) -> None:
    async with executor_for(Plain(), isolation) as executor:
        await executor.restore(None)
        done = await executor.process(records(b"", b"raise", b""))
        assert done == Processed(1, "ValueError('bad record')")


@EACH
@pytest.mark.trio
async def test_what_restore_raises_is_told(isolation: Isolation) -> None:
    async with executor_for(Plain(), isolation) as executor:
        with pytest.raises(OperatorError, match="restore raised ValueError"):
            await executor.restore(b"no number")
        await executor.restore(b"3")
        assert (await executor.save(1)).startswith(b"3 ")


@pytest.mark.trio
async def test_a_process_that_dies_is_replaced_by_a_restore() -> None:
    async with executor_for(Plain(), Isolation.PROCESS) as executor:
        await executor.restore(b"5")
        with pytest.raises(OperatorError, match="process ended"):
            await executor.process(records(b"", b"die"))
        with pytest.raises(OperatorError):
            await executor.save(1)
        await executor.restore(b"5")
        assert (await executor.save(1)).startswith(b"5 ")


@pytest.mark.trio
async def test_a_process_that_hangs_is_replaced_by_a_restore() -> None:
    async with executor_for(Plain(), Isolation.PROCESS) as executor:
        await executor.restore(b"5")
        with anyio.move_on_after(0.2):
            await executor.process(records(b"sleep 600"))
        with anyio.fail_after(20):
            await executor.restore(b"6")
            assert (await executor.save(1)).startswith(b"6 ")


@pytest.mark.trio
async def test_a_thread_runs_what_was_asked_for_in_order_though_nobody_waits() -> None:
    async with executor_for(Plain(), Isolation.THREAD) as executor:
        with anyio.move_on_after(0.05):
            await executor.process(records(b"sleep 0.3"))
        await executor.restore(b"5")
        assert (await executor.save(1)).startswith(b"5 ")


@EACH
@pytest.mark.trio
async def test_a_state_that_is_no_bytes_is_told(isolation: Isolation) -> None:
    async with executor_for(Texts(), isolation) as executor:
        await executor.restore(None)
        with pytest.raises(OperatorError, match="save returned str"):
            await executor.save(1)


class Exits(Plain):
    """Ends, or is cancelled, as code of its own has it."""

    async def process(self, record: ConsumerRecord[bytes, bytes]) -> None:  # type: ignore[override]
        match record.value:
            case b"exit":
                sys.exit(3)
            case b"interrupt":
                raise KeyboardInterrupt
            case b"group":
                raise BaseExceptionGroup("two", [SystemExit(1), ValueError(2)])
            case b"wordless":
                raise Wordless
            case b"cancelled":
                raise asyncio.CancelledError
        self.count += 1

    def restore(self, state: bytes | None) -> None:
        if state == b"exit":
            sys.exit(3)
        super().restore(state)


class Wordless(Exception):
    def __repr__(self) -> str:
        raise ValueError("no words")


@EACH
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "value, words",
    [
        (b"exit", "SystemExit(3)"),
        (b"interrupt", "KeyboardInterrupt()"),
        (b"group", "BaseExceptionGroup('two', [SystemExit(1), ValueError(2)])"),
        (b"wordless", "Wordless"),
        (b"cancelled", "CancelledError()"),
    ],
)
def test_an_operator_that_exits_or_is_cancelled_has_failed_and_can_be_restored(
    isolation: Isolation, backend: str, value: bytes, words: str
) -> None:
    async def main() -> None:
        async with executor_for(Exits(), isolation) as executor:
            with anyio.fail_after(30):
                await executor.restore(None)
                assert await executor.process(records(b"", value)) == Processed(1, words)
                with pytest.raises(OperatorError, match=r"restore raised SystemExit\(3\)"):
                    await executor.restore(b"exit")
                await executor.restore(b"7")
                assert await executor.process(records(b"")) == Processed(1)
                assert (await executor.save(1)).startswith(b"8 ")

    anyio.run(main, backend=backend)


class Stops(Plain):
    """Stops the event loop in which it runs."""

    async def process(self, record: ConsumerRecord[bytes, bytes]) -> None:  # type: ignore[override]
        asyncio.get_running_loop().stop()
        await asyncio.sleep(600)


@EACH
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_operator_that_ends_its_loop_is_given_another_one_by_a_restore(isolation: Isolation) -> None:
    async def main() -> None:
        async with executor_for(Stops(), isolation) as executor:
            with anyio.fail_after(30):
                await executor.restore(None)
                for _ in range(2):
                    with pytest.raises(OperatorError, match="ended"):
                        await executor.process(records(b""))
                    with pytest.raises(OperatorError):
                        await executor.save(1)
                    await executor.restore(b"5")
                    assert (await executor.save(1)).startswith(b"5 ")

    anyio.run(main, backend="asyncio")


class NoPickle(bytes):
    """A state that the member's process cannot be sent."""

    def __reduce__(self) -> NoReturn:
        raise OSError("no pickle")


class NoUnpickle(bytes):
    """A state that the member's process cannot read."""

    def __reduce__(self) -> tuple[type[int], tuple[str]]:
        return int, ("no number",)


class Odd(Plain):
    def save(self, sequence_id: int) -> bytes:
        return (NoPickle, NoUnpickle)[sequence_id](b"%d" % self.count)

    def restore(self, state: bytes | None) -> None:
        super().restore(state)
        return (lambda: None) if state else None  # type: ignore[return-value]


@EACH
@pytest.mark.trio
async def test_a_state_of_a_type_that_has_no_pickle_is_bytes_all_the_same(isolation: Isolation) -> None:
    async with executor_for(Odd(), isolation) as executor:
        for number in (0, 1):
            await executor.restore(b"7")
            state = await executor.save(number)
            assert (type(state), state) == (bytes, b"7")


@pytest.mark.trio
async def test_what_cannot_be_pickled_is_told_and_the_process_goes_on() -> None:
    async with executor_for(Ids(), Isolation.PROCESS) as executor:
        await executor.restore(b"7")
        first = await executor.save(1)
        for value in (NoPickle(b""), NoUnpickle(b"")):
            with pytest.raises(OperatorError, match="pickle"):
                await executor.process(records(b"", value))
        odd = ConsumerRecord("t", 0, 0, 0, None, b"", ((lambda: None, b""),))  # type: ignore[arg-type]
        with pytest.raises(OperatorError, match=r"process: .*pickle"):
            await executor.process([odd])
        assert await executor.save(1) == first, "the same process, which has processed none of these"


@pytest.mark.trio
async def test_an_answer_that_cannot_be_pickled_is_told_and_the_process_goes_on() -> None:
    async with executor_for(Ids(), Isolation.PROCESS) as executor:
        await executor.restore(b"7")
        first = await executor.save(1)
        for value in (b"no pickle", b"no number"):
            with pytest.raises(OperatorError, match=rf"process: .*{value.decode()}"):
                await executor.process(records(value))
        assert await executor.save(1) == first


class OddText(str):
    """Words that cannot be pickled, or not be read from their pickle."""

    def __reduce__(self) -> tuple[type[int], tuple[str]]:
        if self == "no pickle":
            raise OSError(str(self))
        return int, (str(self),)


class OddError(Exception):
    def __repr__(self) -> str:
        return OddText(self.args[0])


class Ids(Plain):
    """Its state names its process."""

    def process(self, record: ConsumerRecord[bytes, bytes]) -> None:
        if value := (record.value or b""):
            raise OddError(value.decode())


class Tells(Plain):
    """Says in which process a record is processed."""

    def process(self, record: ConsumerRecord[bytes, bytes]) -> None:
        os.write(1, b"%d\n" % os.getpid())
        super().process(record)


MEMBER = """
import sys
import anyio
from kohort.queues.region.executors import Isolation, executor_for
from kohort.queues.region.test_executors import Tells, records

async def main():
    async with executor_for(Tells(), Isolation.PROCESS) as executor:
        await executor.restore(None)
        await executor.process(records(sys.argv[1].encode()))
        await anyio.sleep(600)

if __name__ == "__main__":
    anyio.run(main, backend="trio")
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("value", ["", "sleep 600"])
def test_an_operators_process_ends_with_its_member_though_it_hangs(tmp_path: Path, value: str) -> None:
    script = tmp_path / "member.py"
    script.write_text(MEMBER)
    with subprocess.Popen([sys.executable, str(script), value], stdout=subprocess.PIPE) as member:
        assert member.stdout is not None
        process_id = int(member.stdout.readline())
        assert is_running(process_id)
        member.kill()
    deadline_s = time.monotonic() + 20
    while is_running(process_id):
        if time.monotonic() >= deadline_s:
            os.kill(process_id, signal.SIGKILL)
            pytest.fail("the operator's process outlives its member")
        time.sleep(0.05)


def is_running(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # One that has ended waits there where nobody takes orphans in.


@pytest.mark.trio
async def test_a_second_executor_of_an_operator_counts_nothing_of_the_first_ones_record() -> None:
    operator = Plain()
    async with executor_for(operator, Isolation.THREAD) as executor:
        await executor.restore(None)
        with anyio.move_on_after(0.05):
            await executor.process(records(b"sleep 0.5"))
        with anyio.move_on_after(0.05):
            await executor.restore(b"100")  # It waits behind the record, and is not run any more.
    assert operator.count == 1
    async with executor_for(operator, Isolation.THREAD) as executor:
        await executor.restore(None)
        await executor.process(records(b""))
        assert (await executor.save(1)).startswith(b"1 ")


@pytest.mark.trio
async def test_an_operator_whose_thread_is_alive_is_refused_to_a_second_executor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executors, "END_S", 0.05)
    operator = Plain()
    async with executor_for(operator, Isolation.THREAD) as executor:
        await executor.restore(None)
        with pytest.raises(ConfigurationError, match="an operator of its own"):
            async with executor_for(operator, Isolation.THREAD):
                pass
        with anyio.move_on_after(0.05):
            await executor.process(records(b"sleep 1"))
    with pytest.raises(ConfigurationError, match="an operator of its own"):
        async with executor_for(operator, Isolation.THREAD):
            pass
    await anyio.to_thread.run_sync(executor._thread.join)  # type: ignore[attr-defined]
    async with executor_for(operator, Isolation.THREAD) as another:
        await another.restore(b"7")
        assert (await another.save(1)).startswith(b"7 ")


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_executor_that_closes_cancels_what_an_operator_awaits(backend: str) -> None:
    async def main() -> None:
        operator = Awaits()
        with anyio.fail_after(1.5):
            async with executor_for(operator, Isolation.THREAD) as executor:
                await executor.restore(None)
                with anyio.move_on_after(0.1):
                    await executor.process(records(b""))
            async with executor_for(operator, Isolation.THREAD) as executor:
                await executor.restore(None)

    anyio.run(main, backend=backend)


@pytest.mark.trio
async def test_an_executor_whose_start_is_cancelled_leaves_no_thread() -> None:
    operator = Plain()
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with executor_for(operator, Isolation.THREAD) as executor:
            await executor.restore(None)
    async with executor_for(operator, Isolation.THREAD) as executor:
        await executor.restore(b"7")
        assert (await executor.save(1)).startswith(b"7 ")


class Awaits(Plain):
    async def process(self, record: ConsumerRecord[bytes, bytes]) -> None:  # type: ignore[override]
        await anyio.sleep(600)


class Texts(Plain):
    def save(self, sequence_id: int) -> bytes:
        return "text"  # type: ignore[return-value]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_thread_whose_loop_cannot_begin_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> NoReturn:
        raise SystemExit("no file can be opened")

    with anyio.fail_after(10):
        async with executors.ThreadExecutor(Plain()) as begun:
            monkeypatch.setattr(anyio, "run", fail)
            with pytest.raises(OperatorError, match="has ended"):
                await executors.ThreadExecutor(Plain()).__aenter__()
            assert begun._post is not None
            begun._post(begun._scope.cancel)
            await anyio.to_thread.run_sync(begun._thread.join)
            with pytest.raises(OperatorError, match="has ended"):
                await begun.restore(None)
