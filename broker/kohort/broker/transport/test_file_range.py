"""What is in the page cache and what is not, as the system tells it."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.broker.transport import file_range
from kohort.broker.transport.file_range import PROBE_BYTES, STRETCH_BYTES, FileRange

SIZE = 3 * STRETCH_BYTES


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "log").write_bytes(os.urandom(SIZE))
    opened = os.open(tmp_path / "log", os.O_RDONLY)
    yield opened
    os.close(opened)


def refuse(monkeypatch: pytest.MonkeyPatch, error: OSError | None, cold_from: int = 0) -> list[int]:
    """Let reads that may not wait fail from `cold_from` on; return where the system was asked."""
    asked: list[int] = []
    real = os.preadv

    def preadv(descriptor: int, buffers: list[bytearray], offset: int, flags: int = 0) -> int:
        if flags:
            asked.append(offset)
            if error is not None and offset >= cold_from:
                raise error
            return 1
        return real(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", preadv)
    monkeypatch.setattr(file_range, "_NOWAIT", 8)
    return asked


def test_a_file_just_written_is_warm(descriptor: int) -> None:
    assert FileRange(descriptor, 0, SIZE, None).is_warm()


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="this system does not tell")
def test_a_range_dropped_from_the_page_cache_is_cold_until_it_is_read(descriptor: int) -> None:
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    cold = FileRange(descriptor, STRETCH_BYTES, SIZE - STRETCH_BYTES, None)
    if cold.is_warm():
        pytest.skip("this file system keeps what it was told to drop")
    cold.warm()
    assert cold.is_warm()
    assert FileRange(descriptor, STRETCH_BYTES, STRETCH_BYTES, None).is_warm()


def test_each_stretch_is_checked_once_and_in_steps(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = refuse(monkeypatch, None)
    range_ = FileRange(descriptor, 100, 2 * STRETCH_BYTES, None)
    assert range_.is_warm()
    assert asked == [*range(100, STRETCH_BYTES + 99, PROBE_BYTES), STRETCH_BYTES + 99]
    asked.clear()
    range_.position += 1_000
    range_.size_bytes = STRETCH_BYTES - 1_000
    assert range_.is_warm()
    assert asked == []


def test_a_cold_end_makes_a_stretch_cold(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, BlockingIOError(errno.EAGAIN, "cold"), cold_from=STRETCH_BYTES - 1)
    assert not FileRange(descriptor, 0, STRETCH_BYTES, None).is_warm()
    assert FileRange(descriptor, 0, STRETCH_BYTES - 1, None).is_warm()


def test_a_stretch_that_was_read_is_sent_even_if_it_is_dropped_again(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, BlockingIOError(errno.EAGAIN, "cold"))
    range_ = FileRange(descriptor, 0, SIZE, None)
    assert not range_.is_warm()
    range_.warm()
    assert range_.is_warm()


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL])
def test_without_file_system_support_every_range_is_warm(
    number: int, descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, OSError(number, "cannot tell"))
    assert FileRange(descriptor, 0, SIZE, None).is_warm()


def test_an_error_of_the_disk_is_no_answer(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, OSError(errno.EIO, "broken"))
    with pytest.raises(OSError, match="broken"):
        FileRange(descriptor, 0, SIZE, None).is_warm()
