"""Where a consumer stands in each of its partitions."""

from collections.abc import Iterable, Iterator

from kohort.client.values import OffsetAndMetadata, TopicPartition

RESET = "reset"  # By auto_offset_reset, whatever is committed.


class PartitionState:
    """One partition that the consumer reads.

    `position` is the offset of the next record for the user, `fetch_offset` of the next to be asked for;
    both are None until they are known. `epoch` grows whenever what was fetched before is void.
    """

    __slots__ = ("buffered", "epoch", "fetch_offset", "is_new", "partition", "paused", "position", "reset_to")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.position: int | None = None
        self.fetch_offset: int | None = None
        self.reset_to: int | str | None = (
            None  # A ListOffsets timestamp, or RESET; None: the committed offset.
        )
        self.paused = False
        self.epoch = 0
        self.buffered = 0
        self.is_new = True

    def seek(self, offset: int) -> None:
        """Go on at `offset`."""
        self.void()
        self.position = self.fetch_offset = offset
        self.reset_to = None

    def seek_to(self, where: int | str) -> None:
        """Go on where a lookup of the timestamp `where` leads to."""
        self.void()
        self.position = self.fetch_offset = None
        self.reset_to = where

    def void(self) -> None:
        """Throw away what was fetched."""
        self.epoch += 1
        self.buffered = 0


class Positions:
    """The partitions that are assigned, in the order in which they were."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionState] = {}

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(tuple(self._states.values()))

    def __contains__(self, partition: object) -> bool:
        return partition in self._states

    def get(self, partition: TopicPartition) -> PartitionState:
        """Return one partition's state. Raises: ValueError if it is not assigned."""
        try:
            return self._states[partition]
        except KeyError:
            raise ValueError(f"partition {partition} is not assigned to this consumer") from None

    def find(self, partition: TopicPartition) -> PartitionState | None:
        """Return one partition's state, or None if it is not assigned."""
        return self._states.get(partition)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these from now on; who stays keeps its position."""
        wanted = list(dict.fromkeys(partitions))
        for each in self:
            if each.partition not in wanted:
                each.void()
        self._states = {each: self._states.get(each) or PartitionState(each) for each in wanted}

    def partitions(self) -> tuple[TopicPartition, ...]:
        """Return what is assigned."""
        return tuple(self._states)

    def without_position(self) -> list[PartitionState]:
        """Return the partitions whose position has to be looked up."""
        return [each for each in self if each.position is None]

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what a commit of everything that the user has got would commit."""
        return {
            each.partition: OffsetAndMetadata(each.position) for each in self if each.position is not None
        }
