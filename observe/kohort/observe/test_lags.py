from kohort.broker.explain.observed.events import Grown
from kohort.observe.lags import Lags
from kohort.observe.places import Place
from kohort.observe.topics import ClusterLook, coordinators_moved, partition_of, topics_changed, with_known
from kohort.protocol.verdict import Verdict

NOW = 1_800_000_000_000


def test_lag_in_seconds_is_since_the_log_ended_behind_the_offset() -> None:
    lags, place = Lags(), Place("t", 0, 150, NOW)
    for step in range(5):
        lags.look({"t": {0: 100 * step}}, NOW + 10_000 * step)
    told = lags.lag_of("g", place, NOW + 40_000)
    assert (told.end_offset, told.lag, told.lag_seconds) == (400, 250, 25.0)
    place.offset = 400
    caught_up = lags.lag_of("g", place, NOW + 40_000)
    assert (caught_up.lag, caught_up.lag_seconds, caught_up.verdict) == (0, 0.0, Verdict.OK)
    place.offset = 0
    assert lags.lag_of("g", place, NOW + 40_000).lag_seconds == 40.0


def test_lag_of_an_unknown_end_is_unknown() -> None:
    told = Lags().lag_of("g", Place("t", 0, 150, NOW), NOW)
    assert (told.end_offset, told.lag, told.lag_seconds, told.verdict) == (None, None, None, None)


def test_a_partition_whose_commits_stand_still_stalls() -> None:
    lags, place = Lags(), Place("t", 0, 5, NOW)
    for step in range(12):
        now_ms = NOW + 10_000 * step
        place.at_ms = now_ms
        lags.look({"t": {0: 100 + step}}, now_ms)
        lags.look_at("g", {("t", 0): place})
    assert lags.lag_of("g", place, now_ms).verdict is Verdict.STALL
    lags.forget("g")
    assert lags.lag_of("g", place, now_ms).verdict is Verdict.OK


def test_topics_that_come_go_and_grow_are_seen_from_the_second_look_on() -> None:
    old = ClusterLook(NOW, {"a": 1, "b": 2})
    new = ClusterLook(NOW + 1, {"b": 3, "c": 1})
    assert topics_changed(ClusterLook(), new) is None
    assert topics_changed(old, old) is None
    changed = topics_changed(old, new)
    assert changed is not None
    assert (changed.created, changed.deleted, changed.grown) == (("c",), ("a",), (Grown("b", 2, 3),))


def test_a_topic_with_another_id_went_and_came_anew() -> None:
    """A producer that still writes to a deleted topic has it made anew at once: no look sees it gone."""
    old = ClusterLook(NOW, {"a": 3, "b": 1, "c": 1}, topic_ids={"a": "1", "b": "2"})
    new = ClusterLook(NOW + 1, {"a": 4, "b": 1, "c": 1}, topic_ids={"a": "9", "b": "2", "c": "3"})
    changed = topics_changed(old, new)
    assert changed is not None
    assert (changed.created, changed.deleted, changed.grown) == (("a",), ("a",), ())
    hidden = with_known(ClusterLook(NOW + 1, {"b": 1}, topic_ids={"b": "2"}), old, ["a", "c"])
    assert hidden.topic_ids == old.topic_ids


def test_groups_of_a_partition_with_another_leader_have_another_coordinator() -> None:
    place = partition_of("group-1", 50)
    old = ClusterLook(NOW, coordinators=dict.fromkeys(range(50), 1), brokers=[1, 2])
    new = ClusterLook(NOW + 1, coordinators={**old.coordinators, place: 2}, brokers=[2])
    ((group_id, event),) = coordinators_moved(old, new, ["group-1", "group-2"])
    assert (group_id, event.former_node_id, event.node_id, event.is_former_gone) == ("group-1", 1, 2, True)
    gone = ClusterLook(NOW + 1, coordinators={**old.coordinators, place: -1})
    assert list(coordinators_moved(old, gone, ["group-1"])) == []


def test_a_coordinator_that_moves_while_nobody_leads_is_seen() -> None:
    place = partition_of("group-1", 50)
    old = ClusterLook(NOW, coordinators=dict.fromkeys(range(50), 1), brokers=[1, 2])
    leaderless = with_known(ClusterLook(NOW + 1, coordinators={**old.coordinators, place: -1}), old)
    unanswered = with_known(ClusterLook(NOW + 2), leaderless)
    new = with_known(ClusterLook(NOW + 3, coordinators={**old.coordinators, place: 2}), unanswered)
    assert [*coordinators_moved(old, leaderless, ["group-1"])] == []
    assert [*coordinators_moved(leaderless, unanswered, ["group-1"])] == []
    ((group_id, event),) = coordinators_moved(unanswered, new, ["group-1"])
    assert (group_id, event.former_node_id, event.node_id) == ("group-1", 1, 2)


def test_topics_of_which_there_is_no_answer_are_not_taken_for_deleted() -> None:
    old = ClusterLook(NOW, {"a": 1, "b": 2, "c": 3})
    new = with_known(ClusterLook(NOW + 1, {"a": 1}), old, unanswered=["b"])
    changed = topics_changed(old, new)
    assert changed is not None
    assert changed.deleted == ("c",)


def test_a_group_is_in_the_partition_that_kafka_puts_it_in() -> None:
    # "group".hashCode() is 98629247, "test".hashCode() is 3556498, "polygenelubricants".hashCode() is -2^31.
    assert partition_of("group", 50) == 98_629_247 % 50
    assert partition_of("test", 50) == 3_556_498 % 50
    assert partition_of("polygenelubricants", 50) == 0


def test_an_end_that_is_not_seen_any_more_is_unknown_and_no_lag_of_before() -> None:
    lags, place = Lags(), Place("t", 0, 10, NOW)
    lags.look({"t": {0: 10, 1: 5}}, NOW)
    lags.look({"t": {0: 10, 1: 5}}, NOW + 10_000)
    assert lags.lag_of("g", place, NOW + 10_000).lag == 0
    for step in range(2, 5):  # The partition has no leader: the others are known still.
        lags.look({"t": {1: 5}}, NOW + step * 10_000)
    now_ms = NOW + 40_000
    assert lags.lag_of("g", place, now_ms).lag is None
    assert lags.lag_of("g", Place("t", 1, 4, NOW), now_ms).lag == 1
    lags.look({"t": {0: 30, 1: 5}}, NOW + 50_000)
    assert lags.lag_of("g", place, NOW + 50_000).lag == 20


def test_lag_is_unknown_once_nobody_looks_any_more() -> None:
    lags, place = Lags(), Place("t", 0, 10, NOW)
    for step in range(3):
        lags.look({"t": {0: 10}}, NOW + step * 10_000)
    assert lags.lag_of("g", place, NOW + 45_000).lag == 0
    assert lags.lag_of("g", place, NOW + 55_000).lag is None


def test_ends_that_are_no_longer_seen_are_forgotten() -> None:
    lags, place = Lags(), Place("gone", 0, 5, NOW)
    lags.look({"gone": {0: 10}}, NOW)
    for step in range(1, 300):
        lags.look({"t": {0: 10}}, NOW + step * 10_000)
    assert lags.lag_of("g", place, NOW).end_offset is None
    assert [*lags._ends] == [("t", 0)]
    assert len(lags._ends["t", 0]) <= 181
