from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest
from msgspec.structs import replace

from kohort.broker.handlers.data import produce
from kohort.broker.partitions import Partition
from kohort.broker.partitions.test_support import FakeConnection, World, batch_of
from kohort.broker.transport.connection import Connection
from kohort.broker.transport.request import ReceivedRequest
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.records import Compression
from kohort.protocol.records.work_budget import MAX_STEPS
from kohort.protocol.registry import BY_NAME
from kohort.storage import StorageError

BY_NAME_VERSION = 12


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def message(
    *records: bytes | None, topic: str = "t", acks: int = -1, topic_id: UUID | None = None
) -> ProduceRequest:
    """Return a request with `records` for partition 0, 1, and so on."""
    data = tuple(PartitionProduceData(index=index, records=each) for index, each in enumerate(records))
    named = TopicProduceData(name=topic, topic_id=topic_id or UUID(int=0), partition_data=data)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=(named,))


def ask(world: World, asked: ProduceRequest, version: int = BY_NAME_VERSION) -> ProduceResponse | None:
    return produce.handle(world.family, asked, world.request("Produce", version))


def sent(world: World) -> ProduceResponse:
    (answer,) = world.connection.answers
    return cast(ProduceResponse, answer)


def results(answer: ProduceResponse | None) -> list[PartitionProduceResponse]:
    assert answer is not None
    (topic,) = answer.responses
    return list(topic.partition_responses)


def test_the_answer_waits_for_the_flush_of_every_partition(world: World) -> None:
    world.create("t", 2)
    assert ask(world, message(batch_of(b"a"), batch_of(b"b", b"c"))) is None
    assert world.connection.answers == []
    world.flusher.flush()
    assert [(each.index, each.error_code, each.base_offset) for each in results(sent(world))] == [
        (0, 0, 0),
        (1, 0, 0),
    ]
    assert [world.partition("t", index).high_watermark for index in range(2)] == [1, 2]


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_is_answered(world: World, version: int) -> None:
    topic_id = world.create("t")
    ask(world, message(batch_of(b"a"), topic_id=topic_id), version)
    world.flusher.flush()
    assert results(sent(world))[0].error_code == 0


def test_one_invalid_partition_does_not_stop_the_other(world: World) -> None:
    world.create("t", 2)
    damaged = bytearray(batch_of(b"a"))
    damaged[-1] ^= 1
    assert ask(world, message(bytes(damaged), batch_of(b"b"))) is None
    world.flusher.flush()
    assert [each.error_code for each in results(sent(world))] == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE]


