"""The same access control entries on kohort and on Apache Kafka 4.3.1: what somebody may ask, and may not.

Two users ask both brokers: one who may do everything, and who makes the entries, and one who may do what the
entries say. They are told apart by their addresses, 127.0.0.1 and 127.0.0.2, which needs no password. What is
compared is where an answer says that something is denied, and which topics and groups it shows.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
import trio

from kohort.broker.authorization.acls import Filter
from kohort.broker.metadata import EmbeddedMetadataStore
from kohort.broker.metadata.acls import bindings
from kohort.broker.metadata.quotas import quotas
from kohort.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kohort.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kohort.protocol.records import build_batch
from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import ZERO_UUID, Message
from kohort.storage import OsFileSystem
from tests.differential.apache_kafka import ApacheKafka, MissingTool
from tests.differential.wire import Connection
from tests.interop.broker_process import BrokerProcess
from tests.messages import message_of

SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.replication.factor=1",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
    "transaction.state.log.num.partitions=1",
)
SEEDS = 24
MIGHTY, OTHER = "127.0.0.1", "127.0.0.2"
WHO = "User:ANONYMOUS"
DENIED = frozenset(
    (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )
)
TOPIC_ID = "the id of the topic"
T, G, C, X = (
    AclResourceType.TOPIC,
    AclResourceType.GROUP,
    AclResourceType.CLUSTER,
    AclResourceType.TRANSACTIONAL_ID,
)
NAMES = {
    T: ("t-one", "t-two", "*", "t-", "t-o"),
    G: ("g-one", "g-two", "*", "g-"),
    C: ("kafka-cluster",),
    X: ("x-one", "*", "x"),
}
OPERATIONS = {
    T: "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS ALL",
    G: "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS ALL",
    C: "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE ALL",
    X: "WRITE DESCRIBE ALL",
}


def topics(of: str = "partitions", part: str = "partition_index", **more: Any) -> list[dict[str, Any]]:
    return [{"name": name, of: [{part: 0, **more}]} for name in ("t-one", "t-two")]


def indexes(of: str = "partition_indexes") -> list[dict[str, Any]]:
    return [{"name": name, of: [0]} for name in ("t-one", "t-two")]


def by_topic(part: str = "partition", **more: Any) -> list[dict[str, Any]]:
    return [{"topic": name, "partitions": [{part: 0, **more}]} for name in ("t-one", "t-two")]


def settings(*kinds: int) -> list[dict[str, Any]]:
    names = {2: "t-one", 4: "1", 32: "g-one"}
    return [
        {"resource_type": kind, "resource_name": names[kind], "configuration_keys": None} for kind in kinds
    ]


def unaltered(kind: int) -> list[dict[str, Any]]:
    return [{"resource_type": kind, "resource_name": "t-one" if kind == 2 else "1", "configs": []}]


BATCH = build_batch([(1, None, b"x", [])])
FETCHED = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1_000}
WRITTEN = topics("partition_data", "index", records=BATCH)
MEMBER = {"member_id": "nobody"}
OPERATIONS_TOO = {"include_topic_authorized_operations": True}
JOINING = {"protocol_type": "consumer", "session_timeout_ms": 10_000, **MEMBER}

QUESTIONS: list[tuple[str, int, dict[str, Any]]] = [
    ("Produce", 9, {"acks": 1, "topic_data": WRITTEN, "timeout_ms": 5_000}),
    ("Produce", 9, {"acks": 1, "topic_data": WRITTEN, "timeout_ms": 5_000, "transactional_id": None}),
    ("Fetch", 11, {**FETCHED, "topics": by_topic(partition_max_bytes=1_000)}),
    (
        "Fetch",
        15,
        {
            **FETCHED,
            "topics": [
                {"topic_id": TOPIC_ID, "partitions": [{"partition": 0, "partition_max_bytes": 1_000}]}
            ],
        },
    ),
    ("ListOffsets", 5, {"replica_id": -1, "topics": topics(timestamp=-1)}),
    ("Metadata", 9, {"topics": None}),
    ("Metadata", 9, {"topics": None, "include_topic_authorized_operations": True}),
    ("Metadata", 9, {"topics": [{"name": "t-one"}, {"name": "t-none"}], "allow_auto_topic_creation": False}),
    ("Metadata", 9, {"topics": [{"name": "t-two"}], "include_cluster_authorized_operations": True}),
    ("Metadata", 9, {"topics": [{"name": "t-none"}], "allow_auto_topic_creation": False, **OPERATIONS_TOO}),
    ("Metadata", 12, {"topics": [{"name": None, "topic_id": TOPIC_ID}]}),
    ("OffsetCommit", 8, {"group_id": "g-one", "topics": topics(committed_offset=1)}),
    ("OffsetFetch", 7, {"group_id": "g-one", "topics": indexes()}),
    ("OffsetFetch", 7, {"group_id": "g-one", "topics": None}),
    (
        "OffsetFetch",
        8,
        {"groups": [{"group_id": "g-one", "topics": indexes()}, {"group_id": "g-two", "topics": None}]},
    ),
    ("FindCoordinator", 3, {"key": "g-one"}),
    ("FindCoordinator", 4, {"coordinator_keys": ["g-one", "g-two"]}),
    ("FindCoordinator", 4, {"coordinator_keys": ["x-one"], "key_type": 1}),
    ("JoinGroup", 5, {"group_id": "g-two", **JOINING, "protocols": [{"name": "range"}]}),
    ("Heartbeat", 4, {"group_id": "g-one", **MEMBER}),
    ("LeaveGroup", 5, {"group_id": "g-one", "members": [MEMBER]}),
    ("SyncGroup", 4, {"group_id": "g-one", **MEMBER}),
    ("DescribeGroups", 5, {"groups": ["g-one", "g-two"], "include_authorized_operations": True}),
    ("ListGroups", 4, {}),
    (
        "CreateTopics",
        7,
        {"topics": [{"name": "t-new", "num_partitions": 1, "replication_factor": 1}], "validate_only": True},
    ),
    ("DeleteTopics", 6, {"topics": [{"name": "t-none"}, {"name": "u"}], "timeout_ms": 5_000}),
    ("DeleteTopics", 5, {"topic_names": ["t-none", "u"], "timeout_ms": 5_000}),
    ("DeleteRecords", 2, {"topics": topics(offset=0), "timeout_ms": 5_000}),
    ("InitProducerId", 4, {"transactional_id": None, "transaction_timeout_ms": 1_000}),
    ("InitProducerId", 4, {"transactional_id": "x-one", "transaction_timeout_ms": 1_000}),
    ("OffsetForLeaderEpoch", 4, {"topics": by_topic(leader_epoch=0)}),
    (
        "AddPartitionsToTxn",
        3,
        {"v3_and_below_transactional_id": "x-one", "v3_and_below_topics": indexes("partitions")},
    ),
    ("AddOffsetsToTxn", 3, {"transactional_id": "x-one", "group_id": "g-one"}),
    ("EndTxn", 3, {"transactional_id": "x-one"}),
    ("WriteTxnMarkers", 1, {"markers": [{"producer_id": 1, "topics": indexes()}]}),
    (
        "TxnOffsetCommit",
        3,
        {"transactional_id": "x-one", "group_id": "g-one", "topics": topics(committed_offset=1), **MEMBER},
    ),
    (
        "DescribeAcls",
        3,
        {"resource_type_filter": 1, "operation": 1, "permission_type": 1, "pattern_type_filter": 1},
    ),
    ("DescribeConfigs", 4, {"resources": settings(2, 4, 32)}),
    (
        "IncrementalAlterConfigs",
        1,
        {"resources": [{"resource_type": 2, "resource_name": "t-one", "configs": []}]},
    ),
    (
        "IncrementalAlterConfigs",
        1,
        {"resources": [{"resource_type": 4, "resource_name": "1", "configs": []}]},
    ),
    ("DescribeLogDirs", 4, {"topics": None}),
    (
        "CreatePartitions",
        3,
        {"topics": [{"name": "t-one", "count": 1, "assignments": None}], "timeout_ms": 5_000},
    ),
    ("DeleteGroups", 2, {"groups_names": ["g-none", "h"]}),
    ("ElectLeaders", 2, {"topic_partitions": [{"topic": "t-one", "partitions": [0]}], "timeout_ms": 5_000}),
    ("ListPartitionReassignments", 0, {"topics": None}),
    ("OffsetDelete", 0, {"group_id": "g-one", "topics": topics()}),
    ("DescribeClientQuotas", 1, {"components": []}),
    (
        "AlterClientQuotas",
        1,
        {
            "entries": [{"entity": [{"entity_type": "user", "entity_name": "u"}], "ops": []}],
            "validate_only": True,
        },
    ),
    ("DescribeUserScramCredentials", 0, {"users": [{"name": "u"}]}),
    ("DescribeCluster", 0, {"include_cluster_authorized_operations": True}),
    ("DescribeProducers", 0, {"topics": indexes()}),
    ("DescribeTransactions", 0, {"transactional_ids": ["x-one"]}),
    ("ListTransactions", 0, {}),
    (
        "ConsumerGroupHeartbeat",
        0,
        {"group_id": "g-new", "member_id": "m", "member_epoch": 5, "subscribed_topic_names": ["t-one"]},
    ),
    ("ConsumerGroupDescribe", 0, {"group_ids": ["g-one", "g-two"], "include_authorized_operations": True}),
    ("ListConfigResources", 0, {}),
    ("DescribeTopicPartitions", 0, {"topics": [{"name": "t-one"}, {"name": "t-none"}]}),
    ("DescribeTopicPartitions", 0, {"topics": []}),
]


class Side:
    """One of the two brokers, and both who ask it."""

    def __init__(self, name: str, address: tuple[str, int]) -> None:
        self.name = name
        self.address = address
        self.mighty = From(MIGHTY, address)
        self.other = From(OTHER, address)
        self.topic_id = ZERO_UUID

    async def prepare(self) -> None:
        """Make topics; then let one user do everything, which closes it all to the other."""
        made = tuple(
            message_of(CreatableTopic, name=name, num_partitions=1, replication_factor=1)
            for name in ("t-one", "t-two")
        )
        await self.mighty.ask("CreateTopics", 5, message_of(CreateTopicsRequest, topics=made))
        wanted = (message_of(MetadataRequestTopic, name="t-one"),)
        told = await self.mighty.ask("Metadata", 12, message_of(MetadataRequest, topics=wanted))
        assert isinstance(told, MetadataResponse)
        self.topic_id = told.topics[0].topic_id
        await self.mighty.ask("FindCoordinator", 3, built("FindCoordinator", {"key": "g-one"}, ZERO_UUID))
        keys = {"key": "x-one", "key_type": 1}
        await self.mighty.ask("FindCoordinator", 3, built("FindCoordinator", keys, ZERO_UUID))
        request = message_of(InitProducerIdRequest, transactional_id="x-one", transaction_timeout_ms=1_000)
        while True:
            told = await self.mighty.ask("InitProducerId", 4, request)
            assert isinstance(told, InitProducerIdResponse)
            if told.error_code == ErrorCode.NONE:
                break
            await trio.sleep(0.05)
        await self.create(
            [
                entry(kind, "kafka-cluster" if kind is C else "*", AclOperation.ALL, host=MIGHTY)
                for kind in (C, T, G, X)  # The cluster first, for it is what lets the others be made.
            ]
        )

    async def create(self, entries: list[AclCreation]) -> None:
        """Make entries, and see them made."""
        for each in entries:  # One by one: the first ones take from everybody else what they give.
            answer = await self.mighty.ask("CreateAcls", 3, CreateAclsRequest(creations=(each,)))
            assert isinstance(answer, CreateAclsResponse)
            assert [result.error_code for result in answer.results] == [0], (self.name, answer)
        hosts = {each.host for each in entries}
        for host in hosts:
            await self._until_shown(host, len({repr(each) for each in entries if each.host == host}))

    async def _until_shown(self, host: str, count: int) -> None:
        """Return when the broker shows so many entries of a host. Kafka's controller is ahead of it."""
        wanted = DescribeAclsRequest(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=host,
            operation=1,
            permission_type=1,
        )
        while True:
            answer = await self.mighty.ask("DescribeAcls", 3, wanted)
            assert isinstance(answer, DescribeAclsResponse)
            if sum(len(each.acls) for each in answer.resources) == count:
                return
            await trio.sleep(0.01)

    async def delete(self) -> None:
        """Remove what the other one may."""
        wanted = DeleteAclsFilter(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=OTHER,
            operation=1,
            permission_type=1,
        )
        await self.mighty.ask("DeleteAcls", 3, DeleteAclsRequest(filters=(wanted,)))
        await self._until_shown(OTHER, 0)

    async def answer(self, name: str, version: int, values: dict[str, Any]) -> object:
        """Return what the other one is denied and shown."""
        request = built(name, values, self.topic_id)
        try:
            return outline(await self.other.ask(name, version, request), version)
        except (ConnectionError, trio.TooSlowError) as error:
            self.other.close()
            self.other = From(OTHER, self.address)
            return type(error).__name__


