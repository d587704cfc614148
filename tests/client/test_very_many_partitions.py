"""More partitions in one call than kohort's broker takes in one request."""

from __future__ import annotations

import pytest

from kohort.client import Consumer, OffsetAndMetadata, TopicPartition
from kohort.client.errors import CommitFailedError

MANY = 100_000


def test_committed_offsets_of_very_many_partitions(bootstrap: str, group: str) -> None:
    partitions = [TopicPartition("very-many", number) for number in range(MANY)]
    with Consumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False) as consumer:
        found = consumer.committed(*partitions)
        assert not any(found.values())
        with pytest.raises(CommitFailedError, match="there is no such partition"):
            consumer.commit(dict.fromkeys(partitions, OffsetAndMetadata(1)))
