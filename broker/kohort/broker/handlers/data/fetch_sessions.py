"""Incremental fetch sessions: the broker keeps a reader's partitions, and sends only changes.

A reader of many partitions names them once; later requests name only changed ones, and answers
contain only partitions with news. Source: KIP-227, and KIP-516 for topic ids; Kafka's
FetchSession.scala for details that the KIPs omit.
"""

from collections.abc import Callable, Collection, Iterator

from kohort.broker.handlers.data.fetch_target import FetchTarget, TargetKey
from kohort.broker.runtime.unpredictable import randbelow
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.fetch import FetchRequest

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1
FIRST_VERSION_WITH_IDS = 13
NEVER_MS = -(2**62)
NO_EPOCH = -1
Owner = tuple[str, str]
"""The owner of a session: principal and host. Nobody else can use or end it."""

NOBODY: Owner = ("", "")
EVICTION_MS = 120_000
"""How long a session is safe. Then it may be evicted if unused, or make room for a larger one."""


def next_epoch(epoch: int) -> int:
    """Return the epoch that follows; the first one is never used again."""
    return 1 if epoch == MAX_EPOCH else epoch + 1


class FetchSession:
    """One reader's partitions, in the order in which they are served."""

    __slots__ = (
        "checked_ms",
        "created_ms",
        "epoch",
        "last_used_ms",
        "owner",
        "reader_epoch",
        "session_id",
        "targets",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        targets: dict[TargetKey, FetchTarget],
        uses_topic_ids: bool,
        now_ms: int,
        owner: Owner,
    ) -> None:
        self.session_id = session_id
        self.owner = owner
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.targets = targets
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.checked_ms = NEVER_MS
        """When all of a follower's partitions were checked last, and its broker epoch then."""
        self.reader_epoch = NO_EPOCH

    def update(self, request: FetchRequest) -> None:
        """Add and change the partitions in the request, and remove those to forget."""
        _ask(self.targets, request, self.uses_topic_ids)
        for topic in request.forgotten_topics_data:
            name = topic.topic_id.bytes if self.uses_topic_ids else topic.topic
            for index in topic.partitions:
                self.targets.pop((name, index), None)

    def move_to_end(self, target: FetchTarget) -> None:
        """Serve `target` last from now on, since it has just been served."""
        key: TargetKey = (target.topic_id.bytes if self.uses_topic_ids else target.topic, target.index)
        if self.targets.get(key) is target:
            del self.targets[key]
            self.targets[key] = target


class FetchContext:
    """How one request is to be answered.

    `session` is the continued one; `is_new` tells that the answer starts one if there is space.
    """

    __slots__ = ("epoch", "is_new", "owner", "session", "targets", "uses_topic_ids")

    def __init__(
        self,
        targets: Collection[FetchTarget],
        *,
        uses_topic_ids: bool,
        is_new: bool = False,
        session: FetchSession | None = None,
        owner: Owner = NOBODY,
    ) -> None:
        self.owner = owner
        self.targets = targets
        self.uses_topic_ids = uses_topic_ids
        self.is_new = is_new
        self.session = session
        self.epoch = NO_SESSION if session is None else session.epoch

    @property
    def is_stale(self) -> bool:
        """Whether the session has moved on since: a later request of it has overtaken this one."""
        return self.session is not None and self.session.epoch != self.epoch


class FetchSessions:
    """Every session of this broker, at most `slots` of them."""

    def __init__(self, slots: int, new_id: Callable[[], int] | None = None) -> None:
        self._slots = slots
        self._new_id = new_id or (lambda: 1 + randbelow(MAX_EPOCH))
        self._sessions: dict[int, FetchSession] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(self._sessions.values())

    def get(self, session_id: int, owner: Owner = NOBODY) -> FetchSession | None:
        """Return the owner's session of this number."""
        session = self._sessions.get(session_id)
        return session if session is not None and session.owner == owner else None

    def forget(self, session_id: int, owner: Owner = NOBODY) -> None:
        """End the owner's session of this number."""
        if self.get(session_id, owner) is not None:
            del self._sessions[session_id]

    def begin(self, request: FetchRequest, version: int, now_ms: int, owner: Owner = NOBODY) -> FetchContext:
        """Return how to answer `request` of `owner`.

        Raises: ApiError FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
        FETCH_SESSION_TOPIC_ID_ERROR.
        """
        with_ids = version >= FIRST_VERSION_WITH_IDS
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != NO_SESSION:
                self.forget(request.session_id, owner)
            targets: dict[TargetKey, FetchTarget] = {}
            _ask(targets, request, with_ids)
            is_new = request.session_epoch == INITIAL_EPOCH
            return FetchContext(targets.values(), uses_topic_ids=with_ids, is_new=is_new, owner=owner)
        session = self._check(request, with_ids, owner)
        session.update(request)
        session.last_used_ms = now_ms
        if not session.targets:
            del self._sessions[session.session_id]
            return FetchContext((), uses_topic_ids=with_ids)
        session.epoch = next_epoch(session.epoch)
        return FetchContext(session.targets.values(), uses_topic_ids=with_ids, session=session)

    def _check(self, request: FetchRequest, with_ids: bool, owner: Owner) -> FetchSession:
        session = self.get(request.session_id, owner)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != with_ids:
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return session

    def create(self, context: FetchContext, now_ms: int) -> FetchSession | None:
        """Return a new session over what `context` fetches, or None where no slot is free or freed."""
        if len(self._sessions) >= self._slots and not self._evict(len(context.targets), now_ms):
            return None
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = self._new_id()
        ids = context.uses_topic_ids
        targets: dict[TargetKey, FetchTarget] = {
            (target.topic_id.bytes if ids else target.topic, target.index): target
            for target in context.targets
        }
        session = FetchSession(session_id, targets, ids, now_ms, context.owner)
        self._sessions[session_id] = session
        return session

    def _evict(self, size: int, now_ms: int) -> bool:
        """Make room for a session of `size` partitions; return whether that was possible.

        A session that was not used for `EVICTION_MS` is evicted, the one unused for longest first. If there
        is none, the smallest session older than `EVICTION_MS` is evicted, if it is smaller than the new one.
        """
        if not self._sessions:
            return False
        idle = min(self._sessions.values(), key=lambda session: session.last_used_ms)
        if now_ms - idle.last_used_ms > EVICTION_MS:
            return self._remove(idle)
        old = [session for session in self._sessions.values() if now_ms - session.created_ms > EVICTION_MS]
        smallest = min(old, key=lambda session: len(session.targets), default=None)
        if smallest is None or len(smallest.targets) >= size:
            return False
        return self._remove(smallest)

    def _remove(self, session: FetchSession) -> bool:
        del self._sessions[session.session_id]
        self.evictions += 1
        return True


def _ask(targets: dict[TargetKey, FetchTarget], request: FetchRequest, with_ids: bool) -> None:
    for topic in request.topics:
        name = topic.topic_id.bytes if with_ids else topic.topic
        for asked in topic.partitions:
            key = (name, asked.partition)
            target = targets.get(key)
            if target is None:
                targets[key] = FetchTarget(topic.topic, topic.topic_id, asked)
            else:
                target.ask(asked)
