"""A group for people: its state, missing members, causes of rebalances. `msgspec.json` writes it."""

import msgspec

from kohort.broker.explain.events import RebalanceReport, Waited
from kohort.broker.explain.history import GroupRebalances
from kohort.broker.explain.rebalance import Rebalance
from kohort.broker.group.events import Cause
from kohort.broker.group.group import AnyGroup
from kohort.broker.group.kinds import status_of
from kohort.broker.group.views import GroupFacts, GroupStatus


class RebalanceView(msgspec.Struct, frozen=True, kw_only=True):
    """The rebalance in progress: its start, its cause, and which members have joined or not."""

    cause: Cause
    further_causes: tuple[Cause, ...]
    started_ms: int
    ongoing_ms: int
    deadline_ms: int | None
    waited_for: tuple[Waited, ...]
    waits_for_member_ids: tuple[str, ...]


class GroupView(GroupFacts, frozen=True, kw_only=True):
    """A group with its members and its rebalances, the newest last."""

    rebalance: RebalanceView | None
    history: tuple[RebalanceReport, ...]


def view_of(group: AnyGroup, rebalances: GroupRebalances, now_ms: int) -> GroupView:
    """Return the group with its rebalances, at that time."""
    status = status_of(group, now_ms)
    return GroupView(
        **{name: getattr(status, name) for name in GroupFacts.__struct_fields__},
        rebalance=_rebalance_view(status, rebalances.ongoing, now_ms),
        history=tuple(rebalances.history),
    )


def _rebalance_view(status: GroupStatus, rebalance: Rebalance | None, now_ms: int) -> RebalanceView | None:
    if rebalance is None:
        return None
    return RebalanceView(
        cause=rebalance.cause,
        further_causes=tuple(rebalance.further_causes),
        started_ms=rebalance.started_ms,
        ongoing_ms=now_ms - rebalance.started_ms,
        deadline_ms=status.deadline_ms,
        waited_for=rebalance.waited(now_ms),
        waits_for_member_ids=status.waits_for_member_ids,
    )
