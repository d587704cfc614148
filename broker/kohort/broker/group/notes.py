"""Events and causes about a member: the same fields for members of all kinds of groups."""

from typing import Protocol, TypedDict

from kohort.broker.group.events import Cause, CauseKind
from kohort.broker.group.group import AnyGroup
from kohort.broker.group.turn import Turn

REASON_LENGTH_KEPT = 255


class Identity(Protocol):
    """A member of a group of any kind."""

    @property
    def member_id(self) -> str:
        """Its id."""
        ...

    @property
    def instance_id(self) -> str | None:
        """Its group.instance.id, if it is a static member."""
        ...

    @property
    def client_id(self) -> str:
        """The client.id of its client."""
        ...

    @property
    def client_host(self) -> str:
        """The address that its client connects from."""
        ...


class MemberFields(TypedDict):
    """The fields of each `MemberEvent`."""

    group_id: str
    at_ms: int
    member_id: str
    client_id: str
    client_host: str
    group_instance_id: str | None


def fields_of(turn: Turn, group: AnyGroup, member: Identity) -> MemberFields:
    """Return what each event about the member says."""
    return {
        "group_id": group.group_id,
        "at_ms": turn.now_ms,
        "member_id": member.member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "group_instance_id": member.instance_id,
    }


def client_reason(reason: str | None) -> str:
    """Return the reason that a client gave, cut to the length that KIP-800 allows."""
    return "" if reason is None else reason[:REASON_LENGTH_KEPT]


def member_cause(
    turn: Turn,
    kind: CauseKind,
    member: Identity,
    reason: str | None = None,
    *,
    after_ms: int = 0,
    connection_closed_ms: int = 0,
) -> Cause:
    """Return the cause of a rebalance that a member is responsible for."""
    return Cause(
        kind=kind,
        at_ms=turn.now_ms,
        member_id=member.member_id,
        client_id=member.client_id,
        group_instance_id=member.instance_id,
        reason=client_reason(reason),
        after_ms=after_ms,
        client_host=member.client_host,
        connection_closed_ms=connection_closed_ms,
    )
