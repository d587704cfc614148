"""Which partition a record goes to.

Source: org.apache.kafka.common.utils.Utils.murmur2 and BuiltInPartitioner: every client with the same
hash sends equal keys to the same partition.
"""

import random
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Protocol, TypeVar

Partitioner = Callable[[str, bytes | None, bytes | None, int], int]
"""A user's own: (topic, key, value, how many partitions there are) -> the number of one."""

KEYS_REMEMBERED = 16_384
"""How many short keys are remembered, and how many long ones besides: 12 MB at most in a process."""
SHORT_KEY_BYTES = 256
"""A longer key is remembered by its digest: the memory for keys does not grow with their size."""
_DIGEST_BYTES = 16
_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the 32-bit MurmurHash2 of `data`, unsigned, with the seed that Kafka's clients use."""
    length = len(data)
    result = _SEED ^ length
    whole = length & ~3
    for word in struct.unpack_from(f"<{whole >> 2}I", data):
        word = word * _MULTIPLIER & _MASK  # noqa: PLW2901
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK  # noqa: PLW2901
        result = (result * _MULTIPLIER & _MASK) ^ word
    if length > whole:
        result ^= int.from_bytes(data[whole:], "little")
        result = result * _MULTIPLIER & _MASK
    result = (result ^ result >> 13) * _MULTIPLIER & _MASK
    return result ^ result >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition that every Kafka client gives a record with this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


partition_for_short_key = lru_cache(KEYS_REMEMBERED)(partition_for_key)
"""As `partition_for_key`, remembered: for keys of SHORT_KEY_BYTES at most."""


def partition_for_long_key(key: bytes, partition_count: int) -> int:
    """Return the same for a key of any length: the cache keeps only its digest."""
    digest = blake2b(key, digest_size=_DIGEST_BYTES).digest()
    hashed = _hashes.get(digest)
    if hashed is None:
        if len(_hashes) >= KEYS_REMEMBERED:
            _hashes.clear()
        hashed = _hashes[digest] = murmur2(key) & 0x7FFFFFFF
    return hashed % partition_count


_hashes: dict[bytes, int] = {}


class _Queue(Protocol):
    @property
    def waiting_bytes(self) -> int: ...


AnyQueue = TypeVar("AnyQueue", bound=_Queue)


def choose_by_queue(queues: Sequence[AnyQueue]) -> AnyQueue:
    """Return a random one; of two the shorter: so a slow broker's partitions get less (KIP-794)."""
    first = queues[int(random.random() * len(queues))]
    second = queues[int(random.random() * len(queues))]
    return second if second.waiting_bytes < first.waiting_bytes else first
