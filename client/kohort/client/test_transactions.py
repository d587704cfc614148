"""A producer's transactions without a broker: what may be sent when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kohort.client.config import ProducerConfig
from kohort.client.errors import KohortError, TransactionFailedError, TransactionStateError
from kohort.client.transactions import State, Transactions


def opened() -> Transactions:
    """Return the transactions of a producer that is in one, and has written nothing yet."""
    nobody: Any = SimpleNamespace()
    transactions = Transactions(nobody, ProducerConfig(transactional_id="a"), nobody, nobody, lambda: None)
    transactions._state = State.OPEN
    return transactions


async def test_a_record_that_comes_while_the_rest_is_flushed_is_refused() -> None:
    transactions = opened()
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
    await transactions.begin()
    transactions.check_may_send()
    assert transactions.refusal is None


@pytest.mark.parametrize("is_commit", [True, False])
async def test_a_flush_that_is_interrupted_leaves_the_transaction_open(is_commit: bool) -> None:
    transactions = opened()

    async def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await transactions.end(interrupted, is_commit=is_commit)
    assert transactions.is_open

    async def flush() -> None:
        assert isinstance(transactions.refusal, TransactionFailedError), "of what is aborted nothing is sent"

    await transactions.end(flush, is_commit=False)
    assert not transactions.is_open


async def test_a_transaction_that_has_failed_stays_open_until_it_is_aborted() -> None:
    transactions, failure = opened(), KohortError("one record was too large")

    async def flush() -> None:
        transactions.failed(failure)

    with pytest.raises(TransactionFailedError):
        await transactions.end(flush, is_commit=True)
    assert transactions.is_open
    assert transactions.refusal is failure
    await transactions.end(flush, is_commit=False)
    assert transactions._state is State.READY
