from uuid import UUID

import pytest

from kohort.broker.explain.findings import FindingKind, Likelihood
from kohort.broker.explain.observed.events import AnyObserved, GroupChanged, Grown, OffsetsSet, TopicsChanged
from kohort.broker.explain.observed.explaining import explain
from kohort.client import TopicPartition
from kohort.client.admin_values import ShareGroupOffset
from kohort.observe.described import take_share_offsets
from kohort.observe.facts import Facts
from kohort.observe.group import ObservedGroup
from kohort.observe.kinds import partitions_of
from kohort.observe.records import Records
from kohort.observe.test_records import Log
from kohort.protocol import consumer_group_records as consumer
from kohort.protocol import share_group_records as share
from kohort.protocol import streams_group_records as streams

TOPIC_ID = UUID(int=7)


class ShareLog(Log):
    """Writes the records of a share group."""

    def epoch(self, number: int, members: dict[str, list[int]], gone: str = "", hashed: int = 1) -> None:
        """Write a group epoch, and each member with its partitions of `t`."""
        if gone:
            for key in (share.ShareGroupMemberMetadataKey, share.ShareGroupTargetAssignmentMemberKey):
                self.write(key(group_id="g", member_id=gone), None)
            self.write(share.ShareGroupCurrentMemberAssignmentKey(group_id="g", member_id=gone), None)
        for name in members:
            value = share.ShareGroupMemberMetadataValue(
                rack_id=None, client_id=name, client_host="/10.0.0.1", subscribed_topic_names=("t",)
            )
            self.write(share.ShareGroupMemberMetadataKey(group_id="g", member_id=name), value)
        metadata = share.ShareGroupMetadataValue(epoch=number, metadata_hash=hashed)
        self.write(share.ShareGroupMetadataKey(group_id="g"), metadata)
        for name, partitions in members.items():
            each = share.ShareGroupTargetPartitions(topic_id=TOPIC_ID, partitions=tuple(partitions))
            target = share.ShareGroupTargetAssignmentMemberValue(topic_partitions=(each,))
            self.write(share.ShareGroupTargetAssignmentMemberKey(group_id="g", member_id=name), target)
        done = share.ShareGroupTargetAssignmentMetadataValue(assignment_epoch=number)
        self.write(share.ShareGroupTargetAssignmentMetadataKey(group_id="g"), done)

    @property
    def group(self) -> ObservedGroup:
        """Return the group."""
        return self.records.groups["g"]


class StreamsLog(Log):
    """Writes the records of a streams group whose subtopology 0 reads `t` and `u`."""

    def topology(self, epoch: int, *sources: str) -> None:
        """Write the topology."""
        part = streams.StreamsGroupSubtopology(
            subtopology_id="0",
            source_topics=sources,
            source_topic_regex=(),
            state_changelog_topics=(),
            repartition_sink_topics=(),
            repartition_source_topics=(),
            copartition_groups=(),
        )
        value = streams.StreamsGroupTopologyValue(epoch=epoch, subtopologies=(part,))
        self.write(streams.StreamsGroupTopologyKey(group_id="g"), value)

    def epoch(self, number: int, members: dict[str, list[int]], gone: str = "") -> None:
        """Write a group epoch, and each member with its active tasks."""
        if gone:
            for key in (
                streams.StreamsGroupCurrentMemberAssignmentKey,
                streams.StreamsGroupTargetAssignmentMemberKey,
                streams.StreamsGroupMemberMetadataKey,
            ):
                self.write(key(group_id="g", member_id=gone), None)
        for name in members:
            value = streams.StreamsGroupMemberMetadataValue(
                instance_id=None,
                rack_id=None,
                client_id=name,
                client_host="/10.0.0.1",
                rebalance_timeout_ms=300_000,
                topology_epoch=0,
                process_id="p",
                client_tags=(),
            )
            self.write(streams.StreamsGroupMemberMetadataKey(group_id="g", member_id=name), value)
        metadata = streams.StreamsGroupMetadataValue(epoch=number, metadata_hash=1)
        self.write(streams.StreamsGroupMetadataKey(group_id="g"), metadata)
        for name, partitions in members.items():
            task = streams.StreamsGroupTargetTaskIds(subtopology_id="0", partitions=tuple(partitions))
            target = streams.StreamsGroupTargetAssignmentMemberValue(
                active_tasks=(task,), standby_tasks=(), warmup_tasks=()
            )
            self.write(streams.StreamsGroupTargetAssignmentMemberKey(group_id="g", member_id=name), target)
        done = streams.StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=number)
        self.write(streams.StreamsGroupTargetAssignmentMetadataKey(group_id="g"), done)
        for name, partitions in members.items():
            self.current(name, number, partitions)

    def current(self, name: str, epoch: int, partitions: list[int]) -> None:
        """Write what a member owns."""
        task = streams.StreamsGroupCurrentTaskIds(subtopology_id="0", partitions=tuple(partitions))
        nothing: dict[str, tuple[()]] = {
            f"{each}_tasks{when}": ()
            for each in ("active", "standby", "warmup")
            for when in ("", "_pending_revocation")
            if (each, when) != ("active", "")
        }
        value = streams.StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=epoch, previous_member_epoch=epoch, state=0, active_tasks=(task,), **nothing
        )
        self.write(streams.StreamsGroupCurrentMemberAssignmentKey(group_id="g", member_id=name), value)


