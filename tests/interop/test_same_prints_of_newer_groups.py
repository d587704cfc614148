"""Kafka's tools for groups of the newer protocols print the same against kohort and Apache Kafka.

As `test_same_prints.py` has it for topics and consumer groups. `make interop` runs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # Its home says otherwise.

from tests.interop.share_members import ShareMember, configure, java_share_member, produce, wait_for
from tests.interop.streams_applications import PARTITIONS, Results, StreamsApplication, send
from tests.interop.test_consumer_groups import Librdkafka
from tests.interop.test_same_prints import Pair, two_brokers
from tests.interop.waiting import wait_until

KAFKAS = (
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
)
SOON = (
    "group.streams.initial.rebalance.delay.ms=200",
    "group.streams.min.heartbeat.interval.ms=500",
    "group.streams.heartbeat.interval.ms=500",
)
CONSUMER, SHARE, STREAMS = "kafka-consumer-groups", "kafka-share-groups", "kafka-streams-groups"
OFFSETS = ("--describe", "--offsets", "--group")
COUNT = ("count", "lines", "counts")
VALUES = [str(number) for number in range(10)]
TIMEOUT_S = 30.0
OF_KAFKA_4_4 = {
    "errors.deadletterqueue.copy.record.enable",
    "errors.deadletterqueue.topic.name",
    "streams.acceptable.recovery.lag",
    "streams.task.offset.interval.ms",
}
"""Settings of groups that the Apache Kafka of these tests does not have yet."""


@dataclass
class Live:
    """The two brokers, and who is a member on each."""

    pair: Pair
    sharers: list[ShareMember]
    applications: list[StreamsApplication]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Two brokers in one state: a share group and a streams group with a member, and ones without."""
    with ExitStack() as stack:
        pair = stack.enter_context(two_brokers(tmp_path_factory, *SOON, of_kafka=KAFKAS))
        found = Live(pair, [], [])
        for name, address in pair.addresses.items():
            folder = tmp_path_factory.mktemp(f"streams-{name.split()[0]}")
            found.applications.append(stream(stack, address, folder))
            found.sharers.append(share(address))
            stack.callback(found.sharers[-1].kill)
            member = Librdkafka(address, "c-live", "jobs")
            stack.callback(member.close)
            wait_until(lambda member=member: len(member.values) == len(VALUES), "all is read", TIMEOUT_S)  # type: ignore[misc]
        for tool, group, row in (
            (SHARE, "s-live", "s-live jobs 0"),
            (SHARE, "s-gone", "s-gone jobs 0"),
            (CONSUMER, "c-live", "c-live jobs 0 10 10 0"),
        ):
            wait_until(
                lambda tool=tool, group=group, row=row: all(  # type: ignore[misc]  # bound as they are now
                    any(row in line for line in pair.printed(where, tool, *OFFSETS, group))
                    for where in pair.addresses
                ),
                f"offsets of {group}",
                TIMEOUT_S,
            )
        yield found


def make_topics(address: str, *names: str, partitions: int) -> None:
    """Make topics of so many partitions each."""
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic(name, partitions, 1) for name in names]).values():
        made.result(TIMEOUT_S)


def share(address: str) -> ShareMember:
    """Have a share group whose member has gone, and one whose member stays; return that one."""
    make_topics(address, "jobs", partitions=1)
    produce(address, "jobs", VALUES)
    for group in ("s-gone", "s-live"):
        configure(address, group)
        member = java_share_member(address, group, "jobs")
        wait_for(member, values=VALUES)
        if group == "s-gone":
            member.close()
    return member


def stream(stack: ExitStack, address: str, folder: Path) -> StreamsApplication:
    """Have a streams group with one member that has counted words; return that one."""
    make_topics(address, *COUNT[1:], partitions=PARTITIONS)
    application = stack.enter_context(StreamsApplication(address, "t-live", folder, *COUNT))
    application.wait_for("RUNNING")
    send(address, "lines", *((None, "one two") for _ in range(6)))
    results = Results(address, "counts")
    results.wait_for(12)
    results.close()
    return application


