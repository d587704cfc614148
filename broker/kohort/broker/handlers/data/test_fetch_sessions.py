import random
from uuid import UUID

import pytest

from kohort.broker.handlers.data.fetch_sessions import (
    EVICTION_MS,
    MAX_EPOCH,
    FetchContext,
    FetchSession,
    FetchSessions,
    next_epoch,
)
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

V_NAMES = 12
V_IDS = 13
A = UUID(int=1)


def request(
    *indexes: int, session_id: int = 0, epoch: int = 0, offset: int = 0, forget: tuple[int, ...] = ()
) -> FetchRequest:
    partitions = tuple(
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=100) for index in indexes
    )
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=(FetchTopic(topic="a", topic_id=A, partitions=partitions),) if indexes else (),
        forgotten_topics_data=(ForgottenTopic(topic="a", topic_id=A, partitions=forget),) if forget else (),
    )


def begin_session(sessions: FetchSessions, *indexes: int, now_ms: int = 0) -> FetchSession:
    context = sessions.begin(request(*indexes), V_NAMES, now_ms)
    assert context.is_new
    session = sessions.create(context, now_ms)
    assert session is not None
    return session


def indexes_of(context: FetchContext) -> list[int]:
    return [target.index for target in context.targets]


def refused(sessions: FetchSessions, asked: FetchRequest, version: int = V_NAMES) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        sessions.begin(asked, version, 0)
    return caught.value.code


def test_a_request_without_a_session_creates_none() -> None:
    sessions = FetchSessions(10)
    context = sessions.begin(request(0, 1, epoch=-1), V_NAMES, 0)
    assert (indexes_of(context), context.is_new, context.session) == ([0, 1], False, None)
    assert len(sessions) == 0


def test_a_session_keeps_its_partitions_and_offsets() -> None:
    sessions = FetchSessions(10)
    session = begin_session(sessions, 0, 1)
    context = sessions.begin(request(1, 2, session_id=session.session_id, epoch=1, offset=7), V_NAMES, 0)
    assert [(each.index, each.fetch_offset) for each in context.targets] == [(0, 0), (1, 7), (2, 7)]
    assert session.epoch == 2


def test_forgotten_partitions_are_fetched_no_more() -> None:
    sessions = FetchSessions(10)
    session = begin_session(sessions, 0, 1, 2)
    context = sessions.begin(request(session_id=session.session_id, epoch=1, forget=(0, 2)), V_NAMES, 0)
    assert indexes_of(context) == [1]


def test_session_that_forgets_everything_ends() -> None:
    sessions = FetchSessions(10)
    session = begin_session(sessions, 0)
    context = sessions.begin(request(session_id=session.session_id, epoch=1, forget=(0,)), V_NAMES, 0)
    assert (indexes_of(context), context.session, len(sessions)) == ([], None, 0)


