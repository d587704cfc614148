import pytest

from kohort.client.partitioner import murmur2, partition_for_key


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
def test_murmur2_gives_what_java_gives(data: bytes, signed: int) -> None:
    assert murmur2(data) == signed % 2**32


def test_a_key_always_goes_to_the_same_partition() -> None:
    assert partition_for_key(b"abc", 8) == 479470107 % 8
    assert 0 <= partition_for_key(b"21", 7) < 7
