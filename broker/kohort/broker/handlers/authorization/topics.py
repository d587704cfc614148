"""Permission checks of requests that hide invisible topics: Metadata and similar ones."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from kohort.broker.handlers.authorization.refusals import made
from kohort.broker.handlers.authorization.requester import Requester
from kohort.broker.handlers.authorization.rules import Need, Verdict, with_more
from kohort.broker.handlers.prepared import Prepared
from kohort.protocol.acls import CLUSTER_NAME, AclOperation, AclResourceType
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from kohort.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from kohort.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsRequestTopicRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from kohort.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from kohort.protocol.schema import ZERO_UUID, Message

TOPIC, CLUSTER = AclResourceType.TOPIC, AclResourceType.CLUSTER
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
FIRST_METADATA_WITH_IDS = 12
NOBODY = -(2**31)  # What is said of operations that nobody has asked for.

DESCRIBED = Need(
    (AclOperation.DESCRIBE,), TOPIC, "each; where all are asked for, the others are left out", DENIED.name
)


class Metadata:
    """Topics that the principal may describe; it needs a permission for topics to create."""

    needs = (
        DESCRIBED,
        Need((AclOperation.CREATE,), CLUSTER, "the cluster, or", ""),
        Need((AclOperation.CREATE,), TOPIC, "each that would be created", DENIED.name),
    )

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return the question without what one may not know of."""
        wanted = message.topics
        if wanted is None or (requester.version == 0 and not wanted):
            return Verdict(message, None, partial(self._finish, requester, message, only_seen=True))
        kept: list[Any] = []
        denied: list[Message] = []
        for each in dict.fromkeys(wanted):
            by_id = requester.version >= FIRST_METADATA_WITH_IDS and each.topic_id != ZERO_UUID
            name = requester.topic_name(each.topic_id) if by_id else each.name
            if not name or (
                requester.may(AclOperation.DESCRIBE, TOPIC, name) and self._may_be(requester, message, name)
            ):
                kept.append(each)
            else:
                denied.append(_unseen(each) if by_id else _unseen_name(name))
        if kept or requester.version > 0:
            left = msgspec.structs.replace(message, topics=tuple(kept)) if denied else message
            return Verdict(left, None, partial(self._finish, requester, message, more=tuple(denied)))
        return Verdict(message, None, partial(self._finish, requester, message, only=tuple(denied)))

    def _may_be(self, requester: Requester, message: Any, name: str) -> bool:
        """Return whether the topic is there, or is not made by asking, or may be."""
        creates = (
            message.allow_auto_topic_creation and requester.services.current.config.auto_create_topics_enable
        )
        return (
            not creates
            or name in requester.snapshot.topics
            or requester.may_cluster(AclOperation.CREATE, quietly=True)
            or requester.may(AclOperation.CREATE, TOPIC, name)
        )

    def _finish(
        self,
        requester: Requester,
        message: Any,
        answer: MetadataResponse | Prepared[MetadataResponse],
        *,
        only_seen: bool = False,
        more: tuple[Message, ...] = (),
        only: tuple[Any, ...] | None = None,
    ) -> Any:
        """Return the answer with the topics that are to be seen, and what may be done to them."""
        found: Any = answer.message if isinstance(answer, Prepared) else answer
        topics: Iterable[Any] = found.topics if only is None else only
        if only_seen:
            topics = [each for each in topics if requester.may_describe(each.name or "")]
        if message.include_topic_authorized_operations:
            topics = [_with_operations(requester, each) for each in topics]
        changes: dict[str, object] = {"topics": (*topics, *more)}
        if message.include_cluster_authorized_operations:
            changes["cluster_authorized_operations"] = cluster_operations(requester)
        return msgspec.structs.replace(found, **changes)


def _unseen(wanted: Any) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=DENIED, name=None, topic_id=wanted.topic_id, partitions=())


def _unseen_name(name: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=DENIED, name=name, topic_id=ZERO_UUID, partitions=())


def _with_operations(requester: Requester, topic: Any) -> Any:
    if not topic.name:  # One that is not there may be told what to do to, as Kafka does.
        return msgspec.structs.replace(topic, topic_authorized_operations=NOBODY)
    operations = requester.operations(TOPIC, topic.name)
    return msgspec.structs.replace(topic, topic_authorized_operations=operations)


def cluster_operations(requester: Requester) -> int:
    """Return the requester's operations on the cluster; none without describe permission."""
    if not requester.may_cluster(AclOperation.DESCRIBE, quietly=True):
        return 0
    return requester.operations(CLUSTER, CLUSTER_NAME)


