"""What this broker alone answers to an HTTP client, for another broker that answers for the cluster.

Whoever may ask this by Kafka's port is a broker. What it is given is what a Kafka client may have: the same
pages as at this broker's HTTP address. Groups are changed where `kohort.http.writes.enable` says so.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from kohort.broker.http.server import load_pages, load_questions
from kohort.broker.http.view import View
from kohort.protocol.between_brokers import BrokerPageRequest, BrokerPageResponse, PageHeader
from kohort.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kohort.broker.http.questions import Answer

PAGES_MAX = 4
"""Made at once for others; one more waits."""
WAITING_MAX = 64
PATHS = "/api/v1/"
LIVE, FEED = "/api/v1/live/", "/events"
ANSWER_BYTES_MAX = 32 * 1024 * 1024


class OwnPages:
    """The pages of this broker, loaded when another one first asks for one."""

    def __init__(self, view: Callable[[], View]) -> None:
        self._view = view
        self._app: Any = None
        self._limit = trio.CapacityLimiter(PAGES_MAX)

    async def answer(self, asked: BrokerPageRequest) -> BrokerPageResponse:
        """Return the page."""
        is_feed = asked.path.startswith(LIVE) and asked.path.endswith(FEED)  # A group may have that name.
        if not asked.path.startswith(PATHS) or is_feed:
            return BrokerPageResponse(error_code=ErrorCode.NONE, status=404)
        if self._limit.statistics().tasks_waiting >= WAITING_MAX:
            return BrokerPageResponse(error_code=ErrorCode.NONE, status=503)
        async with self._limit:
            found = await self._answered(asked)
        if len(found.body) > ANSWER_BYTES_MAX:
            return BrokerPageResponse(error_code=ErrorCode.NONE, status=507)
        headers = tuple(PageHeader(name=name, value=value) for name, value in found.headers)
        return BrokerPageResponse(
            error_code=ErrorCode.NONE, status=found.status, headers=headers, body=found.body
        )

    async def _answered(self, asked: BrokerPageRequest) -> "Answer":
        pages = await trio.to_thread.run_sync(load_pages)
        questions = await trio.to_thread.run_sync(load_questions)
        self._app = self._app or pages.application(self._view())
        headers = tuple((each.name, each.value) for each in asked.headers)
        question = questions.Question(asked.method, asked.path, asked.query, headers, asked.body)
        answer: Answer = await questions.answered(self._app, question)
        return answer
