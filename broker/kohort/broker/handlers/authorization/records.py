"""Permission checks of requests that write and read records."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from kohort.broker.handlers.authorization.refusals import Parts, made, refused, refused_parts
from kohort.broker.handlers.authorization.requester import Requester
from kohort.broker.handlers.authorization.rules import Each, Every, Need, Verdict, Whole, name_of, with_more
from kohort.protocol.acls import AclOperation, AclResourceType
from kohort.protocol.errors import ErrorCode
from kohort.protocol.schema import ZERO_UUID

TOPIC = AclResourceType.TOPIC
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
FINAL_EPOCH = -1
FOLLOWERS_SAY_IN_TAGS = 15

PRODUCED = Parts(
    "topic_data",
    "responses",
    ("name", "topic_id"),
    Parts("partition_data", "partition_responses", ("index",), told={"base_offset": -1}),
)
FETCHED = Parts(
    "topics",
    "responses",
    ("topic", "topic_id"),
    Parts(
        "partitions",
        "partitions",
        ("partition=partition_index",),
        told={"high_watermark": -1, "aborted_transactions": None, "records": b""},
    ),
)


class Produce:
    """Records of writable topics; without answers, a closed connection shows the refusal of the others."""

    def __init__(self) -> None:
        self._rule = Every(
            Whole(
                AclOperation.WRITE,
                on=AclResourceType.TRANSACTIONAL_ID,
                field="transactional_id",
                parts=PRODUCED,
                of="the producer's, if it has one",
            ),
            Each(AclOperation.WRITE, TOPIC, PRODUCED),
        )
        self.needs = self._rule.needs

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return the request with the topics that one may write to."""
        verdict = self._rule.judge(requester, message)
        if message.acks == 0 and verdict.message is not message:
            return verdict._replace(answer=None, finish=None, hangs_up=True)
        return verdict


class Fetch:
    """Records that one may read; followers are brokers.

    A session has partitions that its requests do not name. If its reader loses permission for some of them,
    the session is refused, and the reader names all its partitions again; denied ones are not
    added to a session.
    """

    needs = (
        Need((AclOperation.READ,), TOPIC, "each, of consumers", DENIED.name),
        Need(
            (AclOperation.CLUSTER_ACTION,), AclResourceType.CLUSTER, "the cluster, of followers", DENIED.name
        ),
    )

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return the request with the topics that one may read."""
        if self._is_followers(requester, message):
            if requester.may_cluster(AclOperation.CLUSTER_ACTION):
                return Verdict(message)
            return Verdict(answer=self._all_denied(message))
        allowed: dict[str | bytes, bool] = {}  # As a session's targets: by the bytes of an id.
        if any(not self._may(requester, key, allowed) for key in self._remembered(requester, message)):
            requester.services.sessions.forget(message.session_id, requester.owner)
            return Verdict(answer=refused(requester, message, ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        kept: list[Any] = []
        denied: list[Any] = []
        for topic in message.topics:
            key = topic.topic if topic.topic_id == ZERO_UUID else topic.topic_id.bytes
            (kept if self._may(requester, key, allowed) else denied).append(topic)
        if not denied:
            return Verdict(message)
        if message.session_epoch > 0:
            requester.services.sessions.forget(message.session_id, requester.owner)
            return Verdict(answer=refused(requester, message, ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        more = refused_parts(FETCHED, requester.api.response, denied, DENIED)
        if not kept:
            return Verdict(answer=made(requester.api.response, {"responses": more}))
        left = msgspec.structs.replace(message, topics=tuple(kept), session_epoch=FINAL_EPOCH)
        return Verdict(left, None, partial(with_more, "responses", more))

    def _is_followers(self, requester: Requester, message: Any) -> bool:
        if requester.version >= FOLLOWERS_SAY_IN_TAGS:
            return bool(message.replica_state.replica_id >= 0)
        return bool(message.replica_id >= 0)

    def _remembered(self, requester: Requester, message: Any) -> Iterator[str | bytes]:
        """Yield the topics of the continued session."""
        if message.session_epoch > 0:
            session = requester.services.sessions.get(message.session_id, requester.owner)
            if session is not None:
                previous: object = None
                for key, _ in session.targets:
                    if key != previous:
                        yield key
                    previous = key

    def _may(self, requester: Requester, key: str | bytes, allowed: dict[str | bytes, bool]) -> bool:
        found = allowed.get(key)
        if found is None:
            name = key if isinstance(key, str) else requester.topic_name(UUID(bytes=key))
            found = allowed[key] = name is None or requester.may(AclOperation.READ, TOPIC, name)
        return found

    def _all_denied(self, message: Any) -> Any:
        from kohort.protocol.messages.fetch import FetchResponse  # noqa: PLC0415  # Only needed here.

        return made(
            FetchResponse, {"responses": refused_parts(FETCHED, FetchResponse, message.topics, DENIED)}
        )


class ListOffsets:
    """Offsets of visible topics; followers may request any."""

    def __init__(self, parts: Parts) -> None:
        self._rule = Each(AclOperation.DESCRIBE, TOPIC, parts)
        self.needs = (
            Need(
                (AclOperation.CLUSTER_ACTION,), AclResourceType.CLUSTER, "the cluster, of followers, or", ""
            ),
            *self._rule.needs,
        )

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return the request for visible topics."""
        is_followers = message.replica_id >= 0
        if is_followers and requester.may_cluster(AclOperation.CLUSTER_ACTION, quietly=True):
            return Verdict(message)
        return self._rule.judge(requester, message)


