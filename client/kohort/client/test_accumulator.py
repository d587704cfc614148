import threading

import pytest

from kohort.client.accumulator import Accumulator
from kohort.client.batch import Appended, Batch, Codec
from kohort.client.config import producer_config
from kohort.client.errors import BrokerError, NetworkError
from kohort.client.partition_queue import PartitionQueue
from kohort.client.partitioner import partition_for_key
from kohort.client.retry import monotonic_ms
from kohort.client.values import TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import iterate_records

LATER_MS = 1_000_000


def accumulator(partitions: int = 4, **options: object) -> Accumulator:
    made = Accumulator(producer_config(options))
    made.learn("t", partitions)
    return made


def small(partitions: int = 4, *, batch_size: int, **options: object) -> Accumulator:
    """Return one whose batches do not grow beyond their size."""
    return accumulator(partitions, batch_size=batch_size, batch_max_size=batch_size, **options)


def try_add(
    accumulated: Accumulator, value: bytes = b"v", key: bytes | None = None, partition: int | None = 0
) -> Appended | None:
    return accumulated.append("t", value, key, partition, 1_000, ())


def add(
    accumulated: Accumulator, value: bytes = b"v", key: bytes | None = None, partition: int | None = 0
) -> Appended:
    appended = try_add(accumulated, value, key, partition)
    assert appended is not None
    return appended


def due(accumulated: Accumulator, after_ms: int = 0) -> list[PartitionQueue]:
    return accumulated.due(monotonic_ms() + after_ms)[0]


def take(accumulated: Accumulator, after_ms: int = 0) -> Batch:
    (queue,) = due(accumulated, after_ms)
    return accumulated.take(queue)


def values(batch: Batch) -> list[bytes | None]:
    return [each.value for each in iterate_records(batch.to_bytes(Codec()))]


def test_records_wait_linger_ms_for_company() -> None:
    accumulated = accumulator(linger_ms=5_000)
    add(accumulated, b"1")
    add(accumulated, b"2")
    ready, wait_ms = accumulated.due(monotonic_ms())
    assert ready == []
    assert 0 < (wait_ms or 0) <= 5_000
    assert values(take(accumulated, 5_000)) == [b"1", b"2"]


def test_a_full_batch_is_sent_without_waiting() -> None:
    accumulated = small(linger_ms=5_000, batch_size=1_000)
    for _ in range(4):
        add(accumulated, b"x" * 300)
    assert len(values(take(accumulated))) == 2
    assert due(accumulated) == [], "the rest may still have company"


def test_a_batch_that_is_due_grows_until_it_is_sent() -> None:
    accumulated = accumulator(linger_ms=5_000, batch_size=1_000, batch_max_size=3_500)
    for _ in range(2):
        add(accumulated, b"x" * 300)
    assert due(accumulated) == []
    batches = {add(accumulated, b"x" * 300).batch for _ in range(10)}
    first = take(accumulated)
    assert len(values(first)) == 10
    assert first.reserved_bytes == 3_500
    assert len(batches) == 2
    assert due(accumulated) == [], "what follows waits for company anew"
    assert len(values(take(accumulated, LATER_MS))) == 2
    accumulated.release(first)
    assert accumulated.buffered_bytes == 1_000


def test_a_batch_grows_no_further_than_there_is_memory() -> None:
    accumulated = accumulator(linger_ms=5_000, batch_size=1_000, buffer_memory=2_500)
    while try_add(accumulated, b"x" * 300) is not None:
        assert accumulated.buffered_bytes <= 2_500
    assert len(values(take(accumulated))) == 6


def test_no_record_is_added_to_a_batch_that_has_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = [1_000]
    monkeypatch.setattr("kohort.client.accumulator.monotonic_ms", lambda: now_ms[0])
    accumulated = accumulator(batch_size=1_000)
    first: list[Appended] = []
    late: list[Appended] = []
    for appended in (first, late):
        appended += [add(accumulated, b"x" * 300) for _ in range(5)]
        now_ms[0] += 2_000
    assert len({each.batch for each in first}) == 1
    assert late[-1].batch is not first[0].batch, "it would have a part of its delivery_timeout_ms alone"


