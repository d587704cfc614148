"""The simple assignor: single cases, and rules for all cases."""

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.broker.group.epochs.partitions import Partitions
from kohort.broker.group.share.assignor import assign

TOPICS = [UUID(int=number) for number in range(1, 4)]


def loads(assigned: dict[str, Partitions]) -> dict[str, int]:
    return {member_id: sum(map(len, each.values())) for member_id, each in assigned.items()}


def test_partitions_are_split_as_long_as_there_are_enough() -> None:
    readers = {name: frozenset(TOPICS[:1]) for name in "abc"}
    assert loads(assign(readers, {TOPICS[0]: frozenset(range(7))}, {})) == {"a": 3, "b": 2, "c": 2}


def test_members_keep_what_they_have() -> None:
    ready = {TOPICS[0]: frozenset(range(4))}
    before = assign({"a": frozenset(TOPICS[:1]), "b": frozenset(TOPICS[:1])}, ready, {})
    after = assign({name: frozenset(TOPICS[:1]) for name in "abcd"}, ready, before)
    for name in "ab":
        assert after[name][TOPICS[0]] <= before[name][TOPICS[0]]


def test_a_member_that_joins_last_gets_a_partition_too() -> None:
    ready = {TOPICS[0]: frozenset(range(3))}
    members: dict[str, Partitions] = {}
    for name in "abcdefghij":
        members = assign({each: frozenset(TOPICS[:1]) for each in (*members, name)}, ready, members)
        assert all(loads(members).values()), members


@settings(max_examples=200)
@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcdefgh"), st.frozensets(st.sampled_from(TOPICS)), max_size=8),
        min_size=1,
        max_size=5,
    ),
    st.dictionaries(st.sampled_from(TOPICS), st.frozensets(st.integers(0, 9), min_size=1)),
)
def test_every_partition_that_is_read_has_a_reader_and_every_reader_a_partition(
    rounds: list[dict[str, frozenset[UUID]]], ready: dict[UUID, frozenset[int]]
) -> None:
    assigned: dict[str, Partitions] = {}
    for subscriptions in rounds:
        assigned = assign(subscriptions, ready, assigned)
        read = {topic for topics in subscriptions.values() for topic in topics}
        for topic_id, indexes in ready.items():
            has = {index for each in assigned.values() for index in each.get(topic_id, ())}
            assert has == (indexes if topic_id in read else set())
        for member_id, topics in subscriptions.items():
            assert assigned[member_id].keys() <= topics
            if topics & ready.keys():
                assert assigned[member_id]
        if len(set(subscriptions.values())) == 1:
            counts = loads(assigned).values()
            assert max(counts) - min(counts) <= 1
