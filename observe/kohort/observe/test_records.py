import re
from uuid import UUID

import pytest

from kohort.broker.explain.findings import FindingKind
from kohort.broker.explain.observed.events import (
    AnyObserved,
    GroupChanged,
    Grown,
    OffsetsRemoved,
    OffsetsSet,
    OwnedPartition,
    StaticMemberReturned,
)
from kohort.broker.explain.observed.explaining import explain
from kohort.observe.facts import Facts
from kohort.observe.records import Records
from kohort.protocol.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from kohort.protocol.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentPartitions,
    TargetPartitions,
)
from kohort.protocol.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from kohort.protocol.schema import Message

NOW = 1_800_000_000_000
TOPIC_ID = UUID(int=7)
_UUID = re.compile("-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def client_of(member_id: str) -> str:
    """Return the client id of a member whose id is that and a UUID, or CLIENT~NUMBER."""
    return _UUID.sub("", member_id).partition("~")[0]


class Log:
    """Writes records as a coordinator does, and gives them to `Records`."""

    def __init__(self, facts: Facts | None = None) -> None:
        self.now_ms = NOW
        self.records = Records(facts or Facts(topic_names={TOPIC_ID: "t"}))

    def write(self, key: Message, value: Message | None) -> None:
        self.records.take(encode_key(key), None if value is None else encode_value(value), self.now_ms)

    def generation(self, number: int, members: dict[str, list[int]], **other: str) -> None:
        told = tuple(
            MemberMetadata(
                member_id=name,
                group_instance_id=other.get("instance"),
                client_id=client_of(name),
                client_host="/10.0.0.1",
                rebalance_timeout=300_000,
                session_timeout=45_000,
                subscription=ConsumerProtocolSubscription(
                    topics=(other.get("topic", "t"),)
                ).encode_versioned(),
                assignment=ConsumerProtocolAssignment(
                    assigned_partitions=(TopicPartitions(topic="t", partitions=tuple(owned)),)
                ).encode_versioned(),
            )
            for name, owned in members.items()
        )
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=number,
            protocol=other.get("protocol", "range") if members else None,
            leader=next(iter(members), None),
            current_state_timestamp=self.now_ms,
            members=told,
        )
        self.write(GroupMetadataKey(group="g"), value)

    def commit(self, partition: int, offset: int, topic: str = "t") -> None:
        value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=self.now_ms, topic_id=TOPIC_ID)
        self.write(OffsetCommitKey(group="g", topic=topic, partition=partition), value)

    def remove(self, partition: int) -> None:
        self.write(OffsetCommitKey(group="g", topic="t", partition=partition), None)

    def events(self, *, settled: bool = True) -> list[AnyObserved]:
        if settled:
            self.records.settle(self.now_ms + 60_000)
        return [event for _, _, events in self.records.drain() for event in events]


def test_generations_differ_by_members_and_moves() -> None:
    log = Log()
    log.generation(1, {"a": [0, 1]})
    log.now_ms += 1_000
    log.generation(2, {"a": [0], "b": [1]})
    first, second = log.events()
    assert isinstance(first, GroupChanged)
    assert isinstance(second, GroupChanged)
    assert [each.member_id for each in first.joined] == ["a"]
    assert [each.member_id for each in second.joined] == ["b"]
    assert (second.moved, second.gone, second.members) == (1, (), 2)


def test_members_with_one_subscription_share_it_in_memory() -> None:
    log = Log()
    log.generation(1, {"a": [0], "b": [1]})
    one, other = log.records.groups["g"].snapshot.members.values()
    assert one.topics == ("t",)
    assert one.topics is other.topics
    ((_, state, _),) = log.records.drain()
    assert state is not None
    log.records.restore("g", state)
    again = log.records.groups["g"]
    one, other = again.snapshot.members.values()
    assert one.topics == ("t",)
    assert one.topics is other.topics
    assert again.activities["a"].member is one


def test_members_of_a_group_with_epochs_share_a_subscription_as_well() -> None:
    log = Log()
    epoch(log, 1, {"a": [0], "b": [1]})
    ((_, state, _),) = log.records.drain()
    assert state is not None
    for restored in (False, True):
        if restored:
            log.records.restore("g", state)
        one, other = log.records._epochs["g"].state.members.values()
        assert one.topics == ("t",)
        assert one.topics is other.topics


def test_a_group_that_is_met_in_the_middle_has_no_newcomers() -> None:
    log = Log()
    log.generation(17, {"a": [0, 1]})
    assert log.events() == []


def test_a_new_group_whose_first_generation_began_anew_has_newcomers() -> None:
    log = Log(Facts(knows_all_groups=True))
    log.generation(2, {"a": [0], "b": [1]})
    (event,) = log.events()
    assert isinstance(event, GroupChanged)
    assert [each.member_id for each in event.joined] == ["a", "b"]


