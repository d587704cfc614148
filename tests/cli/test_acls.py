"""kohort acls, and the Admin that it uses, with a broker that has an authorizer."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kohort.client import (
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    Admin,
    BrokerError,
    ItemsError,
    NewTopic,
)
from kohort.protocol.errors import ErrorCode
from tests.cli import here
from tests.cli.here import Done
from tests.interop.broker_process import BrokerProcess

AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ME = "User:ANONYMOUS"


@contextmanager
def serving(folder: Path, *settings: str) -> Iterator[BrokerProcess]:
    """Serve within the block."""
    made = BrokerProcess(folder, *settings)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker at which whoever asks in the clear may do everything."""
    with serving(tmp_path, AUTHORIZER, f"super.users={ME}") as made:
        yield made


def run(broker: BrokerProcess, *arguments: str) -> Done:
    environment = {**os.environ, "KOHORT_BOOTSTRAP_SERVERS": broker.bootstrap}
    return here.kohort("acls", *arguments, environment=environment)


def test_entries_are_added_listed_and_removed(broker: BrokerProcess) -> None:
    added = run(broker, "add", "alice", "read", "write", "--topic", "orders", "--prefix")
    assert added.stdout.splitlines() == [
        "Added: User:alice may read topics that begin with orders",
        "Added: User:alice may write topics that begin with orders",
    ]
    run(broker, "add", "*", "describe", "--topic", "*")
    run(broker, "add", "bob", "alter", "--cluster", "--deny", "--host", "10.0.0.1")
    assert run(broker, "list").stdout.splitlines() == [
        "User:* may describe topic *",
        "User:alice may read topics that begin with orders",
        "User:alice may write topics that begin with orders",
        "User:bob may not alter the cluster from 10.0.0.1",
    ]
    assert run(broker, "list", "--topic", "orders-eu", "--principal", "alice").stdout.count("\n") == 2
    assert run(broker, "list", "--topic", "others").stdout.splitlines() == ["User:* may describe topic *"]
    listed = json.loads(run(broker, "list", "--principal", "bob", "--json").stdout)
    assert listed == [
        {
            "principal": "User:bob",
            "host": "10.0.0.1",
            "operation": "ALTER",
            "permission": "DENY",
            "resource_type": "CLUSTER",
            "name": "kafka-cluster",
            "pattern": "LITERAL",
        }
    ]
    removed = run(broker, "remove", "alice", "read", "--topic", "orders", "--prefix")
    assert removed.stdout == "Removed: User:alice may read topics that begin with orders\n"
    again = run(broker, "remove", "alice", "read", "--topic", "orders", "--prefix")
    assert (again.returncode, again.stderr) == (1, "kohort: there is no such entry\n")


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("add", "alice", "read"), "say what it is about"),
        (("add", "alice", "reed", "--topic", "t"), "'reed' is no operation: all, read, write"),
        (("add", "alice", "read", "--topic", "t", "--group", "g"), "give one of --topic"),
    ],
)
def test_usage_errors_name_the_right_use(
    broker: BrokerProcess, arguments: tuple[str, ...], words: str
) -> None:
    done = run(broker, *arguments)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_user_without_permission_is_refused(tmp_path: Path) -> None:
    open_ = "allow.everyone.if.no.acl.found=true"
    with (
        serving(tmp_path, AUTHORIZER, open_) as broker,
        Admin(bootstrap_servers=broker.bootstrap) as admin,
    ):
        admin.create_topics(NewTopic("closed", partitions=1))
        admin.create_acls(Acl("User:alice", AclOperation.READ, AclResourceType.TOPIC, "closed"))
        assert "closed" not in admin.list_topics()
        with pytest.raises(ItemsError) as hidden:
            admin.describe_topics("closed")
        (error,) = hidden.value.errors.values()
        assert error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        admin.create_acls(
            Acl(ME, AclOperation.ALTER, AclResourceType.CLUSTER, "kafka-cluster"),
            Acl(
                ME,
                AclOperation.DESCRIBE,
                AclResourceType.CLUSTER,
                "kafka-cluster",
                permission=AclPermission.DENY,
            ),
        )
        with pytest.raises(BrokerError) as refused:
            admin.list_acls()
        assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        with pytest.raises(ItemsError):
            admin.create_acls(Acl("alice", AclOperation.READ, AclResourceType.TOPIC, "t"))
        assert len(admin.delete_acls(AclFilter(principal=ME), AclFilter(principal=ME))) == 2


def test_without_an_authorizer_the_command_says_so(tmp_path: Path) -> None:
    with serving(tmp_path) as plain:
        done = run(plain, "list")
    assert (done.returncode, done.stderr) == (
        1,
        "kohort: No Authorizer is configured on the broker (SECURITY_DISABLED)\n",
    )
