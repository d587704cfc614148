"""What a start finds and what it makes of it: stray files, empty segments, lying indexes, gaps, big logs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.protocol.records import build_batch, iterate_batches, read_header
from kohort.storage import DataDirectory, LogConfig, OsFileSystem, PartitionLog
from kohort.storage.filesystem import File, OsFile, StrPath
from tests.repetitions import repetitions

TOPIC_ID = UUID(int=3)
CONFIG = LogConfig(segment_bytes=1_000, index_interval_bytes=150)


class CountingFileSystem(OsFileSystem):
    """Counts the bytes of segments that are read."""

    def __init__(self) -> None:
        self.read_bytes: dict[str, int] = {}

    def open(self, path: StrPath, *, create: bool = False) -> File:
        return CountedFile(super().open(path, create=create), Path(path).name, self)


class CountedFile(OsFile):
    __slots__ = ("_counts", "_name")

    def __init__(self, file: File, name: str, counts: CountingFileSystem) -> None:
        super().__init__(os.dup(file.file_descriptor))
        self._name, self._counts = name, counts

    def read_at(self, size: int, position: int) -> bytes:
        data = super().read_at(size, position)
        counts = self._counts.read_bytes
        counts[self._name] = counts.get(self._name, 0) + len(data)
        return data


def batch_of(number: int) -> bytes:
    return build_batch([(1000 + number, None, b"%d" % number, ())], base_offset=number, leader_epoch=0)


def stage(log: PartitionLog, count: int) -> None:
    for _ in range(count):
        batch = batch_of(log.log_end_offset)
        log.stage(batch, (read_header(batch),), 0)
    log.write(True)


def opened(path: Path, file_system: OsFileSystem | None = None) -> tuple[DataDirectory, PartitionLog]:
    directory = DataDirectory.open(path, file_system or OsFileSystem())
    return directory, directory.open_log("orders", TOPIC_ID, 0, CONFIG)


def offsets(log: PartitionLog) -> list[int]:
    return [read_header(batch).base_offset for batch in log.read_batches(log.log_start_offset)]


def offsets_by_reads(log: PartitionLog) -> list[int]:
    """Return the offsets that a consumer meets, who asks for one batch after the other."""
    found: list[int] = []
    offset = log.log_start_offset
    while data := log.read(offset, 1, log.written_offset).read():
        header = read_header(next(iterate_batches(data, check_crcs=True)))
        found.append(header.base_offset)
        offset = header.next_offset
    return found


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A data folder with a log of 100 records in several segments, as kill -9 leaves it."""
    directory, log = opened(tmp_path)
    stage(log, 100)
    directory.checkpoint()
    return tmp_path


@pytest.fixture
def closed(killed: Path) -> Path:
    directory, _ = opened(killed)
    directory.close()
    return killed


def test_unrelated_files_and_folders_are_not_changed(killed: Path) -> None:
    folder = killed / "orders-0"
    strays = [folder / "notes.txt", folder / "123.log.bak", killed / "lost+found", killed / "orders-x"]
    for stray in strays[:2]:
        stray.write_text("mine")
    for stray in strays[2:]:
        stray.mkdir()
    (folder / "00000000000000099999.index").write_bytes(b"an index without a log")
    (folder / "00000000000000000000.log.cleaned").write_bytes(b"half done")
    directory, log = opened(killed)
    assert offsets(log) == list(range(100))
    assert [each.path.name for each in directory.partitions()] == ["orders-0"]
    assert all(stray.exists() for stray in strays)
    assert not (folder / "00000000000000099999.index").exists()
    assert not (folder / "00000000000000000000.log.cleaned").exists()


def test_an_empty_newest_segment_is_continued(killed: Path) -> None:
    (killed / "orders-0" / f"{100:020d}.log").touch()
    _, log = opened(killed)
    assert log.log_end_offset == 100
    stage(log, 5)
    assert offsets(log) == list(range(105))


