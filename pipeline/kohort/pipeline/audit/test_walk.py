"""Segments with one problem each, and the report about it. The files are made here, byte by byte."""

import struct
from pathlib import Path

import pytest

from kohort.pipeline.audit.walk import Findings, Kind, walk
from kohort.pipeline.segment_files import Segment
from kohort.protocol.records import batch_crc, build_batch

BASE = 100
CRC_POSITION = 17


def batch(offset: int, records: int = 5, time_ms: int = 1_000) -> bytes:
    """A batch of records at this offset."""
    rows = [(time_ms + number, None, b"v" * 20, ()) for number in range(records)]
    return build_batch(rows, base_offset=offset)


def segment(folder: Path, *batches: bytes) -> Segment:
    path = folder / f"{BASE:020d}.log"
    path.write_bytes(b"".join(batches))
    return Segment(path, BASE)


def looked_at(
    folder: Path, *batches: bytes, is_last: bool = False, may_have_gaps: bool = False, deep: bool = True
) -> Findings:
    return walk(segment(folder, *batches), is_last=is_last, may_have_gaps=may_have_gaps, deep=deep)


def kinds(found: Findings) -> list[Kind]:
    return [each.kind for each in found.problems]


def test_a_sound_segment_has_no_problem_and_is_counted(tmp_path: Path) -> None:
    found = looked_at(tmp_path, batch(100), batch(105), batch(110, 3))
    assert kinds(found) == []
    assert (found.batches, found.records, found.first_offset, found.next_offset) == (3, 13, 100, 113)
    assert found.size_bytes == sum(map(len, (batch(100), batch(105), batch(110, 3))))


def test_a_flipped_bit_is_found_and_the_walk_continues(tmp_path: Path) -> None:
    damaged = bytearray(batch(105))
    damaged[-3] ^= 1
    found = looked_at(tmp_path, batch(100), bytes(damaged), batch(110))
    assert kinds(found) == [Kind.CRC]
    assert (found.problems[0].offset, found.problems[0].position) == (105, len(batch(100)))
    assert found.batches == 3


@pytest.mark.parametrize("may_have_gaps, expected", [(False, [Kind.GAP]), (True, [])])
def test_missing_offsets_are_a_gap_unless_the_topic_is_compacted(
    tmp_path: Path, may_have_gaps: bool, expected: list[Kind]
) -> None:
    found = looked_at(tmp_path, batch(100), batch(107), may_have_gaps=may_have_gaps)
    assert kinds(found) == expected


def test_repeated_offsets_are_out_of_order(tmp_path: Path) -> None:
    found = looked_at(tmp_path, batch(100), batch(103), may_have_gaps=True)
    assert kinds(found) == [Kind.ORDER]


def test_a_batch_below_the_base_offset_of_the_file_is_out_of_order(tmp_path: Path) -> None:
    assert kinds(looked_at(tmp_path, batch(99))) == [Kind.ORDER]


@pytest.mark.parametrize("is_last, kind", [(True, Kind.TORN), (False, Kind.UNREADABLE)])
@pytest.mark.parametrize("left", [5, 70])
def test_half_a_batch_is_torn_at_the_end_of_a_log_and_damage_elsewhere(
    tmp_path: Path, is_last: bool, kind: Kind, left: int
) -> None:
    found = looked_at(tmp_path, batch(100), batch(105)[:left], is_last=is_last)
    assert kinds(found) == [kind]
    assert found.batches == 1


def test_bytes_that_are_no_batch_end_the_walk(tmp_path: Path) -> None:
    found = looked_at(tmp_path, batch(100), b"\xff" * 200, batch(105), is_last=True)
    assert kinds(found) == [Kind.UNREADABLE]


def test_records_that_contradict_their_header_are_found_only_by_a_deep_walk(tmp_path: Path) -> None:
    lying = bytearray(batch(100))
    struct.pack_into(">i", lying, 57, 4)  # Five records are there.
    struct.pack_into(">I", lying, CRC_POSITION, batch_crc(bytes(lying)))
    assert kinds(looked_at(tmp_path, bytes(lying))) == [Kind.RECORDS]
    assert kinds(looked_at(tmp_path, bytes(lying), deep=False)) == []


def test_batches_of_an_idempotent_producer_are_recognized_by_sequence(tmp_path: Path) -> None:
    rows = [(1_000, None, b"x", ())]
    built = build_batch(rows, base_offset=100, producer_id=7, producer_epoch=1, base_sequence=30)
    (found,) = looked_at(tmp_path, built).producer_batches
    assert (found.producer_id, found.base_sequence, found.last_sequence, found.offset) == (7, 30, 30, 100)


INDEX_PROBLEMS = {
    "no batch begins at 7": [(4, 7)],
    "lies before position": [(2, len(batch(100)))],
    "is not in the segment": [(90, len(batch(100)))],
    "comes after": [(9, len(batch(100))), (8, len(batch(100)))],
}


@pytest.mark.parametrize("text", list(INDEX_PROBLEMS))
def test_a_wrong_index_entry_is_reported(tmp_path: Path, text: str) -> None:
    files = segment(tmp_path, batch(100), batch(105))
    entries = b"".join(struct.pack(">ii", *each) for each in INDEX_PROBLEMS[text])
    files.path.with_suffix(".index").write_bytes(entries)
    found = walk(files, is_last=True, may_have_gaps=False, deep=False)
    assert kinds(found) == [Kind.INDEX]
    assert text in found.problems[0].text


def test_a_time_index_that_skips_newer_records_is_reported(tmp_path: Path) -> None:
    files = segment(tmp_path, batch(100, time_ms=5_000), batch(105, time_ms=1_000))
    files.path.with_suffix(".timeindex").write_bytes(struct.pack(">qi", 5_004, 4))
    assert kinds(walk(files, is_last=True, may_have_gaps=False, deep=False)) == []
    files.path.with_suffix(".timeindex").write_bytes(struct.pack(">qi", 5_003, 4))
    found = walk(files, is_last=True, may_have_gaps=False, deep=False)
    assert "is newer than 5003" in found.problems[0].text


def test_zeros_after_the_entries_are_ignored(tmp_path: Path) -> None:
    files = segment(tmp_path, batch(100), batch(105))
    files.path.with_suffix(".index").write_bytes(struct.pack(">ii", 9, len(batch(100))) + bytes(80))
    assert kinds(walk(files, is_last=True, may_have_gaps=False, deep=False)) == []
