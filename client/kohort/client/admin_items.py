"""Calls about several items at once: retriable errors are retried, and each failure names its item."""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import TypeVar

import anyio

from kohort.client.cluster import Cluster
from kohort.client.errors import BrokerError, ItemsError, KohortError, NetworkError, RequestTimeoutError
from kohort.client.retry import Backoff, Deadline
from kohort.protocol.errors import ErrorCode
from kohort.protocol.schema import Message

Answer = TypeVar("Answer", bound=Message)
Item = TypeVar("Item", bound=Hashable)
Result = TypeVar("Result")
Outcomes = Mapping[Item, Result | KohortError]

RETRIED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
"""Transient errors. UNKNOWN_TOPIC_OR_PARTITION is not among them: it is the answer."""


class AdminCalls:
    """What all calls of an Admin have in common: the cluster that they ask."""

    _cluster: Cluster

    @property
    def _timeout_ms(self) -> int:
        return min(self._cluster.config.default_api_timeout_ms, self._cluster.config.request_timeout_ms)

    async def _ask_any(self, request: Message, kind: type[Answer]) -> Answer:
        """Return any broker's answer. It asks again while the error is retriable."""
        return await self._cluster.retrying(lambda: self._cluster.request_any(request, kind))


async def settle(
    cluster: Cluster,
    items: Iterable[Item],
    ask: Callable[[tuple[Item, ...]], Awaitable[Outcomes[Item, Result]]],
) -> dict[Item, Result]:
    """Return each item's result; `ask` is called again for items with a transient error.

    Raises: ItemsError with each item's error, and what succeeded; KohortError if nothing could be asked.
    """
    deadline = Deadline(cluster.config.default_api_timeout_ms)
    backoff = Backoff(cluster.config.retry_backoff_ms, cluster.config.retry_backoff_max_ms)
    order = tuple(dict.fromkeys(items))
    remaining = order
    outcomes: dict[Item, Result | KohortError] = {}
    while remaining:
        outcomes.update(await _ask_once(remaining, ask, deadline))
        remaining = tuple(each for each in remaining if _passes(outcomes[each]))
        wait_ms = backoff.next_ms()
        if wait_ms >= deadline.remaining_ms:
            break
        if remaining:
            await anyio.sleep(wait_ms / 1000)
    errors = {each: found for each in order if isinstance(found := outcomes[each], KohortError)}
    results = {each: found for each in order if not isinstance(found := outcomes[each], KohortError)}
    if errors:
        raise ItemsError(errors, results)
    return results


async def settle_answered(
    cluster: Cluster,
    answered: Outcomes[Item, Result],
    ask: Callable[[tuple[Item, ...]], Awaitable[Outcomes[Item, Result]]],
) -> dict[Item, Result]:
    """Return each item's result; `ask` is called for items of a first answer with a transient error.

    Raises: as `settle`.
    """
    first = [answered]

    async def next_answer(wanted: tuple[Item, ...]) -> Outcomes[Item, Result]:
        return first.pop() if first else await ask(wanted)

    return await settle(cluster, answered, next_answer)


async def _ask_once(
    items: tuple[Item, ...],
    ask: Callable[[tuple[Item, ...]], Awaitable[Outcomes[Item, Result]]],
    deadline: Deadline,
) -> dict[Item, Result | KohortError]:
    try:
        with anyio.fail_after(deadline.remaining_ms / 1000):
            answered = await ask(items)
    except KohortError as error:
        if not error.retriable:
            raise
        return dict.fromkeys(items, error)
    except TimeoutError:
        return dict.fromkeys(items, RequestTimeoutError(f"not done within {deadline.timeout_ms:.0f} ms"))
    missing = BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker's answer leaves it out")
    return {each: answered.get(each, missing) for each in items}


def _passes(outcome: object) -> bool:
    if isinstance(outcome, NetworkError | RequestTimeoutError):
        return True
    return isinstance(outcome, KohortError) and outcome.code in RETRIED


def outcome(code: int, message: str | None, result: Result) -> Result | KohortError:
    """Return the result of an item, or its error if there is a code."""
    return BrokerError(code, message) if code else result
