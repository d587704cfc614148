"""Transactions on the live page: their states, and for how long they have been open."""

from collections.abc import Iterable, Mapping

from kohort.broker.http.asking import Ask, NotAnswered
from kohort.broker.http.view import View
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTransactionState,
)
from kohort.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

TRANSACTIONS_SHOWN = 100
TOPICS_SHOWN = 20
LIST_VERSION, DESCRIBE_VERSION = 1, 0
ENDED = frozenset(("Empty", "CompleteCommit", "CompleteAbort", "Dead"))

Json = Mapping[str, object]


async def transactions_view(view: View, now_ms: int) -> Json:
    """Return the transactional ids that this broker coordinates. The oldest open transaction comes first."""
    ask = view.reads()
    try:
        listed = await ask(
            "ListTransactions",
            LIST_VERSION,
            ListTransactionsRequest(state_filters=(), producer_id_filters=()),
        )
        assert isinstance(listed, ListTransactionsResponse)
        states = {each.transactional_id: each.transaction_state for each in listed.transaction_states}
        chosen = sorted(states, key=lambda each: (states[each] in ENDED, each))[:TRANSACTIONS_SHOWN]
        described = await _described(ask, chosen)
    except NotAnswered as error:
        return {"error": str(error)}
    return {
        "now_ms": now_ms,
        "total": len(states),
        "open": sum(state not in ENDED for state in states.values()),
        "loading": listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        "transactions": first_transactions(map(_row, described)),
    }


async def _described(ask: Ask, ids: Iterable[str]) -> list[DescribeTransactionsTransactionState]:
    asked = DescribeTransactionsRequest(transactional_ids=tuple(ids))
    if not asked.transactional_ids:
        return []
    found = await ask("DescribeTransactions", DESCRIBE_VERSION, asked)
    assert isinstance(found, DescribeTransactionsResponse)
    return [each for each in found.transaction_states if each.error_code == ErrorCode.NONE]


def first_transactions(rows: Iterable[Json]) -> list[Json]:
    """Return the rows that are shown. The oldest open transaction comes first, ended ones come last."""

    def place(row: Json) -> tuple[bool, object, object]:
        return row["state"] in ENDED, row["started_ms"] or 0, row["transactional_id"]

    return sorted(rows, key=place)[:TRANSACTIONS_SHOWN]


def _row(state: DescribeTransactionsTransactionState) -> Json:
    started = state.transaction_start_time_ms
    return {
        "transactional_id": state.transactional_id,
        "state": state.transaction_state,
        "is_open": state.transaction_state not in ENDED,
        "started_ms": None if started < 0 else started,
        "timeout_ms": state.transaction_timeout_ms,
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "topics": [[each.topic, list(each.partitions)] for each in state.topics[:TOPICS_SHOWN]],
        "topics_left_out": max(0, len(state.topics) - TOPICS_SHOWN),
    }
