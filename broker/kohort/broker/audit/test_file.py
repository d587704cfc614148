"""The file of the audit log: its disk may be slow, full, or gone; nobody waits, losses are counted."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kohort.broker.audit import file as audit_file
from kohort.broker.audit.audit_log import USES_PER_SECOND_MAX, AuditLog
from kohort.broker.audit.file import LINES_MAX, AuditFile
from kohort.broker.runtime.clock import ManualClock


def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def opened(path: Path, size_bytes_max: int = 1_000_000, files_max: int = 2) -> AuditFile:
    return AuditFile(str(path), size_bytes_max=size_bytes_max, files_max=files_max)


def test_reopened_file_is_appended_to_in_order(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    for begin in (0, 5_000):
        file = opened(path)
        for number in range(begin, begin + 5_000):
            file.write(b"%d" % number)
        file.close()
        assert file.lost == 0
    assert path.read_bytes().split() == [b"%d" % each for each in range(10_000)]


@pytest.mark.parametrize("files_max", [0, 1, 3])
def test_no_file_exceeds_its_limit_by_more_than_one_line(tmp_path: Path, files_max: int) -> None:
    file = opened(tmp_path / "audit", 100, files_max)
    for number in range(200):
        file.write(b"%04d" % number)
    file.write(b"x" * 300)
    file.close()
    names = ["audit", *(f"audit.{each}" for each in range(1, files_max + 1))]
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(names)
    assert (tmp_path / "audit").read_bytes() == b"x" * 300 + b"\n"
    for name in names[1:]:
        assert (tmp_path / name).stat().st_size == 100


def test_a_stalled_disk_loses_lines_but_does_not_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_file, "LINES_MAX", 100)
    path = tmp_path / "audit"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    file = opened(path, 10**9)
    for number in range(50_000):
        file.write(b"%08d" % number)
    assert file.lost > 30_000
    found = b""
    while b'"lost"' not in found:
        file.write(b"behind")
        try:
            found += os.read(reader, 1 << 20)
        except BlockingIOError:
            time.sleep(0.001)
    told = [each for each in found.splitlines() if each.endswith(b"}")]
    assert 0 < sum(int(each.rpartition(b":")[2].rstrip(b"}")) for each in told) <= file.lost
    os.set_blocking(reader, True)
    os.close(reader)
    file.close()


def test_many_uses_at_once_do_not_crowd_out_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One request may name ten thousand topics; what comes right behind it shall not be lost for that."""
    disk_goes_on, append = threading.Event(), AuditFile._append

    def append_later(file: AuditFile, lines: list[bytes]) -> None:
        disk_goes_on.wait(20)
        append(file, lines)

    monkeypatch.setattr(AuditFile, "_append", append_later)
    path = tmp_path / "audit"
    file = opened(path, 10**9)
    audit_log = AuditLog(file.write, ManualClock(), file.write_use)
    for number in range(2 * LINES_MAX):
        who = f"User:{number // USES_PER_SECOND_MAX}"
        audit_log.used(who, "10.0.0.1", "Metadata", "DESCRIBE", f"TOPIC:made-up-{number}", allowed=True)
    lost = file.lost
    assert lost > LINES_MAX
    audit_log.write_event("change", principal="User:bob", api="DeleteTopics")
    audit_log.login("User:mallory", "10.0.0.1", "PLAIN", "the password is not that of mallory")
    assert file.lost == lost
    disk_goes_on.set()
    file.close()
    assert b"DeleteTopics" in path.read_bytes()
    assert b"mallory" in path.read_bytes()


def test_a_full_disk_is_logged_and_writing_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write, is_full = tmp_path / "audit", os.write, [True]
    file = opened(path)

    def may_fail(descriptor: int, data: bytes) -> int:
        if is_full[0]:
            write(descriptor, bytes(data)[:3])
            raise OSError(28, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", may_fail)
    file.write(b"first line")
    until(lambda: file.lost == 1)
    is_full[0] = False
    file.write(b"second line")
    until(lambda: b"second line" in path.read_bytes())
    file.close()
    assert path.read_bytes() == b'fir\nsecond line\n{"event":"lost","lines":1}\n'


def test_a_file_that_cannot_be_opened_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        opened(tmp_path / "none" / "audit")