LOOKS = {
    "all groups of all kinds": ("kafka-groups", "--list"),
    "only share groups": ("kafka-groups", "--list", "--share"),
    "only streams groups": ("kafka-groups", "--list", "--streams"),
    "only consumer groups": ("kafka-groups", "--list", "--consumer"),
    "groups of a type": ("kafka-groups", "--list", "--group-type", "share"),
    "a type that there is not": ("kafka-groups", "--list", "--group-type", "nope"),
    "groups of a protocol": ("kafka-groups", "--list", "--protocol", "streams"),
    "consumer groups by type": (CONSUMER, "--list", "--type"),
    "consumer groups by state and type": (CONSUMER, "--list", "--state", "--type"),
    "groups of the consumer type": (CONSUMER, "--list", "--type", "consumer"),
    "a consumer group": (CONSUMER, "--describe", "--group", "c-live"),
    "a consumer group in full": (CONSUMER, "--describe", "--group", "c-live", "--verbose"),
    "its members, as a consumer group": (CONSUMER, "--describe", "--group", "c-live", "--members"),
    "these in full": (CONSUMER, "--describe", "--group", "c-live", "--members", "--verbose"),
    "its state, as a consumer group": (CONSUMER, "--describe", "--group", "c-live", "--state"),
    "this in full": (CONSUMER, "--describe", "--group", "c-live", "--state", "--verbose"),
    "a live consumer group is not deleted": (CONSUMER, "--delete", "--group", "c-live"),
    "a live consumer group is not reset": (
        CONSUMER, "--reset-offsets", "--group", "c-live", "--to-earliest", "--topic", "jobs", "--execute",
    ),
    "offsets of a live consumer group are not deleted": (
        CONSUMER, "--delete-offsets", "--group", "c-live", "--topic", "jobs",
    ),
    "a share group is no consumer group": (CONSUMER, "--describe", "--group", "s-live"),
    "a share group is not deleted as a consumer group": (
        CONSUMER, "--delete", "--group", "s-gone",
    ),
    "share groups": (SHARE, "--list"),
    "share groups by state": (SHARE, "--list", "--state"),
    "only empty share groups": (SHARE, "--list", "--state", "Empty"),
    "a state that share groups do not have": (SHARE, "--list", "--state", "Nope"),
    "a share group": (SHARE, "--describe", "--group", "s-live"),
    "a share group in full": (SHARE, "--describe", "--group", "s-live", "--verbose"),
    "its offsets": (SHARE, "--describe", "--group", "s-live", "--offsets"),
    "its members": (SHARE, "--describe", "--group", "s-live", "--members"),
    "its members in full": (SHARE, "--describe", "--group", "s-live", "--members", "--verbose"),
    "its state": (SHARE, "--describe", "--group", "s-live", "--state"),
    "its state in full": (SHARE, "--describe", "--group", "s-live", "--state", "--verbose"),
    "a share group that has gone": (SHARE, "--describe", "--group", "s-gone"),
    "its members, none": (SHARE, "--describe", "--group", "s-gone", "--members"),
    "its state, empty": (SHARE, "--describe", "--group", "s-gone", "--state"),
    "all share groups": (SHARE, "--describe", "--all-groups"),
    "no such share group": (SHARE, "--describe", "--group", "nope"),
    "a streams group is no share group": (SHARE, "--describe", "--group", "t-live"),
    "a live share group is not reset": (
        SHARE, "--reset-offsets", "--group", "s-live", "--to-earliest", "--topic", "jobs", "--execute",
    ),
    "a live share group is not deleted": (SHARE, "--delete", "--group", "s-live"),
    "a share group that there is not is not deleted": (SHARE, "--delete", "--group", "nope"),
    "offsets of a live share group are not deleted": (
        SHARE, "--delete-offsets", "--group", "s-live", "--topic", "jobs",
    ),
    "offsets of a topic that the share group does not read": (
        SHARE, "--delete-offsets", "--group", "s-gone", "--topic", "lines",
    ),
    "a reset of a share group is shown": (
        SHARE, "--reset-offsets", "--group", "s-gone", "--to-earliest", "--topic", "jobs", "--dry-run",
    ),
    "a reset of a share group's topic that there is not": (
        SHARE, "--reset-offsets", "--group", "s-gone", "--to-earliest", "--topic", "nope", "--dry-run",
    ),
    "settings of a share group": (
        "kafka-configs", "--describe", "--entity-type", "groups", "--entity-name", "s-live",
    ),
    "a setting of groups that there is not": (
        "kafka-configs", "--alter", "--entity-type", "groups", "--entity-name", "s-live",
        "--add-config", "share.nope=1",
    ),
    "streams groups": (STREAMS, "--list"),
    "streams groups by state": (STREAMS, "--list", "--state"),
    "only empty streams groups": (STREAMS, "--list", "--state", "Empty"),
    "a streams group": (STREAMS, "--describe", "--group", "t-live"),
    "a streams group in full": (STREAMS, "--describe", "--group", "t-live", "--verbose"),
    "its lag": (STREAMS, "--describe", "--group", "t-live", "--offsets"),
    "its instances": (STREAMS, "--describe", "--group", "t-live", "--members"),
    "its instances in full": (STREAMS, "--describe", "--group", "t-live", "--members", "--verbose"),
    "its state, as a streams group": (STREAMS, "--describe", "--group", "t-live", "--state"),
    "that in full": (STREAMS, "--describe", "--group", "t-live", "--state", "--verbose"),
    "no such streams group": (STREAMS, "--describe", "--group", "nope", "--state"),
    "a share group is no streams group": (STREAMS, "--describe", "--group", "s-live"),
    "a live streams group is not deleted": (STREAMS, "--delete", "--group", "t-live"),
    "a live streams group is not reset": (
        STREAMS, "--reset-offsets", "--to-earliest", "--group", "t-live", "--input-topic", "lines",
        "--execute",
    ),
    "offsets of a live streams group are not deleted": (
        STREAMS, "--delete-offsets", "--group", "t-live", "--input-topic", "lines",
    ),
}  # fmt: skip
ALL_SETTINGS = (
    "kafka-configs", "--describe", "--all", "--entity-type", "groups", "--entity-name", "s-live",
)  # fmt: skip

