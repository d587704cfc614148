"""What clients call themselves, told by the command line and by the broker's log: nothing of it is obeyed."""

from __future__ import annotations

import ast
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kohort.cli as command_line
from kohort.cli.commands import run
from kohort.client import Admin, Consumer, NewTopic, OffsetAndMetadata, TopicPartition
from tests.interop.broker_process import BrokerProcess

EVIL = "x\nkohort ready kafka=1.2.3.4:9092\r\x1b[2J\x9b31m\u202e"
SHOWN = r"x\nkohort ready kafka=1.2.3.4:9092\r\x1b[2J\x9b31m\u202e"
QUIET = "\x1b[2J"  # No blank in it, which would have it quoted in any case.
Run = Callable[..., str]


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("hostile"), "group.initial.rebalance.delay.ms=0")
    process.start()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def group(own_broker: BrokerProcess) -> Iterator[str]:
    """A group with a member, all of whose names are hostile."""
    name = f"{uuid.uuid4().hex[:8]}-{EVIL}"
    with Admin(bootstrap_servers=own_broker.bootstrap) as admin:
        admin.create_topics(NewTopic("t", partitions=1))
    with Consumer("t", bootstrap_servers=own_broker.bootstrap, group_id=QUIET) as consumer:
        join(consumer)
    options = {"client_id": EVIL, "group_instance_id": f"i-{EVIL}"}
    with Consumer("t", bootstrap_servers=own_broker.bootstrap, group_id=name, **options) as consumer:
        join(consumer)
        consumer.commit({TopicPartition("t", 0): OffsetAndMetadata(0)})
        yield name


@pytest.fixture
def kohort(own_broker: BrokerProcess, capfd: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> str:
        run([*arguments, "--bootstrap-server", own_broker.bootstrap])
        return "".join(capfd.readouterr())

    return call


def join(consumer: Consumer) -> None:
    while not consumer.assignment():
        consumer.poll(timeout_ms=100)


def is_harmless(text: str) -> bool:
    lines = text.split("\n")
    return all(each.isprintable() or each == "\t" for line in lines for each in line) and not any(
        line.startswith("kohort ready") for line in lines
    )


@pytest.mark.parametrize(
    "arguments",
    [
        "groups list --state",
        "groups describe GROUP",
        "groups describe GROUP --members --verbose",
        "groups describe GROUP --state",
        "groups describe GROUP --lag",
        "groups explain GROUP",
        "groups reset-offsets GROUP --all-topics --to-earliest --execute",
        "groups reset-offsets GROUP --all-topics --to-earliest --dry-run",
        "groups delete GROUP",
        "groups describe no-GROUP",
    ],
)
def test_a_command_shows_hostile_names_and_does_not_obey_them(
    own_broker: BrokerProcess, kohort: Run, group: str, arguments: str
) -> None:
    words = [each.replace("GROUP", group) for each in arguments.split()]
    text = kohort(*words, *(["--http", own_broker.http] if "--lag" in words else []))
    assert SHOWN in text
    assert is_harmless(text)


@pytest.mark.parametrize(
    "arguments", ["groups list", "groups describe GROUP --members", "groups explain GROUP"]
)
def test_json_contains_only_printable_characters(kohort: Run, group: str, arguments: str) -> None:
    text = kohort(*(each.replace("GROUP", group) for each in arguments.split()), "--json")
    assert is_harmless(text)
    found = json.loads(text)
    each = found[-1] if isinstance(found, list) else found
    assert each.get("group", each.get("group_id")) == group


def test_the_brokers_console_log_has_no_line_of_a_clients_making(
    own_broker: BrokerProcess, group: str
) -> None:
    text = own_broker.log_path.read_text(encoding="utf-8")
    assert r"\nkohort ready" in text
    assert rf"group={QUIET!r} " in text
    assert is_harmless(text)


def test_commands_print_through_one_function() -> None:
    """`click.echo` and `print` obey what they are given."""
    folder = Path(command_line.__path__[0])
    callers = {
        path.name
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"print", "click.echo", "click.secho"}
    }
    assert callers <= {"output.py"}
