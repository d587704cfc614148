"""A member of a group for people. `msgspec.json` writes it."""

import msgspec


class MemberView(msgspec.Struct, frozen=True, kw_only=True):
    """A member: who it is, what it reads, and whether the group hears of it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    is_leader: bool
    protocols: tuple[str, ...]
    topics: tuple[str, ...]
    partitions: tuple[tuple[str, int], ...]
    waits_for: str | None
    last_seen_ms: int
    session_left_ms: int
    session_timeout_ms: int
    rebalance_timeout_ms: int
