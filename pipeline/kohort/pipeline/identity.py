"""Who writes: producer ids that a repeated batch finds again, so that the broker knows what it has.

A writer's task k of batch b writes as producer `hash(writer, b >> 15, k)` in epoch `b & 0x7FFF`, and numbers
its rows for each partition from 0. Whoever writes that batch again writes under the same numbers:
- a partition's leader tells (DescribeProducers) up to which number it has them, and the task leaves them out;
- a batch that is sent twice, by a retry or by a task that was believed dead, is refused by its numbers;
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