def test_a_new_group_without_members_is_nothing_to_tell() -> None:
    log = Log(Facts(knows_all_groups=True))
    log.generation(3, {})
    assert log.events() == []
    log.generation(4, {"a": [0]})
    (event,) = log.events()
    assert explain([event])[0].findings[0].kind is FindingKind.MEMBER_JOINED


def test_a_departure_knows_the_last_commit_and_the_usual_interval() -> None:
    log = Log()
    log.generation(1, {"a": [0], "b": [1]})
    for step in range(10):
        log.now_ms += 5_000
        log.commit(0, 100 + step)
        log.commit(1, 7)
    last = log.now_ms
    log.now_ms += 46_000
    log.generation(2, {"b": [0, 1]})
    change = log.events()[-1]
    assert isinstance(change, GroupChanged)
    (departure,) = change.gone
    assert (departure.last_commit_ms, departure.commit_interval_ms) == (last, 5_000)
    assert departure.last_progress_ms == last
    assert departure.owned == (OwnedPartition("t", 0, 109),)
    assert change.advanced == 2


def test_a_member_that_commits_the_same_offset_makes_no_progress() -> None:
    log = Log()
    log.generation(1, {"a": [0]})
    for _ in range(4):
        log.now_ms += 5_000
        log.commit(0, 100)
    first_commit = NOW + 5_000
    log.generation(2, {})
    (departure,) = log.events()[-1].gone  # type: ignore[union-attr]  # It is a GroupChanged.
    assert departure.last_progress_ms == first_commit
    assert departure.last_commit_ms == log.now_ms


def test_partitions_that_were_never_assigned_are_new_but_not_those_of_a_cooperative_step() -> None:
    log = Log()
    log.generation(1, {"a": [0, 1, 2, 3]}, protocol="cooperative-sticky")
    log.generation(2, {"a": [0, 1], "b": []}, protocol="cooperative-sticky")
    log.generation(3, {"a": [0, 1], "b": [2, 3]}, protocol="cooperative-sticky")
    log.generation(4, {"a": [0, 1, 4], "b": [2, 3, 5]}, protocol="cooperative-sticky")
    changes = [each for each in log.events() if isinstance(each, GroupChanged)]
    assert [each.grown for each in changes] == [(), (), (), (Grown("t", 4, 6),)]


def test_a_static_member_with_another_id_in_the_same_generation_has_returned() -> None:
    log = Log()
    log.generation(1, {"a~1": [0]}, instance="one")
    log.now_ms += 5_000
    log.commit(0, 7)
    log.now_ms += 300
    log.generation(1, {"a~2": [0]}, instance="one")
    event = log.events()[-1]
    assert isinstance(event, StaticMemberReturned)
    assert (event.former_member_id, event.member.member_id) == ("a~1", "a~2")
    assert event.former_commit_ms == NOW + 5_000


def test_offsets_set_without_members_are_one_event() -> None:
    log = Log()
    log.generation(1, {"a": [0, 1]})
    log.commit(0, 50)
    log.commit(1, 60)
    log.generation(2, {})
    log.now_ms += 10_000
    log.commit(0, 0)
    log.commit(1, 0)
    event = log.events()[-1]
    assert isinstance(event, OffsetsSet)
    assert (event.partitions, event.backward, event.members, event.has_had_members) == (2, 2, 0, True)


def test_a_consumer_without_members_that_goes_on_is_no_reset() -> None:
    log = Log()
    for step in range(5):
        log.now_ms += 5_000
        log.commit(0, step)
    assert log.events() == []


def offsets_set(log: Log) -> list[OffsetsSet]:
    return [each for each in log.events() if isinstance(each, OffsetsSet)]


def test_a_consumer_that_assigns_partitions_is_told_a_few_times_and_not_at_each_commit() -> None:
    log = Log()
    log.generation(1, {"a": [0, 1]})
    log.commit(0, 50)
    log.generation(2, {})
    for step in range(1_000):
        log.now_ms += 5_000
        log.commit(0, 51 + step)
        log.records.settle(log.now_ms)
    assert len(offsets_set(log)) == 2
    log.now_ms += 5_000
    log.commit(0, 7)  # It is told at once when a tool takes it back ...
    (reset,) = offsets_set(log)
    assert (reset.backward, reset.times) == (1, 1)
    log.now_ms += 100_000
    log.commit(0, 900)  # ... and forward again.
    assert len(offsets_set(log)) == 1


