"""The table of rules as a whole: every API has one, and whatever is refused can be said in every version."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kohort.broker.authorization.authorizer import Authorizer
from kohort.broker.config import BrokerConfig
from kohort.broker.config.current import CurrentConfig
from kohort.broker.handlers.apis import BETWEEN, MODULES
from kohort.broker.handlers.authorization.requester import AuthorizationServices, Requester
from kohort.broker.handlers.authorization.rules import Rule
from kohort.broker.handlers.authorization.table import FREE, RULES
from kohort.broker.handlers.data.fetch_sessions import FetchSessions
from kohort.broker.metadata import MetadataStore, Snapshot, TopicState
from kohort.broker.transport.request import Origin, ReceivedRequest
from kohort.protocol.acls import AclOperation, AclResourceType
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import APIS, BY_NAME, Api, api_of
from kohort.protocol.schema import Message
from tests.messages import Random, random_message, versions_of

SEEDS = 4
TOPIC_ID = UUID(int=7)
ANSWERS_SOME = frozenset((3, 16, 60, 66))
"""Of these there is an answer for everybody, with less in it: metadata, and lists."""


def requester(api: Api, version: int, principal: str = "User:nobody") -> Requester:
    origin = SimpleNamespace(client_host="/10.0.0.1", principal=principal, listener=0)
    request = ReceivedRequest(cast(Origin, origin), api, version, 1, "test")
    topic = TopicState("t", TOPIC_ID, ())
    snapshot = Snapshot(1, "c", 1, topics={"t": topic}, topics_by_id={TOPIC_ID: topic})
    store = SimpleNamespace(snapshot=lambda: snapshot)
    services = AuthorizationServices(
        Authorizer(["User:root"]),
        cast(MetadataStore, store),
        FetchSessions(10),
        CurrentConfig(BrokerConfig()),
        lambda *_: None,
    )
    return Requester(services, request)


def questions(api: Api) -> Iterator[tuple[int, Any, Any, int]]:
    """Yield every version with requests as clients may send them, and answers."""
    for version in versions_of(api.request):
        for seed in range(SEEDS):
            random = Random(seed)
            request = random_message(api.request, version, random)
            response = random_message(api.response, version, random)
            yield version, decoded(request, version), decoded(response, version), seed


def decoded(message: Message, version: int) -> Message:
    return type(message).decode(message.encode(version), version)


def ruled() -> list[Any]:
    return [
        pytest.param(api, rule, id=api.name)
        for key, rule in RULES.items()
        if (api := api_of(key)) is not None and rule is not FREE
    ]


def test_every_api_has_a_rule() -> None:
    assert RULES.keys() >= MODULES.keys() | BETWEEN.keys()


@pytest.mark.parametrize("api, rule", ruled())
def test_every_refusal_can_be_sent(api: Api, rule: Rule) -> None:
    for version, request, response, seed in questions(api):
        verdict = rule.judge(requester(api, version), request)
        answer = verdict.answer
        if answer is None and not verdict.hangs_up:
            answer = response if verdict.finish is None else verdict.finish(response)
        assert answer is None or decoded(answer, version) is not None, (version, seed)
        assert isinstance(answer, api.response | None), (version, seed)


@pytest.mark.parametrize("api, rule", ruled())
def test_a_super_user_gets_every_answer_as_it_is(api: Api, rule: Rule) -> None:
    for version, request, response, seed in questions(api):
        verdict = rule.judge(requester(api, version, "User:root"), request)
        assert verdict.answer is None, (version, seed)
        assert not verdict.hangs_up, (version, seed)
        if verdict.finish is not None:
            assert set(names(verdict.finish(response))) == set(names(response)), (version, seed)


def names(message: Any) -> Iterator[str]:
    """Yield what identifies the parts of an answer."""
    for field in type(message).declaration().fields:
        for each in getattr(message, field.name) if field.wire.name == "array" else ():
            for key in ("name", "topic_name", "group_id", "transactional_id"):
                if hasattr(each, key):
                    yield f"{field.name} {key} {getattr(each, key)}"


T, G, C, X = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
ONE = {"name": "t", "partitions": [{"partition_index": 0}]}
BY_TOPIC = {"topic": "t", "partitions": [{"partition": 0}]}
INDEXES = {"name": "t", "partition_indexes": [0]}
ENTITY = {"entity": [{"entity_type": "user", "entity_name": "u"}]}
WRITTEN = {"topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": b"x"}]}], "acks": 1}

KEPT: dict[str, Any] = {"topic_id": TOPIC_ID, "partitions": [{"partition": 0}]}
SHARED: dict[str, Any] = {"topic_id": TOPIC_ID, "partitions": [{"partition_index": 0}]}
REFUSED: list[tuple[str, int, dict[str, Any], ErrorCode]] = [
    ("Produce", 3, WRITTEN, T),
    ("Produce", 12, {**WRITTEN, "transactional_id": "x"}, X),
    ("Fetch", 4, {"topics": [BY_TOPIC]}, T),
    ("Fetch", 11, {"topics": [BY_TOPIC], "replica_id": 2}, T),
    ("Fetch", 12, {"topics": [BY_TOPIC]}, T),
    ("Fetch", 18, {"topics": [{"topic_id": TOPIC_ID, "partitions": [{"partition": 0}]}]}, T),
    ("ListOffsets", 1, {"topics": [ONE]}, T),
    ("ListOffsets", 11, {"topics": [ONE]}, T),
    ("OffsetCommit", 2, {"group_id": "g", "topics": [ONE]}, G),
    ("OffsetCommit", 10, {"group_id": "g", "topics": [{**ONE, "topic_id": TOPIC_ID, "name": ""}]}, G),
    ("OffsetFetch", 1, {"group_id": "g", "topics": [INDEXES]}, G),
    ("OffsetFetch", 7, {"group_id": "g", "topics": [INDEXES]}, G),
    ("OffsetFetch", 8, {"groups": [{"group_id": "g", "topics": [INDEXES]}]}, G),
    ("OffsetFetch", 10, {"groups": [{"group_id": "g", "topics": None}]}, G),
    ("FindCoordinator", 0, {"key": "g"}, G),
    ("FindCoordinator", 3, {"key": "x", "key_type": 1}, X),
    ("FindCoordinator", 6, {"coordinator_keys": ["g", "h"]}, G),
    ("FindCoordinator", 6, {"coordinator_keys": ["g"], "key_type": 2}, C),
    ("JoinGroup", 0, {"group_id": "g"}, G),
    ("JoinGroup", 9, {"group_id": "g"}, G),
    ("Heartbeat", 4, {"group_id": "g"}, G),
    ("LeaveGroup", 0, {"group_id": "g"}, G),
    ("LeaveGroup", 5, {"group_id": "g"}, G),
    ("SyncGroup", 5, {"group_id": "g"}, G),
    ("DescribeGroups", 6, {"groups": ["g", "h"]}, G),
    ("CreateTopics", 2, {"topics": [{"name": "t"}]}, T),
    ("CreateTopics", 7, {"topics": [{"name": "t"}]}, T),
    ("DeleteTopics", 1, {"topic_names": ["t"]}, T),
    ("DeleteTopics", 6, {"topics": [{"name": "t"}]}, T),
    ("DeleteTopics", 6, {"topics": [{"name": None, "topic_id": TOPIC_ID}]}, T),
    ("DeleteRecords", 2, {"topics": [ONE]}, T),
    ("InitProducerId", 0, {"transactional_id": None}, C),
    ("InitProducerId", 5, {"transactional_id": "x"}, X),
    ("OffsetForLeaderEpoch", 4, {"topics": [BY_TOPIC]}, T),
    (
        "AddPartitionsToTxn",
        3,
        {"v3_and_below_transactional_id": "x", "v3_and_below_topics": [{"name": "t", "partitions": [0]}]},
        X,
    ),
    ("AddPartitionsToTxn", 5, {"transactions": [{"transactional_id": "x"}]}, C),
    ("AddOffsetsToTxn", 4, {"transactional_id": "x", "group_id": "g"}, X),
    ("EndTxn", 5, {"transactional_id": "x"}, X),
    ("WriteTxnMarkers", 1, {"markers": [{"producer_id": 1, "topics": [INDEXES]}]}, C),
    ("TxnOffsetCommit", 5, {"transactional_id": "x", "group_id": "g", "topics": [ONE]}, X),
    ("DescribeAcls", 3, {}, C),
    ("CreateAcls", 3, {"creations": [{}, {}]}, C),
    ("DeleteAcls", 3, {"filters": [{}]}, C),
    ("DescribeConfigs", 4, {"resources": [{"resource_type": 2, "resource_name": "t"}]}, T),
    ("DescribeConfigs", 1, {"resources": [{"resource_type": 4, "resource_name": "1"}]}, C),
    ("DescribeConfigs", 4, {"resources": [{"resource_type": 32, "resource_name": "g"}]}, G),
    ("AlterConfigs", 2, {"resources": [{"resource_type": 2, "resource_name": "t"}]}, T),
    ("IncrementalAlterConfigs", 1, {"resources": [{"resource_type": 8, "resource_name": "1"}]}, C),
    ("DescribeLogDirs", 4, {"topics": None}, C),
    ("CreatePartitions", 3, {"topics": [{"name": "t"}]}, T),
    ("DeleteGroups", 2, {"groups_names": ["g"]}, G),
    ("ElectLeaders", 0, {"topic_partitions": [{"topic": "t", "partitions": [0]}]}, C),
    ("ElectLeaders", 2, {"topic_partitions": None}, C),
    ("AlterPartitionReassignments", 1, {}, C),
    ("ListPartitionReassignments", 0, {}, C),
    ("OffsetDelete", 0, {"group_id": "g", "topics": [ONE]}, G),
    ("DescribeClientQuotas", 1, {}, C),
    ("AlterClientQuotas", 1, {"entries": [ENTITY]}, C),
    ("DescribeUserScramCredentials", 0, {"users": None}, C),
    ("AlterUserScramCredentials", 0, {"deletions": [{"name": "u"}], "upsertions": [{"name": "v"}]}, C),
    ("DescribeProducers", 0, {"topics": [INDEXES]}, T),
    ("UnregisterBroker", 0, {"broker_id": 1}, C),
    ("DescribeTransactions", 0, {"transactional_ids": ["x"]}, X),
    ("ConsumerGroupHeartbeat", 1, {"group_id": "g"}, G),
    ("ConsumerGroupDescribe", 1, {"group_ids": ["g"]}, G),
    ("ShareGroupHeartbeat", 1, {"group_id": "g"}, G),
    ("ShareGroupDescribe", 1, {"group_ids": ["g"]}, G),
    ("StreamsGroupHeartbeat", 1, {"group_id": "g"}, G),
    ("StreamsGroupDescribe", 1, {"group_ids": ["g"]}, G),
    ("ShareFetch", 2, {"group_id": "g"}, G),
    ("ShareFetch", 2, {"group_id": None, "topics": [SHARED]}, T),
    ("ShareAcknowledge", 2, {"group_id": "g"}, G),
    ("ShareAcknowledge", 1, {"group_id": None, "topics": [SHARED]}, T),
    ("InitializeShareGroupState", 0, {"group_id": "g", "topics": [KEPT]}, C),
    ("ReadShareGroupState", 0, {"group_id": "g", "topics": [KEPT]}, C),
    ("WriteShareGroupState", 1, {"group_id": "g", "topics": [KEPT]}, C),
    ("DeleteShareGroupState", 0, {"group_id": "g", "topics": [KEPT]}, C),
    ("ReadShareGroupStateSummary", 1, {"group_id": "g", "topics": [KEPT]}, C),
    ("DescribeShareGroupOffsets", 1, {"groups": [{"group_id": "g", "topics": None}]}, G),
    ("AlterShareGroupOffsets", 0, {"group_id": "g"}, G),
    ("DeleteShareGroupOffsets", 0, {"group_id": "g"}, G),
    ("ListConfigResources", 1, {}, C),
    ("DescribeTopicPartitions", 0, {"topics": [{"name": "t"}]}, T),
    ("Metadata", 0, {"topics": [{"name": "t"}]}, T),
]


def built(cls: type[Message], values: dict[str, Any]) -> Message:
    """Return a message of plain lists and dictionaries."""
    fields = {each.name: each for each in cls.declaration().fields}
    found: dict[str, Any] = {}
    for name, value in values.items():
        struct = fields[name].struct
        is_list = isinstance(value, list)
        found[name] = tuple(built(struct, each) if struct else each for each in value) if is_list else value
    return cls(**found)


def codes(message: Any, version: int) -> set[int]:
    """Return the error codes in all of an answer, but for those of parts whose parts have codes."""
    found = set()
    for field in type(message).declaration().fields:
        value = getattr(message, field.name)
        if version not in field.versions:
            continue
        if field.name in ("error_code", "partition_error_code"):
            found.add(int(value))
        elif field.wire.name == "array" and field.struct is not None:
            inner = [codes(each, version) for each in value or ()]
            found = found - {0} if any(inner) else found
            found.update(*inner)
    return found


@pytest.mark.parametrize("name, version, values, code", REFUSED)
def test_a_user_without_rights_is_refused_with_kafkas_code(
    name: str, version: int, values: dict[str, Any], code: ErrorCode
) -> None:
    api = BY_NAME[name]
    request = built(api.request, values)
    verdict = RULES[api.api_key].judge(requester(api, version), request)
    answer = verdict.answer
    if name == "Metadata":
        assert verdict.finish is not None
        answer = verdict.finish(api.response(brokers=(), topics=()))  # type: ignore[call-arg]
    assert answer is not None
    assert codes(decoded(answer, version), version) == {code}


def test_every_rule_that_refuses_is_tried() -> None:
    tried = {BY_NAME[name].api_key for name, *_ in REFUSED} | ANSWERS_SOME
    assert tried >= {key for key, rule in RULES.items() if key in APIS and rule is not FREE}


def test_a_refused_request_without_an_answer_closes_the_connection() -> None:
    api = BY_NAME["Produce"]
    verdict = RULES[0].judge(requester(api, 9), built(api.request, {**WRITTEN, "acks": 0}))
    assert verdict.hangs_up
    assert verdict.message is None


def test_every_rule_names_its_required_operations() -> None:
    for key, rule in RULES.items():
        assert (rule is FREE) == (not rule.needs), key
        for need in rule.needs:
            assert all(isinstance(each, AclOperation) for each in need.operations)
            assert isinstance(need.resource_type, AclResourceType)
            assert need.of
