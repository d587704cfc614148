"""A rebalance in progress: why it began, who has joined, whom it waits for."""

from kohort.broker.group.events import Cause, Waited

FURTHER_CAUSES_KEPT = 64
WAITED_KEPT = 64


class Rebalance:
    """What is known of the rebalance in progress; it becomes a `RebalanceReport` when it is over.

    `is_initial`: the group was empty, so the join phase lasts its delay, `remaining_ms` at most once more
    while `member_added` says that members keep coming. `joined_ms` says when each member joined, `gone_ms`
    when one left or was removed.
    """

    __slots__ = (
        "cause",
        "delay_ms",
        "expected",
        "further_causes",
        "generation_id",
        "gone_ms",
        "is_initial",
        "join_completed_ms",
        "joined_ms",
        "member_added",
        "remaining_ms",
        "removed",
        "started_ms",
        "waited_for",
    )

    def __init__(
        self, cause: Cause, started_ms: int, generation_id: int, expected: dict[str, str], *, is_initial: bool
    ) -> None:
        self.cause = cause
        self.further_causes: list[Cause] = []
        self.started_ms = started_ms
        self.generation_id = generation_id  # The one that ends with this rebalance.
        self.expected = expected  # Members of that generation that shall rejoin, with their client ids.
        self.is_initial = is_initial
        self.delay_ms = 0
        self.remaining_ms = 0
        self.member_added = False
        self.joined_ms: dict[str, int] = {}
        self.gone_ms: dict[str, int] = {}
        self.join_completed_ms: int | None = None
        self.removed: list[str] = []
        self.waited_for: tuple[Waited, ...] = ()

    def add_cause(self, cause: Cause) -> None:
        """Remember what would have started a rebalance, had none been in progress."""
        if len(self.further_causes) < FURTHER_CAUSES_KEPT:
            self.further_causes.append(cause)

    def waits(self, now_ms: int) -> tuple[Waited, ...]:
        """Return for whom the join phase waited until `now_ms`, the slowest first."""
        waits = []
        for member_id, client_id in self.expected.items():
            joined_ms = self.joined_ms.get(member_id)
            until_ms = self.gone_ms.get(member_id, now_ms) if joined_ms is None else joined_ms
            waits.append(Waited(member_id, client_id, until_ms - self.started_ms, joined_ms is not None))
        waits.sort(key=lambda each: (each.joined, -each.waited_ms))
        return tuple(waits[:WAITED_KEPT])
