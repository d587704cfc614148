"""Permission checks of requests about groups and transactions."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from kohort.broker.handlers.authorization.records import seen
from kohort.broker.handlers.authorization.refusals import Parts, made, refused, refused_parts
from kohort.broker.handlers.authorization.requester import Requester
from kohort.broker.handlers.authorization.rules import (
    Need,
    Rule,
    Verdict,
    name_of,
    with_more,
    without_denied_parts,
)
from kohort.protocol.acls import AclOperation, AclResourceType
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from kohort.protocol.messages.offset_fetch import OffsetFetchResponseGroup
from kohort.protocol.schema import Message

TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_OFFSET = -1

SOME_FETCHED = Parts(
    "topics",
    "topics",
    ("name",),
    Parts("partition_indexes", "partitions", ("=partition_index",), told={"committed_offset": NO_OFFSET}),
)
FETCHED_OF_GROUP = SOME_FETCHED._replace(same=("name", "topic_id"))
FIRST_WITH_GROUPS = 8
FIRST_WITH_ERROR = 2


class OffsetFetch:
    """Committed offsets, of visible groups and topics; a request for all returns those."""

    needs = (
        Need((AclOperation.DESCRIBE,), GROUP, "each", ErrorCode.GROUP_AUTHORIZATION_FAILED.name),
        Need(
            (AclOperation.DESCRIBE,),
            TOPIC,
            "each; where all are asked for, the others are left out",
            DENIED.name,
        ),
    )

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return the request for visible resources."""
        return (
            self._of_groups(requester, message)
            if requester.version >= FIRST_WITH_GROUPS
            else self._of_one(requester, message)
        )

    def _of_one(self, requester: Requester, message: Any) -> Verdict:
        if not requester.may(AclOperation.DESCRIBE, GROUP, message.group_id):
            parts = None if requester.version >= FIRST_WITH_ERROR else SOME_FETCHED
            return Verdict(answer=refused(requester, message, ErrorCode.GROUP_AUTHORIZATION_FAILED, parts))
        if message.topics is None:
            return Verdict(message, None, partial(_only_seen, requester, "topics"))
        return without_denied_parts(requester, message, SOME_FETCHED, _topic_denial)

    def _of_groups(self, requester: Requester, message: Any) -> Verdict:
        kept: list[Any] = []
        denied: list[Message] = []
        more: dict[str, tuple[Message, ...]] = {}
        for group in message.groups:
            if not requester.may(AclOperation.DESCRIBE, GROUP, group.group_id):
                told = {"group_id": group.group_id, "error_code": ErrorCode.GROUP_AUTHORIZATION_FAILED}
                denied.append(made(OffsetFetchResponseGroup, told))
                continue
            topics = group.topics
            denials = [(each, _topic_denial(requester, each)) for each in topics or ()]
            unseen = [each for each, code in denials if code is not None]
            if unseen:
                topics = tuple(each for each, code in denials if code is None)
                more[group.group_id] = refused_parts(
                    FETCHED_OF_GROUP, OffsetFetchResponseGroup, unseen, DENIED
                )
                if not topics:
                    denied.append(
                        made(
                            OffsetFetchResponseGroup,
                            {"group_id": group.group_id, "topics": more.pop(group.group_id)},
                        )
                    )
                    continue
            kept.append(msgspec.structs.replace(group, topics=topics))
        if message.groups and not kept:
            return Verdict(answer=made(requester.api.response, {"groups": tuple(denied)}))
        left = msgspec.structs.replace(message, groups=tuple(kept))
        everything = frozenset(each.group_id for each in kept if each.topics is None)
        return Verdict(left, None, partial(self._finish, requester, tuple(denied), more, everything))

    def _finish(
        self,
        requester: Requester,
        denied: tuple[Message, ...],
        more: dict[str, tuple[Message, ...]],
        everything: frozenset[str],
        answer: Any,
    ) -> Any:
        groups = [
            _only_seen(requester, "topics", each)
            if each.group_id in everything
            else with_more("topics", more.get(each.group_id, ()), each)
            for each in answer.groups
        ]
        return msgspec.structs.replace(answer, groups=(*groups, *denied))


