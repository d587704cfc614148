"""Both ends of fetch sessions: what is asked anew, and what each answer does to the session."""

from uuid import UUID

import pytest

from kohort.client.fetch_session import FINAL_EPOCH, MAX_EPOCH, Asked, FetchSession
from kohort.client.values import TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchResponse,
    PartitionData,
)
from kohort.protocol.schema import ZERO_UUID

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
IDS = {"a": UUID(int=1), "b": UUID(int=2)}


def at(partition: TopicPartition, offset: int) -> FetchPartition:
    return FetchPartition(
        partition=partition.partition,
        fetch_offset=offset,
        partition_max_bytes=1_000,
        replica_directory_id=ZERO_UUID,
    )


def wanted(**offsets: int) -> dict[TopicPartition, FetchPartition]:
    return {
        TopicPartition(name[0], int(name[1])): at(TopicPartition(name[0], int(name[1])), offset)
        for name, offset in offsets.items()
    }


def answer(
    *partitions: TopicPartition,
    session_id: int = 77,
    code: int = 0,
    ids: dict[str, UUID] = IDS,
    throttle_ms: int = 0,
) -> FetchResponse:
    return FetchResponse(
        throttle_time_ms=throttle_ms,
        error_code=code,
        session_id=session_id,
        responses=tuple(
            FetchableTopicResponse(
                topic=each.topic,
                topic_id=ids.get(each.topic, ZERO_UUID),
                partitions=(
                    PartitionData(
                        partition_index=each.partition,
                        error_code=0,
                        high_watermark=0,
                        aborted_transactions=None,
                        records=None,
                    ),
                ),
            )
            for each in partitions
        ),
        node_endpoints=(),
    )


def named(asked: Asked) -> dict[str, list[int]]:
    return {each.topic: [part.partition for part in each.partitions] for each in asked.topics}


def forgotten(asked: Asked) -> list[tuple[str, UUID, tuple[int, ...]]]:
    return [(each.topic, each.topic_id, each.partitions) for each in asked.forgotten]


@pytest.fixture
def session() -> FetchSession:
    """A session that reads a-0, a-1 and b-0, each from offset 0."""
    session = FetchSession()
    session.ask(wanted(a0=0, a1=0, b0=0), IDS)
    session.take_response(answer(A0, A1, B0))
    return session


def test_the_first_request_names_all_partitions_and_requests_a_session() -> None:
    asked = FetchSession().ask(wanted(a0=5, b0=7), IDS)
    assert (asked.session_id, asked.epoch, asked.uses_topic_ids) == (0, 0, True)
    assert named(asked) == {"a": [0], "b": [0]}
    assert [each.topic_id for each in asked.topics] == [IDS["a"], IDS["b"]]


def test_later_requests_name_new_changed_and_forgotten_partitions(session: FetchSession) -> None:
    asked = session.ask(wanted(a0=0, a1=9, a2=0), IDS)
    assert (asked.session_id, asked.epoch) == (77, 1)
    assert named(asked) == {"a": [1, 2]}
    assert forgotten(asked) == [("b", IDS["b"], (0,))]


def test_a_request_without_changes_names_no_partitions(session: FetchSession) -> None:
    asked = session.ask(wanted(a0=0, a1=0, b0=0), IDS)
    assert (asked.topics, asked.forgotten) == ((), ())


def test_answers_contain_only_partitions_with_news(session: FetchSession) -> None:
    session.ask(wanted(a0=0, a1=0, b0=0), IDS)
    assert list(session.take_response(answer(B0))) == [B0]
    assert session.epoch == 2
    assert list(session.take_response(answer())) == []
    assert session.epoch == 3


def test_a_topic_with_a_new_id_is_another_topic(session: FetchSession) -> None:
    renewed = {**IDS, "b": UUID(int=9)}
    asked = session.ask(wanted(a0=0, a1=0, b0=0), renewed)
    assert [(each.topic_id, len(each.partitions)) for each in asked.topics] == [(UUID(int=9), 1)]
    assert forgotten(asked) == [("b", IDS["b"], (0,))]
    assert list(session.take_response(answer(B0, ids=renewed))) == [B0]


