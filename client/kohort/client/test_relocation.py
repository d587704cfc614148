"""Topics that are made anew with fewer partitions while a producer writes to them."""

from __future__ import annotations

import random
from typing import cast
from uuid import UUID

import pytest

from kohort.client.batch import Appended
from kohort.client.errors import BrokerError, NetworkError
from kohort.client.partitioner import partition_for_key
from kohort.client.test_sender import TOPIC_ID, Log, World, numbers, response
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.repetitions import repetitions

NEW_ID = UUID(int=8)
GONE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def remake(world: World, partitions: int, topic_id: UUID = NEW_ID) -> None:
    """Delete the topic and make it anew, and let the producer hear of it."""
    world.known.make("t", partitions, topic_id)
    world.logs = [Log() for _ in range(partitions)]
    world.accumulator.learn("t", partitions, topic_id)


def send(
    world: World, key: bytes | None, partition: int | None = None, *, is_chosen: bool = False
) -> Appended:
    """Append one record, a batch of its own."""
    value = (b"%d" % len(world.appended)).ljust(60, b".")
    found = world.accumulator.append("t", value, key, partition, world.now_ms, (), is_chosen)
    assert found is not None
    world.appended.append(found)
    return found


def refuse_all(world: World, code: ErrorCode) -> None:
    """Let the broker answer everything that is in flight with this."""
    for request, on_done in [world.wire.take() for _ in range(len(world.wire.waiting))]:
        on_done(response(*((each.index, code, -1) for each in request.topic_data[0].partition_data)))


def settle(world: World) -> None:
    """Let everything happen that can; the broker knows the new topic."""
    for _ in range(10_000):
        while world.wire.waiting:
            request, on_done = world.wire.take()
            answers = [
                (each.index, *world.logs[each.index].append(cast("bytes", each.records)))
                for each in request.topic_data[0].partition_data
            ]
            on_done(response(*answers, topic_id=request.topic_data[0].topic_id))
        if not world.sender.unfinished():
            return
        world.pass_time(50)
    raise AssertionError("it never ends")


@pytest.mark.parametrize("was_sent", [False, True])
def test_records_with_keys_go_where_their_keys_belong_now(
    monkeypatch: pytest.MonkeyPatch, was_sent: bool
) -> None:
    world = World(monkeypatch, partitions=4, batch_size=1_000)
    keys = [b"key-%d" % (number % 12) for number in range(100)]
    sent = [send(world, key) for key in keys]
    if was_sent:
        world.sender.step()
        refuse_all(world, GONE)
    remake(world, 2)
    settle(world)
    for number, (key, each) in enumerate(zip(keys, sent, strict=True)):
        written = each.known_metadata()
        assert written.partition == partition_for_key(key, 2)
        assert world.logs[written.partition].values[written.offset].strip(b".") == b"%d" % number
    for key in set(keys):
        of_key = numbers(world.logs[partition_for_key(key, 2)])
        own = [number for number in of_key if keys[number] == key]
        assert own == sorted(own), "the records of a key stay in their order"
    assert sorted(numbers(world.logs[0]) + numbers(world.logs[1])) == list(range(100))
    assert world.accumulator.buffered_bytes == 0


def test_waiting_records_are_written_before_later_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, partitions=4)
    key = next(key for key in (b"%d" % n for n in range(100)) if partition_for_key(key, 4) == 3)
    for _ in range(6):
        send(world, key)
    remake(world, 1)
    for _ in range(6):
        send(world, key)
    settle(world)
    assert numbers(world.logs[0]) == list(range(12))


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_records_in_flight_are_written_before_later_ones(
    monkeypatch: pytest.MonkeyPatch, is_idempotent: bool
) -> None:
    world = World(monkeypatch, partitions=4, enable_idempotence=is_idempotent)
    key = next(key for key in (b"%d" % n for n in range(100)) if partition_for_key(key, 4) == 3)
    send(world, key)
    world.sender.step()
    _, on_done = world.wire.take()
    remake(world, 1)
    later = [send(world, key) for _ in range(3)]
    world.pass_time(100)
    assert not world.wire.waiting, "the first may have to go there"
    on_done(response((3, ErrorCode.UNKNOWN_TOPIC_ID, -1)))
    settle(world)
    assert numbers(world.logs[0]) == [0, 1, 2, 3]
    assert all(each.is_done for each in later)


def test_a_restored_partition_does_not_hold_records_back(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, partitions=2)
    send(world, None, 1)
    world.sender.step()
    remake(world, 1)
    other = send(world, None, 0)
    world.sender.step()
    remake(world, 2, UUID(int=9))
    world.sender.step()
    assert len(world.wire.waiting) == 2, "what is on its way is not placed again"
    settle(world)
    assert other.known_metadata().offset == 0


