"""The rules of replicas are seen to be violated; and to hold where nothing is wrong."""

from uuid import UUID

import pytest

from kohort.broker.metadata.etcd_layout import PartitionValue
from tests.simulation.whole.replication_books import Lineage, ReplicationBooks

KEY = "topic", 0
FOLDERS = tuple(UUID(int=number) for number in range(1, 4))
LED = PartitionValue(1, 4, (1, 2, 3), (1, 2), 9, elr=(3,), directories=FOLDERS)


def state(**changes: object) -> PartitionValue:
    known = {each: getattr(LED, each) for each in LED.__struct_fields__} | {"partition_epoch": 10}
    return PartitionValue(**{**known, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("after", "rule"),
    [
        (state(isr=(1,)), None),
        (state(leader=2, leader_epoch=5), None),
        (state(leader=3, leader_epoch=5, isr=(3,), elr=()), None),
        (state(partition_epoch=9), "epochs of a partition only grow"),
        (state(leader=2), "another leader has another leader epoch"),
        (state(isr=(2,)), "a leader is in sync"),
        (state(isr=(1, 4)), "replicas have their directories"),
        (
            state(directories=(*FOLDERS[:2], UUID(int=9))),
            "who may have lost something stays only where nobody else has everything",
        ),
        (
            state(replicas=(1, 2, 4), leader=4, leader_epoch=5, isr=(4,), elr=()),
            "nobody leads uncleanly where the topic forbids it",
        ),
    ],
)
def test_a_change_of_the_metadata(after: PartitionValue, rule: str | None) -> None:
    books = ReplicationBooks()
    books.changed(KEY, LED, after)
    assert (books.violation is None) if rule is None else str(books.violation).startswith(f"{rule}: ")


@pytest.mark.parametrize(
    ("own", "holds"),
    [
        (Lineage(0, 8, [(0, 0), (2, 5)]), True),
        (Lineage(6, 20, [(2, 6)]), True),
        (Lineage(0, 12, [(2, 7)]), True),
        (Lineage(0, 0, []), True),
        (Lineage(0, 8, [(0, 0)]), False),
        (Lineage(0, 8, [(0, 0), (1, 5)]), False),
        (Lineage(0, 8, [(0, 0), (2, 6)]), False),
    ],
)
def test_a_log_is_held_against_what_was_committed(own: Lineage, holds: bool) -> None:
    books = ReplicationBooks()
    books.shows(KEY, Lineage(0, 10, [(0, 0), (2, 5)]), 10)
    books.shows(KEY, own, own.high_watermark)
    assert (books.violation is None) == holds
    if not holds:
        assert str(books.violation).startswith("logs agree below the high watermark: ('topic', 0) at 5")


def test_what_leaders_and_followers_do() -> None:
    books = ReplicationBooks()
    books.leads(KEY, 1, (3, 1))
    books.leads(KEY, 1, (3, 1))
    books.leads(KEY, 2, (1, 1))
    books.commits(KEY, 5, {1: 5, 2: 6})
    books.shows(KEY, Lineage(0, 5, [(1, 0)]), 5)
    books.joins(KEY, 2, 5)
    assert books.violation is None
    books.joins(KEY, 2, 4)
    assert str(books.violation).startswith("who joins the in-sync replicas has all that is committed: ")


def test_two_leaders_of_one_epoch() -> None:
    books = ReplicationBooks()
    books.leads(KEY, 1, (3, 1))
    books.leads(KEY, 1, (2, 1))
    assert str(books.violation) == "one leader per leader epoch: ('topic', 0), 1: (3, 1) and (2, 1)"


def test_what_is_committed_has_to_be_synced_unless_the_topic_is_lax() -> None:
    books, told = ReplicationBooks(), list[str]()
    books.on_violation = told.append
    books.is_lax(("lax", 0))
    books.commits(("lax", 0), 5, {1: 5, 2: 4})
    assert books.violation is None
    books.commits(KEY, 5, {1: 5, 2: 4})
    assert told == [str(books.violation)]
    assert told[0].startswith("what is committed is on the disk of all who are in sync: ")


def test_what_a_restored_etcd_has_forgotten_may_happen_again() -> None:
    books = ReplicationBooks()
    books.leads(KEY, 1, (3, 1))
    books.shows(KEY, Lineage(0, 5, [(1, 0)]), 5)
    books.restored()
    books.leads(KEY, 1, (2, 1))
    books.shows(KEY, Lineage(0, 5, [(2, 0)]), 5)
    books.joins(KEY, 2, 4)
    assert books.violation is None


@pytest.mark.parametrize(
    ("before", "after", "in_sync", "rule"),
    [
        (5, 6, 2, None),
        (5, 4, 2, "a leader's high watermark only grows"),
        (5, 6, 1, "nothing is committed by too few in sync"),
    ],
)
def test_what_a_leader_commits(before: int, after: int, in_sync: int, rule: str | None) -> None:
    books = ReplicationBooks()
    books.advances(before, after, in_sync, 2)
    assert (books.violation is None) if rule is None else str(books.violation).startswith(f"{rule}: ")


def test_what_is_committed_is_in_the_log() -> None:
    books = ReplicationBooks()
    books.shows(KEY, Lineage(0, 5, [(1, 0)]), 4)
    assert str(books.violation).startswith("what is committed is in the log: ")