def _topic_denial(requester: Requester, topic: Any) -> ErrorCode | None:
    name = name_of(requester, topic)
    return None if name is None or requester.may(AclOperation.DESCRIBE, TOPIC, name) else DENIED


def _only_seen(requester: Requester, field: str, answer: Any) -> Any:
    return msgspec.structs.replace(answer, **{field: seen(requester, getattr(answer, field))})


COORDINATED = {
    0: (AclOperation.DESCRIBE, GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    1: (AclOperation.DESCRIBE, TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}
SHARE = 2
FIRST_BATCHED = 4


class FindCoordinator:
    """The coordinator of visible groups and transactional ids."""

    needs = (
        Need((AclOperation.DESCRIBE,), GROUP, "each group", ErrorCode.GROUP_AUTHORIZATION_FAILED.name),
        Need(
            (AclOperation.DESCRIBE,),
            TRANSACTIONAL_ID,
            "each transactional id",
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.name,
        ),
        Need(
            (AclOperation.CLUSTER_ACTION,),
            CLUSTER,
            "the cluster, for shares' states",
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name,
        ),
    )

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return the request for visible resources."""
        kind = message.key_type
        keys = message.coordinator_keys if requester.version >= FIRST_BATCHED else (message.key,)
        may_know = {key: self._may(requester, kind, key) for key in dict.fromkeys(keys)}
        denied = [key for key in keys if not may_know[key]]
        if not denied:
            return Verdict(message)
        code = COORDINATED[kind][2] if kind in COORDINATED else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        nowhere = {"node_id": -1, "host": "", "port": -1, "error_code": code}
        if requester.version < FIRST_BATCHED:
            return Verdict(answer=made(FindCoordinatorResponse, nowhere))
        told = tuple(made(Coordinator, {**nowhere, "key": key, "error_message": None}) for key in denied)
        kept = tuple(key for key in keys if may_know[key])
        if not kept:
            return Verdict(answer=made(FindCoordinatorResponse, {"coordinators": told}))
        left = msgspec.structs.replace(message, coordinator_keys=kept)
        return Verdict(left, None, partial(with_more, "coordinators", told))

    def _may(self, requester: Requester, kind: int, key: str) -> bool:
        if kind == SHARE:
            return requester.may_cluster(AclOperation.CLUSTER_ACTION)
        if kind not in COORDINATED:
            return True  # It is answered as if it did not exist.
        operation, resource_type, _ = COORDINATED[kind]
        return requester.may(operation, resource_type, key)


class Listed:
    """A list of visible items; describe permission on the cluster shows all of some lists."""

    def __init__(self, field: str, key: str, on: AclResourceType, *, or_cluster: bool = False) -> None:
        """Show only those in the answer's `field` whose `key` the requester may describe."""
        self._field = field
        self._key = key
        self._type = on
        self._or_cluster = or_cluster
        needs = [Need((AclOperation.DESCRIBE,), on, "each", "it is left out")]
        if or_cluster:
            needs.insert(0, Need((AclOperation.DESCRIBE,), CLUSTER, "the cluster, or", ""))
        self.needs = tuple(needs)

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return the request; its answer is without_denied_parts."""
        if self._or_cluster and requester.may_cluster(AclOperation.DESCRIBE, quietly=True):
            return Verdict(message)
        return Verdict(message, None, partial(self._finish, requester))

    def _finish(self, requester: Requester, answer: Any) -> Any:
        kept = tuple(
            each
            for each in getattr(answer, self._field)
            if requester.may(AclOperation.DESCRIBE, self._type, getattr(each, self._key), quietly=True)
        )
        return msgspec.structs.replace(answer, **{self._field: kept})


class Changed:
    """A rule whose answers are also filtered by visibility."""

    def __init__(self, rule: Rule, change: Callable[[Requester, Any, Any], Any], *needs: Need) -> None:
        """Let `change(requester, request, answer)` filter the answers that `rule` allows."""
        self._rule = rule
        self._change = change
        self.needs = (*rule.needs, *needs)

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return the verdict of the rule."""
        verdict = self._rule.judge(requester, message)
        if verdict.answer is not None:
            return verdict
        return verdict._replace(finish=partial(self._finish, requester, message, verdict))

    def _finish(self, requester: Requester, message: Any, verdict: Verdict, answer: Any) -> Any:
        changed = self._change(requester, message, answer)
        return changed if verdict.finish is None else verdict.finish(changed)


def with_group_operations(requester: Requester, message: Any, answer: Any) -> Any:
    """Return the groups with the requester's operations on them, if requested."""
    if not message.include_authorized_operations:
        return answer
    groups = tuple(
        msgspec.structs.replace(each, authorized_operations=requester.operations(GROUP, each.group_id))
        if each.error_code == ErrorCode.NONE
        else each
        for each in answer.groups
    )
    return msgspec.structs.replace(answer, groups=groups)


def with_seen_members(requester: Requester, message: Any, answer: Any) -> Any:
    """Return the groups; one with a hidden topic has an error."""
    groups = tuple(each if _sees_group(requester, each) else _hidden(each) for each in answer.groups)
    return with_group_operations(requester, message, msgspec.structs.replace(answer, groups=groups))


def _sees_group(requester: Requester, group: Any) -> bool:
    names = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, getattr(member, "target_assignment", member.assignment))
        for topic in assignment.topic_partitions
    }
    names.update(name for member in group.members for name in member.subscribed_topic_names)
    return all(map(requester.may_describe, names))


