"""What the members of the region `totals` compute."""

from kohort.client import ConsumerRecord


class Total:
    """The sum of all values. The region saves and restores it."""

    def __init__(self) -> None:
        self.total = 0

    def process(self, record: ConsumerRecord[bytes, bytes]) -> None:
        """Take in one record."""
        self.total += int(record.value or b"0")

    def save(self, sequence_id: int) -> bytes:
        """Return the state."""
        return b"%d" % self.total

    def restore(self, state: bytes | None) -> None:
        """Go back to a state; None is the first one."""
        self.total = int(state or b"0")
