"""How many bytes the members of groups have brought: of one shard's groups, and of all shards."""


class MemberBytes:
    """A sum that all groups of one shard keep."""

    __slots__ = ("held_bytes",)

    def __init__(self) -> None:
        self.held_bytes = 0


class Room:
    """What the members of all shards of a broker have brought; shards are counted once they are loaded."""

    __slots__ = ("_shards",)

    def __init__(self) -> None:
        self._shards: set[MemberBytes] = set()

    def add(self, shard: MemberBytes) -> None:
        """Count a shard from now on."""
        self._shards.add(shard)

    def remove(self, shard: MemberBytes) -> None:
        """Count a shard no longer; of one that was not counted it changes nothing."""
        self._shards.discard(shard)

    def taken_bytes(self, shard: MemberBytes) -> int:
        """Return the bytes of this shard, which may not be counted yet, and of all others."""
        return shard.held_bytes + sum(each.held_bytes for each in self._shards if each is not shard)
