"""The mirror over a checkpoint on the disk and a group in memory that can be away."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from kohort.client import NetworkError, TopicPartition
from kohort.pipeline.ingest import mirror as module
from kohort.pipeline.ingest.checkpoint import Checkpoint, Offsets
from kohort.pipeline.ingest.comparison import (
    Comparison,
    GroupAheadError,
    GroupBusyError,
    compare,
    require_no_members,
)
from kohort.pipeline.ingest.folder import HadoopFolder, LocalFolder
from kohort.pipeline.ingest.mirror import Mirror

AIR = TopicPartition("air", 0)
PATIENCE_S = 10.0


class Group:
    """A group in memory."""

    group_id = "g"

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, int] = {}
        self.commits: list[int] = []
        self.members = 0
        self.is_away = False
        self.attempts = 0

    def look(self, offsets: Offsets) -> Comparison:
        self.attempts += 1
        if self.is_away:
            raise NetworkError("nobody is there")
        require_no_members(self.group_id, self.members)
        return compare(offsets, self.offsets)

    def commit(self, offsets: Offsets, note: str) -> None:
        assert note.startswith("spark batch")
        self.offsets.update(offsets)
        self.commits.append(offsets[AIR])


class Spark:
    """Writes a checkpoint as Spark does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("offsets", "commits"):
            (folder / name).mkdir()

    def plan(self, batch_id: int, end: int) -> None:
        (self.folder / "offsets" / str(batch_id)).write_text(f'v1\n{{}}\n{{"air":{{"0":{end}}}}}')

    def commit(self, batch_id: int) -> None:
        (self.folder / "commits" / str(batch_id)).write_text("v1\n{}")


@pytest.fixture
def group() -> Group:
    return Group()


@pytest.fixture
def spark(tmp_path: Path) -> Spark:
    return Spark(tmp_path)


@pytest.fixture
def mirror(group: Group, spark: Spark) -> Iterator[Mirror]:
    mirror = Mirror(Checkpoint(LocalFolder(spark.folder)), group)
    yield mirror
    if any(each.name == "kohort-spark-mirror" for each in threading.enumerate()):
        mirror.finish(0)


