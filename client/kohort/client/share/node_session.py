"""A share session with one broker, so that requests only name changes. Pure.

Requests of a session are numbered, and each follows the answer to the previous one. Any error ends
it: the broker releases the records acquired there, and the next request opens another.
Source: ShareSessionHandler.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from uuid import UUID

from kohort.client.share.acknowledgements import Batch
from kohort.protocol.messages.share_acknowledge import (
    ShareAcknowledgeBatch,
    ShareAcknowledgePartition,
    ShareAcknowledgeTopic,
)
from kohort.protocol.messages.share_fetch import (
    ShareFetchAcknowledgementBatch,
    ShareFetchForgottenTopic,
    ShareFetchPartition,
    ShareFetchTopic,
)

OPENING, CLOSING = 0, -1
EPOCH_MAX = 2**31 - 1

TopicIdPartition = tuple[UUID, int]
"""A partition by its topic's id."""
PendingBatches = Mapping[TopicIdPartition, tuple[Batch, ...]]


class NodeSession:
    """The session with one broker."""

    def __init__(self) -> None:
        self.epoch = OPENING
        self._partitions: frozenset[TopicIdPartition] = frozenset()

    @property
    def is_open(self) -> bool:
        """Whether the broker knows of it."""
        return self.epoch != OPENING

    @property
    def has_partitions(self) -> bool:
        """Whether it fetches anything."""
        return bool(self._partitions)

    def fetch(
        self, wanted: Collection[TopicIdPartition], pending: PendingBatches
    ) -> tuple[tuple[ShareFetchTopic, ...], tuple[ShareFetchForgottenTopic, ...]]:
        """Return the partitions of a ShareFetch: new or acknowledged ones, and those not wanted any more.

        A partition with acknowledgements is fetched, too: naming a partition requests its records.
        """
        named = sorted({*wanted} - self._partitions | pending.keys())
        gone = sorted(self._partitions - {*wanted})
        self._partitions = frozenset(wanted)
        topics = tuple(
            ShareFetchTopic(
                topic_id=topic_id,
                partitions=tuple(
                    ShareFetchPartition(
                        partition_index=key[1],
                        acknowledgement_batches=tuple(
                            ShareFetchAcknowledgementBatch(
                                first_offset=first, last_offset=last, acknowledge_types=types
                            )
                            for first, last, types in pending.get(key, ())
                        ),
                    )
                    for key in keys
                ),
            )
            for topic_id, keys in _by_topic(named)
        )
        forgotten = tuple(
            ShareFetchForgottenTopic(topic_id=topic_id, partitions=tuple(key[1] for key in keys))
            for topic_id, keys in _by_topic(gone)
        )
        return topics, forgotten

    def advance(self) -> None:
        """The broker has answered: expect the next number."""
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def reset(self) -> None:
        """The session has ended."""
        self.epoch = OPENING
        self._partitions = frozenset()


def acknowledge_topics(pending: PendingBatches) -> tuple[ShareAcknowledgeTopic, ...]:
    """Return the partitions of a ShareAcknowledge."""
    return tuple(
        ShareAcknowledgeTopic(
            topic_id=topic_id,
            partitions=tuple(
                ShareAcknowledgePartition(
                    partition_index=key[1],
                    acknowledgement_batches=tuple(
                        ShareAcknowledgeBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                        for first, last, types in pending[key]
                    ),
                )
                for key in keys
            ),
        )
        for topic_id, keys in _by_topic(sorted(pending))
    )


def _by_topic(keys: Iterable[TopicIdPartition]) -> Iterable[tuple[UUID, list[TopicIdPartition]]]:
    for topic_id, each in groupby(keys, key=lambda key: key[0]):
        yield topic_id, list(each)
