"""Advice about the setting that probably caused a rebalance. Pure, and only about the past.

Each rule checks one rebalance and those before it, and returns an advice or nothing: a necessary
rebalance, such as the one for an additional member, gets none.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import chain

import msgspec

from kohort.broker.explain.events import RebalanceReport
from kohort.broker.explain.words import duration, member_name
from kohort.broker.group.events import Cause, CauseKind, MemberFenced
from kohort.broker.group.rebalance_facts import Outcome

RETURN_MS_MAX = 600_000  # A member that returns later than this counts as a new one.
START_UP_GAP_MS = 60_000
START_UP_JOINS = 3
INITIAL_DELAY_MS_MAX = 10_000  # A longer delay of a new group costs more than the rebalances it avoids.
SLOW_MEMBER_MS = 4_000  # A member learns of a rebalance with its next heartbeat, every 3 s by default.
SLOW_LEADER_MS = 3_000
LONG_STOP_MS = 5_000
SHORT_SESSION_MS = 10_000
FENCED_TIMES = 2
EAGER = frozenset({"range", "roundrobin", "sticky"})


class AdviceKind(Enum):
    """What kind of thing is to be changed."""

    POLL_INTERVAL = "poll interval exceeded"
    REJOIN_TOO_LATE = "rejoined too late"
    SESSION_TOO_SHORT = "session timeout shorter than a pause"
    SHORT_SESSION = "short session timeout"
    ONE_BY_ONE = "members joined one by one"
    RESTART = "a member was restarted"
    SLOW_MEMBER = "everyone waited for one member"
    EAGER = "everyone stopped"
    SLOW_LEADER = "slow assignment"
    DID_NOT_SYNC = "a member vanished between join and sync"
    OVER_CAPACITY = "group too large"
    SAME_INSTANCE = "two processes with one group.instance.id"


class Advice(msgspec.Struct, frozen=True):
    """What to change and why; `setting` is Kafka's name of it, empty if it is not a setting."""

    kind: AdviceKind
    setting: str
    text: str
    about: str = ""
    """The member that it is about, empty where it is about the group."""


History = Sequence[RebalanceReport]
Rule = Callable[[RebalanceReport, History], Advice | None]


def advise(report: RebalanceReport, earlier: History) -> tuple[Advice, ...]:
    """Return what would have avoided this rebalance, or shortened it; `earlier` has the oldest first."""
    rules = _RULES_OF_EACH_KIND if report.is_by_broker else _RULES
    found = [rule(report, earlier) for rule in rules]
    return tuple(each for each in found if each is not None)


def advice_of(reports: Iterable[RebalanceReport]) -> list[tuple[RebalanceReport, tuple[Advice, ...]]]:
    """Return every rebalance with its advice; a repeated advice is only with the newest."""
    history = tuple(reports)
    told: set[tuple[AdviceKind, str]] = set()
    rows: list[tuple[RebalanceReport, tuple[Advice, ...]]] = []
    for place in reversed(range(len(history))):
        found = advise(history[place], history[:place])
        rows.append((history[place], tuple(each for each in found if (each.kind, each.about) not in told)))
        told.update((each.kind, each.about) for each in found)
    rows.reverse()
    return rows


def same_instance(fenced: Sequence[MemberFenced]) -> tuple[Advice, ...]:
    """Return an advice for each group.instance.id whose members fenced each other within a short time."""
    times: dict[str, list[int]] = {}
    for each in fenced:
        if each.group_instance_id is not None:
            times.setdefault(each.group_instance_id, []).append(each.at_ms)
    return tuple(
        Advice(
            AdviceKind.SAME_INSTANCE,
            "group.instance.id",
            f"{instance} was taken over {len(at)} times within {duration(at[-1] - at[0])}: more than one "
            "process seems to use this group.instance.id. Give each its own.",
            instance,
        )
        for instance, at in times.items()
        if len(at) >= FENCED_TIMES and at[-1] - at[-FENCED_TIMES] <= RETURN_MS_MAX
    )


