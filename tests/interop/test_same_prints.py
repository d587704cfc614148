"""Kafka's own tools print the same against kohort as against Apache Kafka for the same state.

Both are brought into one state by the same commands, in lockstep; each tool then has to print the same lines
and end with the same status, addresses and ids aside. Lines are compared in order of the alphabet: the tools
keep none. `make interop` runs it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from tests.differential.apache_kafka import running
from tests.interop.broker_process import BrokerProcess
from tests.interop.clients import CLIENTS, ConsumerOptions, Outgoing, Place
from tests.interop.conftest import MIXED_VARIABLE, running_tools
from tests.interop.kafka_tools import Tools
from tests.interop.members import Member, wait_until_shared

SETTINGS = ("group.initial.rebalance.delay.ms=200", "offsets.topic.replication.factor=1")
MEMBER, EMPTY = "g-member", "g-empty"
IDS = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"TopicId: [\w-]{22}"), "TopicId: ID"),
    (re.compile(r"[\w+/-]{22}(?=\s|$)"), "ID"),
    (re.compile(r"CreateTime:\d+"), "CreateTime:MS"),
    (re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]?\d*Z?"), "TIME"),
)
OF_THE_CLUSTER = re.compile(r"\bmin\.insync\.replicas=1,?")
"""Apache Kafka's cluster has it for its eligible leader replicas, and its tool shows it of each topic."""
OTHER_WORDS = {"fewer partitions", "a wrong name", "too many replicas", "a value that cannot be"}
"""Refused for the same reason in words of our own: status and exceptions have to be the same."""
EXCEPTION = re.compile(r"[\w.]+Exception")
QUIET = re.compile(r"^\[?TIME\]? (WARN|INFO)|^SLF4J|^WARNING: ")


@dataclass
class Pair:
    """The two brokers, and what runs tools against both."""

    tools: Tools
    addresses: dict[str, str]
    members: list[Member] = field(default_factory=list)

    def same(self, tool: str, *arguments: str, typed: str = "") -> list[str]:
        """Return what the tool prints against either. Raises: AssertionError where that is not the same."""
        ours, theirs = (
            self.printed(where, tool, *arguments, typed=typed) for where in ("kohort", "Apache Kafka")
        )
        assert ours == theirs
        return ours

    def printed(self, where: str, tool: str, *arguments: str, typed: str = "") -> list[str]:
        """Return the status and the lines, without what is another's by nature, in order."""
        address = self.addresses[where]
        answer = self.tools.run(tool, "--bootstrap-server", address, *arguments, typed=typed)
        lines = [common(line, address) for line in f"{answer.out}\n{answer.err}".splitlines()]
        kept = sorted(line for line in lines if line and not QUIET.match(line))
        return [f"status {answer.status}", *kept]


def common(line: str, address: str) -> str:
    """Return a line with one space between columns, and names for what differs by nature."""
    text = OF_THE_CLUSTER.sub("", line.replace(address, "HOST:PORT"))
    for pattern, name in IDS:
        text = pattern.sub(name, text)
    return " ".join(text.split())