def test_a_record_larger_than_a_batch_gets_one_that_others_can_share() -> None:
    accumulated = accumulator(linger_ms=5_000, batch_size=100, batch_max_size=2_000)
    large, small_one = add(accumulated, b"x" * 1_500), add(accumulated)
    assert large.batch is small_one.batch
    assert add(accumulated, b"x" * 1_500).batch is not large.batch
    assert [batch.record_count for _, batch in accumulated.waiting()] == [2, 1]


def test_without_a_key_a_full_batch_is_due_at_once() -> None:
    accumulated = accumulator(2, linger_ms=5_000, batch_size=1_000)
    used = [add(accumulated, b"x" * 300, partition=None).batch for _ in range(3)]
    assert used[0].is_due
    assert [queue.batches[0] for queue in due(accumulated)] == [used[0]]


def test_the_sender_is_woken_once_for_unseen_batches() -> None:
    wakes: list[bool] = []
    accumulated = Accumulator(
        producer_config({"batch_size": 100, "batch_max_size": 100}), lambda: wakes.append(True)
    )
    accumulated.learn("t", 1)
    for _ in range(5):
        add(accumulated, b"x" * 80)
    assert len(wakes) == 1
    accumulated.is_woken = False
    add(accumulated, b"x" * 80)
    assert len(wakes) == 2
    accumulated.is_woken = accumulated.wakes = False
    add(accumulated, b"x" * 80)
    assert len(wakes) == 2, "a sender that cannot send more looks again by itself"


def test_a_returned_batch_is_sent_first_and_unchanged() -> None:
    accumulated = small(batch_size=100)
    for number in range(2):
        add(accumulated, b"%d" % number + b"x" * 80)
    (queue,) = due(accumulated, LATER_MS)
    batch = accumulated.take(queue)
    before = batch.to_bytes(Codec())
    accumulated.put_back(queue, batch)
    assert take(accumulated, LATER_MS) is batch
    assert batch.to_bytes(Codec()) == before


def test_a_flush_does_not_wait_for_linger() -> None:
    accumulated = accumulator(linger_ms=5_000)
    add(accumulated)
    accumulated.flushes += 1
    assert len(due(accumulated)) == 1


def test_a_full_buffer_accepts_no_records_until_some_are_written() -> None:
    accumulated = small(buffer_memory=500, batch_size=100)
    while try_add(accumulated, b"x" * 80) is not None:
        pass
    assert accumulated.buffered_bytes <= 500
    batch = take(accumulated, LATER_MS)
    assert try_add(accumulated, b"x" * 80) is None
    accumulated.release(batch)
    assert try_add(accumulated, b"x" * 80) is not None


def test_a_record_beyond_the_largest_request_is_refused() -> None:
    with pytest.raises(BrokerError, match="max_request_size is 1000") as caught:
        add(accumulator(max_request_size=1_000), b"x" * 1_000)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    with pytest.raises(BrokerError, match="buffer_memory is 500"):
        add(accumulator(buffer_memory=500), b"x" * 1_000)


def test_an_unknown_partition_or_a_closed_accumulator_accepts_no_records() -> None:
    accumulated = accumulator(2)
    assert accumulated.append("unknown", b"v", None, None, 0, ()) is None
    assert try_add(accumulated, partition=2) is None
    assert try_add(accumulated, partition=-1) is None
    accumulated.learn("t", 3)
    assert try_add(accumulated, partition=2) is not None
    accumulated.close()
    assert try_add(accumulated) is None


def test_a_key_chooses_its_partition() -> None:
    accumulated = accumulator(8)
    for key in (b"UA", b"DL", b"AA", b"UA"):
        appended = add(accumulated, key=key, partition=None)
        assert appended.batch.partition == TopicPartition("t", partition_for_key(key, 8))


def test_without_a_key_one_batch_is_filled_for_each_partition_in_turn() -> None:
    accumulated = small(10_000, batch_size=1_000)
    used = [add(accumulated, b"x" * 100, partition=None).batch.partition for _ in range(40)]
    runs = [used.count(each) for each in dict.fromkeys(used)]
    assert len(runs) > 2
    assert set(runs[:-1]) == {8}


def test_a_batch_sent_early_counts_for_its_partition() -> None:
    accumulated = small(10_000, batch_size=1_000)
    used = []
    for _ in range(40):
        used.append(add(accumulated, b"x" * 100, partition=None).batch.partition)
        take(accumulated, LATER_MS)
    runs = [used.count(each) for each in dict.fromkeys(used)]
    assert len(runs) > 2
    assert set(runs[:-1]) <= {6, 7, 8, 9}, "about a batch's worth, in batches of one"