class From(Connection):
    """A connection from an address of this machine."""

    def __init__(self, source: str, address: tuple[str, int]) -> None:
        super().__init__(address)
        self._socket.close()
        self._socket = socket.create_connection(address, source_address=(source, 0))
        self._socket.setblocking(False)


def entry(
    kind: AclResourceType,
    name: str,
    operation: AclOperation,
    *,
    form: AclPatternType = AclPatternType.LITERAL,
    host: str = OTHER,
    permission: AclPermission = AclPermission.ALLOW,
) -> AclCreation:
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=form,
        principal=WHO,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def entries_of(random: Random) -> list[AclCreation]:
    """Return some entries: many seeds allow much, so that much is let through."""
    found = []
    for _ in range(random.choice((0, 2, 5, 9))):
        kind = random.choice((T, T, G, C, X))
        name = random.choice(NAMES[kind])
        form = AclPatternType.PREFIXED if name[-1] == "-" or random.random() < 0.2 else AclPatternType.LITERAL
        permission = AclPermission.DENY if random.random() < 0.2 else AclPermission.ALLOW
        operation = AclOperation[random.choice(OPERATIONS[kind].split())]
        found.append(entry(kind, name, operation, form=form, permission=permission))
    return found


def built(name: str, values: dict[str, Any], topic_id: UUID) -> Message:
    """Return the request, of plain lists and dictionaries."""
    return _built(BY_NAME[name].request, values, topic_id)


