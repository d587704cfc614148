"""Patterns of transactional ids: what matches, what is refused, and that none holds anybody up."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kohort.broker.handlers.transactions import list_transactions
from kohort.broker.transactions.transaction import TransactionState
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tests.costs import times_as_costly
from tests.messages import message_of

IDS = ("orders-1", "orders-2", "bills", "a" * 5_000, "ab" * 2_000)


def listed(
    pattern: str | None,
    ids: Iterable[str] = IDS,
    may_describe: Callable[[str], bool] = lambda _: True,
    **filters: object,
) -> ListTransactionsResponse:
    found = {
        each: SimpleNamespace(transactional_id=each, producer_id=1, state=TransactionState.EMPTY, start_ms=0)
        for each in ids
    }
    core = SimpleNamespace(transactions=found)
    clock = SimpleNamespace(now_ms=lambda: 0)
    shards = SimpleNamespace(clock=clock, active=lambda: [SimpleNamespace(core=core)])
    request = cast(
        Request, SimpleNamespace(permissions=SimpleNamespace(may_describe_transaction=may_describe))
    )
    family = SimpleNamespace(shards=lambda: shards)
    given = {"duration_filter": -1, "transactional_id_pattern": pattern, **filters}
    asked = message_of(ListTransactionsRequest, **given)
    return list_transactions.handle(cast(Any, family), asked, request)


def ids(pattern: str | None) -> list[str]:
    return [each.transactional_id for each in listed(pattern).transaction_states]


def test_a_pattern_matches_whole_ids() -> None:
    assert ids(None) == ids("") == list(IDS)
    assert ids("orders-.*") == ["orders-1", "orders-2"]
    assert ids("orders") == []
    assert ids("(bills|orders-[2-9])") == ["orders-2", "bills"]


@pytest.mark.parametrize("pattern", ["(", "*", r"(a)\1", "(?=a)a", "a" * 5_000])
def test_an_invalid_pattern_is_refused(pattern: str) -> None:
    assert listed(pattern).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(
    "pattern", ["(a|a)*c", "(a|aa)*c", "a*a*a*a*a*a*a*a*a*a*c", "(a+)+c", "(.?){4000}c", ".*a.{1000}"]
)
def test_no_pattern_blocks_the_loop(pattern: str) -> None:
    """No pattern costs more than the longest one without an operator, which costs at most as much."""
    assert ids(pattern) == []
    assert times_as_costly(lambda: ids(pattern), lambda: ids("a" * 4_000)) < 3


def test_a_pattern_is_matched_only_against_ids_the_user_may_see() -> None:
    """Who may know of nothing costs nothing: a match is not even begun, which would be too much here."""
    costly, many = "(.?.?.?.?){250}c", ["ab" * 120] * 1_000
    assert listed(costly, many).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    answer = listed(costly, many, lambda _: False)
    assert (answer.error_code, answer.transaction_states) == (ErrorCode.NONE, ())
    some = listed(".*", may_describe=lambda each: each.startswith("orders")).transaction_states
    assert [each.transactional_id for each in some] == ["orders-1", "orders-2"]


def test_many_filters_of_many_transactions_do_not_block_the_loop() -> None:
    producers = tuple(range(10, 20_010))
    states = tuple(f"State{number}" for number in range(20_000))
    ids = [f"id-{number}" for number in range(10_000)]

    def look(filters: int) -> None:
        wanted = producers[:filters], states[:filters]
        answer = listed(None, ids, producer_id_filters=wanted[0], state_filters=wanted[1])
        assert not answer.transaction_states

    assert times_as_costly(lambda: look(20_000), lambda: look(1)) < 20


def test_filters_are_of_states_and_producers() -> None:
    assert len(listed(None, state_filters=("Empty",), producer_id_filters=(1, 2)).transaction_states) == 5
    assert not listed(None, state_filters=("Ongoing",)).transaction_states
    assert not listed(None, producer_id_filters=(2,)).transaction_states
    assert not listed(None, duration_filter=1).transaction_states
