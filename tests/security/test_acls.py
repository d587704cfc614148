"""Two users with access control lists, by other people's clients: what one may not do, and must not know of.

Users are the names in TLS certificates.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (  # type: ignore[attr-defined]  # Its home says otherwise.
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # Its home says otherwise.
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.interop.conftest import running_tools
from tests.security.secured import Secured, secured

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PATIENCE_S = 20.0
SOON_S = 5.0
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.BROKER
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
O = AclOperation  # noqa: E741


@contextmanager
def guarded(folder: Path, *settings: str) -> Iterator[Secured]:
    """Serve within the block with an authorizer that admin may do everything to."""
    with secured(
        folder,
        "ssl.client.auth=required",
        "ssl.principal.mapping.rules=RULE:.*CN=([^,]+).*/$1/",
        f"authorizer.class.name={AUTHORIZER}",
        "super.users=User:admin",
        *settings,
    ) as made:
        yield made


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker with an authorizer."""
    with guarded(tmp_path_factory.mktemp("guarded")) as made:
        yield made


def options(here: Secured, user: str) -> dict[str, Any]:
    certificate = here.folder / f"{user}.pem"
    if not certificate.exists():
        here.client(user)
    return {
        "bootstrap.servers": here.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(here.trusted),
        "ssl.certificate.location": str(certificate),
        "ssl.key.location": str(certificate),
        "log_level": 0,
    }


@cache
def admin_of(here: Secured, user: str) -> AdminClient:
    """Return the user's client; it is kept, since what it was asked ends with it."""
    return AdminClient(options(here, user))


def entry(
    kind: Any,
    name: str,
    operation: Any,
    user: str = "alice",
    *,
    form: Any = LITERAL,
    permission: Any = AclPermissionType.ALLOW,
) -> AclBinding:
    return AclBinding(kind, name, form, f"User:{user}", "*", operation, permission)


def allow(here: Secured, *entries: AclBinding) -> None:
    for future in admin_of(here, "admin").create_acls(list(entries)).values():
        future.result(PATIENCE_S)


def forbid(here: Secured, entry_: AclBinding) -> None:
    wanted = AclBindingFilter(
        entry_.restype,
        entry_.name,
        entry_.resource_pattern_type,
        entry_.principal,
        entry_.host,
        entry_.operation,
        entry_.permission_type,
    )
    for future in admin_of(here, "admin").delete_acls([wanted]).values():
        assert len(future.result(PATIENCE_S)) == 1


@pytest.fixture
def topic(here: Secured) -> str:
    """A topic with three records, of which nobody may know."""
    name = f"topic-{uuid.uuid4().hex[:8]}"
    futures = admin_of(here, "admin").create_topics([NewTopic(name, 2, 1)])
    futures[name].result(PATIENCE_S)
    produced(here, "admin", name, 3)
    return name


def produced(here: Secured, user: str, topic: str, count: int = 1) -> list[KafkaError | None]:
    """Return what became of each record, None where it was taken."""
    found: list[KafkaError | None] = []
    producer = Producer({**options(here, user), "message.timeout.ms": 5_000})
    for _ in range(count):
        producer.produce(topic, b"x", partition=0, on_delivery=lambda error, _: found.append(error))
    producer.flush(PATIENCE_S)
    return found