def eager_stop_ms(report: RebalanceReport) -> int:
    """Return how long the member that rejoined first read nothing: until the assignment came."""
    return report.still_ms - min((each.waited_ms for each in report.waited_for if each.joined), default=0)


def causes_of(report: RebalanceReport, kind: CauseKind) -> Iterator[Cause]:
    """Yield the causes of that kind, the one that started the rebalance first."""
    return (each for each in (report.cause, *report.further_causes) if each.kind is kind)


def _poll_interval(report: RebalanceReport, _earlier: History) -> Advice | None:
    for cause in causes_of(report, CauseKind.MEMBER_LEFT):
        if _is_poll_timeout(cause):
            name = member_name(cause.member_id)
            return Advice(
                AdviceKind.POLL_INTERVAL,
                "max.poll.interval.ms",
                f"{name} left since its application had not polled for max.poll.interval.ms. Let it take "
                "fewer records at a time (max.poll.records) or work them off sooner; or raise "
                "max.poll.interval.ms above the time that one batch takes.",
                cause.client_id,
            )
    return None


def _is_poll_timeout(cause: Cause) -> bool:
    """Return whether a client said so: 'consumer poll timeout has expired.' are the words of Kafka's own."""
    reason = cause.reason.lower()
    return "poll" in reason and any(word in reason for word in ("timeout", "expired", "interval"))


def _left_instead_of_rejoining(report: RebalanceReport, _earlier: History) -> Advice | None:
    """Return an advice if a member knew of the rebalance, did not poll, and left.

    It may not give the reason.
    """
    waited_ms = {each.member_id: each.waited_ms for each in report.waited_for if not each.joined}
    for cause in causes_of(report, CauseKind.MEMBER_LEFT):
        if cause.reason or waited_ms.get(cause.member_id, 0) < SLOW_MEMBER_MS:
            continue
        return Advice(
            AdviceKind.POLL_INTERVAL,
            "max.poll.interval.ms",
            f"{member_name(cause.member_id)} let the others wait for {duration(waited_ms[cause.member_id])} "
            "and then left instead of rejoining. Unless it was stopped, its application had not polled for "
            "max.poll.interval.ms: let it take fewer records at a time (max.poll.records) or work them off "
            "sooner; or raise max.poll.interval.ms.",
            cause.client_id,
        )
    return None


def _rejoined_too_late(report: RebalanceReport, _earlier: History) -> Advice | None:
    expired = {each.member_id for each in causes_of(report, CauseKind.MEMBER_EXPIRED)}
    for waited in report.waited_for:
        if not waited.joined and waited.member_id in report.removed_member_ids:
            if waited.member_id in expired:
                continue
            return Advice(
                AdviceKind.REJOIN_TOO_LATE,
                "max.poll.interval.ms",
                f"{member_name(waited.member_id)} did not rejoin within {duration(report.join_ms)}, its "
                "max.poll.interval.ms, and was put out. A member rejoins when it polls: let it take fewer "
                "records at a time (max.poll.records), or raise max.poll.interval.ms.",
                waited.client_id,
            )
    return None


