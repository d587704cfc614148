"""How many bytes are kept for groups: for those of one shard, and for those of all shards."""


class ShardBytes:
    """The bytes of members' metadata in all groups of one shard."""

    __slots__ = ("_room", "member_bytes")

    def __init__(self) -> None:
        self.member_bytes = 0
        self._room: Room | None = None  # That which counts it.

    def keep_members(self, more_bytes: int) -> None:
        """Count more or fewer bytes of members' metadata."""
        self.member_bytes += more_bytes
        if self._room is not None:
            self._room.member_bytes += more_bytes

    def count_in(self, room: "Room | None") -> None:
        """Be counted in this room from now on, and in no other."""
        for each, sign in ((self._room, -1), (room, 1)):
            if each is not None:
                each.member_bytes += sign * self.member_bytes
        self._room = room

    def is_counted_in(self, room: "Room") -> bool:
        """Return whether `room` counts it."""
        return self._room is room


class Room:
    """The memory of the groups of all shards of a broker; loaded shards are counted.

    The sums are kept, and not computed for each question: a rebalance asks several times.
    """

    __slots__ = ("member_bytes",)

    def __init__(self) -> None:
        self.member_bytes = 0

    def add(self, shard: ShardBytes) -> None:
        """Count a shard from now on."""
        shard.count_in(self)

    def remove(self, shard: ShardBytes) -> None:
        """Stop counting a shard; an uncounted one changes nothing."""
        if shard.is_counted_in(self):
            shard.count_in(None)

    def member_bytes_with(self, shard: ShardBytes) -> int:
        """Return the bytes of members' metadata in all shards and this one, which may not be added yet."""
        return self.member_bytes + (0 if shard.is_counted_in(self) else shard.member_bytes)
