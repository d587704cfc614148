"""Files that were changed while nobody served them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.protocol.errors import ErrorCode, WireError
from kohort.protocol.messages.fetch import FetchResponse
from kohort.protocol.records import build_batch, iterate_batches, iterate_records
from tests.attacks.producing import FETCH_VERSION, create, fetching, now_ms, produce
from tests.attacks.wire import Line
from tests.interop.broker_process import BrokerProcess

TOPIC = "cut"
SEGMENT_BYTES = 1 << 20
RECORDS = 40
VALUE = bytes(100_000)
ANSWERED_WITHIN_S = 5.0


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that has written some sealed segments, and stopped."""
    broker = BrokerProcess(tmp_path)
    broker.start()
    line = Line(broker.address)
    create(line, TOPIC, configs={"segment.bytes": str(SEGMENT_BYTES)})
    for _ in range(RECORDS):
        assert produce(line, TOPIC, build_batch([(now_ms(), None, VALUE, ())])) == ErrorCode.NONE
    line.close()
    broker.stop()
    yield broker
    broker.kill()


@pytest.mark.parametrize("lost", ["the end", "everything", "the middle"])
def test_a_truncated_sealed_segment_is_reported_and_blocks_no_reader(
    stopped: BrokerProcess, lost: str
) -> None:
    segments = sorted((stopped.data / f"{TOPIC}-0").glob("*.log"))
    assert len(segments) > 3
    cut(segments[1], lost)
    stopped.start()
    line = Line(stopped.address)
    codes, offset = read_on(line)
    line.close()
    told = [each for each in stopped.log_lines() if TOPIC in each and ("warning" in each or "error" in each)]
    assert told or lost == "the middle", "nobody is told that records are gone"
    assert offset == RECORDS or codes - {ErrorCode.NONE}, f"a reader stands at {offset} for ever, silently"


def cut(segment: Path, lost: str) -> None:
    """Damage a segment's file."""
    data = segment.read_bytes()
    if lost == "the middle":
        segment.write_bytes(data[:200_000] + bytes(200_000) + data[400_000:])
    else:
        segment.write_bytes(data[: 0 if lost == "everything" else len(data) - 250_000])


def read_on(line: Line) -> tuple[set[int], int]:
    """Read from the start; return the error codes and where it came to when nothing new came for a while."""
    codes: set[int] = set()
    offset = 0
    ends_s = time.monotonic() + ANSWERED_WITHIN_S
    while time.monotonic() < ends_s and offset < RECORDS:
        answer = line.ask(fetching(TOPIC, offset, max_wait_ms=200), FetchResponse, FETCH_VERSION)
        [partition] = answer.responses[0].partitions
        codes.add(partition.error_code)
        if partition.error_code:
            break
        records = partition.records or b""
        assert isinstance(records, bytes | memoryview)
        try:
            for batch in iterate_batches(records, check_crcs=True):
                offset = max([offset, *(record.offset + 1 for record in iterate_records(batch))])
        except WireError:  # Its reader sees that, and says so.
            return codes | {ErrorCode.CORRUPT_MESSAGE}, offset
    return codes, offset