@contextmanager
def two_brokers(
    folders: pytest.TempPathFactory, *settings: str, of_kafka: Sequence[str] = ()
) -> Iterator[Pair]:
    """Have both run meanwhile with these settings; the test is skipped with a word where it can't be."""
    if MIXED_VARIABLE not in os.environ:
        pytest.skip(f"{MIXED_VARIABLE}=1 runs it: it starts an Apache Kafka")
    ours = BrokerProcess(folders.mktemp("kohort"), *SETTINGS, *settings)
    kafka = running(folders.mktemp("kafka"), *SETTINGS, *settings, *of_kafka)
    with running_tools() as tools, kafka as theirs:
        ours.start()
        try:
            yield Pair(tools, {"kohort": ours.bootstrap, "Apache Kafka": theirs})
        finally:
            ours.stop()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two brokers in one state: topics, records, a group that has gone, and one with a member."""
    with two_brokers(tmp_path_factory) as found:
        try:
            settle(found)
            yield found
        finally:
            for member in found.members:
                member.close()


def settle(pair: Pair) -> None:
    """Bring both into the state; what this prints has to be the same, too."""
    pair.same("kafka-topics", "--create", "--topic", "orders", "--partitions", "4")
    pair.same("kafka-topics", "--create", "--topic", "compacted", "--config", "cleanup.policy=compact",
              "--config", "max.message.bytes=100000")  # fmt: skip
    confluent = CLIENTS["confluent-kafka"]
    for address in pair.addresses.values():
        records = [Outgoing(str(each).encode(), partition=each % 2) for each in range(10)]
        confluent.produce(address, "orders", records)
    pair.same("kafka-console-consumer", "--topic", "orders", "--group", EMPTY, "--from-beginning",
              "--max-messages", "10", "--timeout-ms", "30000")  # fmt: skip
    for address in pair.addresses.values():
        options = ConsumerOptions(group=MEMBER, topics=["orders"])
        pair.members.append(Member(confluent, address, options))
        wait_until_shared(pair.members[-1:], [Place("orders", each) for each in range(4)])


GROUPS = "kafka-consumer-groups"
LOOKS = {
    "topics are listed": ("kafka-topics", "--list", "--exclude-internal"),
    "a topic is described": ("kafka-topics", "--describe", "--topic", "orders"),
    "settings of a topic": ("kafka-topics", "--describe", "--topic", "compacted"),
    "no such topic": ("kafka-topics", "--describe", "--topic", "nope"),
    "a topic that is there": ("kafka-topics", "--create", "--topic", "orders"),
    "fewer partitions": ("kafka-topics", "--alter", "--topic", "orders", "--partitions", "2"),
    "under-replicated": ("kafka-topics", "--describe", "--under-replicated-partitions"),
    "unavailable": ("kafka-topics", "--describe", "--unavailable-partitions"),
    "a wrong name": ("kafka-topics", "--create", "--topic", "no/slash"),
    "too many replicas": ("kafka-topics", "--create", "--topic", "new", "--replication-factor", "3"),
    "a wrong setting": ("kafka-topics", "--create", "--topic", "new", "--config", "no.such=1"),
    "groups": (GROUPS, "--list"),
    "groups by state": (GROUPS, "--list", "--state"),
    "groups by type": (GROUPS, "--list", "--type"),
    "groups by state and type": (GROUPS, "--list", "--state", "--type"),
    "only empty groups": (GROUPS, "--list", "--state", "Empty"),
    "a state that there is not": (GROUPS, "--list", "--state", "Nope"),
    "a group with a member": (GROUPS, "--describe", "--group", MEMBER),
    "the same in full": (GROUPS, "--describe", "--group", MEMBER, "--verbose"),
    "its members": (GROUPS, "--describe", "--group", MEMBER, "--members"),
    "its members in full": (GROUPS, "--describe", "--group", MEMBER, "--members", "--verbose"),
    "its state": (GROUPS, "--describe", "--group", MEMBER, "--state"),
    "its state in full": (GROUPS, "--describe", "--group", MEMBER, "--state", "--verbose"),
    "a group that has gone": (GROUPS, "--describe", "--group", EMPTY),
    "its offsets in full": (GROUPS, "--describe", "--group", EMPTY, "--verbose"),
    "its members, none": (GROUPS, "--describe", "--group", EMPTY, "--members"),
    "its state, empty": (GROUPS, "--describe", "--group", EMPTY, "--state"),
    "all groups": (GROUPS, "--describe", "--all-groups"),
    "all groups' states": (GROUPS, "--describe", "--all-groups", "--state"),
    "no such group": (GROUPS, "--describe", "--group", "nope"),
    "a live group is not reset": (
        GROUPS, "--group", MEMBER, "--reset-offsets", "--to-earliest", "--topic", "orders", "--execute",
    ),
    "a live group is not deleted": (GROUPS, "--delete", "--group", MEMBER),
    "a group that there is not is not deleted": (GROUPS, "--delete", "--group", "nope"),
    "a reset is shown": (
        GROUPS, "--group", EMPTY, "--reset-offsets", "--shift-by", "-2", "--topic", "orders", "--dry-run",
    ),
    "a reset of a topic that there is not": (
        GROUPS, "--group", EMPTY, "--reset-offsets", "--to-earliest", "--topic", "nope", "--dry-run",
    ),
    "offsets of a live topic are not deleted": (
        GROUPS, "--delete-offsets", "--group", MEMBER, "--topic", "orders",
    ),
    "all groups of all kinds": ("kafka-groups", "--list"),
    "ends": ("kafka-get-offsets", "--topic", "orders"),
    "beginnings": ("kafka-get-offsets", "--topic", "orders", "--time", "earliest"),
    "newest timestamps": ("kafka-get-offsets", "--topic", "orders", "--time", "max-timestamp"),
    "a topic's settings": ("kafka-configs", "--describe", "--entity-type", "topics", "--entity-name",
        "compacted"),
    "a topic without settings": (
        "kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", "orders",
    ),
    "settings of a topic that there is not": (
        "kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", "nope",
    ),
    "a setting that there is not": (
        "kafka-configs", "--alter", "--entity-type", "topics", "--entity-name", "orders",
        "--add-config", "no.such=1",
    ),
    "a value that cannot be": (
        "kafka-configs", "--alter", "--entity-type", "topics", "--entity-name", "orders",
        "--add-config", "retention.ms=soon",
    ),
    "records of one partition": (
        "kafka-console-consumer", "--topic", "orders", "--partition", "1", "--offset", "earliest",
        "--max-messages", "5", "--timeout-ms", "30000", "--formatter-property", "print.offset=true",
    ),
}  # fmt: skip

CHANGES: tuple[tuple[str, ...], ...] = (
    ("kafka-topics", "--alter", "--topic", "orders", "--partitions", "5"),
    ("kafka-configs", "--alter", "--entity-type", "topics", "--entity-name", "orders",
     "--add-config", "retention.ms=60000"),
    ("kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", "orders"),
    ("kafka-configs", "--alter", "--entity-type", "topics", "--entity-name", "orders",
     "--delete-config", "retention.ms"),
    (GROUPS, "--group", EMPTY, "--reset-offsets", "--to-offset", "1", "--topic", "orders:0", "--execute"),
    (GROUPS, "--describe", "--group", EMPTY),
    (GROUPS, "--delete-offsets", "--group", EMPTY, "--topic", "orders"),
    (GROUPS, "--describe", "--group", EMPTY),
    (GROUPS, "--delete", "--group", EMPTY),
    (GROUPS, "--list"),
    ("kafka-topics", "--delete", "--topic", "compacted"),
    ("kafka-topics", "--list", "--exclude-internal"),
)  # fmt: skip


@pytest.mark.parametrize("look", [each for each in LOOKS if each not in OTHER_WORDS])
def test_read_commands_print_the_same(pair: Pair, look: str) -> None:
    tool, *arguments = LOOKS[look]
    assert pair.same(tool, *arguments)


@pytest.mark.parametrize("look", sorted(OTHER_WORDS))
def test_refused_commands_are_refused_in_the_same_way(pair: Pair, look: str) -> None:
    tool, *arguments = LOOKS[look]
    ours, theirs = (pair.printed(where, tool, *arguments) for where in pair.addresses)
    assert ours[0] == theirs[0] != "status 0"
    assert refusal(ours) == refusal(theirs)


def refusal(lines: list[str]) -> set[str]:
    """Return the exceptions that a tool has printed, or how it begins to say what went wrong."""
    found = {name for line in lines for name in EXCEPTION.findall(line)}
    return found or {lines[1].partition(" : ")[0]}


def test_changes_and_their_results_print_the_same(pair: Pair) -> None:
    for tool, *arguments in CHANGES:
        pair.same(tool, *arguments)
