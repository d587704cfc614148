"""What each partition of a worker brings: told when it joins its group, and a reason to share anew. Pure."""

from collections.abc import Iterable, Mapping

from kohort.client.values import TopicPartition
from kohort.queues.forward.sharing import Load, encode_loads

SAMPLE_MS = 10_000
SMOOTHING = 0.3
REMEMBERED_MS = 300_000  # What somebody else has now is told for so long: who has it knows nothing yet.
CHANGED = 1.5
BYTES_MIN, PUSHES_MIN = 10_000.0, 0.5  # Smaller loads are none.


class Measured:
    """Loads of one worker's partitions; times in milliseconds are passed in."""

    def __init__(self, share_every_ms: int) -> None:
        self._share_every_ms = share_every_ms
        self._sums: dict[TopicPartition, tuple[int, float]] = {}
        self._loads: dict[TopicPartition, tuple[float, Load]] = {}  # And when they were measured.
        self._sampled_at_ms: float | None = None
        self._shared_at_ms: float | None = None
        self._told = Load(0.0, 0.0)

    def is_due(self, now_ms: float) -> bool:
        """Whether it is time for a sample."""
        return self._sampled_at_ms is None or now_ms - self._sampled_at_ms >= SAMPLE_MS

    def sample(self, sums: Mapping[TopicPartition, tuple[int, float]], now_ms: float) -> None:
        """Take in what each partition has brought since it came: bytes, and milliseconds of pushes."""
        if self._sampled_at_ms is not None and now_ms > self._sampled_at_ms:
            passed_ms = now_ms - self._sampled_at_ms
            for partition, (size_bytes, pushes_ms) in sums.items():
                before = self._sums.get(partition)
                if before is None or before[0] > size_bytes or before[1] > pushes_ms:
                    continue  # It has just come: the next sample tells more.
                load = Load((size_bytes - before[0]) * 1_000 / passed_ms, (pushes_ms - before[1]) / passed_ms)
                self._loads[partition] = now_ms, self._smoothed(partition, load)
        self._sums, self._sampled_at_ms = dict(sums), now_ms
        self._loads = {
            each: found for each, found in self._loads.items() if now_ms - found[0] <= REMEMBERED_MS
        }

    def _smoothed(self, partition: TopicPartition, load: Load) -> Load:
        if partition not in self._loads:
            return load
        before = self._loads[partition][1]
        return Load(*(old + SMOOTHING * (new - old) for old, new in zip(before, load, strict=True)))

    def tell(self, now_ms: float) -> bytes:
        """Return what the group's leader is told, in a rebalance that is under way."""
        self._shared_at_ms = now_ms
        self._told = self._total(self._sums)
        return encode_loads({(each.topic, each.partition): load for each, (_, load) in self._loads.items()})

    def is_other_than_told(self, now_ms: float) -> bool:
        """Whether the load has become so different that the group had better share anew."""
        if not self._share_every_ms or self._shared_at_ms is None:
            return False
        now = self._total(self._sums)
        return now_ms - self._shared_at_ms >= self._share_every_ms and any(
            max(before, after, least) > CHANGED * max(min(before, after), least)
            for before, after, least in zip(self._told, now, (BYTES_MIN, PUSHES_MIN), strict=True)
        )

    def _total(self, partitions: Iterable[TopicPartition]) -> Load:
        found = [self._loads[each][1] for each in partitions if each in self._loads]
        return Load(sum(each.bytes_per_s for each in found), sum(each.pushes for each in found))