def look(
    log: ShareLog, starts: dict[TopicPartition, int], end_offset: int = -1, lag: int | None = None
) -> None:
    """Take a look at where the group begins."""
    found = {where: ShareGroupOffset(start, lag=lag) for where, start in starts.items()}
    take_share_offsets(log.group, found, lambda _topic, _partition: end_offset, log.now_ms)


def changes(events: list[AnyObserved]) -> list[GroupChanged]:
    return [each for each in events if isinstance(each, GroupChanged)]


def first_kinds(events: list[AnyObserved]) -> list[FindingKind]:
    return [each.findings[0].kind for each in explain(events)]


def facts() -> Facts:
    return Facts(
        topic_names={TOPIC_ID: "t"},
        share_session_timeout_ms=41_000,
        streams_session_timeout_ms=42_000,
        session_timeout_ms=45_000,
        partition_counts={"t": 4, "u": 2},
        knows_all_groups=True,
    )


def test_members_of_a_share_group_share_partitions() -> None:
    log = ShareLog(facts())
    log.epoch(1, {"a": [0, 1]})
    log.now_ms += 100_000
    log.epoch(2, {"a": [0, 1], "b": [0, 1]})
    first, second = changes(log.events())
    assert (first.moved, second.moved) == (2, 2)
    assert second.session_timeout_ms == 41_000
    assert log.group.kind == "share"
    assert log.group.snapshot.owned() == {"a": [("t", 0), ("t", 1)], "b": [("t", 0), ("t", 1)]}
    assert first_kinds([first, second]) == [FindingKind.MEMBER_JOINED] * 2


def test_nobody_says_why_a_member_of_a_share_group_is_gone() -> None:
    log = ShareLog(facts())
    log.epoch(1, {"a": [0], "b": [1]})
    look(log, {TopicPartition("t", 0): 5, TopicPartition("t", 1): 5})
    log.now_ms += 100_000
    look(log, {TopicPartition("t", 0): 9, TopicPartition("t", 1): 5})
    log.epoch(2, {"b": [0, 1]}, gone="a")
    told = explain(log.events())[-1]
    assert {each.likelihood for each in told.findings} == {Likelihood.POSSIBLE}
    assert [each.kind for each in told.findings] == [
        FindingKind.MEMBER_LEFT,
        FindingKind.MEMBER_EXPIRED,
        FindingKind.POLL_INTERVAL_EXCEEDED,
    ]
    assert "its session timeout is 41 s" in told.findings[0].evidence


def test_a_share_group_that_a_tool_sets_back_is_told() -> None:
    log = ShareLog(facts())
    log.epoch(1, {"a": [0]})
    where = TopicPartition("t", 0)
    look(log, {where: 50})
    log.now_ms += 100_000
    log.epoch(2, {}, gone="a")
    look(log, {where: 60})
    log.now_ms += 100_000
    look(log, {where: 3})
    (moved,) = [each for each in log.events() if isinstance(each, OffsetsSet)]
    assert (moved.backward, moved.moves[0].before, moved.moves[0].after) == (1, 60, 3)
    assert first_kinds([moved]) == [FindingKind.OFFSETS_RESET]


