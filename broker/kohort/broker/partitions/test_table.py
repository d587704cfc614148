import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event, Timer
from uuid import UUID, uuid4

import msgspec
import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from kohort.broker.metadata import Mutation, PartitionState, TopicState
from kohort.broker.partitions import Partition, opening
from kohort.broker.partitions.test_support import NODE_ID, World
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.storage import LogConfig, PartitionLog, StorageError
from kohort.storage.filesystem import FileSystem
from kohort.storage.memory_filesystem import MemoryFileSystem


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def with_records_in_log(folder: Path, disk: FileSystem | None = None, *, batches: int = 1) -> World:
    """Return a world, started anew, whose log `t-0` has batches of which the journal knows nothing."""
    before = World(folder, disk)
    before.create("t")
    before.fill("t", batches=batches)
    before.close()
    before.journal.close()
    return World(folder, disk, metadata=before.metadata)


def test_partitions_are_found_by_name_and_by_id(world: World) -> None:
    topic_id = world.create("t", 2)
    partition = world.partition("t", 1)
    assert partition is world.table.get("t", 1) is world.table.get_by_id(topic_id, 1)
    assert (partition.topic, partition.topic_id, partition.index) == ("t", topic_id, 1)


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_out_of_range_has_no_partition(world: World, index: int) -> None:
    topic_id = world.create("t", 2)
    assert world.table.get("t", index) is None
    assert world.table.get_by_id(topic_id, index) is None
    assert world.table.why_missing("t", index) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_missing_topic_has_the_error_of_its_name_or_id(world: World) -> None:
    assert world.table.why_missing("t", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.table.why_missing(UUID(int=5), 0) is ErrorCode.UNKNOWN_TOPIC_ID


def test_partition_that_another_broker_leads_is_not_ours(world: World) -> None:
    states = (PartitionState(0, NODE_ID + 1, 0, (NODE_ID + 1,), (NODE_ID + 1,)),)
    world.metadata.apply(Mutation(put=(TopicState("t", uuid4(), states),)))
    with pytest.raises(ApiError) as caught:
        world.table.serving("t", 0)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_logs_are_opened_at_first_use(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create("t", 3)
    world.close()
    again = World(tmp_path, metadata=world.metadata)
    assert [partition.opened for partition in again.table] == [False, False, False]
    again.partition("t", 1)
    assert [partition.opened for partition in again.table] == [False, True, False]


async def test_a_new_topic_is_ready_after_its_folders_are_created(world: World) -> None:
    world.create("t", 3)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.table.opening.ready, "t")
        await trio.testing.wait_all_tasks_blocked()
        world.run_posted()
    assert [partition.opened for partition in world.table] == [True, True, True]
    assert [(world.data.path / f"t-{index}").is_dir() for index in range(3)] == [True, True, True]
    await world.table.opening.ready("t")
    await world.table.opening.ready("unknown")


def test_more_partitions_leave_the_others_as_they_are(world: World) -> None:
    topic_id = world.create("t", 1)
    first = world.partition("t", 0)
    world.create("t", 3, topic_id=topic_id)
    assert world.partition("t", 0) is first
    assert [each.index for each in world.table.of_topic("t")] == [0, 1, 2]
    assert len(world.table) == 3


def test_deleted_topic_leaves_no_files(world: World) -> None:
    world.create("t", 2)
    world.fill("t")
    partition = world.partition("t")
    world.delete("t")
    assert world.table.get("t", 0) is None
    assert partition.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    world.flusher.flush()
    world.finish_file_work()
    assert [each for each in world.data.path.iterdir() if each.name.startswith("t-")] == []


@pytest.mark.parametrize("was_opened", [True, False])
@pytest.mark.parametrize("flushed", [True, False])
def test_a_deletion_interrupted_by_a_stop_is_finished_at_the_next_start(
    tmp_path: Path, was_opened: bool, flushed: bool
) -> None:
    world = World(tmp_path)
    world.create("t", 2)
    world.create("stays")
    world.fill("t")
    world.fill("stays")
    if not was_opened:
        world.close()
        world = World(tmp_path, metadata=world.metadata)
    held = Event()
    world.table._file_work.submit(held.wait)  # The worker is busy until the stop.
    world.delete("t")
    if flushed:
        world.flusher.flush()
    Timer(0.05, held.set).start()
    world.close()
    again = World(tmp_path, metadata=world.metadata)
    assert folders_of(tmp_path) == ["stays-0"]
    assert again.data.is_clean
    assert again.partition("stays").high_watermark == 1


def test_a_topic_recreated_before_a_stop_is_empty_after_the_start(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create("t")
    world.fill("t", batches=3)
    world.delete("t")
    world.create("t")
    world.close()
    again = World(tmp_path, metadata=world.metadata)
    assert again.partition("t").log.log_end_offset == 0
    assert folders_of(tmp_path) == ["t-0"]


def folders_of(data: Path) -> list[str]:
    """Return the names of all folders, whatever they are called."""
    return sorted(each.name for each in data.iterdir() if each.is_dir())


def test_a_recreated_topic_is_empty(world: World) -> None:
    world.create("t")
    world.fill("t", batches=3)
    world.delete("t")
    world.flusher.flush()
    world.finish_file_work()
    world.create("t")
    assert world.partition("t").log.log_end_offset == 0


def test_a_topic_recreated_too_early_waits_for_the_deletion_of_the_old_files(world: World) -> None:
    world.create("t")
    world.fill("t", batches=3)
    old = world.partition("t")
    world.stage("t")
    world.delete("t")
    world.create("t")
    with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
        world.table.serving("t", 0)
    world.flusher.flush()
    world.finish_file_work()
    assert (old.offline, old.high_watermark) == (None, 4)
    assert world.table.serving("t", 0).log.log_end_offset == 0


def test_deleted_topic_that_was_never_opened_leaves_no_files(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create("t")
    world.fill("t")
    world.close()
    again = World(tmp_path, metadata=world.metadata)
    again.delete("t")
    again.flusher.flush()  # The journal of before still names it.
    again.finish_file_work()
    assert not (tmp_path / "t-0").exists()


def test_a_deleted_topic_whose_log_cannot_be_opened_does_not_block_a_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.create("t")
    world.fill("t")
    world.close()
    again = World(tmp_path, metadata=world.metadata)

    def full(*_log: object) -> PartitionLog:
        raise StorageError("no space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(again.data, "open_log", full)
        again.delete("t")
        again.flusher.flush()
        again.finish_file_work()
    again.create("t")
    again.fill("t")
    assert again.partition("t").high_watermark == 1


def test_clean_stop_is_a_clean_start(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create("t")
    world.fill("t", batches=3)
    world.stage("t")
    world.close()
    again = World(tmp_path, metadata=world.metadata)
    assert again.partition("t").high_watermark == 4


async def test_clean_start_opens_nothing_yet(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create("t")
    world.fill("t")
    world.close()
    again = World(tmp_path, metadata=world.metadata)
    await again.table.opening.open_all()
    assert [partition.opened for partition in again.table] == [False]


async def open_all(world: World) -> None:
    """Open all logs, as a start does."""
    async with trio.open_nursery() as nursery:
        world.workers._nursery = nursery
        await world.table.opening.open_all()


async def test_start_after_a_crash_recovers_every_log(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create("t", 3)
    world.fill("t", 2, batches=3)
    world.crash()
    again = World(tmp_path, metadata=world.metadata)
    await open_all(again)
    assert [(each.opened, each.high_watermark) for each in again.table] == [(True, 0), (True, 0), (True, 3)]


@pytest.mark.parametrize("journaled", [False, True])
async def test_a_start_after_a_crash_does_not_open_resting_logs(tmp_path: Path, *, journaled: bool) -> None:
    world = World(tmp_path)
    world.create("t", 3)
    world.fill("t", 1, batches=2)
    world.fill("t", 2, batches=3)
    for _ in range(2):
        world.files.note_resting_logs()
    if journaled:
        world.fill("t", 2, batches=1)
    world.crash()
    again = World(tmp_path, metadata=world.metadata)
    await open_all(again)
    assert [each.opened for each in again.table] == [False, False, journaled]
    assert [again.partition("t", each).high_watermark for each in range(3)] == [0, 2, 3 + journaled]


async def test_a_thread_recovers_many_small_logs_in_one_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.create("t", 100)
    world.crash()
    again = World(tmp_path, metadata=world.metadata)
    in_thread, calls = again.workers.in_thread, []

    async def counted(function: Callable[..., object], *arguments: object) -> object:
        calls.append(function)
        return await in_thread(function, *arguments)

    monkeypatch.setattr(again.workers, "in_thread", counted)
    await open_all(again)
    assert all(each.opened for each in again.table)
    assert len(calls) <= 100 / opening.OPENED_AT_ONCE + opening.OPENERS


async def test_a_start_waits_for_a_log_that_another_thread_opens_before_the_loop_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.create("t")
    world.fill("t")
    world.crash()
    again = World(tmp_path, metadata=world.metadata)
    open_log, begun, may_end = again.data.open_log, Event(), Event()

    def slow(topic: str, topic_id: UUID, index: int, config: LogConfig) -> PartitionLog:
        begun.set()
        assert may_end.wait(5)
        return open_log(topic, topic_id, index, config)

    monkeypatch.setattr(again.data, "open_log", slow)
    partition = again.table.peek("t", 0)
    assert partition is not None
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            again.workers._nursery = nursery
            nursery.start_soon(again.table.opening.opened, [partition])
            await trio.to_thread.run_sync(begun.wait, 5)
            nursery.start_soon(again.table.opening.open_all)
            await trio.testing.wait_all_tasks_blocked()
            assert not partition.opened
            may_end.set()
    assert partition.opened
    again.table.close()


async def test_opened_waits_for_the_log(world: World) -> None:
    world.create("t")
    partition = await world.table.opened("t", 0)
    assert partition.opened


async def test_opened_raises_the_error_of_the_log(world: World) -> None:
    with pytest.raises(StorageError):
        await world.table.opened("t", 0)
    world.create("t")
    world.partition("t").failed(StorageError("the disk is gone"))
    with pytest.raises(StorageError, match="the disk is gone"):
        await world.table.opened("t", 0)


def test_log_that_cannot_be_opened_is_tried_again_ever_more_slowly(world: World) -> None:
    blocked = world.data.path / "t-0"
    blocked.write_bytes(b"a file where the folder should be")
    world.create("t")
    partition = world.partition("t")
    with pytest.raises(ApiError, match="KAFKA_STORAGE_ERROR"):
        world.table.serving("t", 0)
    world.run_posted()
    world.advance(100)
    world.run_posted()
    blocked.unlink()
    world.advance(100)
    world.run_posted()
    with pytest.raises(ApiError, match="KAFKA_STORAGE_ERROR"):
        world.table.serving("t", 0)
    world.advance(400)
    world.run_posted()
    assert world.table.serving("t", 0) is partition


def test_a_log_that_fails_at_every_write_is_logged_once(world: World) -> None:
    world.create("air")
    partition = world.partition("air")
    with capture_logs() as lines:
        for _ in range(5):
            partition.failed(StorageError("air-0: no space left on device"))
            world.reopen_failed()
            assert partition.offline is None
        world.fill("air")
    assert [line["event"] for line in lines] == [
        "a partition is offline",
        "a partition serves again",
        "a partition takes writes again",
    ]


def test_other_partitions_serve_while_one_is_offline(world: World) -> None:
    world.create("t", 2)
    world.partition("t", 0).failed(StorageError("the disk is gone"))
    world.fill("t", 1)
    assert world.partition("t", 1).high_watermark == 1


def test_new_leader_epoch_holds_at_once(world: World) -> None:
    topic_id = world.create("t", epoch=1)
    partition = world.partition("t")
    world.fill("t")
    world.create("t", epoch=2, topic_id=topic_id)
    world.fill("t")
    assert (partition.leader_epoch, partition.log.end_offset_for_epoch(1)) == (2, (1, 1))


async def test_an_action_between_writes_is_told_of_a_failed_flush(world: World) -> None:
    world.create("t")
    partition = world.partition("t")
    world.flusher.immediate = True
    done: list[int] = []
    await world.table.between_writes(partition, lambda: done.append(1))
    partition.log.close()
    with pytest.raises(StorageError):
        await world.table.between_writes(partition, lambda: done.append(2))
    assert done == [1]


def test_failed_log_is_opened_again_after_the_flushes_that_waited_for_it() -> None:
    disk = MemoryFileSystem()
    world = with_records_in_log(Path("/data"), disk)
    partition = world.partition("t")
    world.stage("t")
    disk.syncs_until_failure = 0
    world.flusher.request(partition, lambda error: None)
    world.flusher.flush()
    late: list[StorageError | None] = []
    world.flusher.request(partition, late.append)
    world.run_posted()
    world.advance(10_000)
    world.run_posted()
    assert partition.offline is not None
    world.flusher.flush()
    assert late[0] is not None
    world.advance(10_000)
    world.run_posted()
    assert partition.offline is None


async def test_after_the_data_folder_was_removed_nothing_is_acknowledged(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    world = World(folder)
    world.create("t")
    world.create("lax", configs={"flush.messages": "1000"})
    world.fill("t")
    world.fill("lax")
    shutil.rmtree(folder)
    heard: list[StorageError | None] = []
    world.stage("t")
    world.flusher.request(world.partition("t"), heard.append)
    world.flusher.flush()
    assert [type(each) for each in heard] == [StorageError]
    await world.table.folder.watch()
    assert world.partition("lax").error_code is ErrorCode.KAFKA_STORAGE_ERROR
    world.reopen_failed()
    assert not folder.exists(), "an empty folder would pass for the old one"
    assert world.partition("t").error_code is ErrorCode.KAFKA_STORAGE_ERROR


def test_topics_created_together_share_their_folder_creation(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    create = world.files.create

    def counting(partitions: Iterable[Partition]) -> None:
        made.append(len(list(partitions)))
        create(partitions)

    monkeypatch.setattr(world.files, "create", counting)
    states = (PartitionState(0, NODE_ID, 0, (NODE_ID,), (NODE_ID,)),)
    topics = tuple(TopicState(f"t{number}", uuid4(), states) for number in range(50))
    world.metadata.apply(Mutation(put=topics))
    world.finish_file_work()
    assert made == [50]
    assert all(world.partition(topic.name).serving_log is not None for topic in topics)


def test_a_topic_does_not_start_at_the_offset_of_a_folder_that_was_set_aside(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create("t")
    world.fill("t", batches=5)
    world.partition("t").log.delete_records_before(3, 0)
    world.data.checkpoint()
    world.crash()
    again = World(tmp_path)  # Its metadata know nothing of the topic.
    again.create("t")
    log = again.partition("t").log
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert again.data.records.known_end("t", 0) == 0


async def test_the_log_says_how_many_logs_are_recovered(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create("t", 3)
    world.fill("t")
    world.crash()
    again = World(tmp_path, metadata=world.metadata)
    with capture_logs() as lines:
        for _ in range(2):  # The second time there is nothing to do.
            await open_all(again)
    assert [(each["event"], each["logs"]) for each in lines if "logs" in each] == [
        ("logs are recovered after an unclean stop", 3),
        ("logs have been recovered", 3),
    ]


def test_records_in_a_folder_without_an_owner_are_shown_in_no_topic(tmp_path: Path) -> None:
    world = with_records_in_log(tmp_path)
    (tmp_path / "t-0" / "partition.metadata").unlink()
    world.crash()
    again = World(tmp_path, metadata=world.metadata)
    assert again.partition("t").log.log_end_offset == 0
    [aside] = tmp_path.glob("t-0.*-stray")
    assert list(aside.glob("*.log"))


def test_records_in_a_folder_without_an_owner_are_restored_from_the_journal(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create("t")
    world.fill("t", batches=2)
    assert world.partition("t").log.needs_journal
    (tmp_path / "t-0" / "partition.metadata").unlink()
    world.crash()
    again = World(tmp_path, metadata=world.metadata)
    assert again.partition("t").log.log_end_offset == 2
    assert not list(tmp_path.glob("*-stray"))


def test_the_first_flush_of_a_new_log_needs_no_sync_of_its_own() -> None:
    world = World(Path("/data"), MemoryFileSystem())
    world.create("t", partitions=8)
    for index in range(8):
        world.fill("t", index)
        assert world.partition("t", index).log.needs_journal


def test_the_owner_of_a_folder_is_on_disk_before_anything_is_acknowledged() -> None:
    disk = MemoryFileSystem()
    world = World(Path("/data"), disk)
    world.create("t")
    world.fill("t")
    survivor = World(Path("/data"), disk.after_crash(choose=lambda _: 0), metadata=world.metadata)
    assert survivor.partition("t").log.log_end_offset == 1


@pytest.mark.parametrize("is_sound", [True, False])
def test_the_loop_uses_a_log_that_a_thread_has_opened_only_when_its_error_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_sound: bool
) -> None:
    world = World(tmp_path)
    world.create("t")
    world.close()
    again = World(tmp_path, metadata=world.metadata)
    derive, were_open = Partition._derive_error_code, []

    def note(partition: Partition) -> None:
        were_open.append(partition.opened)
        derive(partition)

    def fail(_partition: Partition) -> None:
        raise StorageError("the disk")

    monkeypatch.setattr(Partition, "_derive_error_code", note)
    if not is_sound:
        monkeypatch.setattr(again.files, "open", fail)
    assert again.partition("t").opened
    assert were_open == [False]


def test_a_log_that_lost_its_end_serves_under_a_new_leader_epoch(tmp_path: Path) -> None:
    world = with_records_in_log(tmp_path, batches=3)
    topic_id = world.partition("t").topic_id
    world.data.checkpoint()
    world.crash()
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(b"")
    again = World(tmp_path, metadata=world.metadata)
    asked: list[Partition] = []
    again.table.opening.on_lost_tail = asked.append
    again.table.opening.reports_lost_tails = True
    partition = again.partition("t")
    assert partition.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    again.run_posted()
    assert asked == [partition]
    again.create("t", epoch=1, topic_id=topic_id)
    assert partition.error_code is None
    again.fill("t")
    assert partition.log.epoch_at(0) == 1


def test_a_log_that_lost_readable_records_serves_with_a_new_leader_epoch(tmp_path: Path) -> None:
    world = World(tmp_path)
    topic_id = world.create("t", configs={"flush.messages": "1000"})
    world.fill("t", batches=3)
    asked: list[Partition] = []
    world.table.opening.on_lost_tail = asked.append
    world.table.opening.reports_lost_tails = True
    partition = world.partition("t")
    partition.log._has_sync_failed = True  # What was not synced is cut off.
    partition.failed(partition.log._fail("the disk is gone"))
    world.reopen_failed()
    assert partition.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.run_posted()
    assert asked == [partition]
    world.create("t", epoch=1, topic_id=topic_id)
    assert partition.error_code is None


def test_a_log_that_fails_while_it_waits_for_its_leader_epoch_keeps_waiting(world: World) -> None:
    topic_id = world.create("t", configs={"flush.messages": "1000"})
    world.fill("t", batches=3)
    asked: list[Partition] = []
    world.table.opening.on_lost_tail = asked.append
    world.table.opening.reports_lost_tails = True
    partition = world.partition("t")
    partition.log._has_sync_failed = True  # What was not synced is cut off.
    for _ in range(2):  # The second time nothing more is lost, and the epoch has not come yet.
        partition.failed(partition.log._fail("the disk is gone"))
        world.reopen_failed()
        assert partition.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.create("t", epoch=1, topic_id=topic_id)
    assert partition.error_code is None
    partition.failed(partition.log._fail("the disk is gone"))
    world.reopen_failed()
    assert partition.error_code is None, "it has come, and is not awaited again"


def test_a_log_reopened_for_a_deleted_topic_does_not_use_files_of_a_newer_topic(
    world: World, tmp_path: Path
) -> None:
    world.create("t")
    world.fill("t")
    gone = world.partition("t")
    world.delete("t")
    world.flusher.flush()
    world.finish_file_work()
    world.create("t")
    world.fill("t", batches=2)
    world.files.delete(gone)  # Once more, and late: its log had been opened again meanwhile.
    assert (tmp_path / "t-0").exists()
    assert not world.partition("t").log.is_closed


async def test_logs_that_were_never_opened_do_not_fail_with_the_folder(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create("t")
    world.finish_file_work()
    partition = world.table.peek("t", 0)
    assert partition is not None
    partition.opened = False

    def gone() -> None:
        raise StorageError("the folder is gone")

    monkeypatch.setattr(world.files, "check_present", gone)
    await world.table.folder.watch()
    assert partition.offline is None
    partition.opened = True
    await world.table.folder.watch()
    assert partition.offline is not None


@pytest.mark.parametrize("is_restarted", [True, False])
def test_a_partition_with_older_metadata_serves_with_an_epoch_above_its_own(
    tmp_path: Path, is_restarted: bool
) -> None:
    world = World(tmp_path)
    world.create("t")
    with_epoch(world, 7)
    world.fill("t")
    reader = Waiting()
    world.partition("t").waits[reader] = None
    if is_restarted:
        world.close()
        with_epoch(world, 2)
        world = World(tmp_path, metadata=world.metadata)
    behind: list[int] = []
    world.table.opening.on_epoch_behind = lambda _, epoch: behind.append(epoch)
    if not is_restarted:
        with_epoch(world, 2)
        assert reader.told == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
        world.table.serving("t", 0)
    world.run_posted()
    assert behind[-1] == 7
    with_epoch(world, 6)
    with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
        world.table.serving("t", 0)
    with_epoch(world, 8)
    assert world.table.serving("t", 0).leader_epoch == 8
    world.fill("t")
    assert world.partition("t").log.latest_epoch == 8


def with_epoch(world: World, epoch: int) -> None:
    """Let the metadata have this leader epoch of the topic's one partition, whatever they had."""
    topic = world.metadata.snapshot().topics["t"]
    states = tuple(msgspec.structs.replace(each, leader_epoch=epoch) for each in topic.partitions)
    world.metadata.apply(Mutation(put=(msgspec.structs.replace(topic, partitions=states),)))


class Waiting:
    """Who waits for more to read."""

    def __init__(self) -> None:
        self.told: list[ErrorCode | None] = []

    def advanced(self, partition: Partition) -> None:
        self.told.append(partition.error_code)


@pytest.mark.parametrize("error", [StorageError("full"), ValueError("a bug"), AssertionError("impossible")])
async def test_an_action_between_writes_receives_every_error(world: World, error: Exception) -> None:
    world.create("t")
    world.fill("t")
    partition = world.partition("t")
    world.flusher.immediate = True

    def fail() -> None:
        raise error

    with pytest.raises(type(error), match=str(error)):
        await world.table.between_writes(partition, fail)
    await world.table.between_writes(partition, lambda: None)
