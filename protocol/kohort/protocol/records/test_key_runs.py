"""Records that differ in their keys alone are the bytes that records added one by one are."""

import pytest

from kohort.protocol.records.builder import RecordWriter


@pytest.mark.parametrize("before", [0, 1, 60, 64, 8_190])
@pytest.mark.parametrize("count", [1, 4, 70, 500])
@pytest.mark.parametrize("key_size", [1, 12, 63, 64, 9_000])
@pytest.mark.parametrize("delta_ms", [0, 64, 8_191, 8_192, -1])
def test_a_run_of_keys_equals_single_records(before: int, count: int, key_size: int, delta_ms: int) -> None:
    keys = [(b"%d" % each).rjust(key_size)[:key_size] for each in range(count)]
    one, run = RecordWriter(), RecordWriter()
    for writer in (one, run):
        for _ in range(before):
            writer.add(10_000, None, b"v", ())
    for key in keys:
        one.add(10_000 + delta_ms, key, b"value", ())
    assert run.add_keys(10_000 + delta_ms, b"".join(keys), key_size, b"value") == before
    assert run.payload() == one.payload()
    assert (run.count, run.base_timestamp_ms, run.max_timestamp_ms) == (
        one.count,
        one.base_timestamp_ms,
        one.max_timestamp_ms,
    )