def test_a_log_of_one_empty_segment_starts_at_its_base_offset(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{40:020d}.log").touch()
    _, log = opened(tmp_path)
    assert (log.log_start_offset, log.log_end_offset) == (40, 40)
    stage(log, 2)
    assert offsets(log) == [40, 41]


@pytest.mark.parametrize("start", ["killed", "closed"])
def test_a_missing_segment_is_a_gap_that_readers_skip(start: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(start)
    bases = sorted(int(each.stem) for each in (path / "orders-0").glob("*.log"))
    (path / "orders-0" / f"{bases[1]:020d}.log").unlink()
    _, log = opened(path)
    left = [offset for offset in range(100) if not bases[1] <= offset < bases[2]]
    assert offsets(log) == left
    assert offsets_by_reads(log) == left


def swapped(content: bytes, size: int) -> bytes:
    entries = [content[place : place + size] for place in range(0, len(content), size)]
    return b"".join(reversed(entries))


LIES: dict[str, Callable[[bytes], bytes]] = {
    "far ahead": lambda content: b"".join(
        content[place : place + 4] + content[-4:] for place in range(0, len(content), 8)
    ),
    "within a batch": lambda content: b"".join(
        content[place : place + 7] + bytes([content[place + 7] | 1]) for place in range(0, len(content), 8)
    ),
    "behind the end": lambda content: content[:4] + b"\x7f\xff\xff\xff" + content[8:],
    "backwards": lambda content: swapped(content, 8),
    "negative": lambda content: b"\xff" * 8 + content[8:],
    "half an entry": lambda content: content[:-3],
    "gone": lambda content: b"",
}


@pytest.mark.parametrize("start", ["killed", "closed"])
@pytest.mark.parametrize("lie", LIES)
def test_an_index_that_lies_is_not_believed(lie: str, start: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(start)
    for index in (path / "orders-0").glob("*.index"):
        index.write_bytes(LIES[lie](index.read_bytes()))
    _, log = opened(path)
    assert offsets_by_reads(log) == list(range(100))
    assert offsets(log) == list(range(100))
    stage(log, 10)
    assert offsets_by_reads(log) == list(range(110))


def test_a_clean_start_reads_the_tails_and_no_more(closed: Path) -> None:
    counts = CountingFileSystem()
    _, log = opened(closed, counts)
    newest = max((closed / "orders-0").glob("*.log"))
    assert log.segment_count > 3
    assert counts.read_bytes[newest.name] <= 2 * newest.stat().st_size
    check_tails_alone_were_read(counts, log)


def check_tails_alone_were_read(counts: CountingFileSystem, log: PartitionLog) -> None:
    """Of sealed segments what lies behind the last index entry, which says whether they are whole."""
    for segment in log.segments[:-1]:
        tail_bytes = segment.size_bytes - segment.index.last_position()
        assert counts.read_bytes[f"{segment.base_offset:020d}.log"] <= tail_bytes


@pytest.mark.parametrize("count", [100, 1_000])
def test_a_start_after_a_crash_reads_only_unsynced_parts(tmp_path: Path, count: int) -> None:
    directory, log = opened(tmp_path)
    stage(log, count)
    directory.checkpoint()
    del directory, log
    counts = CountingFileSystem()
    _, log = opened(tmp_path, counts)
    check_tails_alone_were_read(counts, log)


class Image(dict[str, bytes]):
    """The contents of files by their names."""

    def __repr__(self) -> str:
        return f"<{len(self)} files>"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The files of a log that was killed before any checkpoint."""
    path = tmp_path_factory.mktemp("image")
    directory, log = opened(path)
    stage(log, 60)
    files = Image((each.name, each.read_bytes()) for each in (path / "orders-0").iterdir())
    directory.close()
    return files


@settings(max_examples=repetitions(30, by_night=60))
@given(data=st.data())
def test_any_truncation_of_any_file_leaves_the_longest_valid_prefix(
    data: st.DataObject, image: Image, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Every file is cut anywhere: the log ends with the first batch that is not whole.

    A segment that was cut between two batches looks like one that was compacted: a gap.
    """
    path = tmp_path_factory.mktemp("cut")
    folder = path / "orders-0"
    folder.mkdir()
    expected: list[int] = []
    is_whole = True
    for name, content in sorted(image.items()):
        is_cut = data.draw(st.booleans(), label=f"cut {name}")
        size = data.draw(st.integers(0, len(content)), label="size") if is_cut else len(content)
        (folder / name).write_bytes(content[:size])
        if name.endswith(".log") and is_whole:
            batches = list(iterate_batches(content[:size]))
            expected += [read_header(batch).base_offset for batch in batches]
            is_whole = sum(map(len, batches)) == size
    _, log = opened(path)
    assert offsets(log) == expected
    assert offsets_by_reads(log) == expected
    end = log.log_end_offset
    stage(log, 3)
    assert offsets(log) == [*expected, end, end + 1, end + 2]


OPERATION = st.one_of(
    st.tuples(st.just("stage"), st.integers(1, 30)),
    st.tuples(st.just("read"), st.integers(0, 400)),
    st.tuples(st.just("delete"), st.integers(0, 400)),
    st.tuples(st.just("truncate"), st.integers(0, 400)),
    st.tuples(st.just("reopen"), st.integers(0, 1)),
)


@settings(max_examples=repetitions(20, by_night=40))
@given(operations=st.lists(OPERATION, min_size=5, max_size=25))
def test_reads_equal_a_model_in_memory(
    operations: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("model")
    directory, log = opened(path)
    start, end = 0, 0
    for kind, argument in operations:
        if kind == "stage":
            stage(log, argument)
            end += argument
        elif kind == "delete":
            log.delete_records_before(min(argument, end), 0)
            start = max(start, min(argument, end))
        elif kind == "truncate" and argument >= start:
            log.truncate_to(argument)
            end = min(end, argument)
        elif kind == "reopen":
            if argument:
                directory.close()
            else:
                directory.checkpoint()
            directory._lock = None  # As a killed process lets it go.
            directory, log = opened(path)
        assert (log.log_start_offset, log.log_end_offset) == (start, end)
        if kind == "read" and start <= argument < end:
            data = log.read(argument, 1, end).read()
            assert data == batch_of(argument)
    assert offsets_by_reads(log) == list(range(start, end))
    for offset in range(start, end, 7):
        found = log.offset_for_timestamp(1000 + offset)
        assert found is not None
        assert (found.offset, found.timestamp) == (offset, 1000 + offset)


@pytest.mark.parametrize("start", ["killed", "closed"])
def test_an_offset_outside_the_index_range_ends_the_log(start: str, request: pytest.FixtureRequest) -> None:
    """The base offset lies outside the CRC: one flipped bit makes it any number."""
    path: Path = request.getfixturevalue(start)
    newest = max((path / "orders-0").glob("*.log"))
    content = bytearray(newest.read_bytes())
    *_, last = iterate_batches(bytes(content))
    content[len(content) - len(last)] = 0x40
    newest.write_bytes(content)
    _, log = opened(path)
    assert offsets(log) == list(range(99))
    stage(log, 2)
    assert offsets(log) == list(range(101))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("left", [0.0, 0.4, 0.99])
def test_a_sealed_segment_that_was_cut_short_is_noticed_and_readers_go_on(
    tmp_path: Path, left: float, clean: bool
) -> None:
    directory, log = opened(tmp_path)
    stage(log, 60)
    sealed, following = log.segments[1], log.segments[2]
    size_bytes = sealed.size_bytes
    directory.checkpoint()
    directory.close()
    if not clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
    os.truncate(tmp_path / "orders-0" / f"{sealed.base_offset:020d}.log", int(size_bytes * left))
    _, again = opened(tmp_path)
    [(begin, end)] = again.gaps
    assert sealed.base_offset <= begin < end == following.base_offset
    assert offsets(again) == offsets_by_reads(again) == [*range(begin), *range(end, 60)]


def test_a_segment_that_was_cut_between_two_batches_is_noticed(tmp_path: Path) -> None:
    directory, log = opened(tmp_path)
    stage(log, 60)
    sealed = log.segments[1]
    last = sealed.position_of(log.segments[2].base_offset - 1, sealed.size_bytes)
    directory.close()
    os.truncate(tmp_path / "orders-0" / f"{sealed.base_offset:020d}.log", last)
    _, again = opened(tmp_path)
    assert again.gaps == ((log.segments[2].base_offset - 1, log.segments[2].base_offset),)
    again.truncate_to(again.gaps[0][0])  # As a follower does, which is given the rest again.
    assert again.log_end_offset == log.segments[2].base_offset - 1
    assert not again.gaps


def test_intact_sealed_segments_have_no_gaps(tmp_path: Path) -> None:
    directory, log = opened(tmp_path)
    stage(log, 60)
    directory.close()
    assert opened(tmp_path)[1].gaps == ()