def consumed(here: Secured, user: str, topic: str, group: str, *, subscribe: bool = False) -> list[Any]:
    """Return the first that is read, or the first error."""
    consumer = Consumer(
        {
            **options(here, user),
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    if subscribe:
        consumer.subscribe([topic])
    else:
        consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(PATIENCE_S)
    consumer.close()
    assert message is not None
    return [message.error().code()] if message.error() else [message.value()]


def code_of(raised: pytest.ExceptionInfo[KafkaException]) -> int:
    return int(raised.value.args[0].code())


# -- topics -----------------------------------------------------------------------------------------------


def test_a_topic_without_describe_permission_is_hidden(here: Secured, topic: str) -> None:
    alice = admin_of(here, "alice")
    assert topic not in alice.list_topics(timeout=PATIENCE_S).topics
    named = alice.list_topics(topic, timeout=PATIENCE_S).topics[topic]
    assert named.error is not None
    assert named.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert topic in admin_of(here, "admin").list_topics(timeout=PATIENCE_S).topics
    allow(here, entry(TOPIC, topic, O.DESCRIBE))
    assert len(alice.list_topics(timeout=PATIENCE_S).topics[topic].partitions) == 2
    assert topic not in admin_of(here, "bob").list_topics(timeout=PATIENCE_S).topics


def test_a_user_without_write_permission_cannot_write(here: Secured, topic: str) -> None:
    allow(here, entry(TOPIC, topic, O.READ))
    (error,) = produced(here, "alice", topic)
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(here, entry(TOPIC, topic, O.WRITE))
    assert produced(here, "alice", topic, 2) == [None, None]
    low, high = Consumer({**options(here, "admin"), "group.id": "g"}).get_watermark_offsets(
        TopicPartition(topic, 0), PATIENCE_S
    )
    assert (low, high) == (0, 5)


def test_a_user_without_read_permission_cannot_read_or_stops_reading(here: Secured, topic: str) -> None:
    group = f"reads-{uuid.uuid4().hex[:8]}"
    allow(here, entry(TOPIC, topic, O.DESCRIBE), entry(GROUP, group, O.READ))
    assert consumed(here, "alice", topic, group) == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    right = entry(TOPIC, topic, O.READ)
    allow(here, right)
    assert consumed(here, "alice", topic, group) == [b"x"]
    consumer = Consumer({**options(here, "alice"), "group.id": group, "fetch.wait.max.ms": 100})
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert [each.value() for each in consumer.consume(3, PATIENCE_S)] == [b"x"] * 3
    forbid(here, right)  # While its fetch session is open.
    deadline_s = time.monotonic() + PATIENCE_S
    while True:  # What waited already when it was forbidden may still be answered.
        assert time.monotonic() < deadline_s
        found = consumer.poll(0.3)
        if found is not None and found.error() is not None:
            break
    assert found.error().code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    produced(here, "admin", topic)
    later = consumer.poll(1.0)
    assert later is None or later.error() is not None
    consumer.close()


def test_a_group_needs_a_right_of_its_own(here: Secured, topic: str) -> None:
    group = f"group-{uuid.uuid4().hex[:8]}"
    allow(here, entry(TOPIC, topic, O.READ))
    assert consumed(here, "alice", topic, group, subscribe=True) == [KafkaError.GROUP_AUTHORIZATION_FAILED]
    allow(here, entry(GROUP, "group-", O.READ, form=PREFIXED))
    assert consumed(here, "alice", topic, group, subscribe=True) == [b"x"]
    described = admin_of(here, "alice").describe_consumer_groups([group])[group].result(PATIENCE_S)
    assert described.group_id == group
    with pytest.raises(KafkaException) as refused:
        admin_of(here, "bob").describe_consumer_groups([group])[group].result(PATIENCE_S)
    assert code_of(refused) == KafkaError.GROUP_AUTHORIZATION_FAILED
    listed = admin_of(here, "bob").list_consumer_groups().result(PATIENCE_S)
    assert group not in {each.group_id for each in listed.valid}


def test_committed_offsets_are_returned_only_for_visible_topics(here: Secured, topic: str) -> None:
    group = f"of-{uuid.uuid4().hex[:8]}"
    admin = Consumer({**options(here, "admin"), "group.id": group})
    admin.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    admin.close()
    asked = [ConsumerGroupTopicPartitions(group)]
    allow(here, entry(GROUP, group, O.DESCRIBE))
    found = admin_of(here, "alice").list_consumer_group_offsets(asked)[group].result(PATIENCE_S)
    assert found.topic_partitions == []
    allow(here, entry(TOPIC, topic, O.DESCRIBE))
    found = admin_of(here, "alice").list_consumer_group_offsets(asked)[group].result(PATIENCE_S)
    assert [(each.topic, each.offset) for each in found.topic_partitions] == [(topic, 2)]


def test_a_denial_wins(here: Secured, topic: str) -> None:
    allow(here, entry(TOPIC, "*", O.ALL, "carol"))
    assert produced(here, "carol", topic) == [None]
    allow(here, entry(TOPIC, topic[:9], O.WRITE, "carol", form=PREFIXED, permission=AclPermissionType.DENY))
    (error,) = produced(here, "carol", topic)
    assert error is not None
    allow(here, entry(GROUP, "*", O.READ, "carol"))
    assert consumed(here, "carol", topic, "none") == [b"x"]


# -- administration ---------------------------------------------------------------------------------------


def test_only_permitted_users_create_and_delete_topics(here: Secured) -> None:
    alice, name = admin_of(here, "dora"), f"dora-{uuid.uuid4().hex[:8]}"
    with pytest.raises(KafkaException) as refused:
        alice.create_topics([NewTopic(name, 1, 1)])[name].result(PATIENCE_S)
    assert code_of(refused) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(here, entry(TOPIC, "dora-", O.CREATE, "dora", form=PREFIXED))
    alice.create_topics([NewTopic(name, 1, 1)])[name].result(PATIENCE_S)
    with pytest.raises(KafkaException) as refused:
        alice.delete_topics([name])[name].result(PATIENCE_S)
    assert code_of(refused) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    resource = ConfigResource(TOPIC, name)
    with pytest.raises(KafkaException) as refused:
        alice.describe_configs([resource])[resource].result(PATIENCE_S)
    assert code_of(refused) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(here, entry(TOPIC, "dora-", O.DELETE, "dora", form=PREFIXED))
    alice.delete_topics([name])[name].result(PATIENCE_S)


def test_a_user_without_alter_permission_cannot_see_or_change_entries(here: Secured) -> None:
    eve = admin_of(here, "eve")
    mine = entry(TOPIC, "*", O.ALL, "eve")
    with pytest.raises(KafkaException) as refused:
        eve.create_acls([mine])[mine].result(PATIENCE_S)
    assert code_of(refused) == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    everything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, O.ANY, AclPermissionType.ANY
    )
    assert eve.describe_acls(everything).result(PATIENCE_S) == []  # librdkafka passes the refusal over.


def test_entries_are_listed_and_deleted_by_filters(here: Secured) -> None:
    admin, name = admin_of(here, "admin"), f"listed-{uuid.uuid4().hex[:8]}"
    own = entry(TOPIC, name, O.READ, "frank")
    wide = entry(TOPIC, name[:10], O.WRITE, "frank", form=PREFIXED)
    allow(here, own, wide)
    allow(here, own)  # It is there already.
    match = AclBindingFilter(
        TOPIC, name, ResourcePatternType.MATCH, "User:frank", None, O.ANY, AclPermissionType.ANY
    )
    assert set(admin.describe_acls(match).result(PATIENCE_S)) == {own, wide}
    deleted = admin.delete_acls([match])[match].result(PATIENCE_S)
    assert set(deleted) == {own, wide}
    assert admin.describe_acls(match).result(PATIENCE_S) == []


def test_entries_outlive_a_restart(tmp_path: Path) -> None:
    with guarded(tmp_path) as here:
        allow(here, entry(TOPIC, "kept", O.WRITE), entry(CLUSTER, "kafka-cluster", O.CREATE))
        here.broker.kill()
        here.broker.options, here.broker.bootstrap = ("--listen", f"SSL://{here.bootstrap}"), here.plain
        here.broker.start()
        assert produced(here, "alice", "kept") == [None]


def test_authorized_operations_are_returned(here: Secured, topic: str) -> None:
    allow(here, entry(TOPIC, topic, O.READ, "gina"), entry(CLUSTER, "kafka-cluster", O.DESCRIBE, "gina"))
    from confluent_kafka import TopicCollection

    gina = admin_of(here, "gina")
    described = gina.describe_topics(TopicCollection([topic]), include_authorized_operations=True)
    operations = described[topic].result(PATIENCE_S).authorized_operations
    assert set(operations) == {O.READ, O.DESCRIBE}
    cluster = gina.describe_cluster(include_authorized_operations=True).result(PATIENCE_S)
    assert set(cluster.authorized_operations) == {O.DESCRIBE}


# -- Kafka's own tools ------------------------------------------------------------------------------------


def properties_of(here: Secured, user: str) -> Path:
    """Return the file that lets Kafka's tools be this user."""
    path = here.folder / f"{user}.properties"
    path.write_text(
        "security.protocol=SSL\nssl.keystore.type=PEM\nssl.truststore.type=PEM\n"
        f"ssl.keystore.location={options(here, user)['ssl.key.location']}\n"
        f"ssl.truststore.location={here.trusted}\n"
    )
    return path


def test_kafkas_own_tool_adds_lists_and_removes(here: Secured, topic: str) -> None:
    with running_tools() as tools:

        def run(*arguments: str, user: str = "admin", status: int = 0) -> str:
            config = ("--command-config", str(properties_of(here, user)))
            output = tools.run("kafka-acls", "--bootstrap-server", here.bootstrap, *config, *arguments)
            assert output.status == status, output
            return output.out + output.err

        added = run("--add", "--allow-principal", "User:harry", "--producer", "--topic", topic)
        assert "operation=WRITE" in added
        run("--add", "--allow-principal", "User:harry", "--consumer", "--topic", topic, "--group", "h-",
            "--resource-pattern-type", "prefixed")  # fmt: skip
        run(
            "--add",
            "--deny-principal",
            "User:harry",
            "--deny-host",
            "10.1.1.1",
            "--operation",
            "All",
            "--cluster",
        )
        listed = run("--list", "--principal", "User:harry")
        assert f"ResourcePattern(resourceType=TOPIC, name={topic}, patternType=LITERAL)" in listed
        assert "name=h-, patternType=PREFIXED" in listed
        assert "(principal=User:harry, host=10.1.1.1, operation=ALL, permissionType=DENY)" in listed
        assert produced(here, "harry", topic) == [None]
        run("--remove", "--force", "--allow-principal", "User:harry", "--producer", "--topic", topic)
        (error,) = produced(here, "harry", topic)
        assert error is not None
        refused = run("--list", user="harry", status=1)
        assert "ClusterAuthorizationException" in refused
