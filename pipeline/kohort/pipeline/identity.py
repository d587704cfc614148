"""The writer's identity: a repeated batch uses the same producer ids, so that the broker finds duplicates.

A writer's task k of batch b writes as producer `hash(writer, b >> 15, k)` in epoch `b & 0x7FFF`, and numbers
its rows for each partition from 0. A second attempt at that batch writes under the same numbers:
- the partition's leader returns its last sequence number (DescribeProducers), and the task skips those rows;
- the leader refuses a batch that is sent twice, by a retry or by a task that was believed dead;
- a task of an older batch that wakes up late has an older epoch, and is fenced.
Ids that InitProducerId gives out count from 0; these have the highest bit but the sign set, and meet none.
Source: KIP-98 (idempotence), KIP-664 (DescribeProducers).
"""

import hashlib
from dataclasses import dataclass

EPOCH_BITS = 15
_OWN_RANGE = 1 << 62


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """Under which id and epoch a task writes."""

    producer_id: int
    epoch: int


def identity(writer: str, batch: int, task: int) -> ProducerIdentity:
    """Return the numbers of one task of one batch: the same ones whenever they are asked for."""
    generation, epoch = divmod(batch, 1 << EPOCH_BITS)
    digest = hashlib.sha256(f"{writer}\0{generation}\0{task}".encode()).digest()
    return ProducerIdentity(int.from_bytes(digest[:8], "big") >> 2 | _OWN_RANGE, epoch)
