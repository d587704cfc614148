"""Which partition a record goes to.

Source: org.apache.kafka.common.utils.Utils.murmur2 and BuiltInPartitioner: every client that hashes
alike sends equal keys to the same partition.
"""

_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the 32-bit MurmurHash2 of `data`, unsigned, with the seed that Kafka's clients use."""
    length = len(data)
    result = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        result = (result * _MULTIPLIER & _MASK) ^ word
    if length > whole:
        result ^= int.from_bytes(data[whole:], "little")
        result = result * _MULTIPLIER & _MASK
    result = (result ^ result >> 13) * _MULTIPLIER & _MASK
    return result ^ result >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition that every Kafka client gives a record with this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
