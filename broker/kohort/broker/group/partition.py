"""Which partition of `__consumer_offsets` keeps a group."""

from functools import lru_cache

INT_MIN = -(1 << 31)
REMEMBERED_MAX = 1_024  # Some 150 bytes each. A group that forms is looked for some twenty times.


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
    units = memoryview(text.encode("utf-16-be", "surrogatepass"))
    code = 0
    for position in range(0, len(units), 2):
        code = (31 * code + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return code - (1 << 32) if code & 0x80000000 else code
