"""Why a member is gone: it left, it died, or it worked for too long.

No record tells. The last proof that the member was alive distinguishes them. In a classic group a
commit counts as a heartbeat: a session cannot time out sooner than its timeout after the last commit. In a
group with epochs it does not, but a member that commits sends heartbeats as well. A member that works for too
long commits no progress for max.poll.interval.ms, and comes back when it is done.

The record of a generation comes when all others have joined, which takes long where they are slow. The others
commit until they learn of the rebalance: their last commit tells when it began. A member was silent for its
session timeout only if the others went on committing meanwhile. Offsets that stand still say nothing where
nothing was left to read.
"""

from collections.abc import Iterator, Sequence

from kohort.broker.explain.findings import Finding, FindingKind, Likelihood
from kohort.broker.explain.observed.events import (
    CoordinatorMoved,
    Departure,
    GroupChanged,
    ObservedMember,
)
from kohort.broker.explain.words import duration, member_name

RETURN_MS_MAX = 600_000
"""A member that returns later than this counts as a new one."""
REJOIN_MS_MAX = 10_000
"""How long other members take to join a rebalance: two heartbeats, and the batch that they process."""
LOOK_MS_MAX = 30_000
"""How much later the observer may see that another broker coordinates the group."""
HEARTBEAT_MS_MAX = 5_000
LATE_COMMIT_MS_MAX = 2_000
"""How long after its last poll a busy client may still commit: at most an eighth of its poll interval."""
INTERVALS_MIN = 3
"""A member whose commits are further apart than a third of a timeout proves nothing about that timeout."""


def departure_findings(
    change: GroupChanged,
    departure: Departure,
    later: Sequence[GroupChanged],
    coordinator_moves: Sequence[CoordinatorMoved] = (),
) -> list[Finding]:
    """Return why this member may be gone, the most likely cause first."""
    earliest_ms = change.at_ms - _session_ms(change, departure) - LOOK_MS_MAX
    since_ms, until_ms = max(departure.last_commit_ms, earliest_ms), change.at_ms + LOOK_MS_MAX
    was_moved = any(each.may_be_between(since_ms, until_ms) for each in coordinator_moves)
    facts = _Facts(change, departure, _returned_ms(change, departure.member, later), was_moved=was_moved)
    if facts.is_put_out:
        return [facts.put_out()]
    is_late = facts.is_stalled and facts.has_work
    if is_late and not facts.is_silent_for_session:
        return [facts.exceeded_poll_interval(Likelihood.LIKELY)]
    if facts.is_alive_until_late and not (facts.has_stood_still and facts.has_work):
        return [facts.left(Likelihood.LIKELY)]
    if facts.is_silent_for_session and facts.is_known_alone and not is_late:
        return [facts.expired(Likelihood.LIKELY)]
    left, expired, late = (
        each(Likelihood.POSSIBLE) for each in (facts.left, facts.expired, facts.exceeded_poll_interval)
    )
    if facts.is_alive_until_late:
        return [late, left]
    if facts.is_almost_stalled:
        return [late, left, expired]
    is_rather_dead = facts.is_almost_silent_for_session or (change.joined and facts.is_gone_with_its_session)
    return [expired, left, late] if is_rather_dead else [left, expired, late]


def may_have_expired(change: GroupChanged, departure: Departure) -> bool:
    """Whether it rather missed its session: it used to commit often, and did not until it was gone."""
    first = departure_findings(change, departure, ())[0]
    if first.likelihood is not Likelihood.POSSIBLE:
        return first.kind is FindingKind.MEMBER_EXPIRED
    return _is_often(departure.commit_interval_ms, _session_ms(change, departure))


def _session_ms(change: GroupChanged, departure: Departure) -> int:
    return departure.member.session_timeout_ms or change.session_timeout_ms


