"""Kafka's tools for access control lists, users and quotas print the same against kohort and Apache Kafka.

As `test_same_prints.py` has it for topics and groups. `make interop` runs it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.test_same_prints import Pair, refusal, two_brokers

AUTHORIZER = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)
ACLS, CONFIGS = "kafka-acls", "kafka-configs"
ALLOW, DENY = "--allow-principal", "--deny-principal"
PREFIXED = ("--resource-pattern-type", "prefixed")
LISTS: tuple[tuple[str, ...], ...] = (
    (ACLS, "--list"),
    (ACLS, "--add", ALLOW, "User:alice", "--operation", "Read", "--topic", "orders"),
    (ACLS, "--add", ALLOW, "User:alice", "--operation", "Read", "--topic", "orders"),
    (ACLS, "--add", ALLOW, "User:bob", "--producer", "--topic", "orders"),
    (ACLS, "--add", ALLOW, "User:bob", "--consumer", "--topic", "orders", "--group", "billing"),
    (ACLS, "--add", ALLOW, "User:bob", "--producer", "--topic", "ord", *PREFIXED, "--idempotent",
     "--transactional-id", "ord"),
    (ACLS, "--add", DENY, "User:*", "--operation", "All", "--topic", "*", "--deny-host", "10.0.0.1"),
    (ACLS, "--add", ALLOW, "User:CN=broker,O=Kitchen", "--operation", "ClusterAction", "--cluster"),
    (ACLS, "--add", ALLOW, "User:carol", "--operation", "Describe", "--operation", "Delete", "--group", "*"),
    (ACLS, "--list"),
    (ACLS, "--list", "--topic", "orders"),
    (ACLS, "--list", "--topic", "orders", "--resource-pattern-type", "match"),
    (ACLS, "--list", "--topic", "orders", "--resource-pattern-type", "any"),
    (ACLS, "--list", "--topic", "ord", *PREFIXED),
    (ACLS, "--list", "--principal", "User:bob"),
    (ACLS, "--list", "--principal", "User:nobody"),
    (ACLS, "--list", "--cluster"),
    (ACLS, "--list", "--group", "billing"),
    (ACLS, "--list", "--transactional-id", "*"),
    (ACLS, "--remove", "--force", ALLOW, "User:bob", "--producer", "--topic", "orders"),
    (ACLS, "--remove", "--force", "--topic", "ord", *PREFIXED),
    (ACLS, "--remove", "--force", ALLOW, "User:nobody", "--operation", "Read", "--topic", "orders"),
    (ACLS, "--list"),
)  # fmt: skip
ALICE = ("--entity-type", "users", "--entity-name", "alice")
EVERYBODY = ("--entity-type", "users", "--entity-default")
APP = ("--entity-type", "clients", "--entity-name", "app")
ADDRESS = ("--entity-type", "ips", "--entity-name", "10.1.2.3")
EVERY_ADDRESS = ("--entity-type", "ips", "--entity-default")
QUOTAS: tuple[tuple[str, ...], ...] = (
    ("--describe", "--entity-type", "users"),
    ("--alter", "--add-config", "producer_byte_rate=1048576,consumer_byte_rate=2097152", *ALICE),
    ("--alter", "--add-config", "request_percentage=12.5,controller_mutation_rate=0.5", *ALICE, *APP),
    ("--alter", "--add-config", "producer_byte_rate=77", *EVERYBODY),
    ("--alter", "--add-config", "consumer_byte_rate=5", *EVERYBODY, "--entity-type", "clients",
     "--entity-default"),
    ("--alter", "--add-config", "consumer_byte_rate=123456789012", *APP),
    ("--alter", "--add-config", "connection_creation_rate=50", *ADDRESS),
    ("--alter", "--add-config", "connection_creation_rate=5", *EVERY_ADDRESS),
    ("--describe", *ALICE),
    ("--describe", *ALICE, *APP),
    ("--describe", *ALICE, "--entity-type", "clients"),
    ("--describe", *EVERYBODY),
    ("--describe", "--entity-type", "users"),
    ("--describe", "--entity-type", "clients"),
    ("--describe", "--entity-type", "users", "--entity-type", "clients"),
    ("--describe", "--entity-type", "ips"),
    ("--describe", *ADDRESS),
    ("--describe", "--entity-type", "users", "--entity-name", "nobody"),
    ("--alter", "--delete-config", "producer_byte_rate", *ALICE),
    ("--alter", "--delete-config", "request_percentage,controller_mutation_rate", *ALICE, *APP),
    ("--describe", *ALICE),
    ("--alter", "--delete-config", "producer_byte_rate", "--entity-type", "users", "--entity-name", "nobody"),
)  # fmt: skip
USERS: tuple[tuple[str, ...], ...] = (
    ("--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]", *ALICE),
    ("--alter", "--add-config", "SCRAM-SHA-512=[password=secret]", "--entity-type", "users",
     "--entity-name", "bob"),
    ("--describe", *ALICE),
    ("--describe", "--entity-type", "users"),
    ("--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret],producer_byte_rate=9",
     "--entity-type", "users", "--entity-name", "carol"),
    ("--alter", "--delete-config", "SCRAM-SHA-256", *ALICE),
    ("--describe", *ALICE),
)  # fmt: skip
REFUSED: dict[str, tuple[str, ...]] = {
    "a quota that there is not": (CONFIGS, "--alter", "--add-config", "nope=1", *ALICE),
    "a quota of nothing": (CONFIGS, "--alter", "--add-config", "producer_byte_rate=0", *ALICE),
    "half a byte": (CONFIGS, "--alter", "--add-config", "producer_byte_rate=1.5", *ALICE),
    "no number": (CONFIGS, "--alter", "--add-config", "producer_byte_rate=much", *ALICE),
    "a user's quota of an address": (CONFIGS, "--alter", "--add-config", "producer_byte_rate=1", *ADDRESS),
    "no address": (
        CONFIGS, "--alter", "--add-config", "connection_creation_rate=1", "--entity-type", "ips",
        "--entity-name", "10.1.2.999",
    ),
    "a password too weak": (
        CONFIGS, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=100,password=x]", *ALICE,
    ),
    "a password that there is not": (
        CONFIGS, "--alter", "--delete-config", "SCRAM-SHA-512", "--entity-type", "users",
        "--entity-name", "nobody",
    ),
    "an entry of nobody": (ACLS, "--add", ALLOW, "alice", "--operation", "Read", "--topic", "orders"),
    "an operation that a group has not": (
        ACLS, "--add", ALLOW, "User:alice", "--operation", "Write", "--group", "g",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two brokers with an authorizer, where whoever comes in the clear may do everything."""
    with two_brokers(tmp_path_factory, *AUTHORIZER) as found:
        yield found


def test_access_control_lists_print_the_same(pair: Pair) -> None:
    for tool, *arguments in LISTS:
        pair.same(tool, *arguments)


def test_quotas_print_the_same(pair: Pair) -> None:
    for arguments in QUOTAS:
        pair.same(CONFIGS, *arguments)


def test_users_print_the_same(pair: Pair) -> None:
    for arguments in USERS:
        pair.same(CONFIGS, *arguments)


@pytest.mark.parametrize("what", REFUSED)
def test_refused_commands_are_refused_in_the_same_way(pair: Pair, what: str) -> None:
    tool, *arguments = REFUSED[what]
    ours, theirs = (pair.printed(where, tool, *arguments) for where in pair.addresses)
    assert ours[0] == theirs[0]
    assert refusal(ours) == refusal(theirs)