def test_epochs_wrap_to_one(session: FetchSession) -> None:
    session.epoch = MAX_EPOCH
    session.take_response(answer())
    assert session.epoch == 1


def test_a_session_that_the_broker_forgot_starts_again(session: FetchSession) -> None:
    session.ask(wanted(a0=1, a1=0, b0=0), IDS)
    refused = answer(code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session_id=0)
    assert session.take_response(refused) == {}
    asked = session.ask(wanted(a0=1, a1=0, b0=0), IDS)
    assert (asked.session_id, asked.epoch, named(asked)) == (0, 0, {"a": [0, 1], "b": [0]})


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR]
)
def test_an_invalid_session_is_replaced_by_the_next_request(session: FetchSession, code: ErrorCode) -> None:
    assert session.take_response(answer(code=code, session_id=0)) == {}
    asked = session.ask(wanted(a0=0), IDS)
    assert (asked.session_id, asked.epoch, named(asked), asked.forgotten) == (77, 0, {"a": [0]}, ())


def test_after_a_lost_answer_all_partitions_are_named_again(session: FetchSession) -> None:
    session.ask(wanted(a0=4), IDS)
    session.fail()
    asked = session.ask(wanted(a0=4), IDS)
    assert (asked.session_id, asked.epoch, named(asked)) == (77, 0, {"a": [0]})


def test_without_a_session_every_request_names_all_partitions() -> None:
    session = FetchSession()
    for _ in range(2):
        asked = session.ask(wanted(a0=0), IDS)
        assert (asked.session_id, asked.epoch, named(asked)) == (0, 0, {"a": [0]})
        assert list(session.take_response(answer(A0, session_id=0))) == [A0]


def test_a_session_that_the_broker_ended_starts_again(session: FetchSession) -> None:
    assert list(session.take_response(answer(A0, session_id=0))) == [A0]
    assert session.ask(wanted(a0=0), IDS).epoch == 0


def test_a_full_answer_without_a_requested_partition_is_rejected() -> None:
    session = FetchSession()
    session.ask(wanted(a0=0, b0=0), IDS)
    assert session.take_response(answer(A0)) == {}
    assert (session.session_id, session.epoch) == (0, 0)


def test_an_answer_with_an_unrequested_partition_is_rejected(session: FetchSession) -> None:
    assert session.take_response(answer(TopicPartition("a", 9))) == {}
    assert (session.session_id, session.epoch) == (77, 0)


def test_a_topic_without_an_id_makes_the_session_use_names(session: FetchSession) -> None:
    asked = session.ask(wanted(a0=0, b0=0), {"a": IDS["a"]})
    assert (asked.epoch, asked.uses_topic_ids) == (0, False)
    assert list(session.take_response(answer(A0, B0, ids={}))) == [A0, B0]


def test_the_final_request_names_only_the_session(session: FetchSession) -> None:
    assert session.last() == Asked(77, FINAL_EPOCH, (), (), uses_topic_ids=True)
    assert session.last() is None, "it has been said"
    asked = session.ask(wanted(a0=3), IDS)
    assert (asked.session_id, asked.epoch, named(asked)) == (0, 0, {"a": [0]})


def test_without_a_session_there_is_no_final_request() -> None:
    session = FetchSession()
    assert session.last() is None
    session.ask(wanted(a0=0), IDS)
    session.take_response(answer(A0, session_id=0))
    assert session.last() is None


def test_a_session_in_disorder_is_ended_as_well(session: FetchSession) -> None:
    session.ask(wanted(a0=0), IDS)
    session.fail()
    last = session.last()
    assert last is not None
    assert (last.session_id, last.epoch) == (77, FINAL_EPOCH)