def _session_too_short(report: RebalanceReport, earlier: History) -> Advice | None:
    """Return an advice if a removed member came back: it was alive, or restarted."""
    for joined in causes_of(report, CauseKind.MEMBER_JOINED):
        gone = _same_client_before(joined, report, earlier, CauseKind.MEMBER_EXPIRED)
        if gone is None:
            continue
        name, timeout = member_name(joined.member_id), duration(gone.after_ms)
        silent = duration(joined.at_ms - gone.at_ms + gone.after_ms)
        if gone.connection_closed_ms:
            return Advice(
                AdviceKind.RESTART,
                "group.instance.id",
                f"{name} is back {silent} after its client was last heard of, whose process had died. With a "
                "group.instance.id it comes back without a rebalance, if it does so within its session "
                "timeout.",
                joined.client_id,
            )
        if "UNKNOWN_MEMBER_ID" in joined.reason.upper():
            text = (
                f"{name} had been put out after {timeout} of silence, yet was alive: it had paused for up to "
                f"{silent}. Raise its session.timeout.ms above that, or find what makes it pause."
            )
        else:
            text = (
                f"{name} is back {silent} after its client was last heard of, which had been put out after "
                f"{timeout}. If the process paused, raise session.timeout.ms above {silent}. If it was "
                "killed and started again, give it a group.instance.id as well: it then comes back without "
                "a rebalance."
            )
        return Advice(AdviceKind.SESSION_TOO_SHORT, "session.timeout.ms", text, joined.client_id)
    return None


def _short_session(report: RebalanceReport, _earlier: History) -> Advice | None:
    for cause in causes_of(report, CauseKind.MEMBER_EXPIRED):
        if 0 < cause.after_ms < SHORT_SESSION_MS and not cause.connection_closed_ms:
            return Advice(
                AdviceKind.SHORT_SESSION,
                "session.timeout.ms",
                f"{member_name(cause.member_id)} was put out after {duration(cause.after_ms)} of silence. "
                "So short a session.timeout.ms takes a long pause or a slow network for a death; Kafka's "
                "default is 45 s.",
                cause.client_id,
            )
    return None


def _restart(report: RebalanceReport, earlier: History) -> Advice | None:
    for joined in causes_of(report, CauseKind.MEMBER_JOINED):
        gone = _same_client_before(joined, report, earlier, CauseKind.MEMBER_LEFT)
        if gone is None or joined.group_instance_id is not None or _is_poll_timeout(gone):
            continue
        away = duration(joined.at_ms - gone.at_ms)
        return Advice(
            AdviceKind.RESTART,
            "group.instance.id",
            f"{member_name(joined.member_id)} is back {away} after its client had left: two rebalances. If "
            f"it was restarted, a group.instance.id spares both, as long as session.timeout.ms is above "
            f"{away}. If it ran all the time, it had not polled for max.poll.interval.ms.",
            joined.client_id,
        )
    return None


def _same_client_before(
    joined: Cause, report: RebalanceReport, earlier: History, kind: CauseKind
) -> Cause | None:
    """Return the newest cause of that kind by which the client of a newcomer had gone, if it was of late."""
    for each in chain((report,), reversed(earlier)):
        if joined.at_ms - (each.started_ms + each.still_ms) > RETURN_MS_MAX:
            return None
        for cause in causes_of(each, kind):
            is_same = (cause.client_id, cause.client_host) == (joined.client_id, joined.client_host)
            if is_same and 0 <= joined.at_ms - cause.at_ms <= RETURN_MS_MAX:
                return cause
    return None


def _one_by_one(report: RebalanceReport, earlier: History) -> Advice | None:
    """Return an advice where rebalance followed upon rebalance, each for a newcomer."""
    run = _joins_at_the_end(report, earlier)
    if len(run) < START_UP_JOINS:
        return None
    span_ms = report.cause.at_ms - run[0].started_ms
    if run[0].is_initial and span_ms <= INITIAL_DELAY_MS_MAX:
        setting = "group.initial.rebalance.delay.ms"
        text = (
            f"A new group rebalanced {len(run)} times within {duration(span_ms)}, since its members joined "
            f"one by one. With the broker's {setting} above {duration(_rounded_up(span_ms))} it would "
            "have waited for all of them and rebalanced once."
        )
    else:
        setting = ""
        text = (
            f"{len(run)} rebalances within {duration(span_ms)}, each for one member more. Members that are "
            "started together share a rebalance."
        )
    return Advice(AdviceKind.ONE_BY_ONE, setting, text)


