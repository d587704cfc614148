import pytest

from kohort.client.accumulator import Accumulator, Appended, Batch, Outgoing
from kohort.client.config import producer_config
from kohort.client.errors import BrokerError, NetworkError
from kohort.client.partitioner import partition_for_key
from kohort.client.retry import monotonic_ms
from kohort.client.values import TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import iterate_records

LATER_MS = 1_000_000


def accumulator(**options: object) -> Accumulator:
    return Accumulator(producer_config(options))


def record(value: bytes = b"v", key: bytes | None = None, partition: int | None = 0) -> Outgoing:
    return Outgoing("t", value, key, partition, 1_000, ())


def add(accumulated: Accumulator, outgoing: Outgoing, partitions: int = 4) -> Appended:
    appended = accumulated.append(outgoing, partitions)
    assert appended is not None
    return appended


def values(batch: Batch) -> list[bytes | None]:
    return [each.value for each in iterate_records(batch.to_bytes())]


def test_records_wait_linger_ms_for_company() -> None:
    accumulated = accumulator(linger_ms=5_000)
    assert add(accumulated, record(b"1")).wakes
    assert not add(accumulated, record(b"2")).wakes
    now_ms = monotonic_ms()
    assert accumulated.take_ready(now_ms) == []
    assert 0 < (accumulated.wait_ms(now_ms) or 0) <= 5_000
    (batch,) = accumulated.take_ready(now_ms + 5_000)
    assert values(batch) == [b"1", b"2"]


def test_a_full_batch_waits_for_nobody() -> None:
    accumulated = accumulator(linger_ms=5_000, batch_size=1_000)
    appended = [add(accumulated, record(b"x" * 300)) for _ in range(4)]
    assert [each.wakes for each in appended] == [True, False, True, False]
    (batch,) = accumulated.take_ready(monotonic_ms())
    assert len(values(batch)) == 2


def test_one_batch_of_a_partition_is_under_way_at_a_time() -> None:
    accumulated = accumulator(batch_size=100)
    for number in range(3):
        add(accumulated, record(b"%d" % number + b"x" * 100))
    (first,) = accumulated.take_ready(monotonic_ms() + LATER_MS)
    assert accumulated.take_ready(monotonic_ms() + LATER_MS) == []
    accumulated.release(first)
    (second,) = accumulated.take_ready(monotonic_ms() + LATER_MS)
    assert (values(first)[0] or b"")[:1] == b"0"
    assert (values(second)[0] or b"")[:1] == b"1"


def test_a_batch_that_comes_back_goes_first_and_unchanged() -> None:
    accumulated = accumulator(batch_size=100)
    for number in range(2):
        add(accumulated, record(b"%d" % number + b"x" * 100))
    now_ms = monotonic_ms() + LATER_MS
    (batch,) = accumulated.take_ready(now_ms)
    before = batch.to_bytes()
    accumulated.put_back(batch, now_ms + 50)
    assert accumulated.take_ready(now_ms + 49) == []
    assert accumulated.take_ready(now_ms + 50) == [batch]
    assert batch.to_bytes() == before


def test_a_flush_waits_for_no_linger() -> None:
    accumulated = accumulator(linger_ms=5_000)
    add(accumulated, record())
    accumulated.flushes += 1
    assert len(accumulated.take_ready(monotonic_ms())) == 1


def test_a_full_buffer_takes_no_more_until_something_is_written() -> None:
    accumulated = accumulator(buffer_memory=500, batch_size=100)
    while accumulated.append(record(b"x" * 100), 4) is not None:
        pass
    (batch,) = accumulated.take_ready(monotonic_ms() + LATER_MS)
    assert accumulated.append(record(b"x" * 100), 4) is None
    accumulated.release(batch)
    assert accumulated.append(record(b"x" * 100), 4) is not None


def test_a_record_beyond_the_largest_request_is_refused() -> None:
    with pytest.raises(BrokerError, match="max_request_size is 1000") as caught:
        accumulator(max_request_size=1_000).append(record(b"x" * 1_000), 4)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_key_chooses_its_partition() -> None:
    accumulated = accumulator()
    for key in (b"UA", b"DL", b"AA"):
        appended = add(accumulated, record(key=key, partition=None), 8)
        assert appended.batch.partition == TopicPartition("t", partition_for_key(key, 8))


def test_without_a_key_a_partition_gets_a_batch_before_the_next_one_does() -> None:
    accumulated = accumulator(batch_size=1_000)
    used = [
        add(accumulated, record(b"x" * 100, partition=None), 1_000_000).batch.partition for _ in range(40)
    ]
    runs = [used.count(each) for each in dict.fromkeys(used)]
    assert len(runs) > 2
    assert max(runs[:-1]) - min(runs[:-1]) == 0
    assert runs[0] > 5


def test_a_finished_batch_knows_where_each_record_went() -> None:
    accumulated = accumulator()
    add(accumulated, record(b"1"))
    appended = add(accumulated, record(b"2"))
    appended.batch.base_offset = 41
    appended.batch.finish()
    metadata = appended.batch.metadata_of(appended.index, appended.timestamp_ms)
    assert (metadata.topic, metadata.partition, metadata.offset, metadata.timestamp_ms) == ("t", 0, 42, 1_000)


def test_a_failed_batch_raises_its_error_for_each_record() -> None:
    appended = add(accumulator(), record())
    appended.batch.finish(NetworkError("gone"))
    with pytest.raises(NetworkError, match="gone"):
        appended.batch.metadata_of(appended.index, appended.timestamp_ms)
