"""docs/queues.md: its blocks do what they say, in their order, on both brokers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import trio

from kohort.cli.commands import kohort as command_tree
from kohort.client import Admin, Producer
from kohort.queues.forward.settings import load_settings
from kohort.queues.forward.topics import ensure_topics
from tests.cli.here import kohort
from tests.client.guide import blocks
from tests.client.test_guide import run_page

PAGE = Path(__file__).parents[2] / "docs" / "queues.md"
BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
ASKED_FOR = 17  # The offset of a record that a command of the page asks for.
SERVE = {("queue", "run"), ("queue", "track"), ("region", "run"), ("region", "coordinate")}


def texts(kind: str) -> list[str]:
    return [each["text"] for each in BLOCK.finditer(PAGE.read_text(encoding="utf-8")) if each["kind"] == kind]


def commands() -> Iterator[list[str]]:
    """Yield the words of every command that a block without a language shows."""
    for text in texts(""):
        lines = [
            line.removeprefix("$ ")
            for line in text.splitlines()
            if not text.startswith("$ ") or line[0] == "$"
        ]
        for line in lines:
            program, *words = shlex.split(line, comments=True)
            assert program == "kohort", line
            yield words


def serves(words: list[str]) -> bool:
    """Return whether a command runs until it is stopped."""
    is_forward = words[0] == "forward" and not {"--check", "--explain", "--replay", "--purge"} & set(words)
    return is_forward or tuple(words[:2]) in SERVE


@pytest.fixture
def forward_toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's file, in the working directory."""
    (text,) = texts("toml")
    path = tmp_path / "forward.toml"
    path.write_text(text)
    monkeypatch.chdir(tmp_path)
    return path


def test_every_block_is_of_a_kind_that_is_tried() -> None:
    kinds = {each["kind"] for each in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))}
    assert kinds == {"python", "toml", "text", ""}  # A text is a diagram.


def test_the_file_of_destinations_is_one(forward_toml: Path) -> None:
    (orders,) = load_settings(forward_toml).forward
    assert (orders.name, orders.order.value, orders.attempts_max) == ("orders", "none", 5)


def test_every_command_has_these_words(forward_toml: Path) -> None:
    shown = list(commands())
    assert len(shown) >= 14
    for words in shown:
        parse(command_tree, "kohort", words, None)


def parse(command: click.Command, name: str, words: list[str], parent: click.Context | None) -> None:
    """Take the words in as the command does, without running it. Raises: click.UsageError."""
    context = command.make_context(name, list(words), parent)
    if isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        found, each, more = command.resolve_command(context, rest)
        assert found is not None
        assert each is not None
        parse(each, found, more, context)


def test_every_block_of_the_page_runs(bootstrap: str, forward_toml: Path) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert "orders" not in admin.list_topics()
    printed = run_page(PAGE, bootstrap)
    assert printed.count("-- queues.md") == len(list(blocks(PAGE)))
    assert "handled order 1" in printed
    assert "1 open, 1 dead" in printed
    assert "retried 1" in printed
    assert "total 45" in printed
    forward_toml.write_text(forward_toml.read_text().replace("localhost:9092", bootstrap))
    with Producer(bootstrap_servers=bootstrap) as producer:
        for _ in range(ASKED_FOR + 1):
            producer.send("orders", b"one more", partition=0)
    (orders,) = load_settings(forward_toml).forward
    trio.run(ensure_topics, orders, {"bootstrap_servers": bootstrap})  # As a forwarder does that has started.
    for words in commands():
        if not serves(words):
            where = [] if words[0] == "forward" else ["-b", bootstrap]
            done = kohort(*words, *where)
            assert done.returncode == 0, (words, done.stdout, done.stderr)