def test_slow_partitions_get_less() -> None:
    accumulated = accumulator(2, batch_size=1_000)
    for _ in range(100):
        add(accumulated, b"x" * 800, partition=0)
    used = [add(accumulated, b"x" * 800, partition=None).batch.partition.partition for _ in range(100)]
    assert used.count(1) > 60


def test_expired_batches_are_removed_from_the_front() -> None:
    accumulated = small(batch_size=100)
    add(accumulated, b"1" * 80)
    add(accumulated, b"2" * 80, partition=1)
    assert accumulated.expired(monotonic_ms()) == []
    late = accumulated.expired(monotonic_ms() + 120_000)
    assert [batch.partition.partition for _, batch in late] == [0, 1]
    assert accumulated.waiting() == []


def test_threads_append_side_by_side() -> None:
    accumulated = accumulator(3, batch_size=500)
    appended: list[Appended] = []

    def run() -> None:
        appended.extend(add(accumulated, b"x" * 50, partition=None) for _ in range(2_000))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len({(id(each.batch), each.index) for each in appended}) == 8_000
    assert sum(batch.record_count for _, batch in accumulated.waiting()) == 8_000


def test_a_finished_batch_has_the_offset_of_each_record() -> None:
    accumulated = accumulator()
    add(accumulated, b"1")
    appended = add(accumulated, b"2")
    assert not appended.is_done
    appended.batch.base_offset = 41
    appended.batch.finish()
    metadata = appended.known_metadata()
    assert (metadata.topic, metadata.partition, metadata.offset, metadata.timestamp_ms) == ("t", 0, 42, 1_000)


def test_a_failed_batch_raises_its_error_for_each_record() -> None:
    appended = add(accumulator())
    appended.batch.finish(NetworkError("gone"))
    with pytest.raises(NetworkError, match="gone"):
        appended.known_metadata()


def test_deliveries_follow_their_records_into_the_halves_of_a_batch() -> None:
    accumulated = accumulator()
    appended = [add(accumulated, b"%d" % number) for number in range(5)]
    called: list[int] = []
    for number, each in enumerate(appended):
        each.when_done(lambda number=number: called.append(number))  # type: ignore[misc]
    batch = take(accumulated, LATER_MS)
    first, second = batch.split()
    assert (values(first), values(second)) == ([b"0", b"1"], [b"2", b"3", b"4"])
    assert first.reserved_bytes + second.reserved_bytes == batch.reserved_bytes
    second.base_offset = 70
    second.finish()
    assert called == [2, 3, 4]
    assert [each.is_done for each in appended] == [False, False, True, True, True]
    assert appended[4].known_metadata().offset == 72
    appended[4].when_done(lambda: called.append(99))
    assert called[-1] == 99, "what is done calls at once"


def test_a_run_of_keys_fills_batch_after_batch_in_order() -> None:
    accumulated = small(batch_size=500)
    keys = [b"key %04d" % each for each in range(100)]
    found = accumulated.append_keys("t", 2, b"".join(keys), b"v", 1_000, key_size=8)
    assert sum(count for _, count in found) == 100
    assert len(found) > 2
    assert all(first.index == 0 for first, _ in found)
    batches = list(dict.fromkeys(first.batch for first, _ in found))
    assert [each.partition.partition for each in batches] == [2] * len(batches)
    written = [each.key for batch in batches for each in iterate_records(batch.to_bytes(Codec()))]
    assert written == keys
    assert all(each.size_bytes <= each.reserved_bytes for each in batches)
    assert [each.pinned for each in batches] == [list(range(each.record_count)) for each in batches]


def test_a_run_of_keys_is_added_as_far_as_memory_allows() -> None:
    accumulated = small(batch_size=500, buffer_memory=1_000)
    keys = b"".join(b"key %04d" % each for each in range(100))
    found = accumulated.append_keys("t", 0, keys, b"v", 1_000, key_size=8)
    assert 0 < sum(count for _, count in found) < 100
    assert accumulated.append_keys("t", 0, keys, b"v", 1_000, key_size=8) == []
    assert accumulated.append_keys("t", 9, keys, b"v", 1_000, key_size=8) == []
    assert accumulated.append_keys("other", 0, keys, b"v", 1_000, key_size=8) == []
