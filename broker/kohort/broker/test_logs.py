import json
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog

from kohort.broker.logs import (
    TRACEBACK_CHARACTERS_MAX,
    VALUE_CHARACTERS_MAX,
    LogFormat,
    PlainLines,
    configure_logs,
    shortened,
)

FORGED = "x\n2026-01-01T00:00:00Z [info     ] ready\x1b[2K\x9b31m\u202e"


@pytest.fixture(autouse=True)
def own_configuration() -> Iterator[None]:
    """Leave structlog as the other tests know it."""
    yield
    structlog.reset_defaults()


def fail() -> None:
    raise ValueError(FORGED)


def test_client_text_cannot_end_a_line_or_control_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logs("console")
    structlog.get_logger("test").info(
        f"member {FORGED}", client_id=FORGED, member="\x1bm", reasons=[FORGED], by={"id": FORGED}
    )
    (line,) = capsys.readouterr().err.splitlines()
    assert all(each.isprintable() for each in line)
    assert r"client_id='x\n2026-01-01" in line
    assert r"member='\x1bm'" in line


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_line_is_written_in_one_call_beside_other_processes(log_format: str) -> None:
    said = f"from kohort.broker.logs import configure_logs as to; to({log_format!r}); import structlog"
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)  # What is read was written at once.
    with ours, theirs:
        command = [sys.executable, "-c", f"{said}; structlog.get_logger().info('ready', pid=7)"]
        subprocess.run(command, stderr=theirs.fileno(), check=True)
        ours.setblocking(False)
        line = ours.recv(10_000)
        assert b"ready" in line
        assert line.endswith(b"\n")
        with pytest.raises(BlockingIOError):
            ours.recv(10_000)


def test_a_traceback_is_indented_so_that_its_message_cannot_forge_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logs("console")
    try:
        fail()
    except ValueError:
        structlog.get_logger("test").exception("a core failed")
    first, *others = capsys.readouterr().err.splitlines()
    assert "a core failed" in first
    assert any("ValueError: x" in each for each in others)
    assert all(each.startswith("    ") and each.isprintable() for each in others)


def test_json_has_one_line_for_each_event_with_all_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json")
    try:
        fail()
    except ValueError:
        structlog.get_logger("test").exception("a core failed", client_id=FORGED)
    (line,) = capsys.readouterr().err.splitlines()
    assert all(each.isprintable() for each in line)
    said = json.loads(line)
    assert said["client_id"] == FORGED
    assert FORGED in said["exception"]


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"group": "g", "cause": "a member joined", "members": 3, "reason": ""},
        {"quotes": "it's", "double": 'a"b', "equals": "a=b", "path": "/data", "none": None, "list": ["a", 1]},
        {"z": 1, "a": 2, "rate": 1.5, "flag": True, "bytes": b"\x00"},
    ],
)
@pytest.mark.parametrize("level", ["info", "warning", "critical"])
@pytest.mark.parametrize("event", ["ready", "an event that takes more room than its column has"])
def test_plain_lines_equal_those_of_structlog(event: str, level: str, said: dict[str, object]) -> None:
    theirs = structlog.dev.ConsoleRenderer(colors=False)
    line = {"event": event, "level": level, "timestamp": "2026-01-01T00:00:00.000000Z", **said}
    assert PlainLines(theirs)(None, level, dict(line)) == theirs(None, level, dict(line))


def deep(levels: int, text: str) -> None:
    """Raise an error within errors, in two functions by turns: Python shortens what calls itself alone."""
    if not levels:
        raise ValueError(text)
    try:
        deeper(levels - 1, text)
    except ValueError as error:
        raise ValueError(text) from error


def deeper(levels: int, text: str) -> None:
    deep(levels, text)


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_lines_are_short_for_any_client_text(
    capsys: pytest.CaptureFixture[str], log_format: LogFormat
) -> None:
    configure_logs(log_format)
    long = "x" * 1_000_000
    log = structlog.get_logger("test")
    log.info("said", text=long, texts=[long], by={"id": long}, error=ValueError(long), number=7)
    log.info(long)
    try:
        deep(200, "y" * 3_000)
    except ValueError:
        log.exception("failed")
    lines = capsys.readouterr().err
    assert len(lines) < 5 * VALUE_CHARACTERS_MAX + 2 * TRACEBACK_CHARACTERS_MAX + 2_000
    assert lines.count("characters left out") == 6
    assert ("number=7" if log_format == "console" else '"number": 7') in lines


def test_a_value_that_cannot_be_shown_does_not_lose_the_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

        __repr__ = Exception.__repr__

    configure_logs("console")
    structlog.get_logger("test").info("said", error=Broken())
    assert "said" in capsys.readouterr().err


def test_a_text_loses_its_middle_where_it_is_too_long() -> None:
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdefg", 6) == "abc ... 1 characters left out ... efg"
