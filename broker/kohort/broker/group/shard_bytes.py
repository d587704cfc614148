"""How many bytes are kept for groups: for those of one shard, and for those of all shards."""


class ShardBytes:
    """Sums that all groups of one shard keep: what members have brought, and past rebalances."""

    __slots__ = ("history_bytes", "member_bytes")

    def __init__(self) -> None:
        self.history_bytes = 0
        self.member_bytes = 0


class Room:
    """What is kept for the groups of all shards of a broker; shards are counted once they are loaded."""

    __slots__ = ("_shards",)

    def __init__(self) -> None:
        self._shards: set[ShardBytes] = set()

    def add(self, shard: ShardBytes) -> None:
        """Count a shard from now on."""
        self._shards.add(shard)

    def remove(self, shard: ShardBytes) -> None:
        """Count a shard no longer; of one that was not counted it changes nothing."""
        self._shards.discard(shard)

    def member_bytes(self, shard: ShardBytes) -> int:
        """Return what members have brought to this shard, which may not be counted yet, and to all others."""
        return shard.member_bytes + sum(each.member_bytes for each in self._shards if each is not shard)

    def history_bytes(self, shard: ShardBytes) -> int:
        """Return what past rebalances take, in the same way."""
        return shard.history_bytes + sum(each.history_bytes for each in self._shards if each is not shard)