def test_records_without_a_key_go_to_existing_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, partitions=8)
    sent = [send(world, None) for _ in range(40)]
    remake(world, 2)
    settle(world)
    assert {each.known_metadata().partition for each in sent} <= {0, 1}
    assert sorted(numbers(world.logs[0]) + numbers(world.logs[1])) == list(range(40))


def test_a_record_for_a_removed_partition_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, partitions=4, batch_size=10_000)
    key = next(key for key in (b"%d" % n for n in range(100)) if partition_for_key(key, 4) == 3)
    first, named, last = send(world, key), send(world, key, 3), send(world, key)
    alone = send(world, None, 2)
    assert named.batch is first.batch
    remake(world, 1)
    world.sender.step()
    for each in (named, alone):
        with pytest.raises(BrokerError, match="is gone: topic 't' was made anew") as caught:
            each.known_metadata()
        assert caught.value.code is GONE
    settle(world)
    assert numbers(world.logs[0]) == [0, 2]
    assert [each.known_metadata().offset for each in (first, last)] == [0, 1]
    assert world.accumulator.buffered_bytes == 0


def test_a_batch_that_may_be_written_is_not_sent_to_another_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, partitions=4)
    key = next(key for key in (b"%d" % n for n in range(100)) if partition_for_key(key, 4) == 3)
    lost = send(world, key)
    world.sender.step()
    unsent = send(world, key)
    request, on_done = world.wire.take()
    remake(world, 1)
    world.sender.step()
    assert not lost.is_done, "its answer may come still"
    assert not unsent.is_done
    on_done(NetworkError("broken"))
    settle(world)
    with pytest.raises(BrokerError, match="The batch may be written, so it is not sent to another one"):
        lost.known_metadata()
    assert unsent.known_metadata().partition == 0
    assert numbers(world.logs[0]) == [1]
    assert request.topic_data[0].topic_id == TOPIC_ID


def test_an_unanswered_attempt_counts_despite_later_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, partitions=2)
    sent = send(world, None, 1, is_chosen=True)
    world.sender.step()
    world.wire.break_off()
    world.pass_time(2_000)
    refuse_all(world, ErrorCode.UNKNOWN_TOPIC_ID)
    remake(world, 1)
    settle(world)
    with pytest.raises(BrokerError, match="may be written"):
        sent.known_metadata()