def test_a_share_group_has_come_as_far_as_the_records_that_are_left_say() -> None:
    log = ShareLog(facts())
    log.epoch(1, {"a": [0]})
    where = TopicPartition("t", 0)
    look(log, {where: 0}, end_offset=10, lag=10)
    look(log, {where: 0}, end_offset=10, lag=2)
    assert log.group.places[where].offset == 8
    look(log, {where: 0}, end_offset=10, lag=9)  # The log has grown since its end was asked for.
    assert log.group.places[where].offset == 8
    log.epoch(2, {}, gone="a")
    log.now_ms += 100_000
    assert not [each for each in log.events() if isinstance(each, OffsetsSet)]


def sets(log: ShareLog) -> list[OffsetsSet]:
    log.now_ms += 100_000
    return [each for each in log.events() if isinstance(each, OffsetsSet)]


@pytest.mark.parametrize("starts", [(0, 0), (0, 10), (300, 300)])
def test_a_share_group_that_was_reset_while_nobody_looked_is_where_it_is(starts: tuple[int, int]) -> None:
    log = ShareLog(facts())
    log.epoch(1, {"a": [0]})
    where = TopicPartition("t", 0)
    look(log, {where: 900}, end_offset=1_000, lag=100)
    ((_, state, _),) = log.records.drain()
    assert state is not None
    log.records = Records(log.records.facts)
    log.records.restore("g", state)
    look(log, {where: 0}, end_offset=-1, lag=1_000)  # The end is not known yet.
    assert log.group.places[where].offset == 900
    for start in starts:
        look(log, {where: start}, end_offset=1_000, lag=1_000 - start)
        assert log.group.places[where].offset == start
    assert sets(log) == []


def test_a_share_group_that_is_reset_to_behind_its_start_is_there_after_two_looks() -> None:
    log = ShareLog(facts())
    log.epoch(1, {"a": [0]})
    where = TopicPartition("t", 0)
    look(log, {where: 100}, end_offset=1_000, lag=500)
    assert log.group.places[where].offset == 500
    look(log, {where: 200}, end_offset=1_000, lag=800)
    assert log.group.places[where].offset == 500
    look(log, {where: 200}, end_offset=1_000, lag=800)
    assert log.group.places[where].offset == 200
    look(log, {where: 200}, end_offset=1_000, lag=700)
    assert log.group.places[where].offset == 300
    assert sets(log) == []


def test_a_share_group_in_a_log_that_grows_does_not_seem_to_go_back() -> None:
    """The end is asked for before the lag, which has the records that were written meanwhile."""
    log = ShareLog(facts())
    log.epoch(1, {"a": [0]})
    where = TopicPartition("t", 0)
    look(log, {where: 100}, end_offset=1_000, lag=500)
    for end_offset in range(1_000, 5_000, 1_000):
        look(log, {where: 100}, end_offset=end_offset, lag=end_offset + 1_000 - 500)
        assert log.group.places[where].offset == 500


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_share_group_without_an_offset_in_a_partition_begins_there_anew(is_listed: bool) -> None:
    log = ShareLog(facts())
    log.epoch(1, {"a": [0]})
    where = TopicPartition("t", 0)
    look(log, {where: 500})
    take_share_offsets(
        log.group, {where: ShareGroupOffset(None)} if is_listed else {}, lambda *_: -1, log.now_ms
    )
    assert (log.group.places, log.group.share_starts) == ({}, {})
    look(log, {where: 0})
    look(log, {where: 10})
    assert log.group.places[where].offset == 10
    assert sets(log) == []


def test_a_share_group_that_went_back_may_have_been_reset_or_its_topic_made_anew() -> None:
    log = ShareLog(facts())
    log.epoch(1, {"a": [0]})
    where = TopicPartition("t", 0)
    look(log, {where: 900})
    look(log, {where: 0})
    (told,) = explain(sets(log))
    assert [(each.kind, each.likelihood) for each in told.findings] == [
        (FindingKind.OFFSETS_RESET, Likelihood.POSSIBLE),
        (FindingKind.TOPIC_DELETED, Likelihood.POSSIBLE),
    ]
    assert told.findings[1].text == "t was deleted and made anew"


