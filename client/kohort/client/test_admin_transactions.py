"""What the admin client makes of answers about open transactions."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from kohort.client.admin_transactions import open_transactions
from kohort.client.cluster import Cluster
from kohort.client.errors import BrokerError
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTransactionState,
)
from kohort.protocol.messages.list_transactions import (
    ListTransactionsResponse,
    ListTransactionsTransactionState,
)


class Coordinator:
    """A cluster of one broker with an open transaction, and another one of which it says `error`."""

    def __init__(self, error: ErrorCode) -> None:
        self.metadata = SimpleNamespace(nodes={1: None})
        self._error = error

    async def refresh_metadata(self, _topics: object) -> None:
        """Nothing changes."""

    async def request(
        self, node_id: int, request: object, _kind: object
    ) -> ListTransactionsResponse | DescribeTransactionsResponse:
        assert node_id == 1
        if isinstance(request, DescribeTransactionsRequest):
            told = tuple(self._states(request.transactional_ids))
            return DescribeTransactionsResponse(throttle_time_ms=0, transaction_states=told)
        listed = tuple(
            ListTransactionsTransactionState(
                transactional_id=each, producer_id=7, transaction_state="Ongoing"
            )
            for each in ("mine", "other")
        )
        return ListTransactionsResponse(
            throttle_time_ms=0, error_code=0, unknown_state_filters=(), transaction_states=listed
        )

    def _states(self, ids: tuple[str, ...]) -> Iterator[DescribeTransactionsTransactionState]:
        for each in ids:
            error = self._error if each == "other" else ErrorCode.NONE
            yield DescribeTransactionsTransactionState(
                error_code=error,
                transactional_id=each,
                transaction_state="" if error else "Ongoing",
                transaction_timeout_ms=60_000,
                transaction_start_time_ms=1,
                producer_id=7,
                producer_epoch=0,
                topics=(),
            )


@pytest.mark.parametrize(
    "error", [ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
)
async def test_a_transaction_that_is_removed_or_hidden_is_left_out(error: ErrorCode) -> None:
    found = await open_transactions(cast("Cluster", Coordinator(error)))
    assert [each.transactional_id for each in found] == ["mine"]


@pytest.mark.parametrize(
    ("error", "is_tried_again"),
    [
        (ErrorCode.NOT_COORDINATOR, True),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, True),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, True),
        (ErrorCode.UNKNOWN_SERVER_ERROR, False),
    ],
)
async def test_a_transaction_whose_coordinator_moves_is_not_left_out(
    error: ErrorCode, is_tried_again: bool
) -> None:
    with pytest.raises(BrokerError, match="'other'") as raised:
        await open_transactions(cast("Cluster", Coordinator(error)))
    assert raised.value.retriable == is_tried_again
