"""A region on a broker: initial offsets, checkpoints and resets by command, and who is refused."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import trio

from kohort.cli import region_run
from kohort.client import Admin, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from kohort.client.aio import Admin as AsyncAdmin
from kohort.client.aio import Consumer as AsyncConsumer
from kohort.client.config import ConsumerOptions
from kohort.client.errors import ConfigurationError
from kohort.queues.region import (
    Isolation,
    RefusedError,
    Region,
    RegionCoordinator,
    RegionMember,
    RegionState,
    StartPosition,
    StateLostError,
    checkpointed_states,
    region_state,
)
from kohort.queues.region.opening import open_states
from tests.cli.here import kohort
from tests.interop.waiting import wait_until
from tests.queues.region_process import Sum
from tests.repetitions import only_by_night

ROOT = Path(__file__).parents[2]
needs_fsspec = pytest.mark.skipif(
    importlib.util.find_spec("fsspec") is None, reason="fsspec is not installed"
)


async def until(
    options: ConsumerOptions, region: Region, holds: Callable[[RegionState], bool]
) -> RegionState:
    """Return the region's state as soon as it is so."""
    state = None
    with trio.move_on_after(120):  # On a busy machine a member misses 15 s, and the region starts it anew.
        while True:
            state = await region_state(region, **options)
            if state is not None and holds(state):
                return state
            await trio.sleep(0.1)
    raise AssertionError(f"not reached: {state}")


def has_begun(sequence_id: int, state: RegionState) -> bool:
    return state.sequence_id >= sequence_id


def has_completed(sequence_id: int, state: RegionState) -> bool:
    return state.completed >= sequence_id


def has_offsets(count: int, state: RegionState) -> bool:
    return sum(state.offsets.values()) == count


async def command(bootstrap: str, *arguments: str) -> str:
    """Return what `kohort region` prints."""
    words = [sys.executable, "-m", "kohort.cli", "region", *arguments, "-b", bootstrap]
    done = await trio.run_process(words, capture_stdout=True)
    return done.stdout.decode()


def send(bootstrap: str, topic: str, values: range) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            producer.send(topic, b"%d" % value, partition=value % 2)