@pytest.mark.parametrize("members", [{}, {"a": [0]}])
def test_offsets_that_go_back_again_and_again_are_told_ever_more_seldom(
    members: dict[str, list[int]],
) -> None:
    log = Log()
    log.generation(1, members)
    for step in range(3_600):
        log.now_ms += 2_000
        log.commit(0, 100 + step // 2 - 50 * (step % 2))
        log.records.settle(log.now_ms)
    told = offsets_set(log)
    assert 2 <= len(told) <= 12
    assert sum(each.times for each in told) >= 900
    assert all(each.backward == 1 for each in told)


def test_a_group_that_goes_takes_nothing_with_it_that_is_not_told_yet() -> None:
    log = Log()
    log.generation(1, {"a": [0]})
    log.commit(0, 100)
    log.generation(2, {})
    for offset in (50, 10):  # The second is held, in case that more follow.
        log.now_ms += 5_000
        log.commit(0, offset)
        log.records.settle(log.now_ms + 2_000)
    log.events(settled=False)
    log.remove(0)
    log.write(GroupMetadataKey(group="g"), None)
    log.records.settle(log.now_ms + 2_000)
    ((_, state, told),) = log.records.drain()
    assert state is None
    assert [type(each) for each in told] == [OffsetsRemoved, OffsetsSet]
    assert not log.records.groups


def test_offsets_removed_together_are_one_event_with_the_age_of_the_newest() -> None:
    log = Log(Facts(offsets_retention_ms=60_000))
    log.generation(1, {"a": [0, 1]})
    log.commit(0, 50)
    log.commit(1, 60)
    log.generation(2, {})
    log.now_ms += 61_000
    log.remove(0)
    log.remove(1)
    log.write(GroupMetadataKey(group="g"), None)
    event = log.events()[-1]
    assert isinstance(event, OffsetsRemoved)
    assert (event.partitions, event.topics, event.kept, event.retention_ms) == (2, ("t",), 0, 60_000)
    assert event.newest_commit_ms == event.empty_since_ms == NOW
    assert event.is_group_removed
    assert not event.is_by_broker
    assert log.records.groups == {}


def epoch(log: Log, number: int, members: dict[str, list[int]], *, hashed: int = 1, gone: str = "") -> None:
    """Write an epoch: members, epoch, targets, and the epoch of the targets, as a coordinator does."""
    if gone:
        log.write(ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id=gone), None)
        log.write(ConsumerGroupMemberMetadataKey(group_id="g", member_id=gone), None)
    for name in members:
        value = ConsumerGroupMemberMetadataValue(
            instance_id=None,
            rack_id=None,
            client_id=name,
            client_host="/10.0.0.1",
            subscribed_topic_names=("t",),
            subscribed_topic_regex=None,
            rebalance_timeout_ms=300_000,
            server_assignor=None,
            classic_member_metadata=None,
        )
        log.write(ConsumerGroupMemberMetadataKey(group_id="g", member_id=name), value)
    log.write(
        ConsumerGroupMetadataKey(group_id="g"),
        ConsumerGroupMetadataValue(epoch=number, metadata_hash=hashed),
    )
    for name, owned in members.items():
        target = ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=(TargetPartitions(topic_id=TOPIC_ID, partitions=tuple(owned)),)
        )
        log.write(ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id=name), target)
    if members:
        log.write(
            ConsumerGroupTargetAssignmentMetadataKey(group_id="g"),
            ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=number),
        )


def test_group_epochs_differ_by_members_and_partitions() -> None:
    log = Log(Facts(topic_names={TOPIC_ID: "t"}, session_timeout_ms=45_000))
    epoch(log, 1, {"a": [0, 1]})
    epoch(log, 2, {"a": [0], "b": [1]})
    epoch(log, 3, {"a": [0, 1]}, gone="b")
    epoch(log, 4, {"a": [0, 1, 2]}, hashed=2)
    epoch(log, 5, {}, hashed=2, gone="a")
    joined, second, left, grown, emptied = (each for each in log.events() if isinstance(each, GroupChanged))
    assert joined.is_by_broker
    assert [each.member_id for each in (*joined.joined, *second.joined)] == ["a", "b"]
    assert [each.member.member_id for each in left.gone] == ["b"]
    assert left.session_timeout_ms == 45_000
    assert grown.grown == (Grown("t", 2, 3),)
    assert grown.is_metadata_changed
    assert not left.is_metadata_changed
    assert [each.member.member_id for each in emptied.gone] == ["a"]


def test_offsets_of_a_group_with_epochs_are_removed_as_such() -> None:
    log = Log()
    epoch(log, 1, {"a": [0]})
    log.commit(0, 5)
    log.remove(0)
    event = log.events()[-1]
    assert isinstance(event, OffsetsRemoved)
    assert event.is_by_broker


