"""`--all-groups`: one group that cannot be described hides no other, and none is deleted unasked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner

from kohort.cli.commands import kohort, run
from kohort.client import Admin, BrokerError, GroupDescription, NewTopic, OffsetAndMetadata, TopicPartition
from kohort.protocol.errors import ErrorCode
from tests.interop.broker_process import BrokerProcess


class Done(NamedTuple):
    status: int
    out: str
    err: str


Groups = Callable[..., Done]


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of this module's own: all of its groups are deleted here."""
    process = BrokerProcess(tmp_path_factory.mktemp("all-groups"))
    process.start()
    with Admin(bootstrap_servers=process.bootstrap) as admin:
        admin.create_topics(NewTopic("t", partitions=1))
    yield process
    process.stop()


@pytest.fixture
def three(own_broker: BrokerProcess) -> tuple[str, ...]:
    """All the groups that there are, each with an offset and without members."""
    names = ("billing", "orders", "stock")
    with Admin(bootstrap_servers=own_broker.bootstrap) as admin:
        for each in names:
            admin.alter_group_offsets(each, {TopicPartition("t", 0): OffsetAndMetadata(0)})
    return names


@pytest.fixture
def groups(own_broker: BrokerProcess, capfd: pytest.CaptureFixture[str]) -> Groups:
    def call(*arguments: str) -> Done:
        status = run(["groups", *arguments, "--bootstrap-server", own_broker.bootstrap])
        return Done(status, *capfd.readouterr())

    return call


def test_a_group_that_cannot_be_described_hides_no_other(
    groups: Groups, three: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    describe = Admin.describe_groups

    def fails_for_orders(admin: Admin, *group_ids: str) -> dict[str, GroupDescription]:
        if "orders" in group_ids:
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "orders is being loaded")
        return describe(admin, *group_ids)

    monkeypatch.setattr(Admin, "describe_groups", fails_for_orders)
    done = groups("describe", "--all-groups")
    assert [line.split()[0] for line in done.out.splitlines() if line[:1].islower()] == ["billing", "stock"]
    assert "orders is being loaded" in done.err
    assert done.status == 1
    as_json = groups("describe", "--all-groups", "--json")
    assert [each["group"] for each in json.loads(as_json.out)] == ["billing", "stock"]
    assert as_json.status == 1
    assert groups("describe", "billing", "nobody", "stock").err.endswith(
        "kohort: Group nobody not found. (GROUP_ID_NOT_FOUND)\n"
    )


def test_deleting_every_group_needs_a_confirmation(
    own_broker: BrokerProcess, groups: Groups, three: tuple[str, ...]
) -> None:
    command = ["groups", "delete", "--all-groups", "--bootstrap-server", own_broker.bootstrap]
    asked = CliRunner().invoke(kohort, command, input="n\n", standalone_mode=False)
    assert isinstance(asked.exception, click.ClickException)
    assert "cancelled; nothing changed" in asked.exception.format_message()
    assert all(f"{each}\n" in asked.stderr for each in three)
    assert "Delete these 3 groups with all offsets? [y/N]" in asked.stderr
    assert groups("list").out.split() == list(three)
    done = CliRunner().invoke(kohort, command, input="y\n", standalone_mode=False)
    assert (
        done.stdout
        == "Deletion of requested consumer groups ('billing', 'orders', 'stock') was successful.\n"
    )
    assert groups("list").out == ""


def test_without_a_terminal_deleting_every_group_needs_yes(
    own_broker: BrokerProcess, groups: Groups, three: tuple[str, ...]
) -> None:
    command = ["groups", "delete", "--all-groups", "--bootstrap-server", own_broker.bootstrap]
    asked = CliRunner().invoke(kohort, command, input="", standalone_mode=False)
    assert isinstance(asked.exception, click.ClickException)
    assert "--yes" in asked.exception.format_message()
    assert groups("list").out.split() == list(three)
    assert groups("delete", "--all-groups", "--yes").status == 0
    assert groups("list").out == ""
    assert groups("delete", "--all-groups") == Done(0, "There are no groups.\n", "")
