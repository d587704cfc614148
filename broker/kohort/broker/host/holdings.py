"""The workers that have partitions: they are needed when the data folder is served again."""

from collections import Counter
from collections.abc import Mapping

from kohort.broker.config import ConfigError
from kohort.broker.etcd.key_store import Entry
from kohort.broker.metadata.etcd_layout import Keys, PartitionValue, TopicValue, decoded

CLUSTER = "host"
"""The cluster name of a host's brokers in the keys."""


def held(entries: Mapping[bytes, Entry]) -> Counter[int]:
    """Return how many partitions of topics that there are each node id holds. Raises: StorageError."""
    keys = Keys(CLUSTER)
    begin, counts = keys.topic(""), Counter[int]()
    for key, entry in entries.items():
        if key.startswith(begin) and entry.value is not None:
            topic = decoded(key, entry.value, TopicValue)
            for index in range(topic.partitions):
                place = keys.partition((topic.topic_id, index))
                found = entries.get(place)
                if found is not None and found.value is not None:
                    counts.update(decoded(place, found.value, PartitionValue).replicas)
    return counts


def check_workers(entries: Mapping[bytes, Entry], node_id: int, workers: int) -> None:
    """Return if so many workers, the first one with that node id, cover all partitions.

    Raises: ConfigError that names the necessary number; StorageError.
    """
    counts = held(entries)
    missing = {each: count for each, count in counts.items() if not node_id <= each < node_id + workers}
    if not missing:
        return
    first, last = min(missing), max(missing)
    if first < node_id:
        raise ConfigError(f"the data folder's first worker is broker {first}: give --node-id {first}")
    raise ConfigError(
        f"{sum(missing.values())} partitions are held by other workers than the first {workers}: give "
        f"--workers {last - node_id + 1}; to have fewer, move them first (kohort cluster reassign "
        f"--without {last} --wait)"
    )
