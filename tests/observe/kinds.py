"""The kinds of causes that are planted: how each is planted, and the finding that names it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from kohort.broker.explain.findings import FindingKind
from kohort.client import OffsetAndMetadata
from tests.interop.waiting import wait_until
from tests.observe.plots import REST_SECONDS_MAX, Application, Plot, now_ms

EPOCH_LIBRARIES = ("librdkafka", "java")
"""The libraries that speak the newer protocol."""
INSTANCE = "the-one"
STATIC_SESSION_MS = 20_000
"""A static member comes back within it, also on a busy machine."""
POISONED = 1
"""The partition with the poison record."""
DEATHS = 5
"""How many members a poison record ends."""
K = FindingKind


class Kind(NamedTuple):
    """A kind of cause: how it is planted, the finding that names it, and other findings that are true.

    `gone`: how many members the brokers must report as gone, and in which ways. `outlives`: the instance that
    must not miss its session. Otherwise the cause was not planted. `named`: what the finding must have behind
    the topic's name.
    """

    expected: FindingKind
    plant: Callable[[Plot], None]
    beside: tuple[FindingKind, ...] = ()
    within_s: float = 25.0
    gone: tuple[int, tuple[FindingKind, ...]] = (0, ())
    outlives: str = ""
    named: str = ""


def joins(plot: Plot) -> None:
    plot.begin()
    plot.start(7)


def leaves(plot: Plot) -> None:
    plot.begin()
    plot.members.pop().close()


def dies(plot: Plot) -> None:
    plot.begin()
    plot.members.pop().kill()


def works_too_long(plot: Plot) -> None:
    plot.begin(poll_ms=30_000)
    plot.members[0].tell("stall 38")


def static_bounce(plot: Plot) -> None:
    plot.begin(2)
    plot.start(5, instance=INSTANCE, session_ms=STATIC_SESSION_MS)
    plot.rest()
    plot.restart(-1, kill=True)


def same_instance(plot: Plot) -> None:
    plot.begin(1)
    plot.start(5, instance=INSTANCE, session_ms=STATIC_SESSION_MS)
    plot.rest()
    for _ in range(4):  # The fenced member ends, and its supervisor starts it again.
        owners = _owners(plot, INSTANCE)
        plot.start(5, instance=INSTANCE, session_ms=STATIC_SESSION_MS)
        wait_until(partial(_is_taken_over, plot, owners), "it is taken over", REST_SECONDS_MAX)
        plot.members.pop(-2).kill()


def _is_taken_over(plot: Plot, owners: set[str]) -> bool:
    return bool(_owners(plot, INSTANCE) - owners)


def _owners(plot: Plot, instance: str) -> set[str]:
    return {each["member_id"] for each in plot.seen() if each["group_instance_id"] == instance}


def changes_subscription(plot: Plot) -> None:
    plot.create(f"{plot.topic}-more", 2)
    plot.begin()
    plot.members[0].tell(f"subscribe {plot.topic} {plot.topic}-more")


def adds_partitions(plot: Plot) -> None:
    plot.begin()
    plot.admin.create_partitions({plot.topic: plot.partitions + 3})


def creates_topic(plot: Plot) -> None:
    plot.begin(pattern=f"^{plot.topic}.*")
    plot.create(f"{plot.topic}-new", 2)


def deletes_topic(plot: Plot) -> None:
    plot.create(f"{plot.topic}-old", 2)
    plot.begin(pattern=f"^{plot.topic}.*")
    plot.feed.drop(f"{plot.topic}-old")
    plot.admin.delete_topics(f"{plot.topic}-old")


def changes_assignor(plot: Plot) -> None:
    plot.begin()
    count = len(plot.members)
    plot.stop()
    plot.start(*range(count), strategy="roundrobin")


def deploys(plot: Plot) -> None:
    plot.begin(3)
    for index in range(3):
        plot.restart(index)


def storms(plot: Plot) -> None:
    plot.begin()
    for _ in range(4):
        plot.restart(0)


def two_applications(plot: Plot) -> None:
    plot.create(f"{plot.topic}-other", 2)
    plot.begin()
    plot.start(1, client_id="audit-1", topics=[f"{plot.topic}-other"])


def poisons(plot: Plot) -> None:
    plot.begin(2)
    plot.feed.poison(plot.topic, POISONED)
    spares = [Application(each.job) for each in plot.members]
    for _ in range(DEATHS):
        wait_until(lambda: _ended(plot) is not None, "a member read the poison", REST_SECONDS_MAX)
        index = _ended(plot)
        assert index is not None
        time.sleep(2)  # A supervisor starts a member again after a while.
        plot.members[index], spares[index] = spares[index], Application(spares[index].job)
        plot.members[index].join()
    for each in spares:
        each.kill()


def _ended(plot: Plot) -> int | None:
    return next((index for index, each in enumerate(plot.members) if not each.is_running()), None)


def started_one_by_one(plot: Plot) -> None:
    plot.planted_ms = now_ms()
    plot.start_one_by_one(0, 1, 2)


def offsets_expire(plot: Plot) -> None:
    plot.begin(1)
    plot.stop()


def _leave(plot: Plot) -> None:
    """Have a group whose member left some time ago."""
    plot.begin(1)
    plot.stop()
    time.sleep(3)  # An operator does not change offsets in the moment in which the member leaves.


def deletes_offsets(plot: Plot) -> None:
    _leave(plot)
    committed = sorted(plot.admin.list_group_offsets(plot.group))
    plot.admin.delete_group_offsets(plot.group, *committed[:2])


def deletes_group(plot: Plot) -> None:
    _leave(plot)
    plot.admin.delete_groups(plot.group)


def resets_offsets(plot: Plot) -> None:
    _leave(plot)
    committed = plot.admin.list_group_offsets(plot.group)
    plot.admin.alter_group_offsets(plot.group, {each: OffsetAndMetadata(0) for each in committed})


def goes_back(plot: Plot) -> None:
    plot.begin(1)
    plot.members[0].tell("rewind")


def consumer_protocol(plant: Callable[[Plot], None]) -> Callable[[Plot], None]:
    """Return the same for members of the newer protocol."""

    def planted(plot: Plot) -> None:
        plot.library = plot.one_of(EPOCH_LIBRARIES)
        start = plot.start

        def start_newer(*numbers: int, **other: object) -> None:
            start(*numbers, **{"protocol": "consumer", **other})

        plot.start = start_newer  # type: ignore[method-assign]  # It calls the method that it replaces.
        plant(plot)

    return planted


LEFT = (K.MEMBER_LEFT, K.POLL_INTERVAL_EXCEEDED)
"""Brokers take both for a member that leaves: a client need not say why."""
EXPIRED = (K.MEMBER_EXPIRED,)

KINDS = {
    "joins": Kind(K.MEMBER_JOINED, joins),
    "leaves": Kind(K.MEMBER_LEFT, leaves, gone=(1, LEFT)),
    "dies": Kind(K.MEMBER_EXPIRED, dies, gone=(1, EXPIRED)),
    "works too long": Kind(K.POLL_INTERVAL_EXCEEDED, works_too_long, within_s=70.0, gone=(1, LEFT)),
    "static bounce": Kind(K.STATIC_MEMBER_RETURNED, static_bounce, outlives=INSTANCE),
    "same instance": Kind(K.SAME_INSTANCE, same_instance, (K.STATIC_MEMBER_RETURNED,), outlives=INSTANCE),
    "changes subscription": Kind(K.SUBSCRIPTION_CHANGED, changes_subscription),
    "adds partitions": Kind(K.PARTITIONS_ADDED, adds_partitions),
    "creates topic": Kind(K.TOPIC_CREATED, creates_topic),
    "deletes topic": Kind(K.TOPIC_DELETED, deletes_topic),
    "changes assignor": Kind(K.ASSIGNOR_CHANGED, changes_assignor),
    "deploys": Kind(K.ROLLING_DEPLOYMENT, deploys, gone=(3, LEFT)),
    "storms": Kind(K.STORM, storms, gone=(4, LEFT)),
    "two applications": Kind(K.TWO_APPLICATIONS, two_applications),
    "poison": Kind(K.POISON_RECORD, poisons, (K.STORM,), named=f"-{POISONED}"),
    "one by one": Kind(K.STARTED_ONE_BY_ONE, started_one_by_one),
    "offsets expire": Kind(K.OFFSETS_EXPIRED, offsets_expire, within_s=90.0),
    "deletes offsets": Kind(K.OFFSETS_DELETED, deletes_offsets),
    "deletes group": Kind(K.GROUP_DELETED, deletes_group),
    "resets offsets": Kind(K.OFFSETS_RESET, resets_offsets),
    "goes back": Kind(K.OFFSETS_WENT_BACK, goes_back),
    "joins (epochs)": Kind(K.MEMBER_JOINED, consumer_protocol(joins)),
    "leaves (epochs)": Kind(K.MEMBER_LEFT, consumer_protocol(leaves), gone=(1, LEFT)),
    "dies (epochs)": Kind(K.MEMBER_EXPIRED, consumer_protocol(dies), gone=(1, EXPIRED)),
    "adds partitions (epochs)": Kind(K.PARTITIONS_ADDED, consumer_protocol(adds_partitions), (), 60.0),
}
ALWAYS_TRUE = {K.OWNERSHIP_CHANGED, K.LEADER_REJOINED, K.COORDINATOR_MOVED, K.MEMBER_JOINED}
"""Of these a record has all: a newcomer that nobody has planted has lost its session, and is back."""
