"""The end offsets of partitions at past times, asked from a broker by record timestamp."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from kohort.client import LATEST, TopicPartition
from kohort.pipeline.closing import Closing
from kohort.pipeline.servers import Servers, as_servers

REQUEST_MS = 30_000


class Ends(Closing):
    """Looks ends up; a context manager. Partitions of topics that are gone have none."""

    def __init__(self, bootstrap: str | Servers) -> None:
        self._admin = as_servers(bootstrap).admin(default_api_timeout_ms=REQUEST_MS)
        self._existing: frozenset[TopicPartition] | None = None

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()

    def forget(self) -> None:
        """Forget the partitions: the next call asks the broker for them again."""
        self._existing = None

    def partitions_of(self, *topics: str) -> list[TopicPartition]:
        """Return all partitions of those topics in the cluster."""
        return sorted(each for each in self._known() if each.topic in topics)

    def existing(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions that exist in the cluster."""
        known = self._known()
        return sorted(each for each in partitions if each in known)

    def _known(self) -> frozenset[TopicPartition]:
        if self._existing is None:
            names = self._admin.list_topics(include_internal=True)
            described = self._admin.describe_topics(*names) if names else {}
            self._existing = frozenset(
                TopicPartition(name, each.partition)
                for name, topic in described.items()
                for each in topic.partitions
            )
        return self._existing

    def now(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the present ends."""
        wanted = self.existing(partitions)
        found = self._admin.list_offsets(dict.fromkeys(wanted, LATEST)) if wanted else {}
        return {each: value.offset for each, value in found.items()}

    def at(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return where each partition ended at its time: the first record that was not there yet."""
        wanted = self.existing(times_ms)
        if not wanted:
            return {}
        found = self._admin.list_offsets({each: times_ms[each] + 1 for each in wanted})
        ends = {each: value.offset for each, value in found.items() if value.offset >= 0}
        unchanged = [each for each in wanted if each not in ends]
        return ends | (self.now(unchanged) if unchanged else {})

    def over(
        self, partitions: Collection[TopicPartition], times_ms: Sequence[int]
    ) -> Iterable[tuple[TopicPartition, int, int]]:
        """Yield (partition, time, end) for each time, the ends of the last one as they are now."""
        for time_ms in times_ms:
            is_now = time_ms == times_ms[-1]
            found = self.now(partitions) if is_now else self.at(dict.fromkeys(partitions, time_ms))
            for partition, end in found.items():
                yield partition, time_ms, end
