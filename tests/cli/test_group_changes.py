"""Offsets that are reset, exported, imported and deleted by the command line."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from kohort.cli.commands import run
from kohort.client import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from tests.interop.waiting import wait_until

NOW = datetime.now(UTC)


class Done(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def offsets(self) -> list[int]:
        """The last column of the table."""
        return [int(line.split()[3]) for line in self.out.splitlines()[2:]]


Groups = Callable[..., Done]


@pytest.fixture
def groups(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Groups:
    def call(*arguments: str) -> Done:
        status = run(["groups", *arguments, "--bootstrap-server", bootstrap])
        return Done(status, *capsys.readouterr())

    return call


@pytest.fixture
def orders(bootstrap: str) -> str:
    """A topic with twenty records in partition 0, one an hour up to now, and none in the others."""
    name = f"orders-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(name, partitions=3))
        wait_until(lambda: name in admin.list_topics(), "the topic is known")
    with Producer(bootstrap_servers=bootstrap) as producer:
        for hours in reversed(range(20)):
            timestamp_ms = int((NOW - timedelta(hours=hours)).timestamp() * 1000)
            producer.send(name, b"x", partition=0, timestamp_ms=timestamp_ms)
    return name


@pytest.fixture
def group(bootstrap: str, orders: str) -> str:
    """A group that has read ten of them, and nobody is in it."""
    name = f"group-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_group_offsets(name, {TopicPartition(orders, 0): OffsetAndMetadata(10)})
    return name


def committed(bootstrap: str, group: str) -> dict[int, int]:
    with Admin(bootstrap_servers=bootstrap) as admin:
        return {each.partition: value.offset for each, value in admin.list_group_offsets(group).items()}


@pytest.mark.requirement("R28")
@pytest.mark.parametrize(
    "way, offsets",
    [
        (["--to-earliest"], [0, 0, 0]),
        (["--to-latest"], [20, 0, 0]),
        (["--to-current"], [10, 0, 0]),
        (["--to-offset", "7"], [7, 0, 0]),
        (["--by-duration", "PT2H30M"], [17, 0, 0]),
        (["--to-datetime", (NOW - timedelta(hours=4.5)).strftime("%Y-%m-%dT%H:%M:%S.000")], [15, 0, 0]),
        (["--to-datetime", (NOW - timedelta(hours=2.5)).strftime("%Y-%m-%dT%H:%M:%S.000+02:00")], [15, 0, 0]),
    ],
)
def test_offsets_can_be_reset_in_each_way(  # noqa: PLR0917 - Fixtures and a case.
    bootstrap: str, groups: Groups, orders: str, group: str, way: list[str], offsets: list[int]
) -> None:
    shown = groups("reset-offsets", group, "--topic", orders, *way)
    assert (shown.status, shown.offsets) == (0, offsets)
    assert "give --execute" in shown.err
    assert committed(bootstrap, group) == {0: 10}, "nothing has been changed"
    done = groups("reset-offsets", group, "--topic", orders, *way, "--execute")
    assert (done.status, done.out) == (0, shown.out)
    assert committed(bootstrap, group) == dict(enumerate(offsets))


def test_the_table_is_kafkas(groups: Groups, orders: str, group: str) -> None:
    shown = groups("reset-offsets", group, "--topic", f"{orders}:0", "--shift-by", "-5", "--dry-run")
    assert shown.out.splitlines() == [
        "",
        f"{'GROUP':<15} {'TOPIC':<15} PARTITION  NEW-OFFSET",
        f"{group:<15} {orders:<15} 0          5",
    ]
    assert shown.err == ""


@pytest.mark.parametrize(
    "by, offset, words",
    [
        ("-5", 5, ""),
        ("-50", 0, "New offset (-40) is lower than earliest offset"),
        ("50", 20, "New offset (60) is higher than latest offset"),
    ],
)
def test_shifts_end_where_the_log_does(  # noqa: PLR0917 - Fixtures and a case.
    groups: Groups, orders: str, group: str, by: str, offset: int, words: str
) -> None:
    shown = groups("reset-offsets", group, "--all-topics", "--shift-by", by, "--dry-run")
    assert (shown.status, shown.offsets) == (0, [offset])
    assert words in shown.err


def test_an_uncommitted_offset_cannot_be_shifted(groups: Groups, orders: str, group: str) -> None:
    done = groups("reset-offsets", group, "--topic", orders, "--shift-by", "1")
    assert done.status == 1
    assert f"Cannot shift offset for partition {orders}-1" in done.err


@pytest.mark.requirement("R28")
def test_an_exported_file_can_be_imported(
    bootstrap: str, groups: Groups, orders: str, group: str, tmp_path: Path
) -> None:
    file = tmp_path / "offsets.csv"
    exported = groups("reset-offsets", group, "--topic", f"{orders}:0,2", "--to-offset", "3", "--export")
    assert exported.out == f"{orders},0,3\n{orders},2,0\n"
    file.write_text(exported.out)
    done = groups("reset-offsets", "another", "--from-file", str(file), "--execute")
    assert (done.status, committed(bootstrap, "another")) == (0, {0: 3, 2: 0})
    both = groups("reset-offsets", group, "another", "--all-topics", "--to-current", "--export")
    assert both.out == f"{group},{orders},0,10\nanother,{orders},0,3\nanother,{orders},2,0\n"
    file.write_text(both.out.replace(",10", ",4"))
    assert groups("reset-offsets", group, "another", "--from-file", str(file), "--execute").status == 0
    assert committed(bootstrap, group) == {0: 4}
    file.write_text("what is this\n")
    assert (
        "line 1 is not TOPIC,PARTITION,OFFSET" in groups("reset-offsets", group, "--from-file", str(file)).err
    )


@pytest.mark.requirement("R28")
def test_a_group_with_members_is_not_changed(bootstrap: str, groups: Groups, orders: str, group: str) -> None:
    with Consumer(orders, bootstrap_servers=bootstrap, group_id=group) as consumer:
        wait_until(lambda: consumer.poll(timeout_ms=50) or consumer.assignment(), "an assignment")
        done = groups("reset-offsets", group, "--all-topics", "--to-earliest", "--execute")
        assert done.status == 1
        assert done.err == (
            f"Error: Assignments can only be reset if the group '{group}' is inactive,"
            " but the current state is Stable.\n"
        )
        refused = groups("delete-offsets", group, "--topic", f"{orders}:0")
        assert refused.status == 1
        assert "Encountered some partition-level error" in refused.err
        assert re.search(rf"{orders} +0 +Error: GROUP_SUBSCRIBED_TO_TOPIC", refused.out)
        kept = groups("delete", group)
        assert (kept.status, "NON_EMPTY_GROUP" in kept.err) == (1, True)


@pytest.mark.requirement("R28")
def test_offsets_and_groups_are_deleted(bootstrap: str, groups: Groups, orders: str, group: str) -> None:
    done = groups("delete-offsets", group, "--topic", f"{orders}:0")
    assert done.out.splitlines() == [
        f"Request succeeded for deleting offsets from group {group}.",
        "",
        f"{'TOPIC':<15} PARTITION  STATUS         ",
        f"{orders:<15} 0          Successful     ",
    ]
    assert committed(bootstrap, group) == {}
    groups("reset-offsets", group, "--topic", orders, "--to-latest", "--execute")
    mixed = groups("delete", group, "nobody")
    assert (mixed.status, mixed.out) == (
        1,
        f"\nThese consumer groups were deleted successfully: '{group}'\n",
    )
    assert "* Group 'nobody' could not be deleted due to: GROUP_ID_NOT_FOUND" in mixed.err
    groups("reset-offsets", group, "--topic", orders, "--to-latest", "--execute")
    assert (
        groups("delete", group).out == f"Deletion of requested consumer groups ('{group}') was successful.\n"
    )


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["reset-offsets", "g", "--to-latest"], "give --topic, or --all-topics"),
        (["reset-offsets", "--all-topics", "--to-latest"], "or --all-groups"),
        (["reset-offsets", "g", "--all-topics"], "give one of --to-earliest"),
        (["reset-offsets", "g", "--all-topics", "--to-latest", "--to-earliest"], "give one of --to-earliest"),
        (["reset-offsets", "g", "--topic", "gone", "--to-latest"], "topic 'gone' does not exist"),
        (["reset-offsets", "g", "-t", "gone", "--to-datetime", "today"], "topic 'gone' does not exist"),
        (["reset-offsets", "g", "--all-topics", "--to-datetime", "today"], "'today' is not a time"),
        (["reset-offsets", "g", "--all-topics", "--by-duration", "1 h"], "'1 h' is not a duration"),
        (
            ["reset-offsets", "g", "--all-topics", "--to-latest", "--execute", "--dry-run"],
            "exclude each other",
        ),
        (["delete"], "or --all-groups"),
    ],
)
def test_a_mistake_is_reported_in_one_line_with_the_right_use(
    groups: Groups, arguments: list[str], words: str
) -> None:
    done = groups(*arguments)
    assert done.status > 0
    assert words in done.err
