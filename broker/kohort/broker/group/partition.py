"""Which partition of `__consumer_offsets` keeps a group."""

import sys
from functools import lru_cache
from operator import mul

INT_MIN = -(1 << 31)
POWERS_OF_31 = tuple(31**power & 0xFFFFFFFF for power in range(249, -1, -1))
"""By which the UTF-16 units of a name are multiplied, the last by 1: as many as a topic's name may have."""
REMEMBERED_MAX = 1_024  # Some 150 bytes each. A forming group is looked up some twenty times.


@lru_cache(REMEMBERED_MAX)
def coordinator_partition(group_id: str, partitions: int) -> int:
    """Return the partition whose leader coordinates the group (Kafka: Utils.abs, String.hashCode)."""
    code = java_hash_code(group_id)
    return (0 if code == INT_MIN else abs(code)) % partitions


def hash_table_place(text: str) -> int:
    """Return where a Java HashMap of up to twelve strings keeps this one: it is iterated in that order."""
    code = java_hash_code(text) & 0xFFFFFFFF
    return (code ^ code >> 16) & 15


def java_hash_code(text: str) -> int:
    """Return Java's String.hashCode: over UTF-16 units, wrapped to 32 bits with a sign."""
    units: bytes | memoryview
    if text.isascii():
        units = text.encode()
    else:
        units = memoryview(text.encode("utf-16-" + sys.byteorder[:1] + "e", "surrogatepass")).cast("H")
    count = len(units)
    if count <= len(POWERS_OF_31):
        code: int = sum(map(mul, units, POWERS_OF_31[-count:])) & 0xFFFFFFFF
    else:
        code = 0
        for unit in units:
            code = (31 * code + unit) & 0xFFFFFFFF
    return code - (1 << 32) if code & 0x80000000 else code