def _joins_at_the_end(report: RebalanceReport, earlier: History) -> list[RebalanceReport]:
    """Return the last rebalances without a pause that new members caused, as long as no member had left."""
    joins: list[RebalanceReport] = []
    gone = (CauseKind.MEMBER_LEFT, CauseKind.MEMBER_EXPIRED)
    following = report
    for each in chain((report,), reversed(earlier)):
        if following.started_ms - (each.started_ms + each.still_ms) > START_UP_GAP_MS:
            break
        following = each
        if each.cause.kind is not CauseKind.MEMBER_JOINED:
            if each.cause.kind in (CauseKind.OWNERSHIP_CHANGED, CauseKind.LEADER_REJOINED):
                continue  # The second step of a cooperative rebalance.
            break
        if any(cause.kind in gone for cause in each.further_causes):
            break
        joins.append(each)
    return joins[::-1]


def _rounded_up(ms: int) -> int:
    return (ms // 1_000 + 1) * 1_000


def _slow_member(report: RebalanceReport, _earlier: History) -> Advice | None:
    waits = sorted((each for each in report.waited_for if each.joined), key=lambda each: -each.waited_ms)
    if not waits or report.is_initial or waits[0].waited_ms < SLOW_MEMBER_MS:
        return None
    if len(waits) > 1 and waits[0].waited_ms < 2 * waits[1].waited_ms:
        return None
    return Advice(
        AdviceKind.SLOW_MEMBER,
        "max.poll.records",
        f"Everyone waited {duration(waits[0].waited_ms)} for {member_name(waits[0].member_id)}. A member "
        "rejoins when it polls, after it has worked off its records: fewer at a time (max.poll.records) "
        "make that sooner.",
        waits[0].client_id,
    )


def _eager(report: RebalanceReport, _earlier: History) -> Advice | None:
    stop_ms = eager_stop_ms(report)
    stopped_long = stop_ms >= LONG_STOP_MS and report.outcome is Outcome.STABLE
    if report.is_initial or not stopped_long or report.protocol_name not in EAGER or report.members < 2:
        return None
    return Advice(
        AdviceKind.EAGER,
        "partition.assignment.strategy",
        f"{report.protocol_name} lets every member stop until the last has come, here for up to "
        f"{duration(stop_ms)}. With cooperative-sticky only partitions that move stand still.",
    )


def _slow_leader(report: RebalanceReport, _earlier: History) -> Advice | None:
    if report.outcome is not Outcome.STABLE or report.sync_ms < SLOW_LEADER_MS:
        return None
    return Advice(
        AdviceKind.SLOW_LEADER,
        "",
        f"{member_name(report.leader or '')} leads, and took {duration(report.sync_ms)} to assign "
        "partitions: look at what that process did meanwhile.",
        report.leader or "",
    )


def _did_not_sync(report: RebalanceReport, _earlier: History) -> Advice | None:
    for cause in causes_of(report, CauseKind.MEMBER_DID_NOT_SYNC):
        return Advice(
            AdviceKind.DID_NOT_SYNC,
            "",
            f"{member_name(cause.member_id)} joined and then never asked for its assignment: it died or "
            "hung in between. Look at its log.",
            cause.client_id,
        )
    return None


def _over_capacity(report: RebalanceReport, _earlier: History) -> Advice | None:
    for _ in causes_of(report, CauseKind.OVER_CAPACITY):
        return Advice(
            AdviceKind.OVER_CAPACITY,
            "group.max.size",
            "The group has more members than the broker's group.max.size: raise it, or run fewer members.",
        )
    return None


_RULES: tuple[Rule, ...] = (
    _poll_interval,
    _left_instead_of_rejoining,
    _rejoined_too_late,
    _session_too_short,
    _short_session,
    _one_by_one,
    _restart,
    _slow_member,
    _eager,
    _slow_leader,
    _did_not_sync,
    _over_capacity,
)
_RULES_OF_EACH_KIND: tuple[Rule, ...] = (_poll_interval,)
"""What holds also where the broker assigns: the others are about joining together and about leaders."""
