"""A follower's fetch session against the broker's own: the leader knows at each fetch what is wanted."""

from random import Random
from uuid import UUID

import pytest

from kohort.broker.cluster.follower_session import FollowerSession
from kohort.broker.handlers.data.fetch_sessions import FetchSessions
from kohort.broker.metadata import PartitionKey
from kohort.broker.replication import FetchFrom
from kohort.protocol.errors import ApiError
from kohort.protocol.messages.fetch import FetchRequest

VERSION = 17
KEYS = [(UUID(int=topic), index) for topic in (1, 2, 3) for index in range(3)]


class Leader:
    """Answers fetches with no more than their sessions."""

    def __init__(self, slots: int = 10) -> None:
        self._sessions = FetchSessions(slots)
        self.asked: dict[PartitionKey, FetchFrom] = {}

    def answer(self, request: FetchRequest) -> int:
        """Return the session's id, 0 where there is none. Raises: ApiError."""
        context = self._sessions.begin(request, VERSION, 0)
        self.asked = {
            (each.topic_id, each.index): FetchFrom(
                each.fetch_offset, each.last_fetched_epoch, each.current_leader_epoch
            )
            for each in context.targets
        }
        if context.session is not None:
            return context.session.session_id
        made = self._sessions.create(context, 0) if context.is_new and context.targets else None
        return 0 if made is None else made.session_id

    def forget_all(self) -> None:
        self._sessions = FetchSessions(10)


def want(session: FollowerSession, wanted: dict[PartitionKey, FetchFrom]) -> None:
    for key in KEYS:
        session.want(key, wanted.get(key))


def ask(session: FollowerSession, leader: Leader, wanted: dict[PartitionKey, FetchFrom]) -> FetchRequest:
    want(session, wanted)
    request = session.request(7, 70)
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (7, 70)
    session.answered(leader.answer(FetchRequest.decode(request.encode(VERSION), VERSION)))
    assert leader.asked == wanted
    return request


@pytest.mark.parametrize("seed", range(20))
def test_the_leader_knows_the_fetch_offsets_after_each_fetch(seed: int) -> None:
    dice, session, leader = Random(seed), FollowerSession(500, 10_000, 1_000), Leader()
    wanted: dict[PartitionKey, FetchFrom] = {KEYS[0]: FetchFrom(0)}
    for _ in range(100):
        for key in dice.sample(KEYS, 3):
            if dice.random() < 0.3 and len(wanted) > 1:
                wanted.pop(key, None)
            else:
                wanted[key] = FetchFrom(dice.randrange(100), dice.randrange(5), dice.randrange(5))
        ask(session, leader, wanted)


def test_unchanged_partitions_are_not_sent_again() -> None:
    session, leader = FollowerSession(500, 10_000, 1_000), Leader()
    wanted = {key: FetchFrom(0) for key in KEYS}
    assert sum(len(topic.partitions) for topic in ask(session, leader, wanted).topics) == len(KEYS)
    wanted[KEYS[4]] = FetchFrom(9)
    (topic,) = ask(session, leader, wanted).topics
    assert [(each.partition, each.fetch_offset) for each in topic.partitions] == [(KEYS[4][1], 9)]
    assert ask(session, leader, wanted).topics == ()


def test_without_a_session_slot_every_fetch_names_all_partitions() -> None:
    session, leader = FollowerSession(500, 10_000, 1_000), Leader(slots=0)
    wanted = {key: FetchFrom(0) for key in KEYS}
    for _ in range(3):
        assert len(ask(session, leader, wanted).topics) == 3


def test_a_session_that_the_leader_forgot_starts_again() -> None:
    session, leader = FollowerSession(500, 10_000, 1_000), Leader()
    wanted = {key: FetchFrom(0) for key in KEYS}
    ask(session, leader, wanted)
    leader.forget_all()
    with pytest.raises(ApiError):
        leader.answer(session.request(7, 70))
    session.reset()
    assert len(ask(session, leader, wanted).topics) == 3
