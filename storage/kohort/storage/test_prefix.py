"""The longest valid prefix, whatever lies behind it and wherever the chunks of the reading end."""

from collections.abc import Sequence
from random import Random

import pytest

from kohort.protocol.errors import WireError
from kohort.protocol.records import (
    BatchHeader,
    ControlType,
    batch_crc,
    build_batch,
    build_transaction_marker,
    read_header,
)
from kohort.storage import prefix
from kohort.storage.memory_filesystem import MemoryFileSystem
from kohort.storage.prefix import Prefix, scan_prefix
from kohort.storage.producers import ProducerStateTable
from kohort.storage.scan import MAX_RELATIVE_OFFSET

BASE_OFFSET = 100
INTERVAL_BYTES = 300


def random_batches(dice: Random, count: int) -> list[bytes]:
    """Return batches with gaps, epochs, producers and transactions, some of them larger than a chunk."""
    batches: list[bytes] = []
    offset, epoch = BASE_OFFSET, 0
    for _ in range(count):
        offset += dice.choice((0, 0, 0, 7))
        epoch += dice.random() < 0.1
        producer_id = dice.choice((-1, -1, 5, 6, 7))
        records = [
            (dice.randrange(2000), b"k", dice.randbytes(dice.choice((0, 10, 10, 900))), ())
            for _ in range(dice.randrange(1, 4))
        ]
        batches.append(
            build_batch(
                records,
                base_offset=offset,
                leader_epoch=epoch,
                producer_id=producer_id,
                producer_epoch=0 if producer_id >= 0 else -1,
                base_sequence=offset if producer_id >= 0 else -1,
                is_transactional=producer_id == 7,
            )
        )
        offset = read_header(batches[-1]).next_offset
        if producer_id == 7 and dice.random() < 0.3:
            batches.append(
                build_transaction_marker(
                    dice.choice((ControlType.ABORT, ControlType.COMMIT)),
                    timestamp_ms=dice.randrange(2000),
                    producer_id=producer_id,
                    producer_epoch=0,
                    coordinator_epoch=3,
                    base_offset=offset,
                    leader_epoch=epoch,
                )
            )
            offset += 1
    return batches


def scanned(content: bytes) -> Prefix:
    file_system = MemoryFileSystem()
    file_system.make_directory("/log")
    file = file_system.open("/log/file", create=True)
    file.write_at([content], 0)
    return scan_prefix(file, BASE_OFFSET, INTERVAL_BYTES)


def sound(content: bytes) -> list[BatchHeader]:
    """Return the headers of the longest valid prefix, found one by one."""
    headers: list[BatchHeader] = []
    position, expected = 0, BASE_OFFSET
    while True:
        try:
            header = read_header(content, position)
        except WireError:
            return headers
        batch = content[position : position + header.size_bytes]
        if len(batch) < header.size_bytes or batch_crc(batch) != header.crc:
            return headers
        if not expected <= header.base_offset <= header.last_offset <= BASE_OFFSET + MAX_RELATIVE_OFFSET:
            return headers
        headers.append(header)
        position, expected = position + header.size_bytes, header.next_offset


def state_of(headers: Sequence[BatchHeader], content: bytes) -> tuple[object, object]:
    """Return what is known of producers, and which transactions were aborted."""
    starts, position = {}, 0
    for header in sound(content):
        starts[header.base_offset] = position
        position += header.size_bytes
    table, aborted = ProducerStateTable(), []
    for header in headers:
        start = starts[header.base_offset]
        ended = table.append(header, header.base_offset, content[start : start + header.size_bytes])
        if ended is not None and ended.is_aborted:
            aborted.append(ended)
    for _, state in table.items():
        state.markers = 0  # How many there were is of no interest once they are read.
    return {producer_id: (state, list(state.batches)) for producer_id, state in table.items()}, aborted


@pytest.fixture(params=[100, 333, 4096])
def chunk_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(prefix, "_CHUNK_BYTES", request.param)
    size: int = request.param
    return size


@pytest.mark.parametrize("seed", range(25))
def test_the_prefix_equals_a_walk_batch_by_batch(seed: int, chunk_bytes: int) -> None:
    dice = Random(seed * 10_000 + chunk_bytes)
    content = bytearray(b"".join(random_batches(dice, dice.randrange(60))))
    if content and dice.random() < 0.7:
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    if dice.random() < 0.5:
        del content[dice.randrange(len(content) + 1) :]
    headers = sound(bytes(content))
    found = scanned(bytes(content))
    assert found.size_bytes == sum(header.size_bytes for header in headers)
    assert found.next_offset == (headers[-1].next_offset if headers else BASE_OFFSET)
    assert found.max_timestamp == max((header.max_timestamp for header in headers), default=-1)
    assert found.first_timestamp == (headers[0].max_timestamp if headers else -1)
    epochs = [(header.partition_leader_epoch, header.base_offset) for header in headers]
    changes = [now for before, now in zip([(-1, 0), *epochs], epochs, strict=False) if before[0] != now[0]]
    assert found.epochs == changes
    whole = bytes(content)
    assert state_of(found.produced(), whole) == state_of(headers, whole)
    by_offset = {header.last_offset: header for header in headers}
    assert all(entry.last_offset in by_offset for entry in found.index)
    positions = [entry.position for entry in found.index]
    assert positions == sorted(set(positions))
    assert len(positions) >= found.size_bytes // (INTERVAL_BYTES + 3_000) - 1


def test_a_length_beyond_the_file_ends_the_prefix(chunk_bytes: int) -> None:
    good, bad = (
        build_batch([(1, None, b"v" * 500, ())], base_offset=100),
        bytearray(build_batch([(1, None, b"", ())])),
    )
    bad[8:12] = (2**31 - 1).to_bytes(4, "big")
    assert scanned(good + bad + bytes(2 * chunk_bytes)).size_bytes == len(good)
    bad[8:12] = b"\xff" * 4
    assert scanned(good + bad + bytes(2 * chunk_bytes)).size_bytes == len(good)
