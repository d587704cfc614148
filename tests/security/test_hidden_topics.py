"""A tenant asks everything about topics that it may not describe: it learns no name, and not which there are.

Each API is asked, in each version, about a topic that is there and about one that is not. But for the name,
the answers have to be the same. The tenant is told apart by its address, 127.0.0.2; it may do everything to
its own groups, transactional ids and topics.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from kohort.client import (
    Acl,
    AclOperation,
    AclPatternType,
    AclResourceType,
    Admin,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
)
from kohort.protocol.framing import FrameReader
from kohort.protocol.headers import CORRELATION_ID_BYTES, frame_request, response_body
from kohort.protocol.records import build_batch
from kohort.protocol.registry import APIS, Api
from kohort.protocol.schema import Field, Message
from tests.interop.broker_process import BrokerProcess
from tests.messages import message_of, versions_of

THERE, GONE, OWN = "secret-there", "secret-never", "own"
MIGHTY, TENANT = "127.0.0.1", "127.0.0.2"
WHO = "User:ANONYMOUS"
SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",
    "group.initial.rebalance.delay.ms=0",
)
PATIENCE_S = 20.0
OWN_FIELDS = ("group", "transactional", "coordinator_key", "key")
NUMBERS = {
    "resource_type": 2, "num_partitions": 1, "replication_factor": 1, "count": 2, "timeout_ms": 1_000,
    "acks": 1, "session_epoch": -1, "replica_id": -1, "max_bytes": 1_000, "partition_max_bytes": 1_000,
    "committed_offset": 1, "timestamp": -1, "pattern_type_filter": 1, "resource_type_filter": 1,
    "operation": 1, "permission_type": 1, "leader_epoch": -1, "current_leader_epoch": -1, "generation_id": -1,
    "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "transaction_timeout_ms": 1_000,
    "generation_id_or_member_epoch": -1, "response_partition_limit": 100, "producer_id": 1,
}  # fmt: skip
JOINING = ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat")
WITHOUT_TOPICS = ("JoinGroup", "InitProducerId", "DeleteGroups", "GetTelemetrySubscriptions")
"""What they change of the tenant's own is told at the second question; each new client gets an id by lot."""
MEMBER_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
BATCH = build_batch([(1, None, b"x", [])])


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with a topic that its tenant may not know of, and a group of the tenant's that has read it."""
    made = BrokerProcess(tmp_path_factory.mktemp("hidden"), *SETTINGS)
    made.start()
    kinds = {AclResourceType.TOPIC: "*", AclResourceType.GROUP: "*", AclResourceType.TRANSACTIONAL_ID: "*"}
    with Admin(bootstrap_servers=made.bootstrap) as admin:
        admin.create_topics(NewTopic(THERE, partitions=2), NewTopic("own-topic", partitions=1))
        with Producer(bootstrap_servers=made.bootstrap) as producer:
            producer.send(THERE, b"secret")
        admin.alter_group_offsets(OWN, {TopicPartition(THERE, 0): OffsetAndMetadata(1)})
        allow = partial(Acl, WHO, AclOperation.ALL)
        admin.create_acls(allow(AclResourceType.CLUSTER, "kafka-cluster", host=MIGHTY))
        admin.create_acls(*(allow(kind, name, host=MIGHTY) for kind, name in kinds.items()))
        admin.create_acls(*(allow(kind, OWN, pattern=AclPatternType.PREFIXED, host=TENANT) for kind in kinds))
        own = Producer(bootstrap_servers=made.bootstrap, transactional_id=OWN)
        with own, own.transaction():  # Its coordinator is there from the first question on.
            own.send("own-topic", b"x")
    yield made
    made.stop()


class Asking:
    """A connection of the tenant's."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._address = broker.address
        self._socket: socket.socket | None = None

    def answer(self, api: Api, version: int, message: Message) -> Message | None:
        """Return the answer, None where the connection was closed instead."""
        if self._socket is None:
            self._socket = socket.create_connection(self._address, PATIENCE_S, (TENANT, 0))
        frames = FrameReader(1 << 24)
        self._socket.sendall(b"".join(frame_request(message, version, 7, "tenant")))
        while True:
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                self._socket.close()
                self._socket = None
                return None
            for frame in frames.receive(data):
                assert int.from_bytes(bytes(frame)[:CORRELATION_ID_BYTES], "big") == 7
                body = response_body(frame, api.response_header_version(version))
                return api.response.decode(body, version)


def about(cls: type[Message], version: int, name: str) -> Any:
    """Return a message with this topic's name wherever one may stand."""
    values = {
        each.name: value(each, version, name) for each in cls.declaration().fields if version in each.versions
    }
    return cls(**values)


def value(field: Field, version: int, name: str) -> object:
    if field.wire.name == "array":
        if field.struct is not None:
            return (about(field.struct, version, name),)
        assert field.element is not None
        return (plain(field.element.name, field.name, name),)
    if field.struct is not None:
        return about(field.struct, version, name)
    return plain(field.wire.name, field.name, name)


def plain(kind: str, field: str, name: str) -> object:
    if field.startswith("protocol_"):
        return "consumer"
    if kind == "string":
        return (
            OWN if field.startswith(OWN_FIELDS) else "" if "member" in field or "instance" in field else name
        )
    if kind in ("bytes", "records"):
        return BATCH if "records" in field else b""
    if kind == "bool":
        return field == "validate_only" or field.startswith("include_")
    if kind == "uuid":
        return UUID(int=0)
    return NUMBERS.get(field, 0)


ASKED = [pytest.param(each, id=each.name) for each in APIS.values() if each.name not in WITHOUT_TOPICS]


@pytest.mark.parametrize("api", ASKED)
def test_hidden_and_missing_topics_have_the_same_answers(broker: BrokerProcess, api: Api) -> None:
    tenant = Asking(broker)
    for version in versions_of(api.request):
        asked = [about(api.request, version, name) for name in (THERE, GONE)]
        if api.name in JOINING:  # Each a group of its own: in the same one the second finds the first.
            asked = [replace(each, group_id=f"{OWN}-{version}-{n}") for n, each in enumerate(asked)]
        answers = [tenant.answer(api, version, each) for each in asked]
        there, gone = (MEMBER_ID.sub("ID", repr(each)) for each in answers)
        assert there.replace(THERE, "NAME") == gone.replace(GONE, "NAME"), version


ALL: dict[str, dict[str, Any]] = {
    "Metadata": {"topics": None},
    "OffsetFetch": {"group_id": OWN, "topics": None},
    "ListGroups": {},
    "ListTransactions": {},
    "DescribeTopicPartitions": {},
    "ListConfigResources": {},
    "DescribeLogDirs": {"topics": None},
    "ListPartitionReassignments": {"topics": None, "timeout_ms": 1_000},
    "DescribeCluster": {},
}


@pytest.mark.parametrize("name", ALL)
def test_lists_of_everything_have_nothing_of_it(broker: BrokerProcess, name: str) -> None:
    [api] = [each for each in APIS.values() if each.name == name]
    tenant = Asking(broker)
    for version in versions_of(api.request):
        asked: Any = message_of(api.request, **ALL[name])
        if name == "OffsetFetch" and version >= 8:
            asked = about(api.request, version, "x")
            [group] = asked.groups
            asked = type(asked)(groups=(type(group)(group_id=OWN, topics=None),))
        elif name == "OffsetFetch" and version < 2:
            continue  # It had no null.
        elif name == "Metadata" and version == 0:
            asked = message_of(api.request, topics=())
        answer = tenant.answer(api, version, asked)
        assert answer is not None, version
        assert "secret" not in repr(answer), version