def test_a_commit_for_a_share_group_that_was_deleted_is_of_a_new_group() -> None:
    log = ShareLog(facts())
    log.commit(0, 5)
    log.epoch(1, {"a": [0]})
    log.epoch(2, {}, gone="a")
    log.write(share.ShareGroupMetadataKey(group_id="g"), None)
    log.events()
    assert not log.records.groups
    log.commit(0, 7)
    log.records.settle(log.now_ms)
    assert log.group.places["t", 0].offset == 7


def test_a_commit_of_a_partition_that_a_share_group_has_dropped_makes_it_known_again() -> None:
    log = ShareLog(facts())
    log.commit(0, 5)
    log.epoch(1, {"a": [0]})
    look(log, {})
    log.events()
    log.commit(0, 7)
    assert log.group.places["t", 0].offset == 7


def test_a_share_group_that_is_deleted_is_forgotten_with_its_offsets() -> None:
    log = ShareLog(facts())
    log.epoch(1, {"a": [0]})
    look(log, {TopicPartition("t", 0): 50})
    log.epoch(2, {}, gone="a")
    log.write(share.ShareGroupMetadataKey(group_id="g"), None)
    assert changes(log.events())[-1].members == 0
    assert not log.records.groups


def test_tasks_of_a_streams_group_are_partitions_of_the_topics_that_they_read() -> None:
    log = StreamsLog(facts())
    log.topology(0, "t", "u")
    log.epoch(1, {"a": [0, 1, 2, 3]})
    group = log.records.groups["g"]
    assert group.kind == "streams"
    assert group.snapshot.owned()["a"] == [*(("t", each) for each in range(4)), ("u", 0), ("u", 1)]
    assert group.snapshot.members["a"].topics == ("t", "u")
    log.commit(2, 10)
    assert group.activities["a"].last_commit_ms == log.now_ms
    log.now_ms += 100_000
    log.epoch(2, {"a": [0, 1], "b": [2, 3]})
    log.commit(3, 10)
    assert group.activities["b"].last_commit_ms == log.now_ms
    first, second = changes(log.events())
    assert (first.session_timeout_ms, second.moved) == (42_000, 2)
    assert first_kinds([first, second]) == [FindingKind.MEMBER_JOINED] * 2


@pytest.mark.parametrize("known_again", [False, True])
def test_partitions_that_were_added_to_a_topic_of_a_streams_group_are_told_before_the_next_look(
    known_again: bool,
) -> None:
    known = facts()
    known.partition_counts = {"t": 2}
    log = StreamsLog(known)
    log.topology(0, "t")
    log.epoch(1, {"a": [0, 1]})
    log.now_ms += 100_000
    log.epoch(2, {"a": [0, 1, 2, 3]})
    if known_again:
        known.partition_counts = {"t": 4}
    log.now_ms += 7_200_000
    log.epoch(3, {"a": [0, 1], "b": [2, 3]})
    assert [each.grown for each in changes(log.events())] == [(), (Grown("t", 2, 4),), ()]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"t": 4, "u": 2}, {"t": (0, 3), "u": (0,)}),
        ({"t": 2, "u": 1}, {"t": (0, 3), "u": (0, 3)}),  # One of them has grown, or both.
        ({"u": 2}, {"t": (0, 3), "u": (0,)}),  # The other one may have more.
        ({}, {"t": (0, 3), "u": (0, 3)}),
    ],
)
def test_tasks_are_cut_only_where_another_topic_has_so_many_partitions(
    counts: dict[str, int], expected: dict[str, tuple[int, ...]]
) -> None:
    topology = {"0": ("t", "u"), "1": ("v",)}
    assert partitions_of({"0": (3, 0)}, topology, counts) == expected
    assert partitions_of({"0": (0,), "1": (7,)}, topology, {**counts, "v": 5})["v"] == (7,)


