"""What a request names a thousand times is answered once: an answer must not be so much larger than it."""

from kohort.broker.handlers.groups.offset_fetch import NAMED_FEW, _each_once
from kohort.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics


def group(group_id: str, *topics: tuple[str, tuple[int, ...]], **more: object) -> OffsetFetchRequestGroup:
    return OffsetFetchRequestGroup(
        group_id=group_id,
        topics=tuple(
            OffsetFetchRequestTopics(name=name, partition_indexes=indexes) for name, indexes in topics
        ),
        **more,  # type: ignore[arg-type]
    )


def test_a_repeated_partition_is_fetched_once() -> None:
    asked = group("g", ("t", (0, 1) * NAMED_FEW), ("t", (2, 0)), ("u", (0,)))
    assert _each_once((asked,)) == (group("g", ("t", (0, 1, 2)), ("u", (0,))),)


def test_a_repeated_group_is_fetched_once_for_all_its_topics() -> None:
    asked = tuple(group("g", ("t", tuple(range(number)))) for number in range(1, 100))
    assert _each_once(asked) == (group("g", ("t", tuple(range(99)))),)


def test_a_request_for_all_topics_of_a_group_includes_those_named() -> None:
    everything = OffsetFetchRequestGroup(group_id="g", topics=None)
    for asked in ((group("g", ("t", (1,))), everything), (everything, group("g", ("t", (1,))))):
        [found] = _each_once(asked)
        assert found.topics is None


def test_groups_keep_their_order_and_their_members() -> None:
    asked = (group("b", ("t", (1,)), member_id="m", member_epoch=3), group("a", ("t", (2,))))
    assert _each_once(asked) == asked
    assert _each_once(()) == ()
    few = (group("g", ("t", (0, 0, 1))),)
    assert _each_once(few) == few
