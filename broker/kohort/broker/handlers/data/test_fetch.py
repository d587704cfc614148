from pathlib import Path
from typing import cast
from uuid import UUID

import pytest

from kohort.broker.handlers.data import fetch
from kohort.broker.handlers.data.fetch_reading import Copying
from kohort.broker.partitions import Partition
from kohort.broker.partitions.test_support import World
from kohort.broker.transport.file_range import FileRange
from kohort.broker.transport.request import Origin, ReceivedRequest, Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from kohort.protocol.records import iterate_batches, iterate_records
from kohort.protocol.registry import BY_NAME
from kohort.storage import PartitionLog, StorageError

BY_NAME_VERSION = 12
MIB = 1024 * 1024
NO_ID = UUID(int=0)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def message(
    offsets: dict[int, int],
    *,
    topic: str = "t",
    topic_id: UUID = NO_ID,
    min_bytes: int = 1,
    max_wait_ms: int = 500,
    max_bytes: int = 50 * MIB,
    partition_max_bytes: int = MIB,
    session: tuple[int, int] = (0, -1),
    forget: tuple[int, ...] = (),
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    isolation_level: int = 0,
) -> FetchRequest:
    partitions = tuple(
        FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=leader_epoch,
            last_fetched_epoch=last_fetched_epoch,
        )
        for index, offset in offsets.items()
    )
    forgotten = (ForgottenTopic(topic=topic, topic_id=topic_id, partitions=forget),) if forget else ()
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=(FetchTopic(topic=topic, topic_id=topic_id, partitions=partitions),) if partitions else (),
        forgotten_topics_data=forgotten,
    )


def ask(world: World, asked: FetchRequest, version: int = BY_NAME_VERSION) -> FetchResponse | None:
    return fetch.handle(world.family, asked, world.request("Fetch", version))


def answered(world: World, asked: FetchRequest, version: int = BY_NAME_VERSION) -> FetchResponse:
    answer = ask(world, asked, version)
    assert answer is not None
    answer.encode_parts(version)
    return answer


def sent(world: World) -> FetchResponse:
    return cast(FetchResponse, world.connection.answers[-1])


def partitions(answer: FetchResponse) -> list[PartitionData]:
    return [data for topic in answer.responses for data in topic.partitions]


def content(data: PartitionData) -> bytes:
    records = data.records
    if isinstance(records, FileRange):
        with open(records.file_descriptor, "rb", closefd=False) as file:
            file.seek(records.position)
            return file.read(records.size_bytes)
    assert isinstance(records, bytes)
    return records


def offsets(data: PartitionData) -> list[int]:
    return [record.offset for batch in iterate_batches(content(data)) for record in iterate_records(batch)]


def test_records_are_read_from_the_offset_on(world: World) -> None:
    world.create("t")
    world.fill("t", batches=3)
    (data,) = partitions(answered(world, message({0: 1})))
    assert offsets(data) == [1, 2]
    assert (data.error_code, data.high_watermark, data.last_stable_offset, data.log_start_offset) == (
        0,
        3,
        3,
        0,
    )
    assert (data.preferred_read_replica, data.aborted_transactions) == (-1, None)


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_is_answered(world: World, version: int) -> None:
    topic_id = world.create("t")
    world.fill("t")
    (data,) = partitions(answered(world, message({0: 0}, topic_id=topic_id), version))
    assert offsets(data) == [0]


def test_large_range_is_not_copied(world: World) -> None:
    world.create("t")
    world.fill("t", value=b"x" * 20_000)
    (data,) = partitions(answered(world, message({0: 0})))
    assert isinstance(data.records, FileRange)
    assert offsets(data) == [0]


@pytest.mark.parametrize("in_session", [False, True])
def test_an_answer_with_many_partitions_copies_little(world: World, in_session: bool) -> None:
    count, value = 150, b"x" * 10_000
    world.create("t", count)
    for index in range(count):
        world.fill("t", index, value=value)
    asked = dict.fromkeys(range(count), 0)
    answer = answered(world, message(asked, session=(0, 0 if in_session else -1)))
    if in_session:  # What is new since the first answer goes another way.
        answer = answered(world, message({}, session=(answer.session_id, 1)))
    data = partitions(answer)
    assert [offsets(each) for each in data] == [[0]] * count
    copied = [each.records for each in data if isinstance(each.records, bytes)]
    assert MIB // 2 < sum(map(len, copied)) <= MIB


