from collections.abc import Callable
from threading import Event

import pytest

from kohort.broker.explain.observed.events import (
    TransactionHolder,
    TransactionStands,
)
from kohort.client import (
    BrokerError,
    TopicPartition,
)
from kohort.client.admin_values import (
    OpenTransaction,
)
from kohort.observe.asking import Asker
from kohort.observe.cluster import ClusterQuestions, Seen
from kohort.observe.pace import Limits, Pace
from kohort.observe.store import Store
from kohort.observe.test_observer import NOW, FakeAdmin
from kohort.observe.topics import ClusterLook
from kohort.observe.watched import Watched
from kohort.protocol.errors import ErrorCode


def test_a_group_at_a_last_stable_offset_that_stands_is_told_of_the_transaction(store: Store) -> None:
    now_ms = NOW
    found = Watched(lambda: now_ms, 10.0)
    found.status.cluster_id = "c"
    admin, stopping = FakeAdmin(), Event()
    admin.leaders = {"t": [1], "u": [1], "__transaction_state": [1]}
    admin.stable = {"t": 40}
    where = (TopicPartition("t", 0),)
    admin.open_transactions_ = [
        OpenTransaction("mine", 7, "Ongoing", NOW - 1, 60_000, where),
        OpenTransaction("other", 8, "Ongoing", NOW - 1, 60_000, (TopicPartition("t", 1),)),
    ]
    pace = Pace(1e6, stopping)
    questions = ClusterQuestions(admin, pace, lambda: now_ms)  # type: ignore[arg-type]  # It has what is called.
    asker = Asker(found, questions, pace, Limits(), stopping)
    for group_id, offset in (("committed", 40), ("uncommitted", 90), ("behind", 7)):
        found.records.group(group_id).commit("t", 0, offset, now_ms)
    found.records.group("committed").commit("u", 0, 100, now_ms)
    for step in range(19):
        now_ms = NOW + step * 10_000
        asker.ask()
    found.save(store)
    assert store.events("c", "uncommitted") == store.events("c", "behind") == []
    (event,) = store.events("c", "committed")
    assert isinstance(event, TransactionStands)
    assert (event.topic, event.last_stable_offset, event.end_offset) == ("t", 40, 100)
    assert event.at_ms - event.since_ms == 120_000
    assert event.holders == (TransactionHolder("mine", NOW - 1, 60_000, "Ongoing"),)
    assert not event.is_without_holder
    assert admin.calls.count("open_transactions") == 1
    assert [each.topic for each in found.transactions.standing] == ["t"]
    admin.stable = {}
    for _ in range(6):
        asker.ask()
    assert found.transactions.standing == ()
    found.save(store)
    assert len(store.events("c", "committed")) == 1


def test_a_transaction_that_stands_is_told_once_over_a_restart(store: Store) -> None:
    now_ms = NOW

    def told(found: Watched, *looks_s: int, is_cut_short: bool = False) -> list[tuple[int, int]]:
        nonlocal now_ms
        stands = []
        for look_s in looks_s:
            now_ms = NOW + look_s * 1_000
            standing = found.note_stable({"t": {0: 40}}, {("t", 0)})
            stands += [(each.since_ms - NOW, look_s) for each in standing]
            if not is_cut_short:
                found.tell_standing(standing, None)
        found.save(store)
        return stands

    def restarted() -> Watched:
        found = Watched(lambda: now_ms, 10.0)
        found.status.cluster_id = "c"
        found.restore(store)
        found.look.partition_counts["t"] = 1
        found.facts.ends = {"t": {0: 100}}
        return found

    assert told(restarted(), 0, 60) == []
    assert told(restarted(), 90, 150, is_cut_short=True) == [(0, 150)], "what stood before is not forgotten"
    assert told(restarted(), 180) == [(0, 180)], "it ended before anybody was told"
    again = restarted()
    assert told(again, 210, 270) == [], "it was told"
    again.note(Seen(ClusterLook(NOW, {"t": 1}, topic_ids={"t": "1"}), {}, {}))
    again.note(Seen(ClusterLook(NOW, {"t": 1}, topic_ids={"t": "2"}), {}, {}))
    again.facts.ends = {"t": {0: 100}}
    assert told(again, 330, 390) == [], "it is another topic"


