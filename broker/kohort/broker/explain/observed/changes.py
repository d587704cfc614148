"""Concludes the cause of a generation, or a group epoch, from its differences to the previous one."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kohort.broker.explain.findings import Finding, FindingKind, Likelihood
from kohort.broker.explain.observed.departures import RETURN_MS_MAX, departure_findings
from kohort.broker.explain.observed.events import (
    CoordinatorMoved,
    GroupChanged,
    Grown,
    ObservedMember,
    Resubscription,
    TopicsChanged,
)
from kohort.broker.explain.words import duration, member_name, process_name

MEMBERS_TOLD = 8
COOPERATIVE, SHARE, STREAMS = "cooperative", "share", "streams"
SECOND_STEP_MS_MAX = 60_000
TOPIC_MS_MAX = 900_000
"""A client looks for new topics every metadata.max.age.ms, 5 min by default; twice that, and a rebalance."""

Changes = Sequence[GroupChanged]
Topics = Sequence[TopicsChanged]


def change_findings(
    change: GroupChanged,
    earlier: Changes,
    later: Changes,
    topics: Topics,
    coordinator_moves: Sequence[CoordinatorMoved] = (),
) -> list[Finding]:
    """Return the causes of one change; `earlier` and `later` have the oldest first."""
    recent = [each for each in topics if each.may_be_between(change.at_ms - TOPIC_MS_MAX, change.at_ms)]
    returned = _instances(each.member for each in change.gone) & _instances(change.joined)
    gone = [each for each in change.gone if each.member.group_instance_id not in returned]
    joined = [each for each in change.joined if each.group_instance_id not in returned]
    found = [*_assignor(change), *_topology(change), *_subscriptions(change, (*earlier, *later), recent)]
    found += [_returned(change, each) for each in sorted(returned)[:MEMBERS_TOLD]]
    for departure in gone[:MEMBERS_TOLD]:
        found += departure_findings(change, departure, later, coordinator_moves)
    found += [_joined(change, each, earlier) for each in joined[:MEMBERS_TOLD]]
    found += _topics(change, earlier, recent)
    if not found and change.former_generation_id >= 0:
        found += _nothing_else(change, earlier)
    return found


def _assignor(change: GroupChanged) -> list[Finding]:
    before, after = change.former_protocol_name, change.protocol_name
    if not before or not after or before == after:
        return []
    return [
        Finding(
            FindingKind.ASSIGNOR_CHANGED,
            Likelihood.CERTAIN,
            f"the group changed its assignor from {before} to {after}",
            (f"generation {change.generation_id} was assigned by {after}, the one before by {before}",),
        )
    ]


def _topology(change: GroupChanged) -> list[Finding]:
    if not change.topology_epoch:
        return []
    text = "the application changed its topology: a new version of it has been deployed"
    evidence = f"the record of the topology has epoch {change.topology_epoch}, and had a lower one before"
    return [Finding(FindingKind.TOPOLOGY_CHANGED, Likelihood.CERTAIN, text, (evidence,))]


def _joined(change: GroupChanged, member: ObservedMember, earlier: Changes) -> Finding:
    name = member.group_instance_id or member_name(member.member_id)
    evidence = [f"it is in generation {change.generation_id}, and was not in the one before"]
    if change.is_by_broker:
        evidence = [f"its record was written with group epoch {change.generation_id}"]
    gone_ms = _gone_before(change, member, earlier)
    if gone_ms is not None:
        evidence.append(f"the same client id on the same host was gone {duration(gone_ms)} before")
    return Finding(
        FindingKind.MEMBER_JOINED,
        Likelihood.CERTAIN,
        f"{name} joined ({process_name(*member.process)})",
        tuple(evidence),
        member.client_id,
    )


def _instances(members: Iterable[ObservedMember]) -> set[str]:
    return {each.group_instance_id for each in members if each.group_instance_id is not None}


def _returned(change: GroupChanged, instance: str) -> Finding:
    return Finding(
        FindingKind.STATIC_MEMBER_RETURNED,
        Likelihood.CERTAIN,
        f"{instance} came back under another member id, and the group rebalanced",
        (f"its group.instance.id has another member id in generation {change.generation_id}",),
        instance,
    )


def _gone_before(change: GroupChanged, member: ObservedMember, earlier: Changes) -> int | None:
    for each in (change, *reversed(earlier)):
        if change.at_ms - each.at_ms > RETURN_MS_MAX:
            return None
        if any(gone.member.process == member.process for gone in each.gone):
            return change.at_ms - each.at_ms
    return None


def _subscriptions(change: GroupChanged, others: Changes, recent: list[TopicsChanged]) -> list[Finding]:
    """Return why subscriptions changed: by the application, or since a pattern matches other topics.

    A topic that came or went changes the subscription of every member with that pattern.
    """
    found: dict[tuple[FindingKind, str], Finding] = {}
    for each in change.resubscribed:
        for finding in _resubscription(change, each, others, recent):
            found.setdefault((finding.kind, finding.about), finding)
    return list(found.values())[:MEMBERS_TOLD]


def _resubscription(
    change: GroupChanged, changed: Resubscription, others: Changes, recent: list[TopicsChanged]
) -> Iterator[Finding]:
    own = _resubscribed(FindingKind.SUBSCRIPTION_CHANGED, changed.client_id, changed)
    by_topics = [
        _resubscribed(kind, ", ".join(topics), changed)
        for kind, topics in (
            (FindingKind.TOPIC_CREATED, changed.added),
            (FindingKind.TOPIC_DELETED, changed.dropped),
        )
        if topics
    ]
    if not changed.member_id:  # The broker itself says which topics the pattern matches.
        yield from by_topics
        return
    joined_ms = _joined_ms(changed.member_id, others)
    created = {topic for each in recent if each.at_ms > joined_ms for topic in each.created}
    deleted = {topic for each in recent for topic in each.deleted}
    if not (created.issuperset(changed.added) and deleted.issuperset(changed.dropped)):
        yield own
    elif not _is_long_unseen(changed, recent) and (
        not changed.added or _is_everybody(change, changed, others)
    ):
        yield from by_topics
    else:  # The others may look for topics later, or the topics have been there for long.
        yield from (
            msgspec.structs.replace(each, likelihood=Likelihood.POSSIBLE) for each in (own, *by_topics)
        )


def _is_long_unseen(changed: Resubscription, recent: list[TopicsChanged]) -> bool:
    """Whether topics of a subscription came or went while nobody observed the cluster for long."""
    topics = {*changed.added, *changed.dropped}
    seen = [each for each in recent if not topics.isdisjoint((*each.created, *each.deleted))]
    return any(each.at_ms - each.since_ms > TOPIC_MS_MAX for each in seen)


def _joined_ms(member_id: str, others: Changes) -> int:
    """Return when a member joined, 0 where that is not known: no pattern of it matches older topics."""
    joined = (each.at_ms for each in others for member in each.joined if member.member_id == member_id)
    return max(joined, default=0)


def _is_everybody(change: GroupChanged, changed: Resubscription, others: Changes) -> bool:
    """Whether all members changed their subscription in that way, at once or one after the other."""
    near = [each for each in others if abs(each.at_ms - change.at_ms) <= SECOND_STEP_MS_MAX]
    same = {
        other.member_id
        for each in (change, *near)
        for other in each.resubscribed
        if other.added == changed.added and other.dropped == changed.dropped
    }
    return len(same) >= change.members - len(change.joined)


def _resubscribed(kind: FindingKind, about: str, change: Resubscription) -> Finding:
    name = member_name(change.member_id) if change.member_id else f"the pattern {change.client_id}"
    evidence = [f"{name} has {each} since then" for each in change.added[:MEMBERS_TOLD]]
    evidence += [f"{name} no longer has {each}" for each in change.dropped[:MEMBERS_TOLD]]
    if kind is FindingKind.SUBSCRIPTION_CHANGED:
        text = f"{name} changed its subscription"
        return Finding(kind, Likelihood.CERTAIN, text, tuple(evidence), about)
    if kind is FindingKind.TOPIC_CREATED:
        text = f"{about} was created shortly before, and a pattern of members matches it"
    else:
        text = f"{about} was deleted shortly before, which a pattern of members matched"
    return Finding(kind, Likelihood.LIKELY, text, tuple(evidence), about)


def _topics(change: GroupChanged, earlier: Changes, recent: list[TopicsChanged]) -> list[Finding]:
    """Return which topics grew, appeared or vanished while no subscription changed."""
    found = [_grown(change, each, earlier, recent) for each in change.grown]
    if change.is_metadata_changed and not (change.joined or change.gone or change.resubscribed or found):
        found += _seen_topics(change, recent)
    return [each for each in found if each is not None]


def _grown(
    change: GroupChanged, grown: Grown, earlier: Changes, recent: list[TopicsChanged]
) -> Finding | None:
    who = "group epoch" if change.is_by_broker else "generation"
    evidence = [
        f"{who} {change.generation_id} assigns {grown.after} partitions of {grown.topic}, "
        f"the one before {grown.before}"
    ]
    if grown.before and grown.after > grown.before:
        told = [
            f"the cluster says the same: {each.before} partitions before, {each.after} now"
            for seen in recent
            for each in seen.grown
            if each.topic == grown.topic
        ][:1]
        sure = Likelihood.CERTAIN if told else Likelihood.LIKELY
        if change.group_type == STREAMS and not told and len(change.grown) > 1:
            sure = Likelihood.POSSIBLE
            told = ["there are more tasks, which do not say to which of their topics partitions were added"]
        elif not told and _is_second_step(change, earlier):
            sure = Likelihood.POSSIBLE
            told = ["partitions that a member has yet to give up are assigned in the next generation"]
        if any(grown.topic in each.created and grown.topic in each.deleted for each in recent):
            text = f"{grown.topic} was deleted and made anew, with {grown.after} partitions"
            return Finding(FindingKind.TOPIC_CREATED, Likelihood.LIKELY, text, tuple(evidence), grown.topic)
        text = f"partitions were added to {grown.topic}: {grown.before} before, {grown.after} now"
        return Finding(FindingKind.PARTITIONS_ADDED, sure, text, (*evidence, *told), grown.topic)
    if not grown.before and not change.joined and not change.resubscribed:
        return _first_assigned(change, grown.topic, evidence, earlier, recent)
    if not grown.after and any(grown.topic in each.deleted for each in recent):
        text = f"{grown.topic} was deleted: members had subscribed to it, and nobody reads it now"
        return Finding(FindingKind.TOPIC_DELETED, Likelihood.LIKELY, text, tuple(evidence), grown.topic)
    return None


def _first_assigned(
    change: GroupChanged, topic: str, evidence: list[str], earlier: Changes, recent: list[TopicsChanged]
) -> Finding:
    """Return why a topic is assigned for the first time to members that had subscribed to it before."""
    before = [each for each in earlier if change.at_ms - each.at_ms <= SECOND_STEP_MS_MAX]
    newly = {topic for each in before for member in each.joined for topic in member.topics}
    newly |= {topic for each in before for changed in each.resubscribed for topic in changed.added}
    if topic in newly and change.is_by_broker:
        return _known_by_now(change, topic, evidence)
    if topic in newly:
        text = f"the leader rejoined, since it had not known the partitions of {topic} before"
        evidence.append("members had subscribed to it shortly before")
        return Finding(FindingKind.LEADER_REJOINED, Likelihood.LIKELY, text, tuple(evidence), topic)
    is_created = any(topic in each.created for each in recent)
    likelihood = Likelihood.LIKELY if is_created else Likelihood.POSSIBLE
    text = f"{topic} was created, and members had subscribed to it or to a pattern"
    return Finding(FindingKind.TOPIC_CREATED, likelihood, text, tuple(evidence), topic)


def _known_by_now(change: GroupChanged, topic: str, evidence: list[str]) -> Finding:
    """Return that a group can assign a topic, to which members subscribed shortly before."""
    text = f"the group knows the partitions of {topic} by now, and assigns them"
    if change.group_type == SHARE:
        text = f"the share partitions of {topic} are initialized by now, and assigned"
    evidence.append("members had subscribed to it shortly before")
    return Finding(FindingKind.METADATA_CHANGED, Likelihood.LIKELY, text, tuple(evidence), topic)


def _seen_topics(change: GroupChanged, recent: list[TopicsChanged]) -> list[Finding]:
    hashed = f"the metadata hash of group epoch {change.generation_id} is another one"
    found: list[Finding] = []
    subscribed = {topic for each in change.subscribers for topic in each.topics}
    for seen in recent[-1:]:
        told = [
            *(
                (
                    FindingKind.PARTITIONS_ADDED,
                    each.topic,
                    f"partitions were added to {each.topic}: {each.before} before, {each.after} now",
                )
                for each in seen.grown
            ),
            *((FindingKind.TOPIC_CREATED, each, f"{each} was created") for each in seen.created),
            *((FindingKind.TOPIC_DELETED, each, f"{each} was deleted") for each in seen.deleted),
        ]
        for kind, topic, text in told:
            # Of a pattern nobody says here what it matches: the topic may be of no concern to the group.
            sure = Likelihood.LIKELY if topic in subscribed else Likelihood.POSSIBLE
            found.append(Finding(kind, sure, text, (hashed,), topic))
    return found


def _is_second_step(change: GroupChanged, earlier: Changes) -> bool:
    """Whether a cooperative rebalance may end with it, in which members had given up partitions before."""
    is_soon = bool(earlier) and change.at_ms - earlier[-1].at_ms <= SECOND_STEP_MS_MAX
    return is_soon and COOPERATIVE in change.protocol_name


def _nothing_else(change: GroupChanged, earlier: Changes) -> list[Finding]:
    evidence = "members, subscriptions, assignor and partitions are those of the generation before"
    if change.moved and _is_second_step(change, earlier):
        text = "members gave up partitions that are another's now: the second step of a cooperative rebalance"
        return [Finding(FindingKind.OWNERSHIP_CHANGED, Likelihood.LIKELY, text, (evidence,))]
    text = "a member rejoined, or topics changed in a way that moved nothing"
    if change.is_metadata_changed:
        text = "topics or partitions changed"
        evidence = f"the metadata hash of group epoch {change.generation_id} is another one"
    return [Finding(FindingKind.MEMBER_REJOINED, Likelihood.POSSIBLE, text, (evidence,))]
