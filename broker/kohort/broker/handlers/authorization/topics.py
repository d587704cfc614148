"""How questions about topics are checked that hide what one may not know of: Metadata and its like."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from kohort.broker.handlers.authorization.asker import Asker
from kohort.broker.handlers.authorization.refusals import made
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
    """Topics that one may know of; those that are to be created must be allowed to be."""

    needs = (
        DESCRIBED,
        Need((AclOperation.CREATE,), CLUSTER, "the cluster, or", ""),
        Need((AclOperation.CREATE,), TOPIC, "each that would be created", DENIED.name),
    )

    def judge(self, asker: Asker, message: Any) -> Verdict:
        """Return the question without what one may not know of."""
        wanted = message.topics
        if wanted is None or (asker.version == 0 and not wanted):
            return Verdict(message, None, partial(self._finish, asker, message, only_seen=True))
        kept: list[Any] = []
        denied: list[Message] = []
        for each in dict.fromkeys(wanted):
            by_id = asker.version >= FIRST_METADATA_WITH_IDS and each.topic_id != ZERO_UUID
            name = asker.topic_name(each.topic_id) if by_id else each.name
            if not name or (
                asker.may(AclOperation.DESCRIBE, TOPIC, name) and self._may_be(asker, message, name)
            ):
                kept.append(each)
            else:
                denied.append(_unseen(each) if by_id else _unseen_name(name))
        if kept or asker.version > 0:
            left = msgspec.structs.replace(message, topics=tuple(kept)) if denied else message
            return Verdict(left, None, partial(self._finish, asker, message, more=tuple(denied)))
        return Verdict(message, None, partial(self._finish, asker, message, only=tuple(denied)))

    def _may_be(self, asker: Asker, message: Any, name: str) -> bool:
        """Return whether the topic is there, or is not made by asking, or may be."""
        creates = message.allow_auto_topic_creation and asker.grounds.current.config.auto_create_topics_enable
        return (
            not creates
            or name in asker.snapshot.topics
            or asker.may_cluster(AclOperation.CREATE, quietly=True)
            or asker.may(AclOperation.CREATE, TOPIC, name)
        )

    def _finish(
        self,
        asker: Asker,
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
            topics = [each for each in topics if asker.may_describe(each.name or "")]
        if message.include_topic_authorized_operations:
            topics = [_with_operations(asker, each) for each in topics]
        changes: dict[str, object] = {"topics": (*topics, *more)}
        if message.include_cluster_authorized_operations:
            changes["cluster_authorized_operations"] = cluster_operations(asker)
        return msgspec.structs.replace(found, **changes)


def _unseen(wanted: Any) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=DENIED, name=None, topic_id=wanted.topic_id, partitions=())


def _unseen_name(name: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=DENIED, name=name, topic_id=ZERO_UUID, partitions=())


def _with_operations(asker: Asker, topic: Any) -> Any:
    if not topic.name:  # One that is not there may be told what to do to, as Kafka does.
        return msgspec.structs.replace(topic, topic_authorized_operations=NOBODY)
    operations = asker.operations(TOPIC, topic.name)
    return msgspec.structs.replace(topic, topic_authorized_operations=operations)


def cluster_operations(asker: Asker) -> int:
    """Return what one may do to the cluster; nothing for who may not describe it."""
    if not asker.may_cluster(AclOperation.DESCRIBE, quietly=True):
        return 0
    return asker.operations(CLUSTER, CLUSTER_NAME)


class DescribeTopicPartitions:
    """The topics that one may know of, with what one may do to them."""

    needs = (DESCRIBED,)

    def judge(self, asker: Asker, message: Any) -> Verdict:
        """Return the question about the topics that one sees, by their names."""
        names = [each.name for each in message.topics]
        may_be_seen = {each: asker.may(AclOperation.DESCRIBE, TOPIC, each) for each in dict.fromkeys(names)}
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
            topics = asker.snapshot.topics
            if all(map(asker.may_describe, topics)):
                return Verdict(message, None, partial(self._finish, asker, ()))
            seen = sorted(name for name in topics if name >= first and asker.may_describe(name))
            if seen and cursor is not None and cursor.partition_index >= 0 and cursor.topic_name != seen[0]:
                cursor = DescribeTopicPartitionsRequestCursor(topic_name=seen[0], partition_index=0)
        if not seen:
            return Verdict(answer=made(DescribeTopicPartitionsResponse, {"topics": denied}))
        named = tuple(DescribeTopicPartitionsRequestTopicRequest(name=each) for each in seen)
        left = msgspec.structs.replace(message, topics=named, cursor=cursor)
        return Verdict(left, None, partial(self._finish, asker, denied))

    def _finish(self, asker: Asker, denied: tuple[Message, ...], answer: Any) -> Any:
        topics = [_with_operations(asker, each) for each in answer.topics]
        return msgspec.structs.replace(answer, topics=(*topics, *denied))


class CreateTopics:
    """Topics that one may create; their settings are told to who may know them."""

    needs = (
        Need((AclOperation.CREATE,), CLUSTER, "the cluster, or", ""),
        Need((AclOperation.CREATE,), TOPIC, "each", DENIED.name),
        Need((AclOperation.DESCRIBE_CONFIGS,), TOPIC, "each, for its settings", "no settings"),
    )

    def judge(self, asker: Asker, message: Any) -> Verdict:
        """Return the request with the topics that one may create."""
        kept = message.topics
        if not asker.may_cluster(AclOperation.CREATE, quietly=True):
            kept = tuple(each for each in kept if asker.may(AclOperation.CREATE, TOPIC, each.name))
        names = {each.name for each in kept}
        denied = tuple(
            made(CreatableTopicResult, {"name": name, "error_code": DENIED, "configs": ()})
            for name in dict.fromkeys(each.name for each in message.topics)
            if name not in names
        )
        if denied and not kept:
            return Verdict(answer=made(CreateTopicsResponse, {"topics": denied}))
        left = msgspec.structs.replace(message, topics=kept) if denied else message
        return Verdict(left, None, partial(self._finish, asker, denied))

    def _finish(self, asker: Asker, denied: tuple[Message, ...], answer: Any) -> Any:
        topics = [self._told(asker, each) for each in answer.topics]
        return msgspec.structs.replace(answer, topics=(*topics, *denied))

    def _told(self, asker: Asker, topic: Any) -> Any:
        may_know = asker.may(AclOperation.DESCRIBE_CONFIGS, TOPIC, topic.name, quietly=True)
        if topic.error_code != ErrorCode.NONE or may_know:
            return topic
        return msgspec.structs.replace(
            topic, topic_config_error_code=DENIED, configs=(), num_partitions=-1, replication_factor=-1
        )


class DeleteTopics:
    """Topics that one may delete, by name or by id; a name is told to who may know it."""

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

    def judge(self, asker: Asker, message: Any) -> Verdict:
        """Return the request with the topics that one may delete."""
        if asker.may_cluster(AclOperation.DELETE, quietly=True):
            return Verdict(message)
        denied: list[Message] = []
        names = [each for each in message.topic_names if self._may(asker, each, denied)]
        topics = [each for each in message.topics if self._may_state(asker, each, denied)]
        if not denied:
            return Verdict(message)
        if not names and not topics:
            return Verdict(answer=made(DeleteTopicsResponse, {"responses": tuple(denied)}))
        left = msgspec.structs.replace(message, topic_names=tuple(names), topics=tuple(topics))
        return Verdict(left, None, partial(with_more, "responses", tuple(denied)))

    def _may(self, asker: Asker, name: str, denied: list[Message]) -> bool:
        if name not in asker.snapshot.topics and asker.may_describe(name):
            return True  # It is told that there is no such topic.
        if asker.may(AclOperation.DELETE, TOPIC, name):
            return True
        denied.append(made(DeletableTopicResult, {"name": name, "error_code": DENIED}))
        return False

    def _may_state(self, asker: Asker, state: Any, denied: list[Message]) -> bool:
        if state.topic_id == ZERO_UUID:
            return state.name is None or self._may(asker, state.name, denied)
        name = asker.topic_name(state.topic_id)
        if name is None or asker.may(AclOperation.DELETE, TOPIC, name):
            return True
        told = {
            "topic_id": state.topic_id,
            "error_code": DENIED,
            "name": name if asker.may_describe(name) else None,
        }
        denied.append(made(DeletableTopicResult, told))
        return False
