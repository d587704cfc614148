"""The parts of a broker that questions about transactions are put to."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.partitions import ProducerIds

if TYPE_CHECKING:
    from kohort.broker.coordination.transaction_shards import TransactionShards


class TransactionServices(msgspec.Struct, frozen=True):
    """The transactional ids of this broker, made at first use, and the parts they need."""

    shards: "Callable[[], TransactionShards]"
    groups: GroupServices
    producer_ids: ProducerIds
