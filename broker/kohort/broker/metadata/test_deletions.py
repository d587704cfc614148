"""What counts as the deletion of a topic."""

from dataclasses import replace
from uuid import UUID

import pytest

from kohort.broker.metadata import Mutation, Snapshot, TopicState, deletions
from kohort.broker.metadata.deletions import DeletedTopics, topics_deleted

AIR, NEW_AIR, SEA = (
    TopicState(name, UUID(int=number), ()) for number, name in enumerate(("air", "air", "sea"), 1)
)
BOTH = Snapshot(1, "c", 1).after(Mutation(put=(AIR, SEA)))


@pytest.mark.parametrize(
    ("mutation", "deleted"),
    [
        (Mutation(delete=("air",)), (AIR,)),
        (Mutation(delete=("air",), put=(NEW_AIR,)), (AIR,)),
        (Mutation(put=(TopicState("more", UUID(int=4), ()),)), ()),
        (Mutation(put=(TopicState("sea", SEA.topic_id, (), {"retention.ms": "1"}),)), ()),
    ],
)
def test_deleted_and_recreated_topics_are_reported_as_deletions(
    mutation: Mutation, deleted: tuple[TopicState, ...]
) -> None:
    after = BOTH.after(mutation)
    assert topics_deleted(BOTH, after) == deleted
    assert topics_deleted(BOTH, replace(after, is_reloaded=True)) == ()


def test_the_newest_deletions_are_remembered_of_topics_that_are_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deletions, "DELETED_TOPICS_MAX", 2)
    remembered = DeletedTopics()
    remembered.add((AIR, NEW_AIR, SEA))
    nothing = Snapshot(1, "c", 1)
    assert remembered.gone(nothing) == {NEW_AIR.topic_id, SEA.topic_id}
    assert remembered.gone(BOTH) == {NEW_AIR.topic_id}
    assert remembered.any_of({AIR.topic_id, SEA.topic_id}, nothing)
    assert not remembered.any_of({AIR.topic_id, SEA.topic_id}, BOTH)
