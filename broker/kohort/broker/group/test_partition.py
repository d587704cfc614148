import pytest

from kohort.broker.group import coordinator_partition
from kohort.broker.group.partition import INT_MIN, java_hash_code


@pytest.mark.parametrize("group_id, partition", [("gclassic", 45), ("gnew", 33), ("gshare", 12), ("", 0)])
@pytest.mark.requirement("R1")
def test_groups_lie_where_kafka_puts_them(group_id: str, partition: int) -> None:
    assert coordinator_partition(group_id, 50) == partition


@pytest.mark.requirement("R1")
def test_the_smallest_hash_counts_as_zero() -> None:
    assert java_hash_code("polygenelubricants") == INT_MIN
    assert coordinator_partition("polygenelubricants", 50) == 0


def test_hash_uses_utf_16_units() -> None:
    assert java_hash_code("é") == 0xE9
    assert java_hash_code("\U0001f600") == 0xD83D * 31 + 0xDE00
    assert java_hash_code("\ud83d") == 0xD83D  # A lone surrogate is a String in Java as well.


@pytest.mark.parametrize("text", ["a" * 250, "a" * 251, "z" * 5_000, "é" * 250, "é" * 251, "~" * 30])
def test_long_names_have_the_same_hash(text: str) -> None:
    code = 0
    for unit in text:
        code = (31 * code + ord(unit)) % (1 << 32)
    assert java_hash_code(text) % (1 << 32) == code