def test_unknown_topics_and_partitions_are_answered_at_once(world: World) -> None:
    world.create("t")
    assert results(ask(world, message(batch_of(b"a"), topic="u")))[0].error_code == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    ask(world, message(batch_of(b"a"), batch_of(b"b")))
    world.flusher.flush()
    assert results(sent(world))[1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_unknown_topic_id_has_its_own_error(world: World) -> None:
    answer = ask(world, message(batch_of(b"a"), topic_id=UUID(int=9)), 13)
    assert results(answer)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_acks_above_one_are_invalid(world: World) -> None:
    world.create("t")
    answer = results(ask(world, message(batch_of(b"a"), acks=2)))[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)


def test_acks_0_is_never_answered(world: World) -> None:
    world.create("t")
    assert ask(world, message(batch_of(b"a"), acks=0)) is None
    world.flusher.flush()
    assert world.connection.answers == [None]
    assert not world.connection.closed
    assert world.partition("t").high_watermark == 1


def test_error_with_acks_0_closes_the_connection(world: World) -> None:
    assert ask(world, message(batch_of(b"a"), acks=0)) is None
    assert world.connection.closed


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_are_the_brokers(world: World, topic: str) -> None:
    world.create(topic)
    answer = results(ask(world, message(batch_of(b"a"), topic=topic)))
    assert answer[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_records_of_a_transaction_are_refused_for_good(world: World) -> None:
    world.create("t")
    batch = batch_of(b"a", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    answer = results(ask(world, message(batch)))[0]
    assert answer.error_code == ErrorCode.INVALID_TXN_STATE
    assert not ErrorCode.INVALID_TXN_STATE.retriable


class Later:
    """Lets batches of transactions continue on request."""

    def __init__(self) -> None:
        self.resumes: list[Callable[[ApiError | None], None]] = []

    def may_append(self, *arguments: Any) -> bool:
        self.resumes.append(arguments[-1])
        return False


def test_a_log_that_has_failed_while_a_batch_waited_for_its_transaction_is_a_storage_error(
    world: World,
) -> None:
    world.create("t")
    later = Later()
    batch = batch_of(b"a", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    family = replace(world.family, permissions=cast("Any", lambda: later))
    assert produce.handle(family, message(batch), world.request("Produce", BY_NAME_VERSION)) is None
    world.partition("t").log._fail(
        "the disk is gone"
    )  # As a thread does that writes; nobody has said so yet.
    (resume,) = later.resumes
    resume(None)
    assert results(sent(world))[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_broken_log_found_by_a_thread_fails_only_its_partition(world: World) -> None:
    """Else the connection closes, and what was written to the others is never acknowledged."""
    world.create("t", 2)
    world.partition("t", 1).log._fail("the disk is gone")
    assert ask(world, message(batch_of(b"a"), batch_of(b"b"))) is None
    world.flusher.flush()
    codes = [each.error_code for each in results(sent(world))]
    assert codes == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]


@pytest.mark.parametrize("records", [None, b"", batch_of(b"a") + batch_of(b"b")])
def test_records_that_are_not_one_batch_are_invalid(world: World, records: bytes | None) -> None:
    world.create("t")
    assert results(ask(world, message(records)))[0].error_code == ErrorCode.INVALID_RECORD


def test_zstd_needs_a_version_that_supports_it(world: World) -> None:
    world.create("t")
    batch = batch_of(b"a", compression=Compression.ZSTD)
    assert results(ask(world, message(batch), 6))[0].error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert ask(world, message(batch), 7) is None


def test_rejected_records_are_listed(world: World) -> None:
    world.create("t", configs={"cleanup.policy": "compact"})
    answer = results(ask(world, message(batch_of(b"a"))))[0]
    assert (answer.error_code, answer.record_errors[0].batch_index) == (ErrorCode.INVALID_RECORD, 0)
    assert answer.error_message


def test_failed_flush_is_a_storage_error(world: World) -> None:
    world.create("t")
    ask(world, message(batch_of(b"a")))
    partition = world.partition("t")
    ((_, (done,)),) = world.flusher.waiting.items()
    partition.failed(StorageError("the disk is gone"))
    done(StorageError("the disk is gone"))
    assert results(sent(world))[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_produced_records_are_counted_once(world: World) -> None:
    world.create("t")
    batch = batch_of(b"a", b"b", producer_id=1, producer_epoch=0, base_sequence=0)
    ask(world, message(batch))
    ask(world, message(batch))
    counters = world.counters
    assert (counters.produced_batches, counters.produced_records) == (1, 2)
    assert counters.produced_bytes == len(batch)


def test_timestamps_are_held_against_the_wall_clock_as_it_is_now(world: World) -> None:
    world.create("t")
    world.clock.wall_ahead_ms = 10 * 3_600_000  # The machine was suspended, or its clock was set.
    now_ms = world.clock.wall_ms()
    assert ask(world, message(batch_of(b"a", timestamp_ms=now_ms))) is None
    world.flusher.flush()
    assert results(sent(world))[0].error_code == 0


# -- what is too much work for the loop -----------------------------------------------------------------


def heavy(count: int = 20_000, **numbers: Any) -> bytes:
    """Return a small batch that takes long to look into: no record is shaped as the one before it."""
    values = [b"x" if place % 2 else b"" for place in range(count)]
    return batch_of(*values, compression=Compression.ZSTD, **numbers)


def test_an_expensive_batch_is_checked_by_a_thread_and_appended_by_the_loop(world: World) -> None:
    world.create("t")
    assert ask(world, message(heavy())) is None
    assert world.flusher.waiting == {}
    world.finish_checks()
    world.flusher.flush()
    assert results(sent(world))[0].error_code == ErrorCode.NONE
    assert world.partition("t").high_watermark == 20_000


def test_later_requests_of_a_connection_do_not_overtake_a_batch_in_a_thread(world: World) -> None:
    world.create("t")
    numbers: dict[str, Any] = {"producer_id": 4, "producer_epoch": 0}
    ask(world, message(heavy(**numbers, base_sequence=0)))
    ask(world, message(batch_of(b"later", **numbers, base_sequence=20_000)))
    assert world.flusher.waiting == {}
    world.finish_checks()
    world.flusher.flush()
    first, second = (results(cast(ProduceResponse, each)) for each in world.connection.answers)
    assert [(each.error_code, each.base_offset) for each in (*first, *second)] == [(0, 0), (0, 20_000)]
    ask(world, message(batch_of(b"at once", **numbers, base_sequence=20_001)))
    assert len(world.flusher.waiting) == 1


def test_other_connections_do_not_wait_for_a_batch_in_a_thread(world: World) -> None:
    world.create("t")
    ask(world, message(heavy()))
    other = FakeConnection()
    request = ReceivedRequest(cast(Connection, other), BY_NAME["Produce"], BY_NAME_VERSION, 1, "other")
    produce.handle(world.family, message(batch_of(b"a")), request)
    world.flusher.flush()
    assert results(cast(ProduceResponse, other.answers[0]))[0].base_offset == 0
    world.finish_checks()
    world.flusher.flush()
    assert results(sent(world))[0].base_offset == 1


def test_partitions_of_a_request_share_the_work_limit_of_the_loop(world: World) -> None:
    world.create("t", 4)
    ask(world, message(*[heavy(3_000)] * 4))
    assert len(world.flusher.waiting) == 2
    world.flusher.flush()
    assert world.connection.answers == []
    world.finish_checks()
    world.flusher.flush()
    assert [each.error_code for each in results(sent(world))] == [0, 0, 0, 0]


def test_a_batch_with_too_many_records_can_be_sent_in_parts(world: World) -> None:
    """Producers split a batch that is MESSAGE_TOO_LARGE."""
    world.create("t")
    ask(world, message(heavy(MAX_STEPS + 100)))
    world.finish_checks()
    (answer,) = results(sent(world))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert answer.error_message == "more than 1000000 records and headers in a batch"
    assert world.partition("t").log.log_end_offset == 0


def test_a_thread_finds_the_same_errors_as_the_loop(world: World) -> None:
    world.create("t", configs={"cleanup.policy": "compact"})
    ask(world, message(heavy()))
    world.finish_checks()
    (answer,) = results(sent(world))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert len(answer.record_errors) == 1_000


def test_a_bug_in_the_thread_closes_only_the_connection(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create("t")
    partition = world.partition("t")

    def broken(*_: object) -> None:
        raise KeyError("a bug")

    ask(world, message(heavy()))
    monkeypatch.setattr(Partition, "prepare", broken)
    ask(world, message(heavy()))
    with pytest.raises(KeyError):
        world.finish_checks()
    assert world.connection.closed
    monkeypatch.undo()
    assert partition.log.log_end_offset == 20_000
    ask(world, message(batch_of(b"a")))
    assert partition.log.log_end_offset == 20_001


def test_error_in_the_thread_with_acks_0_closes_the_connection(world: World) -> None:
    world.create("t", configs={"cleanup.policy": "compact"})
    ask(world, message(heavy(), acks=0))
    assert not world.connection.closed
    world.finish_checks()
    assert world.connection.closed


def test_recompression_is_done_by_a_thread_unless_the_batch_is_small(world: World) -> None:
    world.create("t", configs={"compression.type": "gzip"})
    ask(world, message(batch_of(b"a" * 100_000)))
    assert world.partition("t").log.log_end_offset == 1
    ask(world, message(batch_of(b"a" * 200_000)))
    assert world.partition("t").log.log_end_offset == 1
    world.finish_checks()
    world.flusher.flush()
    assert [results(cast(ProduceResponse, each))[0].base_offset for each in world.connection.answers] == [
        0,
        1,
    ]


def test_a_batch_in_a_thread_keeps_its_order_with_acks_0(world: World) -> None:
    world.create("t")
    ask(world, message(heavy(), acks=0))
    assert world.connection.answers == [], "its bytes are still held: they are to count against the sender"
    world.finish_checks()
    assert world.connection.answers == [None]