def _hidden(group: Any) -> Any:
    return made(
        type(group),
        {
            "error_code": DENIED,
            "error_message": "A member has a topic that one may not describe",
            "group_id": group.group_id,
        },
    )


def with_seen_topics(requester: Requester, _message: Any, answer: Any) -> Any:
    """Return the transactions, each with its visible topics."""
    states = tuple(
        msgspec.structs.replace(each, topics=seen(requester, each.topics, "topic"))
        for each in answer.transaction_states
    )
    return msgspec.structs.replace(answer, transaction_states=states)


class Streamed:
    """A member of a streams group needs describe permission for every topic of its topology."""

    needs = (
        Need((AclOperation.DESCRIBE,), TOPIC, "each of its topology", DENIED.name),
        Need((AclOperation.CREATE,), CLUSTER, "the cluster, or", ""),
        Need((AclOperation.CREATE,), TOPIC, "each that is made for it", "they are not made"),
    )

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return the heartbeat, or its refusal."""
        topology = message.topology
        names = [] if topology is None else topics_named(topology)
        for name in names:
            if not requester.may(AclOperation.DESCRIBE, TOPIC, name):
                return Verdict(answer=refused(requester, message, DENIED))
        return Verdict(message)


def topics_named(topology: Any) -> list[str]:
    """Return every topic that a topology names, once."""
    return list(
        dict.fromkeys(
            name
            for each in topology.subtopologies or ()
            for name in (
                *each.source_topics,
                *each.repartition_sink_topics,
                *(topic.name for topic in each.repartition_source_topics),
                *(topic.name for topic in each.state_changelog_topics),
            )
        )
    )


def with_seen_topologies(requester: Requester, message: Any, answer: Any) -> Any:
    """Return the groups; one with a hidden topic has an error."""
    groups = tuple(
        each
        if each.topology is None or all(map(requester.may_describe, topics_named(each.topology)))
        else made(
            type(each),
            {
                "error_code": DENIED,
                "error_message": "The topology has a topic that one may not describe",
                "group_id": each.group_id,
            },
        )
        for each in answer.groups
    )
    return with_group_operations(requester, message, msgspec.structs.replace(answer, groups=groups))


class Subscribed:
    """A member of a consumer group needs describe permission for every topic that it names."""

    needs = (Need((AclOperation.DESCRIBE,), TOPIC, "each that it subscribes to", DENIED.name),)

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return the heartbeat, or its refusal."""
        for name in message.subscribed_topic_names or ():
            if not requester.may(AclOperation.DESCRIBE, TOPIC, name):
                return Verdict(answer=refused(requester, message, DENIED))
        return Verdict(message)
