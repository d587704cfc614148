"""The embedded store: what was acknowledged is there after any end; a damaged file is never half believed."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from kohort.broker.metadata import (
    BrokerState,
    ChangeUnknown,
    ConfigResource,
    EmbeddedMetadataStore,
    Mutation,
    ResourceType,
    Snapshot,
    TopicState,
    update,
)
from kohort.broker.metadata.configs import EVERY_BROKER
from kohort.broker.metadata.file import FILE_NAME
from kohort.broker.metadata.topic_plans import partitions_of, random_topic_id
from kohort.storage import OsFileSystem, StorageError
from kohort.storage.filesystem import StrPath


def opened(folder: Path, filesystem: OsFileSystem | None = None) -> EmbeddedMetadataStore:
    return EmbeddedMetadataStore.open(filesystem or OsFileSystem(), folder, cluster_id="c", node_id=1)


def topic(name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> TopicState:
    return TopicState(name, random_topic_id(), partitions_of([(1,)] * partitions), configs or {})


async def put(store: EmbeddedMetadataStore, *topics: TopicState) -> Snapshot:
    return await store.change(store.snapshot(), Mutation(put=topics))


async def test_a_new_folder_has_no_topics(tmp_path: Path) -> None:
    snapshot = opened(tmp_path).snapshot()
    assert (snapshot.topics, snapshot.cluster_id, snapshot.controller_id) == ({}, "c", 1)


async def test_a_change_outlives_the_process(tmp_path: Path) -> None:
    orders = topic("orders", 3, {"retention.ms": "5"})
    after = await put(opened(tmp_path), orders, topic("payments"))
    again = opened(tmp_path).snapshot()
    assert again == after
    assert again.topics["orders"] == orders
    assert again.topics_by_id[orders.topic_id].partitions[2].index == 2


async def test_a_deleted_topic_is_not_found_by_name_or_id(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await put(store, topic("a"), topic("b"))
    await update(store, lambda _: Mutation(delete=("a",)))
    for snapshot in (store.snapshot(), opened(tmp_path).snapshot()):
        assert list(snapshot.topics) == ["b"]
        assert [each.name for each in snapshot.topics_by_id.values()] == ["b"]


async def test_earlier_snapshots_do_not_change(tmp_path: Path) -> None:
    store = opened(tmp_path)
    before = await put(store, topic("a"))
    await put(store, topic("b"))
    assert list(before.topics) == ["a"]


async def test_watchers_see_a_change_before_its_author(tmp_path: Path) -> None:
    store = opened(tmp_path)
    seen: list[tuple[int, int]] = []
    unwatch = store.watch(lambda before, after: seen.append((before.version, after.version)))
    await put(store, topic("a"))
    assert seen == [(0, 1)]
    unwatch()
    await put(store, topic("b"))
    assert seen == [(0, 1)]


async def test_concurrent_changes_are_all_applied(tmp_path: Path) -> None:
    store = opened(tmp_path)

    async def create(name: str) -> None:
        await update(store, lambda _: Mutation(put=(topic(name),)))

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(create, f"t{number}")
    assert len(opened(tmp_path).snapshot().topics) == 20
    assert store.snapshot().version == 20


async def test_configurations_of_other_resources_are_kept_until_they_are_emptied(tmp_path: Path) -> None:
    store = opened(tmp_path)
    everybody = ConfigResource(ResourceType.BROKER, "")
    await update(store, lambda _: Mutation(configs={everybody: {"log.retention.ms": "5"}}))
    assert opened(tmp_path).snapshot().configs == {everybody: {"log.retention.ms": "5"}}
    await update(store, lambda _: Mutation(configs={everybody: {}}))
    assert opened(tmp_path).snapshot().configs == {}


async def test_a_broker_registers_again_at_each_start(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await store.register(BrokerState(1, "localhost", 9092))
    await store.register(BrokerState(1, "localhost", 9093))
    assert store.snapshot().brokers == (BrokerState(1, "localhost", 9093),)
    assert opened(tmp_path).snapshot().brokers == ()


async def test_producer_ids_are_never_allocated_twice(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert await store.allocate_producer_ids() == range(1000)
    assert await store.allocate_producer_ids(10) == range(1000, 1010)
    await put(store, topic("a"))
    assert (await opened(tmp_path).allocate_producer_ids()).start == 1010


# -- damage -----------------------------------------------------------------------------------------------


async def test_an_older_copy_of_the_file_allocates_no_producer_id_again(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await put(store, topic("air"))
    await store.allocate_producer_ids(10)
    older = (tmp_path / "metadata.jsonl").read_bytes()
    given = [*await store.allocate_producer_ids(10), *await opened(tmp_path).allocate_producer_ids(10)]
    (tmp_path / "metadata.jsonl").write_bytes(older)
    store = opened(tmp_path)
    assert (await store.allocate_producer_ids(10)).start == given[-1] + 1
    assert "air" in opened(tmp_path).snapshot().topics


@pytest.mark.parametrize("content", [b"", b"12", b"x\n", b"-5\n", b"9" * 30 + b"\n", b"3\n"])
async def test_a_damaged_copy_of_the_next_producer_id_stops_no_start(tmp_path: Path, content: bytes) -> None:
    await opened(tmp_path).allocate_producer_ids(10)
    (tmp_path / "producer-ids").write_bytes(content)
    assert (await opened(tmp_path).allocate_producer_ids(10)).start == 10


async def written(folder: Path) -> bytes:
    await put(opened(folder), topic("orders", 2), topic("payments"))
    return (folder / FILE_NAME).read_bytes()


async def test_a_truncated_file_stops_the_start_with_one_line(tmp_path: Path) -> None:
    whole = await written(tmp_path)
    for size in range(len(whole)):
        (tmp_path / FILE_NAME).write_bytes(whole[:size])
        with pytest.raises(StorageError) as caught:
            opened(tmp_path)
        assert FILE_NAME in str(caught.value)
        assert "\n" not in str(caught.value)


async def test_a_file_with_any_byte_changed_stops_the_start(tmp_path: Path) -> None:
    whole = bytearray(await written(tmp_path))
    good = opened(tmp_path).snapshot()
    for position in range(len(whole)):
        whole[position] ^= 1
        (tmp_path / FILE_NAME).write_bytes(whole)
        with pytest.raises(StorageError, match="damaged"):
            opened(tmp_path)
        whole[position] ^= 1
    (tmp_path / FILE_NAME).write_bytes(whole)
    assert opened(tmp_path).snapshot() == good


async def test_partitions_without_a_metadata_file_stop_the_start(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    with pytest.raises(StorageError, match=r"missing.*orders-0"):
        opened(tmp_path)


async def test_unrelated_files_in_a_new_folder_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "notes-1").write_text("no folder")
    assert not opened(tmp_path).snapshot().topics


async def test_a_newer_format_is_refused_by_its_number(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b'{"kohort_metadata":2,"crc32c":0,"size_bytes":0}\n')
    with pytest.raises(StorageError, match="format is 2"):
        opened(tmp_path)


# -- a process that dies, a disk that fails -----------------------------------------------------------------


class Killed(BaseException):
    """The process ends here."""


class FailingFileSystem(OsFileSystem):
    """Ends the process, or fails, at the step of a replacement with the given name."""

    def __init__(self, step: str, error: BaseException) -> None:
        self._step = step
        self._error = error

    def _at(self, step: str) -> None:
        if step == self._step:
            raise self._error

    def replace(self, path: StrPath, content: bytes, *, sync: bool = True) -> None:
        self._at("before")
        if self._step == "torn":
            Path(f"{path}.tmp").write_bytes(content[: len(content) // 2])
        self._at("torn")
        super().replace(path, content, sync=sync)
        self._at("replaced")

    def sync_directory(self, path: StrPath) -> None:
        self._at("sync")
        super().sync_directory(path)


@pytest.mark.parametrize("step", ["before", "torn", "replaced", "sync"])
async def test_a_kill_at_any_step_leaves_the_old_or_the_new_metadata(tmp_path: Path, step: str) -> None:
    before = await put(opened(tmp_path), topic("kept"))
    new = topic("new")
    with pytest.raises(Killed):
        await put(opened(tmp_path, FailingFileSystem(step, Killed())), new)
    after = opened(tmp_path).snapshot()
    expected = ["kept"] if step in ("before", "torn") else ["kept", "new"]
    assert list(after.topics) == expected
    assert after.topics["kept"] == before.topics["kept"]
    await put(opened(tmp_path), topic("later"))
    assert list(opened(tmp_path).snapshot().topics) == [*expected, "later"]


@pytest.mark.parametrize(("step", "error"), [("before", StorageError), ("sync", ChangeUnknown)])
async def test_a_failed_write_changes_nothing(tmp_path: Path, step: str, error: type[Exception]) -> None:
    store = opened(tmp_path, FailingFileSystem(step, OSError(28, "No space left on device")))
    told: list[Snapshot] = []
    store.watch(lambda _, after: told.append(after))
    with pytest.raises(error, match="No space left"):
        await put(store, topic("a"))
    with pytest.raises(StorageError):
        await store.allocate_producer_ids()
    assert (dict(store.snapshot().topics), told) == ({}, [])


async def test_a_cancelled_caller_leaves_the_store_equal_to_the_file(tmp_path: Path) -> None:
    store = opened(tmp_path)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(put, store, topic("a"))
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    names: Sequence[str] = list(store.snapshot().topics)
    assert names == list(opened(tmp_path).snapshot().topics)


async def test_settings_of_brokers_can_be_deleted_without_those_of_topics(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await put(store, topic("orders", configs={"retention.ms": "5"}))
    configs = {
        ConfigResource(ResourceType.BROKER, name): {"max.connections": "0"} for name in ("1", EVERY_BROKER)
    }
    await store.change(store.snapshot(), Mutation(configs=configs))
    assert opened(tmp_path).snapshot().configs == configs
    forgetful = EmbeddedMetadataStore.open(
        OsFileSystem(), tmp_path, cluster_id="c", node_id=1, forget_broker_settings=True
    )
    for snapshot in (forgetful.snapshot(), opened(tmp_path).snapshot()):
        assert snapshot.configs == {}
        assert snapshot.topics["orders"].configs == {"retention.ms": "5"}