def _built(of: type[Message], values: dict[str, Any], topic_id: UUID) -> Message:
    fields = {each.name: each for each in of.declaration().fields}
    found: dict[str, Any] = {}
    for name, value in values.items():
        struct = fields[name].struct
        if isinstance(value, list):
            found[name] = tuple(_built(struct, each, topic_id) if struct else each for each in value)
        else:
            found[name] = topic_id if value is TOPIC_ID else value
    return of(**found)


SHOWN = ("name", "topic", "topic_name", "group_id", "transactional_id", "resource_name", "partition_index")
OPERATIONS_SAID = (
    "topic_authorized_operations",
    "cluster_authorized_operations",
    "authorized_operations",
)


def outline(message: Any, version: int) -> object:
    """Return what an answer denies and shows: names, what may be done, and codes, those of denials alone."""
    found: dict[str, object] = {}
    for field in type(message).declaration().fields:
        value = getattr(message, field.name)
        if version not in field.versions:
            continue
        if field.name in ("error_code", "partition_error_code", "topic_config_error_code"):
            found[field.name] = ErrorCode(value).name if value in DENIED else "passed"
        elif field.name in SHOWN or field.name in OPERATIONS_SAID:
            found[field.name] = value
        elif (
            field.wire.name == "array"
            and field.struct is not None
            and field.name not in ("brokers", "configs")
        ):
            parts = [outline(each, version) for each in value or ()]
            found[field.name] = sorted((each for each in parts if each), key=repr)
    return {name: value for name, value in found.items() if value not in ("passed", [], {})}


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """Both brokers."""
    theirs = ApacheKafka(tmp_path_factory.mktemp("kafka"), *SETTINGS)
    try:
        theirs.start()
    except MissingTool as missing:
        pytest.skip(str(missing))
    folder = tmp_path_factory.mktemp("kohort")
    ours = BrokerProcess(folder, *SETTINGS, "kohort.group.events.enable=false")
    ours.start()
    yield Side("kohort", ours.address), Side("Apache Kafka", theirs.address)
    ours.stop()
    theirs.stop()


