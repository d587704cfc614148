"""The part of the cluster's metadata that groups need."""

from collections.abc import Iterable, Mapping, Sized
from typing import Protocol
from uuid import UUID

from kohort.protocol.digest import blake2b


class Topic(Protocol):
    """The values of a topic that a group needs."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def topic_id(self) -> UUID:
        """Its id."""
        ...

    @property
    def partitions(self) -> Sized:
        """One entry for each partition."""
        ...

    @property
    def is_internal(self) -> bool:
        """Whether the broker keeps its own records in it."""
        ...


class Metadata(Protocol):
    """The topics of the cluster in one version, which never changes."""

    @property
    def version(self) -> int:
        """Grows with each change."""
        ...

    @property
    def topics(self) -> Mapping[str, Topic]:
        """The topics by name."""
        ...

    @property
    def topics_by_id(self) -> Mapping[UUID, Topic]:
        """The same topics by id."""
        ...

    def group_config(self, group_id: str) -> Mapping[str, str]:
        """Return the group's own settings, checked when they were set."""
        ...


def metadata_hash(names: Iterable[str], metadata: Metadata) -> int:
    """Return a number that changes with the topics among `names` that exist, and with their partitions.

    Kafka hashes the same things in another way (KIP-1101): a group that moves between both rebalances once.
    """
    digest = blake2b(digest_size=8)
    is_any = False
    for name in sorted(names):
        topic = metadata.topics.get(name)
        if topic is not None:
            is_any = True
            digest.update(topic.topic_id.bytes + len(topic.partitions).to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True) if is_any else 0