class InitProducerId:
    """An id for a transactional producer, or for any that may write somewhere."""

    needs = (
        Need(
            (AclOperation.WRITE,),
            AclResourceType.TRANSACTIONAL_ID,
            "the producer's, if it has one",
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.name,
        ),
        Need((AclOperation.IDEMPOTENT_WRITE,), AclResourceType.CLUSTER, "the cluster, or", ""),
        Need((AclOperation.WRITE,), TOPIC, "any", ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name),
    )
    _transactional = Whole(AclOperation.WRITE, on=AclResourceType.TRANSACTIONAL_ID, field="transactional_id")

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return the request, or its refusal."""
        if message.transactional_id is not None:
            return self._transactional.judge(requester, message)
        if requester.may_some(AclOperation.WRITE, TOPIC) or requester.may_cluster(
            AclOperation.IDEMPOTENT_WRITE
        ):
            return Verdict(message)
        return Verdict(answer=refused(requester, message, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))


ADDED = Parts(
    "v3_and_below_topics",
    "results_by_topic_v3_and_below",
    ("name",),
    Parts("partitions", "results_by_partition", ("=partition_index",), code="partition_error_code"),
)
FIRST_OF_BROKERS = 4


class AddPartitionsToTxn:
    """Partitions that a producer may write to, all or none; from version 4 on brokers ask that."""

    needs = (
        Need(
            (AclOperation.WRITE,),
            AclResourceType.TRANSACTIONAL_ID,
            "the producer's, until version 3",
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.name,
        ),
        Need((AclOperation.WRITE,), TOPIC, "each; of the others nothing is attempted", DENIED.name),
        Need(
            (AclOperation.CLUSTER_ACTION,),
            AclResourceType.CLUSTER,
            "the cluster, from version 4 on",
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name,
        ),
    )
    _brokers = Whole(AclOperation.CLUSTER_ACTION)
    _producers = Whole(
        AclOperation.WRITE,
        on=AclResourceType.TRANSACTIONAL_ID,
        field="v3_and_below_transactional_id",
        parts=ADDED,
    )

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return the request, or its refusal."""
        if requester.version >= FIRST_OF_BROKERS:
            return self._brokers.judge(requester, message)
        verdict = self._producers.judge(requester, message)
        topics = message.v3_and_below_topics
        allowed = {each.name: requester.may(AclOperation.WRITE, TOPIC, each.name) for each in topics}
        if verdict.answer is not None or all(allowed.values()):
            return verdict
        results = [
            part
            for each in topics
            for part in refused_parts(
                ADDED,
                requester.api.response,
                (each,),
                ErrorCode.OPERATION_NOT_ATTEMPTED if allowed[each.name] else DENIED,
            )
        ]
        return Verdict(answer=made(requester.api.response, {ADDED.answered: tuple(results)}))


def seen(requester: Requester, items: Iterable[Any], key: str = "name") -> tuple[Any, ...]:
    """Return the visible topics."""
    found = ((each, name_of(requester, each, key)) for each in items)
    return tuple(each for each, name in found if name is None or requester.may_describe(name))
