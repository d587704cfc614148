"""A follower: where it fetches from, where it cuts, what it lets consumers see."""

from uuid import UUID

from kohort.broker.metadata.partition_state import PartitionState
from kohort.broker.replication import (
    Authority,
    Diverging,
    FetchFrom,
    Following,
    Restart,
    Truncate,
    check_follower_read,
)
from kohort.broker.replication.replica_fetch import answer_to
from kohort.broker.replication.test_leadership import Log
from kohort.protocol.errors import ErrorCode
from kohort.storage.leader_epochs import LeaderEpochs

FOLDER = UUID(int=1)


def log(*epochs: tuple[int, int], end: int, synced: int | None = None) -> Log:
    return Log(end, end if synced is None else synced, epochs=LeaderEpochs(epochs))


def following(own: Log, high_watermark: int = 0, leader_epoch: int = 5) -> Following:
    state = PartitionState(0, 1, leader_epoch, (1, 2), (1, 2))
    return Following(state, own, high_watermark=high_watermark)


def test_a_follower_fetches_from_the_end_of_its_synced_log() -> None:
    assert following(log((3, 0), end=10)).next_fetch() == FetchFrom(10, 3, 5, 0)
    assert following(log(end=0)).next_fetch() == FetchFrom(0, -1, 5, 0)
    assert following(log((3, 0), end=10, synced=9)).next_fetch() is None


def test_a_diverging_log_is_truncated_at_the_end_of_the_leaders_epoch() -> None:
    found = following(log((3, 0), end=10)).diverged(Diverging(3, 8))
    assert found == Truncate(8)


def test_an_epoch_unknown_to_the_leader_is_truncated_and_an_older_one_is_compared() -> None:
    own = log((1, 0), (4, 6), end=10)
    assert following(own).diverged(Diverging(3, 9)) == Truncate(6)


def test_two_logs_become_equal_for_any_epochs() -> None:
    leader = log((1, 0), (2, 4), (5, 7), (7, 9), end=12)
    own = log((1, 0), (3, 4), (4, 8), (6, 9), end=14)
    follower = following(own, leader_epoch=7)
    for _ in range(10):
        at = follower.next_fetch()
        assert at is not None
        answer = answer_to(at, leader)
        if answer is None:
            break
        assert isinstance(answer, Diverging)
        cut = follower.diverged(answer).offset
        assert cut <= own.log_end_offset
        own.log_end_offset = own.flushed_offset = cut
        own.epochs.truncate_from(cut)
        follower.truncated()
    assert (own.log_end_offset, own.epochs.entries) == (4, ((1, 0),))


def test_consumers_see_no_more_than_is_on_the_disk_and_committed() -> None:
    own = log((3, 0), end=10)
    follower = following(own, high_watermark=4)
    follower.answered(12, 0)
    assert follower.synced()
    assert follower.high_watermark == 10
    assert check_follower_read(follower, 10) is None
    assert check_follower_read(follower, 11) is ErrorCode.OFFSET_NOT_AVAILABLE
    own.log_start_offset = 3
    assert check_follower_read(follower, 2) is ErrorCode.OFFSET_OUT_OF_RANGE
    follower.answered(8, 0)
    assert not follower.synced()
    assert follower.high_watermark == 10


def test_a_log_without_any_of_the_leaders_offsets_restarts() -> None:
    follower = following(log((3, 0), end=10))
    assert follower.out_of_range(20, 30) == Restart(20)
    assert follower.out_of_range(0, 8) == Truncate(8)
    assert follower.out_of_range(5, 30) is None


def test_a_broker_acts_for_nine_tenths_of_its_lease_from_the_request() -> None:
    authority = Authority(1, 10_000, FOLDER)
    assert not authority.may_act(0)
    authority.registered(77, 1_000, [])
    assert authority.may_act(9_999)
    assert not authority.may_act(10_000)
    authority.renewed(5_000)
    authority.renewed(2_000)  # An answer that comes late takes nothing back.
    assert authority.may_act(13_999)
    authority.lost()
    assert not authority.may_act(5_001)


def test_leadership_of_an_earlier_registration_needs_a_new_election() -> None:
    inherited = PartitionState(0, 1, 5, (1, 2), (1, 2))
    other = PartitionState(1, 2, 5, (1, 2), (1, 2))
    authority = Authority(1, 10_000, FOLDER)
    authority.registered(77, 0, [("a", inherited), ("b", other)])
    anew = PartitionState(0, 1, 6, (1, 2), (1, 2))
    assert not authority.may_lead("a", inherited, 1)
    assert authority.is_inherited("a", inherited)
    assert authority.may_lead("a", anew, 1)
    assert not authority.may_lead("a", anew, 9_000)
    assert not authority.may_lead("b", other, 1)


def test_a_broker_that_returned_empty_does_not_lead_with_its_old_directory_id() -> None:
    state = PartitionState(0, 1, 6, (2, 1), (1,), directories=(UUID(int=2), FOLDER))
    same, emptied = Authority(1, 10_000, FOLDER), Authority(1, 10_000, UUID(int=9))
    for authority in (same, emptied):
        authority.registered(77, 0, [])
    assert same.may_lead("a", state, 1)
    assert not emptied.may_lead("a", state, 1)