def test_unknown_session_is_not_found() -> None:
    assert refused(FetchSessions(10), request(session_id=5, epoch=1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_epoch_that_does_not_follow_is_invalid() -> None:
    sessions = FetchSessions(10)
    session = begin_session(sessions, 0)
    asked = request(session_id=session.session_id, epoch=2)
    assert refused(sessions, asked) is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_session_of_names_refuses_topic_ids() -> None:
    sessions = FetchSessions(10)
    session = begin_session(sessions, 0)
    asked = request(session_id=session.session_id, epoch=1)
    assert refused(sessions, asked, V_IDS) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


@pytest.mark.parametrize("epoch", [0, -1])
def test_full_request_ends_the_session_that_it_names(epoch: int) -> None:
    sessions = FetchSessions(10)
    session = begin_session(sessions, 0)
    sessions.begin(request(0, session_id=session.session_id, epoch=epoch), V_NAMES, 0)
    assert len(sessions) == 0


def test_a_later_request_makes_the_previous_one_stale() -> None:
    sessions = FetchSessions(10)
    session = begin_session(sessions, 0)
    first = sessions.begin(request(session_id=session.session_id, epoch=1), V_NAMES, 0)
    assert not first.is_stale
    sessions.begin(request(session_id=session.session_id, epoch=2), V_NAMES, 0)
    assert first.is_stale


def test_a_served_partition_moves_to_the_end() -> None:
    session = begin_session(FetchSessions(10), 0, 1, 2)
    session.move_to_end(next(iter(session.targets.values())))
    assert [target.index for target in session.targets.values()] == [1, 2, 0]


def test_a_full_cache_gives_no_session_to_new_clients() -> None:
    sessions = FetchSessions(1)
    begin_session(sessions, 0)
    assert sessions.create(sessions.begin(request(0, 1), V_NAMES, 0), EVICTION_MS) is None


def test_a_session_unused_for_long_is_evicted() -> None:
    sessions = FetchSessions(1)
    old = begin_session(sessions, 0, 1, 2)
    new = sessions.create(sessions.begin(request(0), V_NAMES, 0), EVICTION_MS + 1)
    assert new is not None
    assert [each.session_id for each in sessions] == [new.session_id] != [old.session_id]
    assert sessions.evictions == 1


def test_a_larger_session_evicts_an_old_smaller_one_in_use() -> None:
    sessions = FetchSessions(2)
    small = begin_session(sessions, 0, now_ms=0)
    large = begin_session(sessions, 0, 1, 2, now_ms=0)
    now_ms = EVICTION_MS + 1
    for each in (small, large):
        sessions.begin(request(session_id=each.session_id, epoch=1), V_NAMES, now_ms)
    assert sessions.create(sessions.begin(request(0), V_NAMES, now_ms), now_ms) is None
    assert sessions.create(sessions.begin(request(0, 1), V_NAMES, now_ms), now_ms) is not None
    assert small not in list(sessions)
    assert large in list(sessions)


def test_without_slots_there_are_no_sessions() -> None:
    sessions = FetchSessions(0)
    assert sessions.create(sessions.begin(request(0), V_NAMES, 0), 0) is None


def test_an_id_in_use_is_drawn_again() -> None:
    drawn = iter([5, 5, 6])
    sessions = FetchSessions(10, lambda: next(drawn))
    assert [begin_session(sessions, 0).session_id for _ in range(2)] == [5, 6]


def test_epochs_wrap_to_one() -> None:
    assert [next_epoch(0), next_epoch(1), next_epoch(MAX_EPOCH)] == [1, 2, 1]


ALICE, MALLORY = ("User:alice", "/10.0.0.1"), ("User:mallory", "/10.0.0.1")


@pytest.mark.parametrize("stranger", [MALLORY, ("User:alice", "/10.0.0.2")])
@pytest.mark.parametrize("epoch", [-1, 0, 1, 2])
def test_a_session_of_another_user_cannot_be_ended_or_used(stranger: tuple[str, str], epoch: int) -> None:
    sessions = FetchSessions(10)
    session = sessions.create(sessions.begin(request(0, 1), V_NAMES, 0, ALICE), 0)
    assert session is not None
    asked = request(2, session_id=session.session_id, epoch=epoch, forget=(0, 1))
    if epoch > 0:  # As of a session that there is not, whatever its epoch.
        with pytest.raises(ApiError) as raised:
            sessions.begin(asked, V_NAMES, 0, stranger)
        assert raised.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    else:
        sessions.begin(asked, V_NAMES, 0, stranger)
    assert sessions.get(session.session_id, stranger) is None
    sessions.forget(session.session_id, stranger)
    context = sessions.begin(request(session_id=session.session_id, epoch=1), V_NAMES, 0, ALICE)
    assert [each.index for each in context.targets] == [0, 1]


def test_numbers_of_sessions_cannot_be_foretold() -> None:
    numbers = []
    for _ in range(2):
        random.seed(7)
        numbers.append([begin_session(FetchSessions(10), 0).session_id for _ in range(3)])
    assert numbers[0] != numbers[1]
