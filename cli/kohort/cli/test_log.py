"""`kohort log`: what is printed, and which exit code a script sees."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from kohort.cli.commands import run
from kohort.protocol.records import build_batch, read_header
from kohort.storage import DataDirectory, LogConfig, OsFileSystem


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = DataDirectory.open(tmp_path, OsFileSystem())
    log = directory.open_log("orders", UUID(int=5), 0, LogConfig())
    batch = build_batch([(1000, b"key", b"\xff\xfe", ()), (1000, None, b"text", ())])
    log.stage(batch, (read_header(batch),), 0)
    directory.close()
    return tmp_path


def test_a_sound_folder_is_verified_with_exit_code_0(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", "verify", str(data), "--deep"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("1 partition, 1 segment, 1 batch, 2 records")
    assert said.endswith("MB/s): nothing is wrong\n")


def test_problems_are_listed_with_exit_code_1(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = data / "orders-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-1])
    assert run(["log", "verify", str(data)]) == 1
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{log}: position 0: no whole batch")
    assert "problems" in last


def test_the_verification_report_can_be_json(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", "verify", str(data), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["partitions"], told["records"], told["problems"]) == (1, 2, [])
    log = data / "orders-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-1])
    assert run(["log", "verify", str(data), "--json"]) == 1
    first, *_ = json.loads(capsys.readouterr().out)["problems"]
    assert first["path"] == str(log)
    assert first["text"].startswith("position 0: no whole batch")


def test_a_dump_as_json_is_an_object_a_line(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = data / "orders-0" / f"{0:020d}.log"
    assert run(["log", "dump", str(log), "--deep", "--format", "json"]) == 0
    told = capsys.readouterr().out
    assert run(["log", "dump", str(log), "--deep", "--json"]) == 0
    assert capsys.readouterr().out == told
    found = [json.loads(line) for line in told.splitlines()]
    assert [each["type"] for each in found] == ["file", "note", "batch", "record", "record"]
    assert found[3]["payload"] == {"base64": "//4="}
    assert found[4]["payload"] == "text"


def test_a_dump_of_damage_ends_with_exit_code_1(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = data / "orders-0" / f"{0:020d}.log"
    log.write_bytes(b"nonsense")
    assert run(["log", "dump", str(log)]) == 1
    assert "Found 8 invalid bytes" in capsys.readouterr().out


def test_a_folder_without_logs_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["log", "verify", str(tmp_path)]) == 1
    assert "neither a data folder" in capsys.readouterr().err