def test_both_brokers_deny_and_show_the_same(sides: tuple[Side, Side]) -> None:
    differences: list[str] = []
    denied = passed = 0

    async def play() -> None:
        nonlocal denied, passed
        for side in sides:
            await side.prepare()
        for seed in range(SEEDS):
            random = Random(seed)
            entries = entries_of(random)
            for side in sides:
                await side.create(entries)
            for name, version, values in QUESTIONS:
                ours, theirs = [await side.answer(name, version, values) for side in sides]
                denied += "AUTHORIZATION_FAILED" in repr(ours)
                passed += "AUTHORIZATION_FAILED" not in repr(ours)
                if ours != theirs:
                    differences.append(f"seed {seed}: {name} {version} {values}\n  {ours}\n  {theirs}")
            for side in sides:
                await side.delete()

    trio.run(play)
    assert not differences, f"{len(differences)} differences:\n" + "\n".join(differences[:40])
    assert denied > 100
    assert passed > 100


def test_access_control_entries_of_apache_kafka_are_imported(tmp_path: Path) -> None:
    theirs = ApacheKafka(tmp_path, *SETTINGS)
    try:
        theirs.start()
    except MissingTool as missing:
        pytest.skip(str(missing))

    async def play() -> None:
        side = Side("Apache Kafka", theirs.address)
        await side.prepare()
        await side.create([entry(T, "t-", AclOperation.READ, form=AclPatternType.PREFIXED)])
        entity = [
            {"entity_type": "user", "entity_name": "alice"},
            {"entity_type": "client-id", "entity_name": None},
        ]
        values = [{"key": "producer_byte_rate", "value": 1024.0}]
        limits = {"entries": [{"entity": entity, "ops": values}]}
        await side.mighty.ask("AlterClientQuotas", 1, built("AlterClientQuotas", limits, ZERO_UUID))

    try:
        trio.run(play)
    finally:
        theirs.stop()
    store = EmbeddedMetadataStore.open(OsFileSystem(), tmp_path / "logs", cluster_id="c", node_id=1)
    found = {(each.pattern.name, each.entry.host) for each in bindings(store.snapshot(), Filter())}
    assert found == {("kafka-cluster", MIGHTY), ("*", MIGHTY), ("t-", OTHER)}
    kept = [({"client-id": None, "user": "alice"}, {"producer_byte_rate": 1024.0})]
    assert list(quotas(store.snapshot())) == kept
