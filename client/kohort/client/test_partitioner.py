import sys

import pytest

from kohort.client import partitioner
from kohort.client.accumulator import Accumulator
from kohort.client.config import producer_config
from kohort.client.partitioner import (
    SHORT_KEY_BYTES,
    murmur2,
    partition_for_key,
    partition_for_long_key,
)


# The values that Kafka's own test of Utils.murmur2 expects, as unsigned numbers.
@pytest.mark.parametrize(
    "data, signed",
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_equals_java(data: bytes, signed: int) -> None:
    assert murmur2(data) == signed % 2**32


def test_a_key_always_has_the_same_partition() -> None:
    assert partition_for_key(b"abc", 8) == 479470107 % 8
    assert 0 <= partition_for_key(b"21", 7) < 7


@pytest.mark.parametrize("size", [SHORT_KEY_BYTES + 1, 32_768])
def test_long_keys_are_not_cached(size: int) -> None:
    accumulator = Accumulator(producer_config({}))
    accumulator.learn("t", 1_000)
    key = b"%d" % size + bytes(size)
    held_before = sys.getrefcount(key)
    appended = accumulator.append("t", b"", key, None, 1_000, ())
    assert appended is not None
    assert appended.batch.partition.partition == partition_for_key(key, 1_000)
    assert sys.getrefcount(key) == held_before, "the memory for keys does not grow with their size"


def test_a_long_key_is_remembered_by_its_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[bytes] = []

    def hash_and_count(key: bytes) -> int:
        hashed.append(key)
        return murmur2(key)

    monkeypatch.setattr(partitioner, "murmur2", hash_and_count)
    monkeypatch.setattr(partitioner, "KEYS_REMEMBERED", 3)
    monkeypatch.setattr(partitioner, "_hashes", {})
    keys = [b"%d" % number * 300 for number in range(5)]
    for partition_count in (7, 8):
        for key in keys[:3]:
            assert partition_for_long_key(key, partition_count) == partition_for_key(key, partition_count)
            hashed.pop()
    assert hashed == keys[:3], "another number of partitions needs no other hash"
    for key in keys:
        partition_for_long_key(key, 7)
    assert len(partitioner._hashes) == 2


def test_keys_of_any_length_get_the_standard_partition() -> None:
    accumulator = Accumulator(producer_config({}))
    accumulator.learn("t", 97)
    for size in (0, 1, SHORT_KEY_BYTES - 1, SHORT_KEY_BYTES, SHORT_KEY_BYTES + 1, 5_000):
        for _ in range(2):
            appended = accumulator.append("t", b"", b"x" * size, None, 1_000, ())
            assert appended is not None
            assert appended.batch.partition.partition == partition_for_key(b"x" * size, 97)
