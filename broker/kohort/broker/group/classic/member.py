"""A member of a classic group."""

from kohort.protocol.messages.join_group import JoinGroupRequestProtocol
from kohort.protocol.offsets_topic import MemberMetadata

PROTOCOL_BYTES = 128  # What an entry of `protocols` takes besides its name and its metadata.
LOST = -1  # Stands for a parked request whose client went away: it counts, but nobody hears the answer.


class Member:
    """Who joined, with what, and what it waits for (Kafka: ClassicGroupMember).

    `connection_closed_ms` is when the connection closed over which it last joined or synced, 0 before.
    `awaiting_join` and `awaiting_sync` are ids of parked requests; `parking` alone sets them.
    `timer_ms` is when the session timer that the shell holds will fire: a heartbeat moves only
    `session_deadline_ms`, and the timer is set again when it fires too early.
    """

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "connection_closed_ms",
        "group_instance_id",
        "is_new",
        "join_version",
        "last_seen_ms",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_deadline_ms",
        "session_timeout_ms",
        "timer_ms",
    )

    def __init__(
        self,
        *,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: tuple[JoinGroupRequestProtocol, ...],
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = unique_by_name(protocols)
        self.assignment = b""
        self.is_new = False
        self.awaiting_join: int | None = None
        self.join_version = 0
        self.awaiting_sync: int | None = None
        self.session_deadline_ms = 0
        self.last_seen_ms = 0
        self.connection_closed_ms = 0
        self.timer_ms: int | None = None

    def __repr__(self) -> str:
        return f"Member({self.member_id!r}, instance={self.group_instance_id!r})"

    @property
    def is_waiting(self) -> bool:
        """Whether a request of the member is parked, which keeps its session alive."""
        return self.awaiting_join is not None or self.awaiting_sync is not None

    @property
    def metadata_bytes(self) -> int:
        """How much is kept of what was brought for the member: its protocols, and its assignment."""
        return bytes_of(self.protocols) + len(self.assignment)

    def metadata(self, protocol_name: str | None) -> bytes | None:
        """Return what the member said under that protocol, or None where it does not speak it."""
        for each in self.protocols:
            if each.name == protocol_name:
                return each.metadata
        return None

    def matches(self, protocols: tuple[JoinGroupRequestProtocol, ...]) -> bool:
        """Return whether a join brings just the protocols that the member joined with."""
        return self.protocols == unique_by_name(protocols)


def bytes_of(protocols: tuple[JoinGroupRequestProtocol, ...]) -> int:
    """Return about how many bytes the protocols take."""
    size_bytes = 0
    for each in protocols:
        size_bytes += PROTOCOL_BYTES + len(each.name) + len(each.metadata)
    return size_bytes


def unique_by_name(
    protocols: tuple[JoinGroupRequestProtocol, ...],
) -> tuple[JoinGroupRequestProtocol, ...]:
    """Return the protocols without a second one of the same name."""
    if len(protocols) < 2:
        return tuple(protocols)
    first: dict[str, JoinGroupRequestProtocol] = {}
    for protocol in protocols:
        first.setdefault(protocol.name, protocol)
    return tuple(first.values())


def loaded_member(metadata: MemberMetadata, protocol_name: str | None) -> Member:
    """Return a member as the log knows it: with the one protocol that its group had chosen."""
    protocol = JoinGroupRequestProtocol(name=protocol_name or "", metadata=metadata.subscription)
    timeout_ms = metadata.rebalance_timeout
    return Member(
        member_id=metadata.member_id,
        group_instance_id=metadata.group_instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout_ms=metadata.session_timeout if timeout_ms < 0 else timeout_ms,
        session_timeout_ms=metadata.session_timeout,
        protocols=(protocol,),
    )