class _Facts:
    """The known facts about a member that is gone."""

    def __init__(
        self, change: GroupChanged, departure: Departure, returned_ms: int | None, *, was_moved: bool
    ) -> None:
        session_ms = _session_ms(change, departure)
        self._member = departure.member
        self._name = departure.member.group_instance_id or member_name(departure.member.member_id)
        self._session_ms = session_ms
        self._poll_ms = departure.member.rebalance_timeout_ms
        self._returned_ms = returned_ms
        self._departure = departure
        self._silent_ms = _since(departure.last_commit_ms, change.at_ms)
        self._stuck_ms = _since(departure.last_progress_ms, change.at_ms)
        self._is_by_broker = change.is_by_broker
        # How long others committed after its last commit. Where none is left, the record was written at once,
        # unless others have gone as well: the first may have left, and the rest later, instead of a rejoin.
        # While the coordinator moves nobody can commit: a member that leaves then was silent as well.
        is_last = not change.members and len(change.gone) == 1
        is_alone = change.is_by_broker or is_last or bool(change.others_commit_ms)
        self.is_known_alone = is_alone and not was_moved
        self._was_moved = was_moved
        # The rebalance of a classic group began when the others had committed last.
        began_ms = change.at_ms if change.is_by_broker else change.others_commit_ms or change.at_ms
        self._alone_ms = _since(departure.last_commit_ms, began_ms)
        self._alone_stuck_ms = _since(departure.last_progress_ms, began_ms)
        self._others_waited_ms = max(change.at_ms - began_ms, 0)
        self._early_ms = min(LATE_COMMIT_MS_MAX, self._poll_ms // 8)
        self._stall_ms_max = departure.progress_interval_ms + REJOIN_MS_MAX
        # Of a group with epochs: the last heartbeat was at most this long before the last commit.
        self._heartbeat_ms = min(HEARTBEAT_MS_MAX, session_ms // 3) if change.is_by_broker else 0

    @property
    def is_put_out(self) -> bool:
        """Whether all others waited for it for max.poll.interval.ms, while it went on committing."""
        if not self._poll_ms or not self._others_waited_ms or self._silent_ms is None:
            return False
        is_long = self._others_waited_ms >= self._poll_ms - self._early_ms
        is_later = self._silent_ms < self._others_waited_ms - self._departure.commit_interval_ms
        return is_long and is_later and self.is_alive_until_late

    @property
    def is_stalled(self) -> bool:
        """Whether its offsets stood still for max.poll.interval.ms when the rebalance began.

        The others may have committed last an interval before.
        """
        if self._alone_stuck_ms is None or not self.has_stood_still:
            return False
        after_ms = self._alone_stuck_ms - self._poll_ms
        return -self._early_ms - self._departure.commit_interval_ms <= after_ms <= self._stall_ms_max

    @property
    def is_almost_stalled(self) -> bool:
        """The same, where the rebalance may have begun before, for another reason, and waited for it."""
        if self._stuck_ms is None or not self.has_stood_still:
            return False
        return self._stuck_ms - self._poll_ms <= self._stall_ms_max

    @property
    def has_stood_still(self) -> bool:
        """Whether its offsets had moved often, and then did not for max.poll.interval.ms at least."""
        if self._stuck_ms is None or not _is_often(self._departure.progress_interval_ms, self._poll_ms):
            return False
        return self._stuck_ms >= self._poll_ms - self._early_ms

    @property
    def has_work(self) -> bool:
        """Whether it may have had records to read: not, if the ends of all its partitions are committed."""
        owned = self._departure.owned
        return not owned or not all(each.is_read for each in owned)

    @property
    def is_alive_until_late(self) -> bool:
        """Whether it committed so late that its session cannot have timed out."""
        return self._silent_ms is not None and self._silent_ms < self._session_ms - self._heartbeat_ms

    @property
    def is_silent_for_session(self) -> bool:
        """Whether it was silent for its session timeout, when it had committed often before."""
        return self._is_silent(0)

    @property
    def is_almost_silent_for_session(self) -> bool:
        """The same, where the others may have committed an interval before they learnt of the rebalance."""
        return self._is_silent(self._departure.commit_interval_ms)

    @property
    def is_gone_with_its_session(self) -> bool:
        """Whether the group was complete without it just as its session ended.

        A process that is killed and started again joins at once, and the group waits for what it was before.
        """
        if self._silent_ms is None or not self._session_ms:
            return False
        return 0 <= self._silent_ms - self._session_ms <= self._departure.commit_interval_ms + REJOIN_MS_MAX

    def _is_silent(self, early_ms: int) -> bool:
        interval_ms = self._departure.commit_interval_ms
        if self._alone_ms is None or not _is_often(interval_ms, self._session_ms):
            return False
        after_ms = self._alone_ms - self._session_ms + self._heartbeat_ms
        return -early_ms <= after_ms <= interval_ms + REJOIN_MS_MAX

    def left(self, likelihood: Likelihood) -> Finding:
        """Return that it left."""
        return self._finding(FindingKind.MEMBER_LEFT, likelihood, f"{self._name} left")

    def expired(self, likelihood: Likelihood) -> Finding:
        """Return that it died, or was cut off."""
        waited = f" of {duration(self._session_ms)}" if self._session_ms else ""
        text = f"{self._name} missed its session timeout{waited}: it died, stood still, or was cut off"
        return self._finding(FindingKind.MEMBER_EXPIRED, likelihood, text)

    def exceeded_poll_interval(self, likelihood: Likelihood) -> Finding:
        """Return that its application worked for too long."""
        waited = f" of {duration(self._poll_ms)}" if self._poll_ms else ""
        text = f"{self._name} did not poll within its max.poll.interval.ms{waited}, and left"
        return self._finding(FindingKind.POLL_INTERVAL_EXCEEDED, likelihood, text)

    def put_out(self) -> Finding:
        """Return that it did not rejoin in time. Clients that watch their polls leave before."""
        text = (
            f"{self._name} did not rejoin within {duration(self._poll_ms)}, and was put out: it was at work"
        )
        return self._finding(FindingKind.POLL_INTERVAL_EXCEEDED, Likelihood.LIKELY, text)

    def _finding(self, kind: FindingKind, likelihood: Likelihood, text: str) -> Finding:
        return Finding(kind, likelihood, text, tuple(self._evidence()), self._member.client_id)

    def _evidence(self) -> Iterator[str]:
        if self._silent_ms is None:
            yield "no commit of this member is known, so that nothing says when it was last alive"
        else:
            yield f"its last commit was {duration(self._silent_ms)} before the group was seen without it"
        if self._session_ms:
            yield f"its session timeout is {duration(self._session_ms)}"
        if self._alone_ms is not None and self._alone_ms != self._silent_ms:
            yield f"the others committed for {duration(self._alone_ms)} after it"
        if self.is_put_out:
            yield f"the others had committed nothing for {duration(self._others_waited_ms)}: they waited"
        if self._silent_ms is not None and self._stuck_ms is not None and self._stuck_ms > self._silent_ms:
            yield f"its offsets had stood still for {duration(self._stuck_ms)}"
        if self._was_moved:
            yield "another broker began to coordinate the group about then, and nobody can commit meanwhile"
        if self._poll_ms and not self._is_by_broker:
            yield f"its max.poll.interval.ms is {duration(self._poll_ms)}"
        if self._returned_ms is not None:
            yield f"the same client id came back from the same host {duration(self._returned_ms)} later"


def _since(at_ms: int, now_ms: int) -> int | None:
    return max(now_ms - at_ms, 0) if at_ms else None


def _is_often(interval_ms: int, timeout_ms: int) -> bool:
    return interval_ms > 0 and interval_ms * INTERVALS_MIN <= timeout_ms


def _returned_ms(change: GroupChanged, member: ObservedMember, later: Sequence[GroupChanged]) -> int | None:
    """Return how long after the change a member of the same client joined, None if none did."""
    for each in (change, *later):
        if each.at_ms - change.at_ms > RETURN_MS_MAX:
            break
        if any(joined.process == member.process for joined in each.joined):
            return each.at_ms - change.at_ms
    return None
