"""Free memory goes back to the system."""

import sys

import pytest

from kohort.broker.runtime.memory import return_free_memory

BLOCKS = 40_000
BLOCK_BYTES = 1000  # More than Python's own allocator keeps for small objects: the C library's heap has them.


def resident_kib() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_free_memory_below_a_used_block_is_returned() -> None:
    blocks = [bytearray(BLOCK_BYTES) for _ in range(BLOCKS)]
    last = bytearray(BLOCK_BYTES)  # Keeps the heap from shrinking by itself.
    blocks.clear()
    before = resident_kib()
    return_free_memory()
    assert len(last) == BLOCK_BYTES
    assert before - resident_kib() > BLOCKS * BLOCK_BYTES // 1024 // 2