def test_which_topic_of_a_streams_group_has_grown_is_certain_only_by_the_cluster() -> None:
    known = facts()
    known.partition_counts = {"t": 2, "u": 2}
    log = StreamsLog(known)
    log.topology(0, "t", "u")
    log.epoch(1, {"a": [0, 1]})
    log.now_ms += 100_000
    log.epoch(2, {"a": [0, 1, 2, 3]})
    events = log.events()
    assert [each.likelihood for each in explain(events)[-1].findings] == [Likelihood.POSSIBLE] * 2
    seen = TopicsChanged(at_ms=log.now_ms + 5_000, since_ms=log.now_ms - 5_000, grown=(Grown("t", 2, 4),))
    found = {each.about: each.likelihood for each in explain([*events, seen])[-1].findings}
    assert found == {"t": Likelihood.CERTAIN, "u": Likelihood.POSSIBLE}


@pytest.mark.parametrize("told_first", [False, True])
def test_a_share_group_uses_the_name_of_a_topic_that_it_learns_later(told_first: bool) -> None:
    known = facts()
    known.topic_names = {}
    log = ShareLog(known)
    log.epoch(1, {"a": [0, 1, 2, 3], "b": [0, 1]})
    if told_first:
        log.now_ms += 61_000
        log.records.settle(log.now_ms)
    else:
        log.epoch(2, {"a": [0, 1, 2, 3], "b": [0, 1]})
    known.topic_names[TOPIC_ID] = "t"
    log.records.name_topics()
    if told_first:
        assert log.group.snapshot.owned()["b"] == [("t", 0), ("t", 1)]
    log.now_ms += 1_000
    log.epoch(3, {"a": [0, 1, 2], "b": [0, 1, 3]})
    assert changes(log.events())[-1].moved == 1


def test_a_member_of_a_streams_group_that_committed_shortly_before_has_left() -> None:
    log = StreamsLog(facts())
    log.topology(0, "t")
    log.epoch(1, {"a": [0, 1], "b": [2, 3]})
    for _ in range(20):
        log.now_ms += 1_000
        log.commit(0, log.now_ms)
    log.epoch(2, {"b": [0, 1, 2, 3]}, gone="a")
    finding = explain(log.events())[-1].findings[0]
    assert (finding.kind, finding.likelihood) == (FindingKind.MEMBER_LEFT, Likelihood.LIKELY)


def test_a_new_topology_is_told() -> None:
    log = StreamsLog(facts())
    log.topology(0, "t")
    log.epoch(1, {"a": [0]})
    log.now_ms += 100_000
    log.topology(1, "t", "u")
    log.epoch(2, {"a": [0]})
    assert [each.topology_epoch for each in changes(log.events())] == [0, 1]
    log.now_ms += 100_000
    log.epoch(3, {"a": [0], "b": [1]})
    (last,) = changes(log.events())
    assert last.topology_epoch == 0
    log.now_ms += 100_000
    log.topology(2, "t")
    log.epoch(4, {"a": [0], "b": [1]})
    assert first_kinds(log.events()) == [FindingKind.TOPOLOGY_CHANGED]


@pytest.mark.parametrize("kind", [ShareLog, StreamsLog])
def test_a_stored_group_goes_on_as_what_it_was(kind: type[ShareLog | StreamsLog]) -> None:
    log = kind(facts())
    if isinstance(log, StreamsLog):
        log.topology(3, "t", "u")
    log.epoch(1, {"a": [0, 1]})
    ((_, state, events),) = log.records.drain()
    assert state is not None
    assert len(events) == 1
    before = log.records.groups["g"]
    log.records = Records(log.records.facts)
    log.records.restore("g", state)
    after = log.records.groups["g"]
    assert (after.kind, after.snapshot) == (before.kind, before.snapshot)
    log.now_ms += 100_000
    log.epoch(2, {"a": [0], "b": [1]})
    (change,) = changes(log.events())
    assert [each.member_id for each in change.joined] == ["b"]
    assert change.topology_epoch == 0


def test_a_group_that_becomes_another_kind_follows_the_new_kind() -> None:
    log = ShareLog(facts())
    log.epoch(1, {"a": [0]})
    log.epoch(2, {}, gone="a")
    log.write(share.ShareGroupMetadataKey(group_id="g"), None)
    log.events()
    log.write(
        consumer.ConsumerGroupMetadataKey(group_id="g"),
        consumer.ConsumerGroupMetadataValue(epoch=1, metadata_hash=1),
    )
    log.write(share.ShareGroupMemberMetadataKey(group_id="g", member_id="a"), None)
    assert log.records.groups["g"].kind == "consumer"
