"""Explains missing or changed offsets: they expired, were deleted, or a tool set them."""

from collections.abc import Sequence

from kohort.broker.explain.findings import Finding, FindingKind, Likelihood
from kohort.broker.explain.observed.events import (
    GroupChanged,
    OffsetMove,
    OffsetsRemoved,
    OffsetsSet,
    TopicsChanged,
    TransactionStands,
)
from kohort.broker.explain.words import duration

TOPIC_MS_MAX = 900_000
EARLY_MS = 2_000
"""The clocks of the broker and of the committing client may differ by this much."""
MOVES_TOLD = 4
NEW_OWNER_MS_MAX = 60_000
"""The first commits of a partition's new owner come this soon."""


def removal_findings(event: OffsetsRemoved, topics: Sequence[TopicsChanged]) -> list[Finding]:
    """Return why offsets are gone, the most likely cause first."""
    count = _partitions(event.partitions)
    near = [
        each for each in topics if each.may_be_between(event.at_ms - TOPIC_MS_MAX, event.at_ms + TOPIC_MS_MAX)
    ]
    deleted = {topic for each in near for topic in each.deleted}
    told = ", ".join(event.topics[:MOVES_TOLD])
    if deleted.issuperset(event.topics):
        text = f"{told} was deleted, and with it the offsets of {count}"
        is_anew = any(deleted.intersection(each.created) for each in near)
        gone = f"{told} was made anew" if is_anew else f"the cluster has no topic {told} any more"
        return [Finding(FindingKind.TOPIC_DELETED, Likelihood.LIKELY, text, (gone,), told)]
    age_ms = event.at_ms - event.newest_commit_ms
    empty_ms = event.at_ms - event.empty_since_ms if event.empty_since_ms else 0
    evidence = [f"offsets of {count} of {told} were removed; the newest was {duration(age_ms)} old"]
    if event.members:
        evidence.append(f"the group has {event.members} members")
    elif empty_ms:
        evidence.append(f"the group had no member for {duration(empty_ms)}")
    if event.retention_ms:
        evidence.append(f"offsets.retention.minutes is {duration(event.retention_ms)}")
    silent_ms = min(age_ms, empty_ms) if empty_ms and not event.is_by_broker else age_ms
    if event.retention_ms and silent_ms + EARLY_MS >= event.retention_ms:
        text = f"the offsets of {count} expired: the group starts by its auto.offset.reset"
        return [Finding(FindingKind.OFFSETS_EXPIRED, Likelihood.LIKELY, text, tuple(evidence))]
    if event.retention_ms:
        kind = FindingKind.GROUP_DELETED if event.is_group_removed else FindingKind.OFFSETS_DELETED
        text = "the group was deleted" if event.is_group_removed else f"the offsets of {count} were deleted"
        return [Finding(kind, Likelihood.LIKELY, f"{text} by a tool or an application", tuple(evidence))]
    return [
        Finding(FindingKind.OFFSETS_EXPIRED, Likelihood.POSSIBLE, "the offsets expired", tuple(evidence)),
        Finding(
            FindingKind.OFFSETS_DELETED, Likelihood.POSSIBLE, "somebody deleted the offsets", tuple(evidence)
        ),
    ]


def set_findings(event: OffsetsSet, moved: GroupChanged | None = None) -> list[Finding]:
    """Return who may have committed these offsets; `moved` gave partitions to other owners shortly before."""
    evidence = [_move(each) for each in event.moves[:MOVES_TOLD]]
    if len(event.moves) > MOVES_TOLD or event.partitions > len(event.moves):
        evidence.append(f"{_partitions(event.partitions)} together")
    if event.times > 1:
        evidence.append(f"it happened {event.times} times within {duration(event.last_ms - event.at_ms)}")
    if event.is_shared:
        return _share_findings(event, evidence)
    aborted = ", or a transaction was aborted" if event.is_transactional else ""
    if event.members:
        text = (
            f"a member went back in {_partitions(event.backward)}: its application sought there, "
            f"or committed out of order{aborted}"
        )
        evidence.append(f"the group has {event.members} members, and no tool may set offsets then")
        kind = FindingKind.OFFSETS_WENT_BACK
        if moved is None:
            sure = Likelihood.POSSIBLE if aborted else Likelihood.LIKELY
            return [Finding(kind, sure, text, tuple(evidence))]
        evidence.append(f"partitions had moved {duration(event.at_ms - moved.at_ms)} before")
        again = "a new owner began before what the owner before it committed last, and reads records twice"
        return [
            Finding(FindingKind.READ_AGAIN, Likelihood.POSSIBLE, again, tuple(evidence)),
            Finding(kind, Likelihood.POSSIBLE, text, tuple(evidence)),
        ]
    evidence.append("the group had no member at that time")
    text = f"offsets of {_partitions(event.partitions)} were reset by a tool"
    is_sure = event.has_had_members and event.backward and not aborted
    sure = Likelihood.LIKELY if is_sure else Likelihood.POSSIBLE
    found = [Finding(FindingKind.OFFSETS_RESET, sure, text, tuple(evidence))]
    if sure is Likelihood.POSSIBLE:
        text = f"a consumer that assigns its partitions itself committed them{aborted}"
        found.append(Finding(FindingKind.OFFSETS_WENT_BACK, sure, text, tuple(evidence)))
    return found


def _share_findings(event: OffsetsSet, evidence: list[str]) -> list[Finding]:
    """Return why a share group begins at an earlier record. Members cannot do so."""
    evidence.append("it was seen between two looks: no record says when, and by whom")
    told = ", ".join(sorted({each.topic for each in event.moves})[:MOVES_TOLD])
    reset = f"offsets of {_partitions(event.partitions)} were reset by a tool, while the group had no member"
    anew = f"{told} was deleted and made anew"
    return [
        Finding(FindingKind.OFFSETS_RESET, Likelihood.POSSIBLE, reset, tuple(evidence)),
        Finding(FindingKind.TOPIC_DELETED, Likelihood.POSSIBLE, anew, tuple(evidence), told),
    ]


def transaction_finding(event: TransactionStands) -> Finding:
    """Return that an open transaction holds the group up."""
    where = f"{event.topic}-{event.partition}"
    passed = duration(event.at_ms - event.since_ms)
    evidence = [
        f"the last stable offset of {where} is {event.last_stable_offset:,} for {passed} at least",
        f"the log goes on to {event.end_offset:,}",
        "the group stands there: it has read all that read_committed lets it read",
    ]
    if event.timeout_ms_max:
        evidence.append(f"transaction.max.timeout.ms is {duration(event.timeout_ms_max)}")
    evidence += [
        f"the transaction of {each.transactional_id} is open for {duration(event.at_ms - each.started_ms)}; "
        f"its timeout is {duration(each.timeout_ms)}, its state {each.state}"
        for each in event.holders
    ]
    whose = f" of {event.holders[0].transactional_id}" if event.holders else ""
    if event.is_without_holder:
        evidence.append(
            "no coordinator tells of it: it may hang, or the observer may not describe its transactional id. "
            "kafka-transactions.sh find-hanging says which hang; only those may be ended with its abort"
        )
    text = f"a transaction{whose} on {where} stays open, and holds up who reads committed records alone"
    return Finding(FindingKind.TRANSACTION_HANGS, Likelihood.LIKELY, text, tuple(evidence), where)


def _move(move: OffsetMove) -> str:
    before = "none" if move.before < 0 else f"{move.before:,}"
    return f"{move.topic}-{move.partition}: {before} before, {move.after:,} now"


def _partitions(count: int) -> str:
    return f"{count} partition{'' if count == 1 else 's'}"
