"""Permission checks of requests of share groups."""

from functools import partial
from typing import Any

import msgspec

from kohort.broker.handlers.authorization.refusals import Parts, refused_parts
from kohort.broker.handlers.authorization.requester import Requester
from kohort.broker.handlers.authorization.rules import Need, Verdict, without_denied_parts
from kohort.protocol.acls import AclOperation, AclResourceType
from kohort.protocol.errors import ErrorCode

TOPIC = AclResourceType.TOPIC
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_BY_INDEX = Parts("partitions", "partitions", ("partition_index",))
ACKNOWLEDGED = Parts("topics", "responses", ("topic_id",), _BY_INDEX)
FETCHED = ACKNOWLEDGED._replace(inner=_BY_INDEX._replace(told={"records": b""}))
DESCRIBED = Parts(
    "topics",
    "topics",
    ("topic_name", "topic_id"),
    Parts("partitions", "partitions", ("partition_index",), told={"start_offset": -1}),
)


class SharedTopics:
    """Topics by their ids, each of which one may read.

    A session has topics that its requests do not name: records of a topic that may not be read
    any more are removed from the answer, and are released when their lock ends.
    """

    needs = (Need((AclOperation.READ,), TOPIC, "each", DENIED.name),)

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._answered = parts._replace(asked="responses")

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return the request about the topics that one may read."""
        verdict = without_denied_parts(requester, message, self._parts, _denial)
        if verdict.answer is not None:
            return verdict
        return verdict._replace(finish=partial(self._finish, requester, verdict))

    def _finish(self, requester: Requester, verdict: Verdict, answer: Any) -> Any:
        responses: list[Any] = []
        for topic in answer.responses:
            code = _denial(requester, topic)
            hidden = () if code is None else refused_parts(self._answered, type(answer), (topic,), code)
            responses += hidden or (topic,)
        seen = msgspec.structs.replace(answer, responses=tuple(responses))
        return seen if verdict.finish is None else verdict.finish(seen)


def _denial(requester: Requester, topic: Any) -> ErrorCode | None:
    name = requester.topic_name(topic.topic_id)
    return None if name is None or requester.may(AclOperation.READ, TOPIC, name) else DENIED


def with_seen_offsets(requester: Requester, message: Any, answer: Any) -> Any:
    """Return the groups with the visible topics; other named ones are refused."""
    everything = {each.group_id for each in message.groups if each.topics is None}
    groups = []
    for group in answer.groups:
        topics: list[Any] = []
        for topic in group.topics:
            if requester.may_describe(topic.topic_name):
                topics.append(topic)
            elif group.group_id not in everything:
                topics += refused_parts(DESCRIBED, type(group), (topic,), DENIED)
        groups.append(msgspec.structs.replace(group, topics=tuple(topics)))
    return msgspec.structs.replace(answer, groups=tuple(groups))
