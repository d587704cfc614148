"""A producer's transactions without a broker: what may be sent when."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from kohort.client.config import ProducerConfig
from kohort.client.errors import KohortError, TransactionFailedError, TransactionStateError
from kohort.client.transactions import State, Transactions
from kohort.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition


@pytest.fixture
async def opened() -> AsyncIterator[Transactions]:
    """The transactions of a producer that is in one, and has written nothing yet."""
    async with anyio.create_task_group() as tasks:
        cluster: Any = SimpleNamespace(tasks=tasks)
        nobody: Any = SimpleNamespace()
        made = Transactions(cluster, ProducerConfig(transactional_id="a"), nobody, nobody, lambda: None)
        made._state = State.OPEN
        yield made
        tasks.cancel_scope.cancel()


async def test_a_record_sent_during_the_final_flush_is_refused(opened: Transactions) -> None:
    transactions = opened
    refused: list[KohortError] = []

    async def flush() -> None:
        assert transactions.refusal is None, "what came before is to be written"
        with pytest.raises(TransactionStateError) as caught:
            transactions.check_may_send()
        refused.append(caught.value)
        with pytest.raises(TransactionStateError):
            await transactions.end(flush, is_commit=False)

    await transactions.end(flush, is_commit=True)
    assert refused
    assert isinstance(transactions.refusal, TransactionStateError), "another thread may have just sent one"
    for is_commit in (True, False):
        with pytest.raises(TransactionStateError, match=r"^no transaction is open; call begin_"):
            await transactions.end(flush, is_commit=is_commit)
    await transactions.begin()
    transactions.check_may_send()
    assert transactions.refusal is None


async def test_a_commit_cancelled_during_its_flush_leaves_the_transaction_open(
    opened: Transactions,
) -> None:
    with anyio.move_on_after(0.01):
        await opened.end(anyio.sleep_forever, is_commit=True)
    assert opened.is_open

    async def flush() -> None:
        assert isinstance(opened.refusal, TransactionFailedError), "of what is aborted nothing is sent"

    await opened.end(flush, is_commit=False)
    assert not opened.is_open


async def test_a_cancelled_abort_continues_and_the_next_transaction_waits_for_it(
    opened: Transactions,
) -> None:
    may_end = anyio.Event()
    with anyio.move_on_after(0.01):
        await opened.end(may_end.wait, is_commit=False)
    begun: list[bool] = []

    async def begin() -> None:
        await opened.begin()
        begun.append(True)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(begin)
        await anyio.wait_all_tasks_blocked()
        assert not begun
        with pytest.raises(TransactionStateError):
            opened.check_may_send()
        may_end.set()
    assert begun
    opened.check_may_send()


async def test_an_abort_is_sent_although_offsets_are_pending(opened: Transactions) -> None:
    may_end = anyio.Event()
    opened._send_offsets = lambda offsets, group: may_end.wait()  # type: ignore[method-assign]
    with anyio.move_on_after(0.01):
        await opened.send_offsets({TopicPartition("t", 0): OffsetAndMetadata(1)}, GroupMetadata("g"))
    opened._has_begun = False  # There is no coordinator that could be told of an end.
    for _ in range(2):
        with anyio.move_on_after(0.01) as scope:
            await opened.end(_at_once, is_commit=False)
        assert scope.cancelled_caught
        assert not opened.is_open
    with pytest.raises(TransactionStateError):
        await opened.end(_at_once, is_commit=True)
    may_end.set()
    await opened.begin()
    opened.check_may_send()


async def _at_once() -> None:
    pass


async def test_a_failed_transaction_stays_open_until_it_is_aborted(opened: Transactions) -> None:
    transactions, failure = opened, KohortError("one record was too large")

    async def flush() -> None:
        transactions.failed(failure)

    with pytest.raises(TransactionFailedError):
        await transactions.end(flush, is_commit=True)
    assert transactions.is_open
    assert transactions.refusal is failure
    await transactions.end(flush, is_commit=False)
    assert transactions._state is State.READY
