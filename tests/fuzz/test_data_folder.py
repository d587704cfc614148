"""A whole broker started on damaged files: it serves what is sound, or stops with one line; it never crashes.

`FOLDERS` says how many damaged folders are tried, `SEED` repeats a run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from random import Random

import msgspec
import pytest
import trio
from structlog.testing import capture_logs

from kohort.broker.broker import Broker, running
from kohort.broker.config import load_config
from kohort.broker.coordination.test_shard import Client
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kohort.storage import StorageError
from kohort.storage.memory_filesystem import Operation
from tests.crash.breaking_file_system import BreakingFileSystem
from tests.crash.broker_client import TOPIC, Workload, committed_offset, fetched_anew
from tests.crash.test_broker_on_a_breaking_disk import CONFIG, PLACES

SEED = int(os.environ.get("SEED") or random.randrange(2**32))
FOLDERS = int(os.environ.get("FOLDERS", "30"))
AT_A_TIME = 8
PATIENCE_S = 0.5
ROUNDS = 24
MAY_STOP_THE_START = ("metadata.jsonl", "meta.properties")
SMALL_SEGMENTS = load_config(
    None, (("offsets.topic.num.partitions", "1"), ("log.index.interval.bytes", "100"))
)
EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3

Folder = list[Operation]
Damage = Callable[[Random, bytes], bytes]


def flipped(dice: Random, data: bytes) -> bytes:
    damaged = bytearray(data)
    for _ in range(dice.choice((1, 1, 3, 20))):
        if damaged:
            damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
    return bytes(damaged)


def cut(dice: Random, data: bytes) -> bytes:
    return data[: dice.randrange(len(data) + 1)]


def grown(dice: Random, data: bytes) -> bytes:
    return data + dice.choice((bytes(dice.randrange(1, 400)), dice.randbytes(dice.randrange(1, 400)), data))


def zeroed(dice: Random, data: bytes) -> bytes:
    start = dice.randrange(len(data) + 1)
    end = dice.randrange(start, len(data) + 1)
    return data[:start] + bytes(end - start) + data[end:]


def random_bytes(dice: Random, data: bytes) -> bytes:
    return dice.randbytes(dice.randrange(2 * len(data) + 10))


def shuffled(dice: Random, data: bytes) -> bytes:
    """Swap two pieces of twelve bytes: index entries in the wrong order."""
    pieces = [data[place : place + 12] for place in range(0, len(data), 12)]
    dice.shuffle(pieces)
    return b"".join(pieces)


DAMAGES: tuple[Damage, ...] = (flipped, flipped, cut, grown, zeroed, random_bytes, shuffled)


def damaged_folder(sound: Folder, dice: Random) -> tuple[Folder, set[str]]:
    """Return the folder with some of its files damaged or gone, and their paths."""
    paths = {each.file: each.path for each in sound if each.kind == "create"}
    contents = [each for each in sound if each.kind == "write" and not paths[each.file].endswith(".lock")]
    chosen = {each.file: dice.choice(DAMAGES) for each in dice.sample(contents, dice.choice((1, 1, 2, 5)))}
    gone = {number for number in chosen if dice.randrange(6) == 0}
    folder = []
    for each in sound:
        if each.kind == "write" and each.file in chosen:
            each = msgspec.structs.replace(each, data=chosen[each.file](dice, each.data))  # noqa: PLW2901
        folder.append(each)
    folder += [Operation("remove", paths[number]) for number in gone]
    return folder, {paths[number] for number in chosen}


async def lived(*, cleanly: bool) -> tuple[Folder, Workload]:
    """Return what a broker leaves behind, killed or closed."""
    disk, workload = BreakingFileSystem(), Workload()
    async with running(SMALL_SEGMENTS, PLACES, filesystem=disk) as broker:
        await workload.run(broker, ROUNDS)
        await broker.partitions.folder.save_log_starts()
        killed = disk.after_crash()
    return (disk.after_crash() if cleanly else killed).operations, workload


async def serve_damaged(folder: Folder, touched: set[str], workload: Workload) -> None:
    """Start a broker on a damaged folder and use it."""
    disk = BreakingFileSystem()
    for operation in folder:
        disk.note(operation)
    try:
        async with running(CONFIG, PLACES, filesystem=disk) as broker:
            await use(broker, workload)
    except* StorageError:
        names = {path.rpartition("/")[2] for path in touched}
        if names.isdisjoint(MAY_STOP_THE_START):
            raise


def is_part_of(found: list[bytes], sent: list[bytes]) -> bool:
    """Whether `found` is what is left of `sent` when some are taken away."""
    rest = iter(sent)
    return all(each in rest for each in found)


async def use(broker: Broker, workload: Workload) -> None:
    """Read what there is; it may be less than there was, but nothing that never was."""
    if TOPIC not in broker.metadata.snapshot().topics:
        return
    # A clean start trusts what was closed cleanly, as Kafka's does: there the client finds a wrong CRC.
    found = await fetched_anew(broker, until_damage=True)
    # The base offset lies outside the CRC, so a damaged one may look like a gap.
    assert is_part_of([value for _, value in found], workload.sent), "served what was never produced"
    assert [offset for offset, _ in found] == sorted({offset for offset, _ in found})
    client = await Client.to(broker)
    for timestamp in (EARLIEST, LATEST, MAX_TIMESTAMP, 1_700_000_000_000):
        wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1, topics=(ListOffsetsTopic(name=TOPIC, partitions=(wanted,)),)
        )
        answer = await client.ask(request, ListOffsetsResponse, 7)
        error_code = answer.topics[0].partitions[0].error_code
        assert error_code in (0, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    with trio.move_on_after(PATIENCE_S):  # Where the log of the groups has a hole, they cannot be asked.
        assert await committed_offset(client) <= ROUNDS
    again = Workload()
    again.sent = [b""] * 1000  # Far from the sequence numbers that the log may know.
    await again.run(broker, 2)


@pytest.mark.parametrize("cleanly", [True, False], ids=["closed", "killed"])
def test_a_broker_on_damaged_files_serves_intact_records(cleanly: bool) -> None:
    async def try_all() -> None:
        sound, workload = await lived(cleanly=cleanly)
        limiter = trio.CapacityLimiter(AT_A_TIME)

        async def try_one(number: int) -> None:
            folder, touched = damaged_folder(sound, Random(f"{SEED} {number}"))
            async with limiter:
                try:
                    await serve_damaged(folder, touched, workload)
                except BaseException as error:
                    error.add_note(f"SEED={SEED}: folder {number}, damaged: {sorted(touched)}")
                    raise

        async with trio.open_nursery() as nursery:
            for number in range(FOLDERS):
                nursery.start_soon(try_one, number)

    with capture_logs():
        trio.run(try_all)