def send_with_times(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for value in range(10):
            producer.send(topic, b"%d" % value, partition=value % 2, timestamp_ms=value * 10)


def create(bootstrap: str, topic: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(topic, partitions=1))


async def in_region(
    region: Region, topic: str, options: ConsumerOptions, script: Callable[[], Awaitable[None]]
) -> None:
    """Run the script beside a coordinator and two members."""
    members = [RegionMember(region, name, Sum(), topics=[topic], **options) for name in ("a", "b")]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(RegionCoordinator(region, **options).run)
        for each in members:
            nursery.start_soon(each.run)
        await script()
        assert all(each.metrics()["drain_ms_most"] > 0 for each in members)
        assert sum(each.metrics()["partitions_assigned"] for each in members) == 2
        nursery.cancel_scope.cancel()


async def test_an_operator_has_a_region_checkpoint_and_reset(
    bootstrap: str, topic: str, options: ConsumerOptions
) -> None:
    region = Region(f"sums-{topic}", members=2, period_ms=0)
    await trio.to_thread.run_sync(send, bootstrap, topic, range(100))

    async def script() -> None:
        for end in (100, 200):
            while True:
                before = await until(options, region, lambda state: state.phase == "running")
                await command(bootstrap, "checkpoint", region.name)
                begun = before.sequence_id + 1
                await until(options, region, partial(has_begun, begun))
                state = await until(options, region, lambda state: state.phase == "running")
                if sum(state.offsets.values()) == end:
                    break
            if end == 100:
                await trio.to_thread.run_sync(send, bootstrap, topic, range(100, 200))
                await command(bootstrap, "reset", region.name)
                await until(options, region, lambda state: state.reason == "an operator asked")
        states = await checkpointed_states(region, **options)
        assert sum(int(each.split()[0]) for each in states.values()) == sum(range(200))
        assert "running" in await command(bootstrap, "status", region.name)

    await in_region(region, topic, options, script)


async def test_another_index_is_refused(bootstrap: str, topic: str, options: ConsumerOptions) -> None:
    region = Region(f"index-{topic}", members=1)
    other = Region(region.name, members=1, index=5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(RegionCoordinator(region, **options).run)
        with pytest.raises(RefusedError, match="region index 5, and not 0"):
            await RegionMember(other, "a", Sum(), topics=[topic], **options).run()
        nursery.cancel_scope.cancel()


async def sum_of(region: Region, options: ConsumerOptions) -> int:
    states = await checkpointed_states(region, **options)
    return sum(int(each.split()[0]) for each in states.values())


@pytest.mark.parametrize(
    "since, wanted",
    [
        pytest.param(0, sum(range(10)), marks=only_by_night),
        (50, sum(range(5, 10))),
        pytest.param(1_000, 0, marks=only_by_night),
    ],
)
async def test_a_region_may_begin_at_a_time(
    bootstrap: str, topic: str, options: ConsumerOptions, since: int, wanted: int
) -> None:
    await trio.to_thread.run_sync(send_with_times, bootstrap, topic)
    region = Region(f"sums-{topic}", members=1, period_ms=100)
    member = RegionMember(
        region, "a", Sum(), topics=[topic], start_position=StartPosition.TIME, start_time_ms=since, **options
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(RegionCoordinator(region, **options).run)
        nursery.start_soon(member.run)
        state = await until(options, region, lambda state: sum(state.offsets.values()) == 10)
        assert await sum_of(region, options) == wanted
        await trio.to_thread.run_sync(send, bootstrap, topic, range(100, 102))
        await until(options, region, lambda state: sum(state.offsets.values()) == 12)
        assert await sum_of(region, options) == wanted + 201
        assert sum(state.initial.values()) == {0: 0, 50: 5, 1_000: 10}[since]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "start_position, wanted",
    [(StartPosition.DEFAULT, {"0": 3, "1": 0}), (StartPosition.END, {"0": 5, "1": 5})],
)
async def test_a_region_may_begin_where_its_group_has_committed_or_at_the_end(
    bootstrap: str,
    topic: str,
    options: ConsumerOptions,
    start_position: StartPosition,
    wanted: dict[str, int],
) -> None:
    await trio.to_thread.run_sync(send, bootstrap, topic, range(10))
    group_id = f"{topic}-readers"
    async with AsyncConsumer(bootstrap_servers=bootstrap, group_id=group_id) as before:
        before.assign(TopicPartition(topic, 0))
        await before.commit({TopicPartition(topic, 0): OffsetAndMetadata(3)})
    region = Region(f"begins-{topic}", members=1, period_ms=100)
    settings: ConsumerOptions = {**options, "group_id": group_id}
    member = RegionMember(region, "a", Sum(), topics=[topic], start_position=start_position, **settings)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(RegionCoordinator(region, **options).run)
        nursery.start_soon(member.run)
        state = await until(options, region, lambda state: len(state.offsets) == 2)
        assert state.initial == {f"{topic}-{number}": at for number, at in wanted.items()}
        await trio.to_thread.run_sync(send, bootstrap, topic, range(100, 102))
        await until(options, region, partial(has_offsets, 12))
        skipped = [value for value in range(10) if value // 2 < wanted[str(value % 2)]]
        assert await sum_of(region, options) == sum(range(10)) + 201 - sum(skipped)
        nursery.cancel_scope.cancel()


def test_what_a_member_reads_and_how_is_told_by_options_and_files(
    bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[str, object] = {}

    def note(region: Region, name: str, operator: object, **options: object) -> None:
        told.update(options, name=name, region=region)
        raise ConfigurationError("noted")

    monkeypatch.setattr(region_run, "RegionMember", note)
    file = tmp_path / "client.properties"
    file.write_text("session.timeout.ms=9000\nmax.poll.interval.ms=40000\n")
    command = "region run r a --call tests.queues.region_process:Sum --pattern orders.* --group readers"
    times = "--start-position time --start-time-ms 5 --reset-timeout-ms 7000 --property max.poll.records=7"
    done = kohort(*command.split(), *times.split(), "--command-config", str(file), "-b", bootstrap)
    assert "noted" in done.stderr
    wanted = {
        "pattern": "orders.*",
        "group_id": "readers",
        "start_position": StartPosition.TIME,
        "start_time_ms": 5,
        "max_poll_records": 7,
        "session_timeout_ms": 9_000,
        "max_poll_interval_ms": 40_000,
        "name": "a",
        "region": Region("r", members=1, reset_timeout_ms=7_000),
    }
    assert {key: told[key] for key in wanted} == wanted


@pytest.mark.parametrize("given", [{"start_position": StartPosition.TIME}, {"start_time_ms": 5}])
def test_a_time_without_its_start_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="need each other"):
        RegionMember(Region("r", members=1), "a", Sum(), topics=["t"], **given)  # type: ignore[arg-type]


class Slow(Sum):
    """Takes a tenth of a second for each record."""

    async def process(self, record: object) -> None:
        await trio.sleep(0.1)
        await super().process(record)  # type: ignore[arg-type]


@only_by_night
async def test_a_long_queue_holds_no_checkpoint_up(
    bootstrap: str, topic: str, options: ConsumerOptions
) -> None:
    await trio.to_thread.run_sync(send, bootstrap, topic, range(1_000))
    region = Region(f"slow-{topic}", members=1, period_ms=300, drain_timeout_ms=10_000)
    member = RegionMember(region, "a", Slow(), topics=[topic], **options)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(RegionCoordinator(region, **options).run)
        nursery.start_soon(member.run)
        state = await until(options, region, lambda state: sum(state.offsets.values()) >= 5)
        assert member.metrics()["queued"] > 500
        assert state.attempt == 1
        (saved,) = (await checkpointed_states(region, **options)).values()
        nursery.cancel_scope.cancel()
    assert int(saved.split()[1]) < 100


async def test_a_member_asks_for_checkpoints_by_the_record_and_tells_how_it_stands(
    bootstrap: str, topic: str, options: ConsumerOptions
) -> None:
    await trio.to_thread.run_sync(create, bootstrap, f"{topic}-2")
    region = Region(f"count-{topic}", members=1, period_ms=0)
    topics = [topic, f"{topic}-2"]
    member = RegionMember(region, "a", Sum(), topics=topics, checkpoint_records=50, **options)
    assert member.metrics()["topics_consumed"] == 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(RegionCoordinator(region, **options).run)
        nursery.start_soon(member.run)
        for round_number in (1, 2):
            await trio.to_thread.run_sync(send, bootstrap, topic, range(60))
            state = await until(options, region, partial(has_completed, round_number))
            assert sum(state.offsets.values()) >= round_number * 50
            assert state.command == state.completed
        metrics = member.metrics()
        assert (metrics["topics_consumed"], metrics["partitions_assigned"]) == (2, 3)
        assert metrics["drain_ms_most"] >= metrics["drain_ms_last"] > 0
        nursery.cancel_scope.cancel()


def create_anew(bootstrap: str, topic: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics(topic)
        wait_until(lambda: topic not in admin.list_topics(), "the topic is gone")
        admin.create_topics(NewTopic(topic, partitions=2))
        wait_until(lambda: topic in admin.list_topics(), "the topic is there")


@pytest.mark.parametrize("is_running", [False, pytest.param(True, marks=only_by_night)])
async def test_a_reset_reads_a_topic_that_was_created_anew_from_its_beginning(
    bootstrap: str, topic: str, options: ConsumerOptions, *, is_running: bool
) -> None:
    region = Region(f"anew-{topic}", members=1, period_ms=200)
    for values in (range(100), range(100, 300)):
        if values.start and not is_running:
            await trio.to_thread.run_sync(create_anew, bootstrap, topic)
        await trio.to_thread.run_sync(send, bootstrap, topic, values)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(RegionCoordinator(region, **options).run)
            nursery.start_soon(RegionMember(region, "a", Sum(), topics=[topic], **options).run)
            await until(options, region, partial(has_offsets, len(values)))
            if is_running:
                await trio.to_thread.run_sync(create_anew, bootstrap, topic)
                await command(bootstrap, "reset", region.name)
                await trio.to_thread.run_sync(send, bootstrap, topic, range(100, 300))
                await until(options, region, partial(has_offsets, 200))
            nursery.cancel_scope.cancel()
        if is_running:
            break
    assert await sum_of(region, options) == sum(range(300))


@pytest.mark.parametrize("isolation", list(Isolation))
async def test_topics_come_by_a_pattern_and_the_group_is_of_ones_own(
    bootstrap: str, topic: str, options: ConsumerOptions, isolation: Isolation
) -> None:
    await trio.to_thread.run_sync(create, bootstrap, f"{topic}-2")
    await trio.to_thread.run_sync(send, bootstrap, topic, range(100))
    region = Region(f"pattern-{topic}", members=1, period_ms=200)
    settings: ConsumerOptions = {**options, "group_id": f"{topic}-readers"}
    member = RegionMember(region, "a", Sum(), pattern=f"{topic}.*", isolation=isolation, **settings)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(RegionCoordinator(region, **options).run)
        nursery.start_soon(member.run)
        await until(options, region, lambda state: sum(state.offsets.values()) == 100)
        assert await sum_of(region, options) == sum(range(100))
        assert member.metrics()["topics_consumed"] == 2
        async with AsyncAdmin(bootstrap_servers=options["bootstrap_servers"]) as admin:
            group = (await admin.describe_groups(f"{topic}-readers"))[f"{topic}-readers"]
        assert [each.group_instance_id for each in group.members] == ["a"]
        nursery.cancel_scope.cancel()


async def test_a_state_that_does_not_come_back_fails_the_region_with_its_cause(
    bootstrap: str, topic: str, options: ConsumerOptions
) -> None:
    class Refuses(Sum):
        def restore(self, state: bytes | None) -> None:
            raise ValueError("never")

    region = Region(f"fails-{topic}", members=1, consecutive_resets_max=2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(RegionCoordinator(region, **options).run)
        nursery.start_soon(RegionMember(region, "a", Refuses(), topics=[topic], **options).run)
        state = await until(options, region, lambda state: state.phase == "failed")
        assert state.reason == "a did not restore its state: restore raised ValueError('never')"
        told = await command(bootstrap, "status", region.name)
        assert "failed in attempt" in told
        assert "member a: reset pending, attempt 0" in told
        assert f"kohort region reset {region.name}" in told
        nursery.cancel_scope.cancel()


@needs_fsspec
async def test_states_may_be_files(
    bootstrap: str, topic: str, options: ConsumerOptions, tmp_path: Path
) -> None:
    region = Region(f"files-{topic}", members=1, period_ms=200, states_url=f"file://{tmp_path}/s")
    for end in (100, 200):  # The second process goes on from the first one's file.
        await trio.to_thread.run_sync(send, bootstrap, topic, range(end - 100, end))
        member = RegionMember(region, "../a", Sum(), topics=[topic], **options)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(RegionCoordinator(region, **options).run)
            nursery.start_soon(member.run)
            await until(options, region, lambda state, end=end: sum(state.offsets.values()) == end)
            assert await sum_of(region, options) == sum(range(end))
            nursery.cancel_scope.cancel()
    folder = tmp_path / "s" / region.name
    assert 1 <= len(list(folder.iterdir())) <= 3, "what is retired is removed"
    assert list(tmp_path.iterdir()) == [tmp_path / "s"]
    for each in folder.iterdir():
        each.write_bytes(each.read_bytes()[:-1])
    with pytest.raises(StateLostError, match="is not what was saved"):
        await checkpointed_states(region, **options)
    for each in folder.iterdir():
        each.unlink()
    with pytest.raises(StateLostError, match="no state at"):
        await checkpointed_states(region, **options)


@needs_fsspec
async def test_a_region_whose_checkpoint_was_deleted_begins_anew_by_command(
    bootstrap: str, topic: str, options: ConsumerOptions, tmp_path: Path
) -> None:
    await trio.to_thread.run_sync(send, bootstrap, topic, range(100))
    states_url = f"file://{tmp_path}/s"
    region = Region(
        f"gone-{topic}", members=2, period_ms=200, consecutive_resets_max=0, states_url=states_url
    )
    member = RegionMember(region, "a", Sum(), topics=[topic], **options)
    dead = RegionMember(region, "dead", Sum(), topics=[topic], **options)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(RegionCoordinator(region, **options).run)
        nursery.start_soon(member.run)
        async with trio.open_nursery() as until_dead:
            until_dead.start_soon(dead.run)
            await until(options, region, partial(has_offsets, 100))
            until_dead.cancel_scope.cancel()
        folder = tmp_path / "s" / region.name
        for each in folder.iterdir():
            each.unlink()
        await command(bootstrap, "reset", region.name)
        state = await until(options, region, lambda state: state.phase == "failed")
        assert "a did not restore its state: no state at" in state.reason
        while "member dead is not in its group" not in (
            told := await command(bootstrap, "status", region.name)
        ):
            await trio.sleep(0.2)  # Until its session is over.
        assert f"kohort region run {region.name} dead" in told
        assert "member a is not in its group" not in told
        assert f"begin anew: kohort region reset {region.name} --to-beginning" in told
        await command(bootstrap, "reset", region.name, "--to-beginning", "--without", "dead")
        await until(options, region, lambda state: state.phase == "gathering")
        told = await command(bootstrap, "status", region.name)
        assert f"1 more member(s) have to register: kohort region run {region.name} MEMBER" in told
        nursery.start_soon(RegionMember(region, "b", Sum(), topics=[topic], **options).run)
        await until(options, region, partial(has_offsets, 100))
        assert await sum_of(region, options) == sum(range(100))
        nursery.cancel_scope.cancel()


@needs_fsspec
def test_an_address_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="nowhere"):
        open_states(Region("r", members=1, states_url="nowhere://x"), {})


@only_by_night
def test_a_member_is_a_command_with_metrics(
    bootstrap: str, topic: str, options: ConsumerOptions, free_port: int
) -> None:
    region = Region(f"run-{topic}", members=1)
    send(bootstrap, topic, range(10))
    call = ("--call", "tests.queues.region_process:Sum", "--topic", topic)
    http = ("--http", f"127.0.0.1:{free_port}")
    commands = [
        ("coordinate", region.name, "--members", "1", "--period-ms", "200", "-b", bootstrap),
        ("run", region.name, "a", *call, *http, "-b", bootstrap),
    ]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "kohort.cli", "region", *each], stderr=subprocess.DEVNULL, cwd=ROOT
        )
        for each in commands
    ]
    labels = f'member="a",region="{region.name}"'

    def metrics() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{free_port}/metrics", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    try:
        wait_until(
            lambda: f"kohort_region_partitions_assigned{{{labels}}} 2.0" in metrics(), "it has them", 40
        )
        trio.run(until, options, region, lambda state: sum(state.offsets.values()) == 10)
        assert f"kohort_region_topics_consumed{{{labels}}} 1.0" in metrics()
        wait_until(
            lambda: f"kohort_region_drain_seconds_most{{{labels}}} 0.0\n" not in metrics(), "it drained"
        )
        assert trio.run(sum_of, region, options) == sum(range(10))
        for process in processes:
            process.terminate()
            assert process.wait(20) == 0
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("--call", "nowhere", "--topic", "t"), "is not MODULE:NAME"),
        (
            ("--call", "tests.queues.region_process:Sum", "--topic", "t", "--start-position", "time"),
            "need each other",
        ),
    ],
)
def test_a_wrong_use_is_said_in_one_line(bootstrap: str, arguments: tuple[str, ...], words: str) -> None:
    done = kohort("region", "run", "r", "a", *arguments, "-b", bootstrap)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_member_is_taken_out_with_all_checkpoints_alone(bootstrap: str) -> None:
    done = kohort("region", "reset", "r", "--without", "a", "-b", bootstrap)
    assert done.returncode == 2
    assert "--without needs --to-beginning" in done.stderr