def test_commits_count_for_the_member_that_has_the_partition_now() -> None:
    log = Log()
    epoch(log, 1, {"a": [0], "b": [1]})
    log.commit(1, 5)
    owned = CurrentPartitions(topic_id=TOPIC_ID, partitions=(1,), assignment_epochs=())
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=1,
        previous_member_epoch=0,
        state=0,
        assigned_partitions=(owned,),
        partitions_pending_revocation=(),
    )
    log.write(ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="b"), value)
    log.now_ms += 5_000
    log.commit(1, 9)
    committed_ms = log.now_ms
    epoch(log, 2, {"a": [0, 1]}, gone="b")
    change = log.events()[-1]
    assert isinstance(change, GroupChanged)
    assert [each.last_commit_ms for each in change.gone] == [committed_ms]


def test_a_topic_whose_name_is_not_known_yet_gets_it_later() -> None:
    log = Log(Facts(knows_all_groups=True))
    epoch(log, 1, {"a": [0, 1]})
    assert log.events() == []  # It waits for the name ...
    log.records.facts.topic_names[TOPIC_ID] = "t"
    log.records.name_topics()
    (told,) = log.events()
    assert isinstance(told, GroupChanged)
    assert log.records.groups["g"].snapshot.owners == {"t": {0: "a", 1: "a"}}
    epoch(log, 2, {"a": [0, 1, 2]})
    assert log.events()[0].grown == (Grown("t", 2, 3),)  # type: ignore[union-attr]  # It is a GroupChanged.


def test_a_topic_that_gets_its_name_after_the_change_was_told_has_it_from_then_on() -> None:
    log = Log(Facts())
    epoch(log, 1, {"a": [0, 1]})
    log.records.settle(NOW + 120_000)  # ... but not for ever: the topic may be gone.
    ((_, state, (told,)),) = log.records.drain()
    assert isinstance(told, GroupChanged)
    assert [*log.records.groups["g"].snapshot.owners] == [str(TOPIC_ID)]
    assert state is not None
    again = Log(Facts())
    again.records.restore("g", state)
    again.commit(0, 5)  # A commit of a newer Kafka says which topic has that id.
    again.records.name_topics()
    assert again.records.groups["g"].snapshot.owners == {"t": {0: "a", 1: "a"}}
    epoch(again, 2, {"a": [0, 1, 2]})
    assert again.events()[0].grown == (Grown("t", 2, 3),)  # type: ignore[union-attr]  # It is a GroupChanged.


@pytest.mark.parametrize("cut", range(1, 24))
def test_a_group_that_is_stored_anywhere_tells_the_same_afterwards(cut: int) -> None:
    def story(log: Log) -> list[tuple[bytes, bytes | None, int]]:
        taken: list[tuple[bytes, bytes | None, int]] = []
        take = log.records.take

        def note(key: bytes, value: bytes | None, at_ms: int, *, is_transactional: bool = False) -> None:
            taken.append((key, value, at_ms))
            take(key, value, at_ms, is_transactional=is_transactional)

        log.records.take = note  # type: ignore[method-assign]
        epoch(log, 1, {"a": [0, 1]})
        log.commit(0, 10)
        epoch(log, 2, {"a": [0], "b": [1]})
        log.now_ms += 9_000
        log.commit(0, 12)
        log.commit(1, 12)
        epoch(log, 3, {"a": [0, 1, 2]}, gone="b", hashed=9)
        log.commit(0, 3)
        log.now_ms += 9_000
        log.remove(1)
        return taken

    whole = Log()
    records = story(whole)
    expected = whole.events()
    first, told = Log(), []
    for each in records[:cut]:
        first.records.take(*each)
    second = Log(first.records.facts)
    for group_id, state, events in first.records.drain():
        told += events
        assert state is not None
        second.records.restore(group_id, state)
    for each in records[cut:]:
        second.records.take(*each)
    second.now_ms = whole.now_ms
    assert told + second.events() == expected


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\2", b"\0\1\0\5ab", b"\x7f\xff", b"\0\5\0\1g"])
def test_what_is_no_known_record_is_passed_over(key: bytes) -> None:
    log = Log()
    log.records.take(key, b"\0\0", NOW)
    log.records.take(key, b"", NOW)
    assert log.events() == []


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\4", b"\0\4\0\0\0\0\0\0\0"])
def test_an_offset_that_is_cut_short_is_passed_over_and_counted(value: bytes) -> None:
    log = Log()
    log.commit(0, 5)
    log.records.take(encode_key(OffsetCommitKey(group="g", topic="t", partition=0)), value, NOW)
    assert log.records.undecoded == 1
    assert log.records.groups["g"].places["t", 0].offset == 5
