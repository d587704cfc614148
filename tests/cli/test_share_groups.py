"""`kohort share-groups` and `kohort consume --share`."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from kohort.client import Admin, Producer, ResourceType, ShareConsumer, TopicPartition
from tests.cli.conftest import Kohort
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until

COUNT = 10


@pytest.fixture
def group() -> str:
    """A group that nobody has used."""
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def workers(bootstrap: str, group: str) -> str:
    """A share group that begins with the first record."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_configs(ResourceType.GROUP, group, values={"share.auto.offset.reset": "earliest"})
    return group


@pytest.fixture
def jobs(bootstrap: str, topic: str) -> str:
    """A topic with ten records in its first partition."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(COUNT):
            producer.send(topic, b"job %d" % number, partition=0)
    return topic


@pytest.fixture
def done(kohort: Kohort, workers: str, jobs: str) -> str:
    """The group, which has done four of the ten, and nobody is in it."""
    told = kohort("consume", jobs, "--share", workers, "--max-messages", "4")
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines() == [f"job {number}" for number in range(4)]
    assert "4 records read" in told.stderr
    return workers


@pytest.fixture
def member(bootstrap: str, workers: str, jobs: str) -> Iterator[ShareConsumer]:
    """A member that reads the topic."""
    with ShareConsumer(jobs, bootstrap_servers=bootstrap, group_id=workers, client_id="me") as consumer:
        wait_until(lambda: consumer.poll(timeout_ms=50) or consumer.assignment(), "an assignment")
        yield consumer


def starts(kohort: Kohort, group: str) -> list[tuple[int, int, int | None]]:
    """Return partition, start and lag of each partition that the group begins in."""
    (told,) = json.loads(kohort("share-groups", "describe", group, "--json").stdout)
    return [
        (each["partition"], each["start_offset"], each["lag"])
        for each in told["offsets"]
        if each["start_offset"] is not None
    ]


def test_printed_records_are_accepted_and_the_rest_is_available(kohort: Kohort, done: str, jobs: str) -> None:
    assert starts(kohort, done)[0] == (0, 4, 6)  # The start is behind what is done with, at once.
    rest = kohort("consume", jobs, "--share", done, "--max-messages", "6", "--json")
    records = [json.loads(line) for line in rest.stdout.splitlines()]
    assert [each["value"] for each in records] == [f"job {number}" for number in range(4, COUNT)]
    assert {each["delivery_count"] for each in records} == {1}
    none = kohort("consume", jobs, "--share", done, "--timeout-ms", "500")
    assert (none.returncode, none.stdout) == (0, "")


def test_share_groups_are_listed(kohort: Kohort, member: ShareConsumer, workers: str) -> None:
    assert workers in kohort("share-groups", "list").stdout.splitlines()
    lines = kohort("share-groups", "list", "--state").stdout.splitlines()
    assert lines[0] == f"{'GROUP':<{max(15, *(len(each.split()[0]) for each in lines))}} STATE"
    assert [workers, "Stable"] in [each.split() for each in lines]
    told = json.loads(kohort("share-groups", "list", "--json", "--in-state", "stable").stdout)
    assert {"group": workers, "state": "Stable"} in told
    assert workers not in kohort("share-groups", "list", "--in-state", "empty").stdout


def test_a_share_group_is_described(kohort: Kohort, member: ShareConsumer, workers: str, jobs: str) -> None:
    def rows(*arguments: str) -> list[list[str]]:
        told = kohort("share-groups", "describe", workers, *arguments)
        assert told.returncode == 0, told.stderr
        return [line.split() for line in told.stdout.splitlines()[1:]]

    head, *offsets = rows()
    assert head == ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"]
    assert [each[:3] for each in offsets] == [[workers, jobs, str(number)] for number in range(3)]
    assert rows("--verbose")[0] == ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "START-OFFSET", "LAG"]
    head, one = rows("--members")
    assert head == ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"]
    assert (one[0], one[3:]) == (workers, ["me", "3", f"{jobs}:0,1,2"])
    assert rows("--members", "--verbose")[0][5] == "MEMBER-EPOCH"
    head, one = rows("--state", "--verbose")
    assert head == ["GROUP", "COORDINATOR", "(ID)", "STATE", "GROUP-EPOCH", "ASSIGNMENT-EPOCH", "#MEMBERS"]
    assert (one[0], one[3], one[-1]) == (workers, "Stable", "1")
    (told,) = json.loads(kohort("share-groups", "describe", workers, "--members", "--json").stdout)
    assert told["members"][0]["assignment"] == {jobs: [0, 1, 2]}


def test_each_kind_of_group_names_its_command(
    kohort: Kohort, member: ShareConsumer, workers: str, topic: str
) -> None:
    other = kohort("groups", "describe", workers)
    assert other.returncode == 1
    assert f"`kohort share-groups describe {workers}`" in other.stderr
    assert kohort("consume", topic, "-g", "classic-one", "--timeout-ms", "3000").returncode == 0
    other = kohort("share-groups", "describe", "classic-one")
    assert other.returncode == 1
    assert "`kohort groups describe classic-one`" in other.stderr
    other = kohort("groups", "reset-offsets", workers, "--all-topics", "--to-earliest")
    assert (other.returncode, "share-groups reset-offsets" in other.stderr) == (1, True)
    every = kohort("groups", "describe", "--all-groups", "--state")
    assert workers not in every.stdout + every.stderr
    missing = kohort("share-groups", "describe", "nobody")
    assert (missing.returncode, "Share group nobody not found." in missing.stderr) == (1, True)


def test_offsets_are_shown_exported_and_set(kohort: Kohort, done: str, jobs: str, tmp_path: Path) -> None:
    wanted = ("share-groups", "reset-offsets", done, "--topic", f"{jobs}:0")
    shown = kohort(*wanted, "--to-earliest")
    assert shown.stdout.splitlines()[2].split() == [done, jobs, "0", "0"]
    assert "--execute" in shown.stderr
    assert starts(kohort, done)[0][::2] == (0, 6), "nothing has changed"
    assert kohort(*wanted, "--to-offset", "2", "--execute").returncode == 0
    assert (0, 2, 8) in starts(kohort, done)
    csv = kohort(*wanted, "--to-current", "--export").stdout
    assert csv == f"{jobs},0,2\n"
    (tmp_path / "plan.csv").write_text(csv.replace(",2\n", ",7\n"), encoding="utf-8")
    again = ("share-groups", "reset-offsets", done, "--from-file", str(tmp_path / "plan.csv"))
    assert json.loads(kohort(*again, "--execute", "--json").stdout) == [
        {"group": done, "topic": jobs, "partition": 0, "new_offset": 7}
    ]
    assert (0, 7, 3) in starts(kohort, done)
    rest = kohort("consume", jobs, "--share", done, "--max-messages", "3")
    assert rest.stdout.splitlines() == ["job 7", "job 8", "job 9"]


def test_a_group_with_members_is_not_changed(
    kohort: Kohort, member: ShareConsumer, workers: str, jobs: str
) -> None:
    refused = kohort("share-groups", "reset-offsets", workers, "--all-topics", "--to-earliest", "--execute")
    assert (refused.returncode, f"Share group '{workers}' is not empty." in refused.stderr) == (1, True)
    refused = kohort("share-groups", "delete", workers, "--yes")
    assert (refused.returncode, f"Group '{workers}' could not be deleted" in refused.stderr) == (1, True)
    refused = kohort("share-groups", "delete-offsets", workers, "--topic", jobs, "--yes")
    assert refused.returncode == 1


def test_offsets_and_groups_are_deleted(kohort: Kohort, done: str, jobs: str) -> None:
    told = kohort("share-groups", "delete-offsets", done, "--topic", jobs, "--yes")
    assert (told.returncode, told.stdout.splitlines()[-1].split()) == (0, [jobs, "Successful"])
    assert starts(kohort, done) == []
    told = kohort("share-groups", "delete", done, "--yes")
    assert told.stdout == f"Deletion of requested share groups ('{done}') was successful.\n"
    assert done not in kohort("share-groups", "list").stdout
    told = kohort("share-groups", "delete", done, "--yes")
    assert (told.returncode, "is not a share group" in told.stderr) == (1, True)


def test_contradicting_options_are_usage_errors(kohort: Kohort) -> None:
    for arguments in (
        ("consume", "t", "--share", "g", "--group", "h"),
        ("consume", "t", "--share", "g", "--from-beginning"),
        ("consume", "t", "--share", "g", "--exit-at-end"),
        ("share-groups", "describe"),
        ("share-groups", "delete"),
        ("share-groups", "reset-offsets", "g", "--topic", "t"),
        ("share-groups", "reset-offsets", "g", "--to-earliest"),
    ):
        assert kohort(*arguments).returncode == 2, arguments


def test_the_admin_client_lists_some_partitions_and_names_failures(
    bootstrap: str, kohort: Kohort, done: str, jobs: str
) -> None:
    where = TopicPartition(jobs, 0)
    with Admin(bootstrap_servers=bootstrap) as admin:
        found = admin.list_share_group_offsets(done, [where])
        assert (list(found), found[where].lag) == ([where], 6)
        admin.alter_share_group_offsets(done, {where: 1})
        assert admin.list_share_group_offsets(done)[where].start_offset == 1
        admin.delete_share_group_offsets(done, jobs)
        assert where not in admin.list_share_group_offsets(done)


def test_every_command_shows_the_same_lag(
    kohort: Kohort, process: BrokerProcess | None, done: str, jobs: str
) -> None:
    ((_, _, lag),) = [each for each in starts(kohort, done) if each[0] == 0]
    assert lag == COUNT - 4
    (look,) = kohort("groups", "watch", done, "-n", "1", "--json").stdout.splitlines()
    assert [each["lag"] for each in json.loads(look)["groups"]] == [lag]
    (every,) = kohort("groups", "watch", "-n", "1", "--json").stdout.splitlines()
    assert {each["group"]: each["lag"] for each in json.loads(every)["groups"]}[done] == lag
    if process is None:
        return
    for path in (f"/api/v1/groups/{done}", f"/api/v1/live/group?id={done}"):
        told = page(process, path)
        assert told["lag"] == lag
        lags = {(each["topic"], each["partition"]): each["lag"] for each in told["offsets"]}
        assert lags[jobs, 0] == lag
    (listed,) = page(process, f"/api/v1/live/groups?q={done}")["groups"]
    assert listed["lag"] == lag


def page(process: BrokerProcess, path: str) -> Any:
    with urlopen(f"http://{process.http}{path}", timeout=10) as answer:
        return json.load(answer)