def test_small_ranges_are_always_copied() -> None:
    copying = Copying()
    assert sum(copying.takes(16_384) for _ in range(100)) == 64
    assert [copying.takes(size) for size in (1_024, 1_025, 10)] == [True, False, True]


@pytest.mark.requirement("R19")
def test_records_past_the_high_watermark_are_not_returned(world: World) -> None:
    world.create("t")
    world.fill("t")
    world.stage("t")
    (data,) = partitions(answered(world, message({0: 0})))
    assert (offsets(data), data.high_watermark) == ([0], 1)


@pytest.mark.requirement("R19")
def test_records_that_wait_for_their_sync_are_not_seen(world: World) -> None:
    world.create("t")
    world.fill("t")
    world.stage("t")
    world.partition("t").log.write(sync=False)
    (data,) = partitions(answered(world, message({0: 0})))
    assert (offsets(data), data.high_watermark) == ([0], 1)
    assert partitions(answered(world, message({0: 1}, max_wait_ms=0)))[0].records == b""


def test_an_offset_out_of_range_is_refused(world: World) -> None:
    world.create("t")
    world.fill("t")
    for offset in (-1, 2):
        (data,) = partitions(answered(world, message({0: offset})))
        assert (data.error_code, data.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


@pytest.mark.parametrize(
    "epoch, code", [(2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_different_leader_epoch_is_refused(world: World, epoch: int, code: ErrorCode) -> None:
    world.create("t", epoch=3)
    world.fill("t")
    assert partitions(answered(world, message({0: 0}, leader_epoch=3)))[0].error_code == 0
    assert partitions(answered(world, message({0: 0}, leader_epoch=epoch)))[0].error_code == code


def test_a_diverging_reader_receives_the_diverging_epoch(world: World) -> None:
    world.create("t", epoch=3)
    world.fill("t", batches=2)
    (data,) = partitions(answered(world, message({0: 5}, last_fetched_epoch=3)))
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (3, 2)
    assert data.error_code == 0


def test_a_fetch_of_only_unknown_topics_is_answered_at_once(world: World) -> None:
    (data,) = partitions(answered(world, message({0: 0})))
    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_unknown_topic_id_has_its_own_error(world: World) -> None:
    (data,) = partitions(answered(world, message({0: 0}, topic_id=UUID(int=9)), 13))
    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_read_committed_gets_a_list_of_aborted_transactions(world: World) -> None:
    world.create("t")
    world.fill("t")
    (data,) = partitions(answered(world, message({0: 0}, isolation_level=1)))
    assert data.aborted_transactions == ()


# -- limits ---------------------------------------------------------------------------------------------


def test_the_first_batch_is_sent_whole_for_any_limits(world: World) -> None:
    world.create("t", 2)
    for index in range(2):
        world.fill("t", index, value=b"x" * 1000)
    first, second = partitions(answered(world, message({0: 0, 1: 0}, max_bytes=10, partition_max_bytes=10)))
    assert (offsets(first), len(content(second))) == ([0], 0)


def test_the_second_partition_gets_the_rest_of_the_limit(world: World) -> None:
    world.create("t", 2)
    for index in range(2):
        world.fill("t", index, batches=3, value=b"x" * 1000)
    first, second = partitions(answered(world, message({0: 0, 1: 0}, max_bytes=5000)))
    assert offsets(first) == [0, 1, 2]
    assert offsets(second) == [0]


def test_a_partition_without_space_for_one_batch_sends_none(world: World) -> None:
    world.create("t", 2)
    for index in range(2):
        world.fill("t", index, value=b"x" * 1000)
    _, second = partitions(answered(world, message({0: 0, 1: 0}, max_bytes=1500)))
    assert second.records == b""


def test_partition_limit_holds(world: World) -> None:
    world.create("t")
    world.fill("t", batches=10, value=b"x" * 1000)
    (data,) = partitions(answered(world, message({0: 0}, partition_max_bytes=3500)))
    assert offsets(data) == [0, 1, 2]


def test_brokers_own_limit_holds(tmp_path: Path) -> None:
    world = World(tmp_path, fetch_max_bytes=1024)
    world.create("t")
    world.fill("t", batches=10, value=b"x" * 1000)
    (data,) = partitions(answered(world, message({0: 0})))
    assert offsets(data) == [0]


# -- waiting --------------------------------------------------------------------------------------------


def test_reader_at_the_end_waits_for_the_next_commit(world: World) -> None:
    world.create("t")
    assert ask(world, message({0: 0})) is None
    world.fill("t")
    assert offsets(partitions(sent(world))[0]) == [0]
    assert (len(world.timers), world.partition("t").waits, world.connection.on_close) == (0, {}, [])


def test_a_reader_waits_at_most_its_max_wait(world: World) -> None:
    world.create("t")
    assert ask(world, message({0: 0}, max_wait_ms=500)) is None
    world.advance(499)
    assert world.connection.answers == []
    world.advance(1)
    (data,) = partitions(sent(world))
    assert (data.records, data.high_watermark) == (b"", 0)
    assert world.partition("t").waits == {}


def test_reader_that_will_not_wait_is_answered_at_once(world: World) -> None:
    world.create("t")
    assert partitions(answered(world, message({0: 0}, max_wait_ms=0)))[0].records == b""


def test_a_reader_waits_for_min_bytes_across_partitions(world: World) -> None:
    world.create("t", 2)
    assert ask(world, message({0: 0, 1: 0}, min_bytes=2500)) is None
    world.fill("t", 0, value=b"x" * 1000)
    world.fill("t", 1, value=b"x" * 1000)
    assert world.connection.answers == []
    world.fill("t", 1, value=b"x" * 1000)
    assert [offsets(data) for data in partitions(sent(world))] == [[0], [0, 1]]


def test_minimum_above_the_maximum_is_no_reason_to_wait(world: World) -> None:
    world.create("t")
    world.fill("t", value=b"x" * 1000)
    assert offsets(partitions(answered(world, message({0: 0}, min_bytes=5000, max_bytes=500)))[0]) == [0]


def test_a_closed_connection_stops_waiting(world: World) -> None:
    world.create("t")
    ask(world, message({0: 0}))
    world.connection.close()
    assert (world.partition("t").waits, len(world.timers)) == ({}, 0)
    world.fill("t")
    assert world.connection.answers == []


def test_a_waiting_reader_is_answered_when_the_topic_is_deleted(world: World) -> None:
    world.create("t")
    ask(world, message({0: 0}))
    world.delete("t")
    assert partitions(sent(world))[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_waiting_reader_is_answered_when_the_log_fails(world: World) -> None:
    world.create("t")
    ask(world, message({0: 0}))
    world.partition("t").failed(StorageError("the disk is gone"))
    assert partitions(sent(world))[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_an_error_of_one_partition_ends_the_wait_for_all(world: World) -> None:
    world.create("t", 2)
    codes = [data.error_code for data in partitions(answered(world, message({0: 0, 1: 5})))]
    assert codes == [ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE]


# -- sessions -------------------------------------------------------------------------------------------


def begin_session(world: World, wanted: dict[int, int]) -> int:
    answer = answered(world, message(wanted, session=(0, 0), max_wait_ms=0))
    assert len(partitions(answer)) == len(wanted)
    return answer.session_id


def test_an_incremental_answer_has_only_changed_partitions(world: World) -> None:
    world.create("t", 3)
    session_id = begin_session(world, {0: 0, 1: 0, 2: 0})
    assert session_id > 0
    world.fill("t", 1)
    answer = answered(world, message({}, session=(session_id, 1)))
    assert [(data.partition_index, offsets(data)) for data in partitions(answer)] == [(1, [0])]
    answer = answered(world, message({1: 1}, session=(session_id, 2), max_wait_ms=0))
    assert (partitions(answer), answer.session_id, answer.error_code) == ([], session_id, 0)


def test_a_session_fetch_waits_and_is_woken(world: World) -> None:
    world.create("t", 2)
    session_id = begin_session(world, {0: 0, 1: 0})
    assert ask(world, message({}, session=(session_id, 1))) is None
    world.fill("t", 1)
    assert [data.partition_index for data in partitions(sent(world))] == [1]


class Refusing(ReceivedRequest):
    """One whose quota has no bytes for a while."""

    __slots__ = ()

    def may_have(self, _size_bytes: int) -> bool:
        return False


def refusing(world: World) -> Request:
    return Refusing(cast(Origin, world.connection), BY_NAME["Fetch"], BY_NAME_VERSION, 1, None)


def test_a_reader_over_its_quota_gets_no_records_and_its_session_continues(world: World) -> None:
    world.create("t", partitions=2)
    world.fill("t", batches=1)
    began = fetch.handle(world.family, message({0: 0, 1: 0}, session=(0, 0)), refusing(world))
    assert began is not None
    assert (began.session_id, began.error_code, began.responses) == (0, 0, ())
    session_id = answered(world, message({0: 0, 1: 0}, session=(0, 0))).session_id
    world.fill("t", batches=1)
    empty = fetch.handle(world.family, message({0: 1}, session=(session_id, 1)), refusing(world))
    assert empty is not None
    assert (empty.session_id, empty.error_code, empty.responses) == (session_id, 0, ())
    (data,) = partitions(answered(world, message({}, session=(session_id, 2))))
    assert (offsets(data), data.high_watermark) == ([1], 2)


def test_a_waiting_reader_over_its_quota_gets_no_records(world: World) -> None:
    world.create("t")
    assert fetch.handle(world.family, message({0: 0}), refusing(world)) is None
    world.fill("t", batches=1)
    assert sent(world).responses == ()


def test_an_overtaken_session_request_is_refused(world: World) -> None:
    world.create("t")
    session_id = begin_session(world, {0: 0})
    assert ask(world, message({}, session=(session_id, 1))) is None
    assert ask(world, message({}, session=(session_id, 2))) is None
    world.fill("t")
    codes = [cast(FetchResponse, answer).error_code for answer in world.connection.answers]
    assert codes == [ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.NONE]


def test_an_error_in_a_session_and_its_end_are_sent(world: World) -> None:
    world.create("t")
    session_id = begin_session(world, {0: 0})
    (data,) = partitions(answered(world, message({0: 9}, session=(session_id, 1))))
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    (data,) = partitions(answered(world, message({0: 0}, session=(session_id, 2), max_wait_ms=0)))
    assert (data.error_code, data.high_watermark) == (0, 0)


def test_a_served_partition_moves_behind_the_others(world: World) -> None:
    world.create("t", 3)
    session_id = begin_session(world, {0: 0, 1: 0, 2: 0})
    for index in range(3):
        world.fill("t", index, value=b"x" * 1000)
    served = []
    for epoch in range(1, 4):
        answer = answered(world, message({}, session=(session_id, epoch), max_bytes=100))
        served.append([data.partition_index for data in partitions(answer) if offsets(data)])
    assert served == [[0], [1], [2]]


def test_an_unknown_session_is_a_top_level_error(world: World) -> None:
    answer = answered(world, message({}, session=(5, 1)))
    assert (answer.error_code, answer.session_id, answer.responses) == (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        0,
        (),
    )


def test_topic_that_appears_later_joins_the_session(world: World) -> None:
    answer = answered(world, message({0: 0}, session=(0, 0)))
    assert partitions(answer)[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    world.create("t")
    world.fill("t")
    (data,) = partitions(answered(world, message({}, session=(answer.session_id, 1))))
    assert offsets(data) == [0]


def test_a_recreated_topic_is_read_from_its_start_by_name(world: World) -> None:
    world.create("t")
    world.fill("t", batches=3)
    session_id = begin_session(world, {0: 3})
    world.delete("t")
    world.flusher.flush()
    world.finish_file_work()
    world.create("t")
    (data,) = partitions(answered(world, message({}, session=(session_id, 1))))
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_read_that_fails_while_it_wakes_a_reader_answers_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create("t")
    assert ask(world, message({0: 0})) is None

    def fail(*_arguments: object, **_options: object) -> None:
        raise StorageError("the disk is gone")

    monkeypatch.setattr(PartitionLog, "read", fail)
    world.fill("t")
    assert [data.error_code for data in partitions(sent(world))] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert len(world.connection.answers) == 1
    assert world.connection.on_close == []


def test_a_reader_that_cannot_be_woken_does_not_block_others(world: World) -> None:
    world.create("t")

    class Broken:
        def advanced(self, partition: Partition) -> None:
            raise ValueError("a bug")

    world.partition("t").waits[Broken()] = None
    assert ask(world, message({0: 0})) is None
    world.fill("t")
    assert offsets(partitions(sent(world))[0]) == [0]
