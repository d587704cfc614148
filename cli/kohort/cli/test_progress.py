"""The line that says how far something is."""

import io
from pathlib import Path

import pytest

from kohort.cli.progress import (
    CLEAR_LINE,
    ByteProgress,
    LineProgress,
    LoggedLines,
    StatusLine,
    duration_text,
    size_text,
)


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_line_is_updated_at_most_ten_times_a_second_and_cleared_at_the_end() -> None:
    clock, out = Clock(), io.StringIO()
    with StatusLine(out, clock) as line:
        for text in ("one", "two", "three"):
            line.show(text)
            clock.now_s += 0.06
    assert out.getvalue().split(CLEAR_LINE) == ["", "one", "three", ""]


def test_a_line_is_no_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    out = io.StringIO()
    StatusLine(out).show("x" * 200)
    assert out.getvalue() == CLEAR_LINE + "x" * 19


def test_without_a_terminal_a_new_line_is_written_at_most_every_ten_seconds() -> None:
    clock, out = Clock(), io.StringIO()
    shown = {100: "0", 109: "1", 110: "2", 115: "3", 121: "2", 122: "4", 131: "5"}
    with LoggedLines(out, clock) as lines:
        for clock.now_s, text in shown.items():
            lines.show(text)
    assert out.getvalue() == "2\n4\n"


def test_byte_progress_has_a_bar_a_speed_and_the_time_left() -> None:
    clock, out = Clock(), io.StringIO()
    bar = ByteProgress(out, 4_000_000, clock)
    assert bar.text().endswith("0 bytes of 4.0 MB  0 bytes/s  -:-- left")
    clock.now_s += 2
    bar.advance(1_000_000)
    assert bar.text() == "#######----------------------- 1.0 MB of 4.0 MB  500.0 kB/s  0:06 left"
    bar.advance(9_000_000)
    assert bar.text().startswith("#" * 30 + " 10.0 MB of 4.0 MB")


def test_bytes_of_a_pipe_have_no_end() -> None:
    clock, out = Clock(), io.StringIO()
    bar = ByteProgress(out, None, clock)
    clock.now_s += 10
    bar.advance(5_000)
    assert out.getvalue() == CLEAR_LINE + "5.0 kB  500 bytes/s"


def test_lines_of_a_file_are_counted(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"123456789\n" * 2_000)
    with (tmp_path / "lines").open("rb") as source:
        bar = LineProgress(source, io.StringIO())
        for line in source:
            bar.advance(len(line))
    assert bar.text().startswith("2,000 lines  " + "#" * 30 + " 20.0 kB of 20.0 kB")


def test_sizes_and_times() -> None:
    assert [size_text(each) for each in (0, 999, 1_000, 2_500_000, 3e9)] == [
        "0 bytes",
        "999 bytes",
        "1.0 kB",
        "2.5 MB",
        "3.0 GB",
    ]
    assert [duration_text(each) for each in (0, 59.6, 61, 3_661)] == ["0:00", "1:00", "1:01", "1:01:01"]
