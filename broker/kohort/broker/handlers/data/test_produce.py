from pathlib import Path
from typing import cast
from uuid import UUID

import pytest

from kohort.broker.handlers.data import produce
from kohort.broker.partitions.test_support import World, batch_of
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.records import Compression
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


def test_answer_waits_for_the_flush_of_every_partition(world: World) -> None:
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


def test_one_bad_partition_does_not_stop_the_other(world: World) -> None:
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


def test_unknown_topic_id_is_named_so(world: World) -> None:
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


@pytest.mark.parametrize("records", [None, b"", batch_of(b"a") + batch_of(b"b")])
def test_anything_but_one_batch_is_an_invalid_record(world: World, records: bytes | None) -> None:
    world.create("t")
    assert results(ask(world, message(records)))[0].error_code == ErrorCode.INVALID_RECORD


def test_zstd_needs_a_version_that_knows_it(world: World) -> None:
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