class DescribeTopicPartitions:
    """The visible topics, with the requester's operations on them."""

    needs = (DESCRIBED,)

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return the question about the topics that one sees, by their names."""
        names = [each.name for each in message.topics]
        may_be_seen = {
            each: requester.may(AclOperation.DESCRIBE, TOPIC, each) for each in dict.fromkeys(names)
        }
        seen = [each for each in names if may_be_seen[each]]
        denied = tuple(
            DescribeTopicPartitionsResponseTopic(
                error_code=DENIED, name=each, topic_id=ZERO_UUID, partitions=()
            )
            for each, is_seen in may_be_seen.items()
            if not is_seen
        )
        cursor = message.cursor
        if not names:
            first = "" if cursor is None else cursor.topic_name
            topics = requester.snapshot.topics
            if all(map(requester.may_describe, topics)):
                return Verdict(message, None, partial(self._finish, requester, ()))
            seen = sorted(name for name in topics if name >= first and requester.may_describe(name))
            if seen and cursor is not None and cursor.partition_index >= 0 and cursor.topic_name != seen[0]:
                cursor = DescribeTopicPartitionsRequestCursor(topic_name=seen[0], partition_index=0)
        if not seen:
            return Verdict(answer=made(DescribeTopicPartitionsResponse, {"topics": denied}))
        named = tuple(DescribeTopicPartitionsRequestTopicRequest(name=each) for each in seen)
        left = msgspec.structs.replace(message, topics=named, cursor=cursor)
        return Verdict(left, None, partial(self._finish, requester, denied))

    def _finish(self, requester: Requester, denied: tuple[Message, ...], answer: Any) -> Any:
        topics = [_with_operations(requester, each) for each in answer.topics]
        return msgspec.structs.replace(answer, topics=(*topics, *denied))


class CreateTopics:
    """Creatable topics; their settings are returned only with describe permission for them."""

    needs = (
        Need((AclOperation.CREATE,), CLUSTER, "the cluster, or", ""),
        Need((AclOperation.CREATE,), TOPIC, "each", DENIED.name),
        Need((AclOperation.DESCRIBE_CONFIGS,), TOPIC, "each, for its settings", "no settings"),
    )

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return the request with the topics that one may create."""
        kept = message.topics
        if not requester.may_cluster(AclOperation.CREATE, quietly=True):
            kept = tuple(each for each in kept if requester.may(AclOperation.CREATE, TOPIC, each.name))
        names = {each.name for each in kept}
        denied = tuple(
            made(CreatableTopicResult, {"name": name, "error_code": DENIED, "configs": ()})
            for name in dict.fromkeys(each.name for each in message.topics)
            if name not in names
        )
        if denied and not kept:
            return Verdict(answer=made(CreateTopicsResponse, {"topics": denied}))
        left = msgspec.structs.replace(message, topics=kept) if denied else message
        return Verdict(left, None, partial(self._finish, requester, denied))

    def _finish(self, requester: Requester, denied: tuple[Message, ...], answer: Any) -> Any:
        topics = [self._without_hidden_configs(requester, each) for each in answer.topics]
        return msgspec.structs.replace(answer, topics=(*topics, *denied))

    def _without_hidden_configs(self, requester: Requester, topic: Any) -> Any:
        may_know = requester.may(AclOperation.DESCRIBE_CONFIGS, TOPIC, topic.name, quietly=True)
        if topic.error_code != ErrorCode.NONE or may_know:
            return topic
        return msgspec.structs.replace(
            topic, topic_config_error_code=DENIED, configs=(), num_partitions=-1, replication_factor=-1
        )


class DeleteTopics:
    """Deletable topics, by name or by id; a name is returned only if visible."""

    needs = (
        Need((AclOperation.DELETE,), CLUSTER, "the cluster, or", ""),
        Need(
            (AclOperation.DESCRIBE,),
            TOPIC,
            "each that is named by its id",
            f"{DENIED.name}, without its name",
        ),
        Need((AclOperation.DELETE,), TOPIC, "each", DENIED.name),
    )

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return the request with the topics that one may delete."""
        if requester.may_cluster(AclOperation.DELETE, quietly=True):
            return Verdict(message)
        denied: list[Message] = []
        names = [each for each in message.topic_names if self._may(requester, each, denied)]
        topics = [each for each in message.topics if self._may_state(requester, each, denied)]
        if not denied:
            return Verdict(message)
        if not names and not topics:
            return Verdict(answer=made(DeleteTopicsResponse, {"responses": tuple(denied)}))
        left = msgspec.structs.replace(message, topic_names=tuple(names), topics=tuple(topics))
        return Verdict(left, None, partial(with_more, "responses", tuple(denied)))

    def _may(self, requester: Requester, name: str, denied: list[Message]) -> bool:
        if name not in requester.snapshot.topics and requester.may_describe(name):
            return True  # It is answered as if the topic did not exist.
        if requester.may(AclOperation.DELETE, TOPIC, name):
            return True
        denied.append(made(DeletableTopicResult, {"name": name, "error_code": DENIED}))
        return False

    def _may_state(self, requester: Requester, state: Any, denied: list[Message]) -> bool:
        if state.topic_id == ZERO_UUID:
            return state.name is None or self._may(requester, state.name, denied)
        name = requester.topic_name(state.topic_id)
        if name is None or requester.may(AclOperation.DELETE, TOPIC, name):
            return True
        told = {
            "topic_id": state.topic_id,
            "error_code": DENIED,
            "name": name if requester.may_describe(name) else None,
        }
        denied.append(made(DeletableTopicResult, told))
        return False