@pytest.mark.parametrize("code", [GONE, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_a_refused_batch_moves_to_another_partition(monkeypatch: pytest.MonkeyPatch, code: ErrorCode) -> None:
    world = World(monkeypatch, partitions=2)
    sent = send(world, None, 1, is_chosen=True)
    world.sender.step()
    refuse_all(world, code)
    remake(world, 1)
    settle(world)
    assert sent.known_metadata().partition == 0


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
)
def test_a_batch_with_an_ambiguous_error_does_not_move(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    world = World(monkeypatch, partitions=2)
    sent = send(world, None, 1, is_chosen=True)
    world.sender.step()
    refuse_all(world, code)
    remake(world, 1)
    settle(world)
    with pytest.raises(BrokerError, match="may be written"):
        sent.known_metadata()


def test_the_users_partitioner_is_called_again_and_its_failure_fails_only_its_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def partitioner(topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        assert (topic, count) == ("t", 2)
        if key == b"bad":
            raise ValueError(key)
        return count if key == b"beyond" else 1

    world = World(monkeypatch, partitions=4, partitioner=partitioner, batch_size=10_000)
    keys = (b"a", b"bad", b"b", b"beyond")
    sent = [send(world, key, 3, is_chosen=True) for key in keys]
    remake(world, 2)
    settle(world)
    assert [each.known_metadata().offset for each in (sent[0], sent[2])] == [0, 1]
    for each in (sent[1], sent[3]):
        with pytest.raises(BrokerError, match="No other could be chosen"):
            each.known_metadata()
    assert numbers(world.logs[1]) == [0, 2]


def test_fewer_partitions_of_the_same_topic_are_old_news(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, partitions=4)
    world.accumulator.learn("t", 2, TOPIC_ID)
    assert world.accumulator.partition_count("t") == 4


def test_a_restored_partition_continues_without_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """The word that the topic was made anew may be wrong: its log has the producer's batches still."""
    world = World(monkeypatch, partitions=2)
    send(world, None, 1)
    settle(world)
    (log,) = world.logs[1:]
    send(world, None, 1, is_chosen=True)
    world.sender.step()
    refuse_all(world, GONE)
    remake(world, 1)
    settle(world)
    remake(world, 2, TOPIC_ID)
    world.logs[1] = log
    back = send(world, None, 1)
    settle(world)
    assert back.known_metadata().offset == 1
    assert numbers(log) == [0, 2]


def test_callbacks_and_deliveries_follow_their_records(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, partitions=4, batch_size=10_000)
    called: list[int] = []
    sent = [send(world, b"%d" % number, 3, is_chosen=True) for number in range(20)]
    for number, each in enumerate(sent):
        each.when_done(lambda number=number: called.append(number))  # type: ignore[misc]
    remake(world, 3)
    settle(world)
    assert sorted(called) == list(range(20))
    assert f"to t-{sent[0].known_metadata().partition}, written at" in repr(sent[0])


def test_records_waiting_for_a_missing_topic_are_written_when_it_is_created(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, partitions=3)
    sent = [send(world, b"%d" % number) for number in range(20)]
    del world.known.topics["t"]
    world.accumulator.forget("t")
    world.pass_time(1_000)
    assert world.accumulator.append("t", b"", None, None, 0, ()) is None
    assert "t" in world.metadata_needed
    remake(world, 1)
    settle(world)
    assert [each.known_metadata().partition for each in sent] == [0] * 20


def test_a_batch_left_empty_by_an_exception_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, partitions=4)
    empty = world.accumulator._begin_batch(world.accumulator._topics["t"].partitions[3], 60)
    assert empty is not None
    remake(world, 1)
    world.sender.step()
    assert empty.is_done, "a flush would wait for it for ever"
    assert world.accumulator.buffered_bytes == 0


def test_nothing_is_sent_to_a_new_log_before_its_sequences_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another task may hear of the new topic first. What was written there is not written again."""
    world = World(monkeypatch)
    world.send(1)
    world.settle()
    world.known.make("t", 1, NEW_ID)
    world.logs = [Log()]
    world.send(1)
    request, on_done = world.wire.take()
    if request.topic_data[0].topic_id == NEW_ID:
        world.process(request)
    on_done(NetworkError("the answer is lost"))
    world.accumulator.learn("t", 1, NEW_ID)
    settle(world)
    assert numbers(world.logs[0]) == [1]


def answer_by_id(logs: dict[UUID, list[Log]], request: ProduceRequest) -> ProduceResponse:
    """Let a broker that knows these topics answer."""
    (topic,) = request.topic_data
    known = logs.get(topic.topic_id)
    answers = []
    for each in topic.partition_data:
        code, offset = ErrorCode.UNKNOWN_TOPIC_ID, -1
        if known is not None and each.index < len(known):
            code, offset = known[each.index].append(cast("bytes", each.records))
        answers.append((each.index, code, offset))
    return response(*answers, topic_id=topic.topic_id)


def answer_all(world: World, logs: dict[UUID, list[Log]]) -> None:
    """Let time pass, and answer whatever is sent."""
    world.pass_time(2_000)
    while world.wire.waiting:
        request, on_done = world.wire.take()
        on_done(answer_by_id(logs, request))


@pytest.mark.parametrize("records_before", [0, 1, 3])
@pytest.mark.parametrize("way", [(8, 7, 8), (8, 7, 9, 8), (8, 7, 8, 7, 8)])
def test_metadata_that_alternate_between_topics_write_nothing_twice(
    monkeypatch: pytest.MonkeyPatch, records_before: int, way: tuple[int, ...]
) -> None:
    """A broker that lags behind tells the id of the topic before, and the newer one's answer is lost."""
    world = World(monkeypatch)
    world.send(2)
    world.settle()
    logs = {UUID(int=8): [Log()]}
    for topic_id in way:
        world.accumulator.learn("t", 1, UUID(int=topic_id))
        if topic_id == 8 and not logs[UUID(int=8)][0].values:
            for _ in range(records_before):
                world.send(1)
                request, on_done = world.wire.take()
                on_done(answer_by_id(logs, request))
            world.send(1)
            request, on_done = world.wire.take()
            answer_by_id(logs, request)
            on_done(NetworkError("the answer is lost"))
        answer_all(world, logs)
    world.send(2)
    for _ in range(10):
        answer_all(world, logs)
    assert numbers(logs[UUID(int=8)][0]) == list(range(2, 5 + records_before))
    assert all(each.batch.error is None for each in world.appended)


@pytest.mark.parametrize("lags", [False, True])
@pytest.mark.parametrize("seed", range(repetitions(60, by_night=1_000)))
def test_for_any_order_of_metadata_no_topic_has_a_record_twice(
    monkeypatch: pytest.MonkeyPatch, seed: int, lags: bool
) -> None:
    """With `lags` the leaders of topics that are gone take records still."""
    dice = random.Random(seed)
    world = World(monkeypatch, partitions=3, batch_size=dice.choice((100, 400)), batch_max_size=3_000)
    newest = TOPIC_ID
    every = {TOPIC_ID: world.logs}

    def answer(request: ProduceRequest) -> ProduceResponse:
        return answer_by_id(every if lags else {newest: every[newest]}, request)

    def hear(topic_id: UUID) -> None:
        world.known.make("t", len(every[topic_id]), topic_id)
        world.accumulator.learn("t", len(every[topic_id]), topic_id)

    for _ in range(300):
        match dice.randrange(7):
            case 0 | 1:
                send(world, dice.choice((None, b"%d" % dice.randrange(20))), dice.choice((None, None, 0)))
                world.sender.step()
            case 2 | 3 if world.wire.waiting:
                request, on_done = world.wire.take()
                on_done(answer(request))
            case 4 if world.wire.waiting:
                for request, _ in world.wire.waiting[: dice.randrange(6)]:
                    answer(request)
                world.wire.break_off()
            case 5 if dice.random() < 0.3:
                if dice.random() < 0.3:
                    newest = UUID(int=newest.int + 1)
                    every[newest] = [Log() for _ in range(dice.choice((1, 3, 3, 5)))]
                    most_records = dice.choice((1, 3, 1_000, 1_000))
                    for log in every[newest]:
                        log.most_records = most_records
                hear(dice.choice(list(every)[-3:]))
            case _:
                world.pass_time(dice.choice((1, 10, 100)))
    hear(newest)
    for _ in range(10_000):
        while world.wire.waiting:
            request, on_done = world.wire.take()
            on_done(answer(request))
        if not world.sender.unfinished():
            break
        world.pass_time(50)
    assert not world.sender.unfinished()
    for logs in every.values():
        written = [number for log in logs for number in numbers(log)]
        assert len(written) == len(set(written)), "within a topic no record is there twice"
    anywhere = {number for logs in every.values() for log in logs for number in numbers(log)}
    for number, each in enumerate(world.appended):
        assert each.batch.locate(each.index)[0].error is not None or number in anywhere
    assert world.accumulator.buffered_bytes == 0


@pytest.mark.parametrize("seed", range(repetitions(60, by_night=300)))
def test_for_any_number_of_recreations_no_record_is_written_twice(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = random.Random(seed)
    world = World(monkeypatch, partitions=4, batch_size=dice.choice((100, 400)), batch_max_size=3_000)
    every = list(world.logs)
    topic_id = 8

    def answer(request: ProduceRequest) -> object:
        (topic,) = request.topic_data
        if topic.topic_id != world.known.topics["t"].topic_id:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            return response(
                *((each.index, code, -1) for each in topic.partition_data), topic_id=topic.topic_id
            )
        return response(
            *(
                (each.index, *world.logs[each.index].append(cast("bytes", each.records)))
                for each in topic.partition_data
            ),
            topic_id=topic.topic_id,
        )

    for _ in range(200):
        match dice.randrange(6):
            case 0 | 1:
                key = dice.choice((None, b"%d" % dice.randrange(20)))
                send(world, key, dice.choice((None, None, 0)))
                world.sender.step()
            case 2 | 3 if world.wire.waiting:
                request, on_done = world.wire.take()
                on_done(answer(request))  # type: ignore[arg-type]
            case 4 if world.wire.waiting:
                for request, _ in world.wire.waiting[: dice.randrange(6)]:
                    answer(request)
                world.wire.break_off()
            case 5 if dice.random() < 0.3:
                remake(world, dice.randrange(1, 7), UUID(int=topic_id))
                every += world.logs
                topic_id += 1
            case _:
                world.pass_time(dice.choice((1, 10, 100)))
    for _ in range(10_000):
        while world.wire.waiting:
            request, on_done = world.wire.take()
            on_done(answer(request))  # type: ignore[arg-type]
        if not world.sender.unfinished():
            break
        world.pass_time(50)
    assert not world.sender.unfinished()
    last: list[int] = [number for log in world.logs for number in numbers(log)]
    assert len(last) == len(set(last)), "within a topic no record is there twice"
    anywhere = {number for log in every for number in numbers(log)}
    for number, each in enumerate(world.appended):
        failure = each.batch.locate(each.index)[0].error
        assert each.is_done
        assert failure.code is GONE if failure is not None else number in anywhere
    assert world.accumulator.buffered_bytes == 0
