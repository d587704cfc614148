"""A possible cause of an event in a group, its likelihood, and its evidence. Pure.

A broker knows why its groups rebalance. An observer concludes it from the cluster's records, and the
same facts may fit several causes. The likelihood of a finding follows one rule:

- certain: a record or an answer of the cluster says so, and no other cause leaves that record;
- likely: the facts fit this cause, and every other cause would need something unusual;
- possible: the facts fit this cause and others equally well.
"""

from enum import Enum

import msgspec


class Likelihood(Enum):
    """How sure a finding is."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


class FindingKind(Enum):
    """What happened. Where a broker knows the same cause, the words are those of its `CauseKind`."""

    MEMBER_JOINED = "a member joined"
    MEMBER_LEFT = "a member left"
    MEMBER_EXPIRED = "a member missed its session timeout"
    POLL_INTERVAL_EXCEEDED = "a member exceeded its max.poll.interval.ms"
    STATIC_MEMBER_RETURNED = "a static member came back"
    SAME_INSTANCE = "two processes use one group.instance.id"
    SUBSCRIPTION_CHANGED = "a member changed its subscription"
    ASSIGNOR_CHANGED = "the group changed its assignor"
    METADATA_CHANGED = "topics or partitions changed"
    TOPOLOGY_CHANGED = "the application changed its topology"
    PARTITIONS_ADDED = "partitions were added"
    TOPIC_CREATED = "a topic was created"
    TOPIC_DELETED = "a topic was deleted"
    OWNERSHIP_CHANGED = "a member gave up partitions (cooperative)"
    LEADER_REJOINED = "the leader rejoined"
    MEMBER_REJOINED = "a member rejoined"
    COORDINATOR_MOVED = "another broker coordinates the group"
    ROLLING_DEPLOYMENT = "a rolling deployment"
    STORM = "a rebalance storm"
    TWO_APPLICATIONS = "two applications use one group.id"
    POISON_RECORD = "a record that stops its readers"
    STARTED_ONE_BY_ONE = "members started one by one"
    OFFSETS_EXPIRED = "offsets expired"
    OFFSETS_DELETED = "offsets were deleted"
    GROUP_DELETED = "the group was deleted"
    OFFSETS_RESET = "a tool reset offsets"
    TRANSACTION_HANGS = "a transaction stays open"
    OFFSETS_WENT_BACK = "an application went back"
    READ_AGAIN = "a new owner reads records again"


class Finding(msgspec.Struct, frozen=True):
    """A cause in words; `about` is the client, partition or topic that it is about, `evidence` the facts."""

    kind: FindingKind
    likelihood: Likelihood
    text: str
    evidence: tuple[str, ...] = ()
    about: str = ""


class Ending(msgspec.Struct, frozen=True):
    """What ended something, in words, and when that was seen."""

    at_ms: int
    text: str


class Explanation(msgspec.Struct, frozen=True):
    """One thing that happened to a group, the most likely cause first.

    Rebalances that belong together, such as those of a deployment, are one explanation: `changes` says how
    many, `started_ms` and `ended_ms` when the first and the last was seen.
    """

    started_ms: int
    ended_ms: int
    findings: tuple[Finding, ...]
    generation_id: int = -1
    changes: int = 0
    members: int = 0
    protocol_name: str = ""
    moved: int = 0
    is_by_broker: bool = False
    notes: tuple[str, ...] = ()
    ending: Ending | None = None
    """What ended a storm, or the standstill of a partition; None for other things, or if it is not known."""


def in_order(findings: list[Finding]) -> tuple[Finding, ...]:
    """Return the findings. Those that are only possible come last; the others keep their order."""
    return tuple(sorted(findings, key=lambda each: each.likelihood is Likelihood.POSSIBLE))