CHANGES: tuple[tuple[str, ...], ...] = (
    (SHARE, "--reset-offsets", "--group", "s-gone", "--to-earliest", "--topic", "jobs", "--execute"),
    (SHARE, "--describe", "--group", "s-gone"),
    (SHARE, "--reset-offsets", "--group", "s-gone", "--to-latest", "--all-topics", "--execute"),
    (SHARE, "--describe", "--group", "s-gone"),
    (SHARE, "--delete-offsets", "--group", "s-gone", "--topic", "jobs"),
    (SHARE, "--describe", "--group", "s-gone"),
    (SHARE, "--delete", "--group", "s-gone"),
    (SHARE, "--list"),
)
OF_STREAMS: tuple[tuple[str, ...], ...] = (
    (STREAMS, "--list", "--state"),
    (STREAMS, "--describe", "--group", "t-live", "--state"),
    (STREAMS, "--describe", "--group", "t-live", "--members"),
    (STREAMS, "--describe", "--group", "t-live", "--offsets"),
    (STREAMS, "--reset-offsets", "--to-earliest", "--group", "t-live", "--input-topic", "lines", "--dry-run"),
    (STREAMS, "--reset-offsets", "--to-earliest", "--group", "t-live", "--input-topic", "lines", "--execute"),
    (STREAMS, "--reset-offsets", "--to-latest", "--group", "t-live", "--all-input-topics", "--execute"),
    (STREAMS, "--describe", "--group", "t-live", "--offsets"),
    (STREAMS, "--delete-offsets", "--group", "t-live", "--input-topic", "lines"),
    (STREAMS, "--describe", "--group", "t-live", "--offsets"),
    (STREAMS, "--delete", "--group", "t-live", "--delete-all-internal-topics"),
    (STREAMS, "--list"),
    ("kafka-topics", "--list", "--exclude-internal"),
    ("kafka-groups", "--list"),
)


@pytest.mark.parametrize("look", LOOKS)
def test_read_commands_for_newer_groups_print_the_same(live: Live, look: str) -> None:
    tool, *arguments = LOOKS[look]
    assert live.pair.same(tool, *arguments)


def test_settings_of_a_group_equal_those_of_kafka(live: Live) -> None:
    ours, theirs = (live.pair.printed(where, *ALL_SETTINGS) for where in live.pair.addresses)
    assert [line for line in ours if line.partition("=")[0] not in OF_KAFKA_4_4] == theirs


def test_changes_of_a_share_group_print_the_same(live: Live) -> None:
    for tool, *arguments in CHANGES:
        live.pair.same(tool, *arguments)


def test_changes_of_a_streams_group_without_members_print_the_same(live: Live) -> None:
    for each in live.applications:
        each.close()
    for tool, *arguments in OF_STREAMS:
        live.pair.same(tool, *arguments)
