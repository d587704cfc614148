"""Files that tests leave open: those of test worlds are closed, and more than a bound are told."""

import gc
import os
from pathlib import Path

import pytest

from kohort.broker.partitions.test_support import World
from kohort.storage.memory_filesystem import MemoryFileSystem
from tests import left_open

pytest_plugins = ["pytester"]

LEAKED = 20


def counted() -> int:
    """Return how many descriptors are open once the garbage of other tests is gone."""
    gc.collect()
    return left_open.count()


def test_a_world_left_open_by_a_test_releases_its_files_and_threads(tmp_path: Path) -> None:
    before = counted()
    worlds = [World(tmp_path / str(number)) for number in range(3)]
    for world in worlds:
        world.create("t", partitions=5)
        for index in range(5):
            world.fill("t", index)
        world.finish_checks()
    assert left_open.count() >= before + 15
    left_open.let_go()
    assert left_open.count() <= before + 6  # Each keeps its journal, and the lock on its folder.
    assert not any(thread.is_alive() for world in worlds for thread in world.checks._queue._threads)
    left_open.let_go()


def test_memory_files_release_their_descriptors_and_keep_their_content() -> None:
    before = counted()
    file_system = MemoryFileSystem()
    file_system.make_directory("/d")
    file = file_system.open("/d/x", create=True)
    file.write_at([b"content"], 0)
    assert os.pread(file.file_descriptor, 100, 0) == b"content"
    assert left_open.count() == before + 1
    file_system.close()
    assert left_open.count() == before
    assert os.pread(file.file_descriptor, 100, 0) == b"content"
    file_system.close()


def test_too_many_descriptors_are_reported_with_their_targets(tmp_path: Path) -> None:
    before = counted()
    files = [(tmp_path / str(number)).open("wb") for number in range(LEAKED)]
    assert left_open.too_many_descriptors(before + LEAKED) is None
    told = left_open.too_many_descriptors(before + LEAKED - 1)
    assert told is not None
    assert f"{LEAKED} {tmp_path}" in told
    for each in files:
        each.close()


def test_garbage_is_no_leak(tmp_path: Path) -> None:
    before = counted()

    class Holder:
        def __init__(self, number: int) -> None:
            self.myself = self
            self.file = os.fdopen(os.open(tmp_path / str(number), os.O_CREAT | os.O_RDONLY))

    for number in range(LEAKED):
        Holder(number)
    assert left_open.too_many_descriptors(before + 1) is None


def test_a_test_that_leaves_too_many_open_fails(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(__file__).parents[1]
    pytester.makeconftest((root / "conftest.py").read_text(encoding="utf-8"))
    pytester.makepyfile(
        """
        import os

        def test_leaves_much_open():
            for _ in range(600):
                os.dup(0)
        """
    )
    monkeypatch.setenv("PYTHONPATH", str(root))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*descriptors are open, 500 may be*"])
