"""A rebalance in progress: its cause, the joined members, and those it waits for."""

from kohort.broker.explain.events import Waited
from kohort.broker.group.events import Cause
from kohort.broker.group.rebalance_facts import Owners

FURTHER_CAUSES_KEPT = 64
REMOVED_KEPT = 1_000
WAITED_KEPT = 64


class Rebalance:
    """The state of the rebalance in progress; it becomes a `RebalanceReport` when it is over.

    `expected` are the members that have to come, with their client ids. `joined_ms` says when each member
    joined, `gone_ms` when one left or was removed. `original_member_ids` has the id that a returning static
    member had when the rebalance began. `is_initial`: the group was empty. `is_by_broker`: the group has
    epochs, and `owners` are those of each partition when it began.
    """

    __slots__ = (
        "cause",
        "expected",
        "further_causes",
        "gone_ms",
        "is_by_broker",
        "is_initial",
        "join_completed_ms",
        "joined_ms",
        "original_member_ids",
        "owners",
        "removed",
        "started_ms",
        "waited_for",
    )

    def __init__(
        self,
        cause: Cause,
        started_ms: int,
        expected: dict[str, str],
        *,
        is_initial: bool,
        owners: Owners | None = None,
    ) -> None:
        self.cause = cause
        self.further_causes: list[Cause] = []
        self.started_ms = started_ms
        self.expected = expected
        self.is_initial = is_initial
        self.is_by_broker = owners is not None
        self.owners: Owners = {} if owners is None else owners
        self.joined_ms: dict[str, int] = {}
        self.gone_ms: dict[str, int] = {}
        self.original_member_ids: dict[str, str] = {}
        self.join_completed_ms: int | None = None
        self.removed: list[str] = []
        self.waited_for: tuple[Waited, ...] = ()

    def add_cause(self, cause: Cause) -> None:
        """Remember an event that would have started a rebalance, if none were in progress."""
        if len(self.further_causes) < FURTHER_CAUSES_KEPT:
            self.further_causes.append(cause)

    def replace_member(self, former_member_id: str, member_id: str, client_id: str) -> None:
        """Expect a static member under its new id instead of the former one. It keeps its partitions."""
        if self.expected.pop(former_member_id, None) is not None:
            self.expected[member_id] = client_id
        original = self.original_member_ids.pop(former_member_id, former_member_id)
        self.original_member_ids[member_id] = original
        self.joined_ms.pop(former_member_id, None)

    def remove_member(self, member_id: str, now_ms: int, *, is_expired: bool) -> None:
        """Note that a member has left, or was removed as `is_expired`. The first 1,000 of those are kept.

        The number of members that join and leave without being expected is unlimited: nothing else is kept of
        them.
        """
        if member_id in self.expected:
            self.gone_ms[member_id] = now_ms
        else:
            self.joined_ms.pop(member_id, None)
        self.original_member_ids.pop(member_id, None)
        if is_expired and len(self.removed) < REMOVED_KEPT:
            self.removed.append(member_id)

    def complete_join(self, now_ms: int) -> None:
        """Note that no member is missing any more: the leader assigns now."""
        self.waited_for = self.waits(now_ms)
        self.join_completed_ms = now_ms

    def waited(self, now_ms: int) -> tuple[Waited, ...]:
        """Return for which members the rebalance has waited.

        In a classic group until the join phase ended.
        """
        has_joined = not self.is_by_broker and self.join_completed_ms is not None
        return self.waited_for if has_joined else self.waits(now_ms)

    def waits(self, now_ms: int) -> tuple[Waited, ...]:
        """Return for which members the join phase waited until `now_ms`, the slowest first."""
        waits = []
        for member_id, client_id in self.expected.items():
            joined_ms = self.joined_ms.get(member_id)
            until_ms = self.gone_ms.get(member_id, now_ms) if joined_ms is None else joined_ms
            waits.append(Waited(member_id, client_id, until_ms - self.started_ms, joined_ms is not None))
        waits.sort(key=lambda each: (each.joined, -each.waited_ms))
        return tuple(waits[:WAITED_KEPT])