def test_a_partition_that_no_group_reads_any_more_does_not_stand() -> None:
    found = Watched(lambda: NOW, 10.0)
    found.facts.ends = {"t": {0: 100, 1: 100}}
    found.note_stable({"t": {0: 40, 1: 40}}, {("t", 0), ("t", 1)})
    found.note_stable({}, {("t", 1)})
    assert [each.partition for each in found.transactions.standing] == [1]


def test_a_transaction_that_stands_is_told_once_while_groups_are_read_again(store: Store) -> None:
    now_ms = NOW
    found = Watched(lambda: now_ms, 10.0)
    found.status.cluster_id = "c"
    admin, stopping = FakeAdmin(), Event()
    admin.leaders = {"t": [1], "__transaction_state": [1]}
    admin.stable = {"t": 40}
    pace = Pace(1e6, stopping)
    questions = ClusterQuestions(admin, pace, lambda: now_ms)  # type: ignore[arg-type]  # It has what is called.
    asker = Asker(found, questions, pace, Limits(), stopping)

    def ask(*steps: int) -> None:
        nonlocal now_ms
        for step in range(*steps):
            now_ms = NOW + step * 10_000
            asker.ask()

    def read_all() -> None:
        found.records.group("g").commit("t", 0, 40, NOW)
        found.caught_up()

    read_all()
    ask(0, 25)
    found.save(store)
    found.begin_anew(store)
    ask(25, 31)
    read_all()
    ask(31, 55)
    found.save(store)
    assert len([each for each in store.events("c", "g") if isinstance(each, TransactionStands)]) == 1
    found.records.group("g").drop([("t", 0)])
    ask(55, 61)
    assert found.transactions.standing == ()


def standing_after(admin: FakeAdmin, meanwhile: Callable[[], None]) -> TransactionStands | None:
    """Return what is told of the group at t-0, whose last stable offset stands at 40.

    `meanwhile` is called while the coordinators are asked for open transactions.
    """
    now_ms = NOW
    found = Watched(lambda: now_ms, 10.0)
    ask = admin.open_transactions

    def open_transactions() -> tuple[OpenTransaction, ...]:
        meanwhile()
        return ask()

    admin.open_transactions = open_transactions  # type: ignore[method-assign]  # It calls that method.
    pace = Pace(1e6, Event())
    questions = ClusterQuestions(admin, pace, lambda: now_ms)  # type: ignore[arg-type]  # It has what is called.
    asker = Asker(found, questions, pace, Limits(), Event())
    found.records.group("g").commit("t", 0, 40, now_ms)
    for step in range(24):
        now_ms = NOW + step * 10_000
        asker.ask()
    told = [event for _, event in found._cluster_news if isinstance(event, TransactionStands)]
    return told[0] if told else None


@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 2), (-1, -1), (-1, 2), (1, -1)])
def test_a_transaction_hangs_only_where_all_coordinators_were_asked(before: int, after: int) -> None:
    admin = FakeAdmin()
    admin.leaders = {"t": [1], "__transaction_state": [1, before]}
    admin.stable = {"t": 40}

    def move() -> None:
        admin.leaders["__transaction_state"] = [1, after]

    event = standing_after(admin, move)
    assert event is not None
    assert event.holders == ()
    assert event.is_without_holder == (before == after == 1)


def test_where_coordinators_may_not_be_known_nothing_is_said_of_hanging() -> None:
    admin = FakeAdmin()
    admin.leaders = {"t": [1], "__transaction_state": [1]}
    admin.stable = {"t": 40}

    def refuse() -> None:
        admin.errors["__transaction_state"] = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    event = standing_after(admin, refuse)
    assert event is not None
    assert not event.is_without_holder


def test_a_transaction_that_ends_while_coordinators_are_asked_is_not_told() -> None:
    admin = FakeAdmin()
    admin.leaders = {"t": [1], "__transaction_state": [1]}
    admin.stable = {"t": 40}
    assert standing_after(admin, admin.stable.clear) is None
