"""The roles that this broker can have in a partition, and which role may follow which.

A role is a value. `Partition` owns it and changes it by named transitions, each of which `check_transition`
has to allow. The error code for clients follows from the role and from the state of the log.

    Alone      the only replica is here, and this broker leads it
    Resigned   the only replica is here, and this broker may not lead it: its lease is over
    Idle       one of several replicas, which neither leads nor follows
    Leader     one of several replicas; it leads under one leader epoch
    Follower   one of several replicas; it follows the leader under one leader epoch
    Suspended  a leader whose log has failed: it takes a role again once the log is open again
    Closed     the partition was deleted, or its replica has moved to another broker; nothing follows
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kohort.protocol.errors import ErrorCode
from kohort.storage import StorageError

if TYPE_CHECKING:  # A broker alone imports nothing of replication.
    from kohort.broker.replication import Following, Leadership

Committed = Callable[[StorageError | None], None]
"""Called in the loop's thread once records are committed; with an error if this leader never commits them."""


class ImpossibleTransition(AssertionError):
    """A partition was to take a role that cannot follow the one it has. The partition has not changed."""


class Role:
    """What this broker is to a partition."""

    __slots__ = ("following", "leadership")

    error_code: ErrorCode | None = ErrorCode.NOT_LEADER_OR_FOLLOWER
    """The answer to producers and consumers of the leader; None if they are served."""
    replicated: bool = True
    """Whether other brokers have replicas as well, or had."""
    resigned: bool = False
    """Whether another broker leads, or none: records appended here before may be lost."""
    is_closed: bool = False
    """Whether the partition was deleted, or its replica has moved to another broker."""

    def __init__(self, leadership: "Leadership | None" = None, following: "Following | None" = None) -> None:
        self.leadership = leadership
        """A leader's knowledge of its followers."""
        self.following = following
        """A follower's knowledge of its leader."""

    def __repr__(self) -> str:
        state = self.leadership or self.following
        return type(self).__name__ + ("" if state is None else f" of leader epoch {state.state.leader_epoch}")


class Alone(Role):
    """The only replica is here, and this broker leads it."""

    __slots__ = ()
    error_code = None
    replicated = False


class Resigned(Role):
    """The only replica is here, and this broker may not lead it."""

    __slots__ = ()
    replicated = False
    resigned = True


class Idle(Role):
    """One of several replicas, which neither leads nor follows."""

    __slots__ = ()
    resigned = True


class Leader(Role):
    """One of several replicas, which leads under one leader epoch."""

    __slots__ = ("_commits",)
    error_code = None

    def __init__(self, leadership: "Leadership") -> None:
        super().__init__(leadership=leadership)
        self._commits: deque[tuple[int, Committed]] = deque()
        """Waiters for the high watermark, by offset."""

    def wait_for_commit(self, end_offset: int, done: Committed) -> None:
        """Keep `done` until the high watermark has reached `end_offset`. Offsets come in order."""
        self._commits.append((end_offset, done))

    def next_committed(self, high_watermark: int) -> Committed | None:
        """Take and return one waiter whose records are committed by now, None if there is none."""
        commits = self._commits
        return commits.popleft()[1] if commits and commits[0][0] <= high_watermark else None

    def take_all(self) -> list[Committed]:
        """Take and return all remaining waiters: the role ends."""
        taken = [done for _, done in self._commits]
        self._commits.clear()
        return taken


class Follower(Role):
    """One of several replicas, which follows the leader under one leader epoch."""

    __slots__ = ()
    resigned = True

    def __init__(self, following: "Following") -> None:
        super().__init__(following=following)


class Suspended(Role):
    """A leader whose log has failed."""

    __slots__ = ()


class Closed(Role):
    """The partition was deleted, or its replica has moved to another broker."""

    __slots__ = ("replicated", "resigned")
    error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    is_closed = True

    def __init__(self, before: Role) -> None:
        super().__init__()
        self.replicated = before.replicated
        self.resigned = before.resigned


ALONE, RESIGNED, IDLE, SUSPENDED = Alone(), Resigned(), Idle(), Suspended()

_AS_REPLICA = frozenset((Idle, Leader, Follower, Closed))
ALLOWED: Mapping[type[Role], frozenset[type[Role]]] = {
    Alone: _AS_REPLICA | {Resigned, Suspended},
    Resigned: _AS_REPLICA | {Alone},
    Idle: _AS_REPLICA,
    Leader: _AS_REPLICA | {Suspended},
    Follower: _AS_REPLICA,
    Suspended: _AS_REPLICA,
    Closed: frozenset(),
}
"""Which roles may follow each: a partition that had replicas on other brokers is never unreplicated again."""


def check_transition(partition: object, before: Role, after: Role, *, has_log: bool) -> None:
    """Raise ImpossibleTransition unless `after` may follow `before`. Only an open log can lead or follow."""
    if type(after) not in ALLOWED[type(before)]:
        raise ImpossibleTransition(f"{partition} cannot go from {before} to {after}")
    if not has_log and isinstance(after, Leader | Follower):
        raise ImpossibleTransition(f"{partition} cannot become {after}: its log is not open")