def until(happened: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def test_the_group_is_committed_only_after_spark_has_committed(
    mirror: Mirror, group: Group, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = threading.Semaphore(0)
    is_committed = Checkpoint.is_committed

    def counted(checkpoint: Checkpoint, batch_id: int) -> bool:
        looked.release()
        return is_committed(checkpoint, batch_id)

    monkeypatch.setattr(Checkpoint, "is_committed", counted)
    mirror.start()
    spark.plan(0, 5)
    mirror.expect(0)
    for _ in range(3):
        assert looked.acquire(timeout=PATIENCE_S)
    assert group.commits == []
    spark.commit(0)
    until(lambda: group.commits == [5])
    assert mirror.state.batch_id == 0


def test_a_group_left_behind_by_a_kill_is_updated_at_the_start(
    mirror: Mirror, group: Group, spark: Spark
) -> None:
    spark.plan(0, 5)
    spark.commit(0)
    mirror.start()
    assert group.commits == [5]


def test_finish_commits_the_last_batch_even_if_it_was_not_expected(
    mirror: Mirror, group: Group, spark: Spark
) -> None:
    mirror.start()
    spark.plan(0, 5)
    spark.commit(0)
    spark.plan(1, 9)
    assert mirror.finish(1).batch_id == 0
    assert group.commits == [5]


def test_a_group_that_is_ahead_or_busy_is_refused_untouched(
    group: Group, spark: Spark, mirror: Mirror
) -> None:
    spark.plan(0, 5)
    spark.commit(0)
    group.offsets[AIR] = 6
    with pytest.raises(GroupAheadError):
        mirror.start()
    group.members = 1
    with pytest.raises(GroupBusyError):
        mirror.start()
    assert group.commits == []


def test_it_moves_the_group_back_when_told(group: Group, spark: Spark) -> None:
    spark.plan(0, 5)
    spark.commit(0)
    group.offsets[AIR] = 6
    mirror = Mirror(Checkpoint(LocalFolder(spark.folder)), group, backwards=True)
    mirror.start()
    assert group.offsets == {AIR: 5}
    assert mirror.finish(1).is_true


def test_without_a_coordinator_it_retries_and_the_last_batch_counts(
    mirror: Mirror, group: Group, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_FIRST_S", 0.01)
    monkeypatch.setattr(module, "RETRY_MAX_S", 0.02)
    group.is_away = True
    mirror.start()
    for number, end in enumerate((5, 7, 9)):
        spark.plan(number, end)
        spark.commit(number)
        mirror.expect(number)
    tried = group.attempts
    until(lambda: group.attempts > tried + 2)
    assert not mirror.state.is_true
    group.is_away = False
    until(lambda: mirror.state.is_true)
    assert group.commits == [9]


def test_a_missing_coordinator_is_left_to_the_next_start(mirror: Mirror, group: Group, spark: Spark) -> None:
    mirror.start()
    spark.plan(0, 5)
    spark.commit(0)
    group.is_away = True
    state = mirror.finish(0)
    assert state.error == "nobody is there"
    assert group.commits == []


def test_members_that_join_meanwhile_are_reported_and_do_not_stop_the_data(
    mirror: Mirror, group: Group, spark: Spark
) -> None:
    mirror.start()
    group.members = 1
    spark.plan(0, 5)
    spark.commit(0)
    mirror.expect(0)
    until(lambda: mirror.state.error is not None)
    assert "live member" in str(mirror.state.error)
    group.members = 0
    assert mirror.finish(5).is_true
    assert group.commits == [5]


def test_an_unreadable_checkpoint_does_not_end_the_mirror(
    mirror: Mirror, group: Group, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = 0
    names, exists = LocalFolder.names, LocalFolder.exists

    def broken(call: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*arguments: object) -> object:
            nonlocal refused
            if refused < 5:
                refused += 1
                raise OSError("stale file handle")
            return call(*arguments)

        return wrapped

    mirror.start()
    monkeypatch.setattr(LocalFolder, "names", broken(names))
    monkeypatch.setattr(LocalFolder, "exists", broken(exists))
    spark.plan(0, 5)
    spark.commit(0)
    mirror.expect(0)
    until(lambda: group.commits == [5])
    assert refused == 5
    assert mirror.state.is_true


def test_a_checkpoint_that_stays_unreadable_is_not_trusted(
    mirror: Mirror, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror.start()

    def broken(_folder: LocalFolder) -> set[str]:
        raise OSError("stale file handle")

    monkeypatch.setattr(LocalFolder, "names", broken)
    assert mirror.finish(0).error == "stale file handle"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_mirror_that_has_ended_is_true_no_more(
    mirror: Mirror, group: Group, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_offsets: Offsets) -> Comparison:
        raise RuntimeError("a fault of ours")

    mirror.start()
    monkeypatch.setattr(group, "look", broken)
    spark.plan(0, 5)
    spark.commit(0)
    mirror.expect(0)
    until(lambda: not mirror.state.is_true)
    assert mirror.state.error == mirror.finish(0).error == "the group is told no more: a fault of ours"


def test_a_checkpoint_that_is_not_text_is_reported_and_does_not_end_the_mirror(
    mirror: Mirror, group: Group, spark: Spark
) -> None:
    mirror.start()
    spark.plan(0, 5)
    (spark.folder / "commits" / "0").write_bytes(b"\xff\xfe")
    mirror.expect(0)
    until(lambda: not mirror.state.is_true)
    assert "is of version" in str(mirror.state.error)
    spark.commit(0)
    until(lambda: group.commits == [5])
    assert mirror.finish(5).is_true


def test_errors_from_java_are_a_folders_errors() -> None:
    class Java:
        def __getattr__(self, name: str) -> "Java":
            return self

        def __call__(self, *arguments: object) -> "Java":
            if arguments and arguments != ("hdfs://h/c",):
                raise Py4JError("the gateway is gone")
            return self

    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jvm=Java(), _jsc=Java()))
    folder = HadoopFolder.__new__(HadoopFolder)
    folder._spark, folder._uri = session, "hdfs://h/c"
    folder._path_class = folder._system = Java()
    with pytest.raises(OSError, match="the gateway is gone"):
        folder.exists("commits")
