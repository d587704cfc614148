"""How many partitions a request makes or takes away, and its refusal where that is too many at once.

Versions before KIP-599 know no such refusal: they are only made to wait. Source: Kafka's
ControllerMutationQuotaManager.
"""

from collections.abc import Callable
from typing import Any, cast

import msgspec

from kohort.broker.handlers.authorization.refusals import Parts
from kohort.broker.handlers.authorization.rules import Verdict, without_denied_parts
from kohort.broker.metadata import Snapshot
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.schema import ZERO_UUID

CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 19, 20, 37
STRICT_FROM = {CREATE_TOPICS: 6, DELETE_TOPICS: 5, CREATE_PARTITIONS: 3}
_TOLD = {"error_message": "The throttling quota has been exceeded."}
_CREATED = Parts("topics", "topics", ("name",), told={**_TOLD, "configs": ()})
_NAMES = Parts("topic_names", "responses", ("=name",), told=_TOLD)
_STATES = Parts("topics", "responses", ("name", "topic_id"), told=_TOLD)
_GROWN = Parts("topics", "results", ("name",), told=_TOLD)
FIRST_DELETION_WITH_STATES = 6


class Mutations(msgspec.Struct, frozen=True):
    """What counts the partitions of a request."""

    snapshot: Snapshot
    partitions_by_default: int
    take: Callable[[int], bool]
    """Takes so many partitions, or returns that the quota is used up."""

    def judge(self, request: Request, message: Any) -> Verdict:
        """Return the request without the topics that there is no room for."""
        return without_denied_parts(cast(Any, request), message, parts_of(request), self._denial)

    def _denial(self, request: Any, item: Any) -> ErrorCode | None:
        count = self._count(request.api.api_key, item)
        return None if not count or self.take(count) else ErrorCode.THROTTLING_QUOTA_EXCEEDED

    def _count(self, api_key: int, item: Any) -> int:
        topics = self.snapshot.topics
        if api_key == CREATE_TOPICS:
            if item.assignments:
                return len(item.assignments)
            return int(item.num_partitions) if item.num_partitions > 0 else self.partitions_by_default
        if api_key == CREATE_PARTITIONS:
            there = topics.get(item.name)
            return 0 if there is None else max(item.count - len(there.partitions), 0)
        if isinstance(item, str):
            found = topics.get(item)
        elif item.topic_id != ZERO_UUID:
            found = self.snapshot.topics_by_id.get(item.topic_id)
        else:
            found = topics.get(item.name or "")
        return 0 if found is None else len(found.partitions)


def parts_of(request: Request) -> Parts:
    """Return the items that the request names."""
    if request.api.api_key == CREATE_TOPICS:
        return _CREATED
    if request.api.api_key == CREATE_PARTITIONS:
        return _GROWN
    return _STATES if request.version >= FIRST_DELETION_WITH_STATES else _NAMES
