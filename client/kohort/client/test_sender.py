"""The sender against a broker in memory that checks sequences as Kafka does, under virtual time."""

import random
from collections.abc import Callable
from typing import cast
from uuid import UUID

import anyio
import pytest

from kohort.client import accumulator, outcomes, producer_metrics, sender
from kohort.client.accumulator import Accumulator
from kohort.client.batch import NOBODY, Appended, ProducerIdentity
from kohort.client.cluster import Cluster
from kohort.client.config import producer_config
from kohort.client.errors import BrokerError, DeliveryTimeoutError, KohortError, NetworkError
from kohort.client.metadata import TopicMetadata
from kohort.client.metrics import Metrics
from kohort.client.partitioner import Partitioner
from kohort.client.producer_metrics import ProducerMetrics
from kohort.client.sender import Sender
from kohort.client.sequences import EPOCH_MAX
from kohort.client.values import Node, PartitionInfo, TopicPartition
from kohort.client.warnings import Warnings
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceResponseLeaderIdAndEpoch,
    ProduceResponseNodeEndpoint,
    TopicProduceResponse,
)
from kohort.protocol.records import iterate_records, read_header
from tests.repetitions import repetitions

TOPIC_ID = UUID(int=7)
OnDone = Callable[[ProduceResponse | KohortError], None]
BATCHES_REMEMBERED = 5


class Log:
    """One partition's log with what Kafka remembers of its producer. Source: ProducerStateManager."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.most_records = 1_000
        self.refused = 0
        self._epoch = -1
        self._batches: list[tuple[int, int, int]] = []  # First and last sequence, offset of the first.

    def append(self, data: bytes) -> tuple[ErrorCode, int]:
        """Return Kafka's answer to a produced batch: a code and the offset of its first record."""
        header = read_header(data)
        if header.record_count > self.most_records:
            self.refused += 1
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        first, last = header.base_sequence, header.base_sequence + header.record_count - 1
        if header.producer_id >= 0:
            if header.producer_epoch < self._epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH, -1
            if header.producer_epoch > self._epoch:
                if first and self._epoch >= 0:
                    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
                self._epoch, self._batches = header.producer_epoch, []
            for seen in self._batches:
                if seen[:2] == (first, last):
                    return ErrorCode.NONE, seen[2]
            if self._batches and first != self._batches[-1][1] + 1:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            self._batches = [*self._batches, (first, last, len(self.values))][-BATCHES_REMEMBERED:]
        self.values += [each.value or b"" for each in iterate_records(data)]
        return ErrorCode.NONE, len(self.values) - header.record_count


class Wire:
    """A connection: requests wait here until the test lets the broker look at them."""

    def __init__(self) -> None:
        self.waiting: list[tuple[ProduceRequest, OnDone]] = []

    def start(
        self,
        request: ProduceRequest,
        answer: type[ProduceResponse],
        on_done: OnDone,
        *,
        timeout_ms: float,
        highest: int | None,
    ) -> None:
        self.waiting.append((request, on_done))

    def take(self) -> tuple[ProduceRequest, OnDone]:
        return self.waiting.pop(0)

    def break_off(self) -> None:
        """Every answer that is awaited is lost."""
        lost, self.waiting = self.waiting, []
        for _, on_done in lost:
            on_done(NetworkError("broken"))


class Known:
    """What the sender asks its cluster for: one broker, which leads everything."""

    def __init__(self, partitions: int) -> None:
        self.wire = Wire()
        self.metadata = self
        self.warnings = Warnings()
        self.topics: dict[str, TopicMetadata] = {}
        self.make("t", partitions)

    def make(self, topic: str, partitions: int, topic_id: UUID = TOPIC_ID) -> None:
        info = {each: PartitionInfo(each, 1, 0, (1,), (1,)) for each in range(partitions)}
        self.topics[topic] = TopicMetadata(topic, topic_id, False, 0, info)

    def leader(self, partition: TopicPartition) -> PartitionInfo:
        try:
            return self.topics[partition.topic].partitions[partition.partition]
        except KeyError:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from None

    def open_connection(self, node_id: int) -> Wire:
        return self.wire


class World:
    """A sender with its accumulator, one broker and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, partitions: int = 1, **options: object) -> None:
        self.now_ms = 1_000_000
        for module in (accumulator, outcomes, producer_metrics, sender):
            monkeypatch.setattr(module, "monotonic_ms", lambda: self.now_ms)
        batch_size = options.get("batch_size", 100)
        config = producer_config(
            {"batch_size": batch_size, "batch_max_size": batch_size, "linger_ms": 0, **options}
        )
        self.known = Known(partitions)
        self.logs = [Log() for _ in range(partitions)]
        self.accumulator = Accumulator(config)
        self.accumulator.learn("t", partitions, TOPIC_ID)
        self.metadata_needed: list[str] = []
        self.sender = Sender(
            cast("Cluster", self.known),
            config,
            self.accumulator,
            ProducerMetrics(Metrics("test"), self.accumulator, config),
            self.metadata_needed.append,
            partitioner=cast("Partitioner | None", config.partitioner),
        )
        self.sender.identifier.identity = ProducerIdentity(9, 0)
        self.appended: list[Appended] = []

    @property
    def wire(self) -> Wire:
        return self.known.wire

    def send(self, count: int, partition: int = 0, size: int = 60) -> list[Appended]:
        """Append so many records, each a batch of its own by its size."""
        found = []
        for _ in range(count):
            value = (b"%d" % len(self.appended)).ljust(size, b".")
            each = self.accumulator.append("t", value, None, partition, self.now_ms, ())
            assert each is not None
            found.append(each)
            self.appended.append(each)
        self.sender.step()
        return found

    def look(self) -> None:
        """Let the broker look at one request, and answer."""
        request, on_done = self.wire.take()
        on_done(self.process(request))

    def process(self, request: ProduceRequest) -> ProduceResponse:
        (topic,) = request.topic_data
        return response(
            *(
                (each.index, *self.logs[each.index].append(cast("bytes", each.records)))
                for each in topic.partition_data
            )
        )

    def pass_time(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.sender.step()

    def settle(self) -> None:
        """Let everything happen that can."""
        for _ in range(10_000):
            while self.wire.waiting:
                self.look()
            if not self.sender.unfinished():
                return
            self.pass_time(50)
        raise AssertionError("it never ends")


def response(
    *answers: tuple[int, ErrorCode, int],
    log_start_offset: int = 0,
    leader: Node | None = None,
    topic_id: UUID = TOPIC_ID,
) -> ProduceResponse:
    current_leader = ProduceResponseLeaderIdAndEpoch()
    endpoints: tuple[ProduceResponseNodeEndpoint, ...] = ()
    if leader is not None:
        current_leader = ProduceResponseLeaderIdAndEpoch(leader_id=leader.node_id, leader_epoch=5)
        endpoints = (ProduceResponseNodeEndpoint(node_id=leader.node_id, host=leader.host, port=leader.port),)
    return ProduceResponse(
        responses=(
            TopicProduceResponse(
                name="",
                topic_id=topic_id,
                partition_responses=tuple(
                    PartitionProduceResponse(
                        index=index,
                        error_code=code,
                        base_offset=offset,
                        log_start_offset=log_start_offset,
                        record_errors=(),
                        current_leader=current_leader,
                    )
                    for index, code, offset in answers
                ),
            ),
        ),
        node_endpoints=endpoints,
    )


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """One whose log knows the producer already: record 0 is written."""
    made = World(monkeypatch)
    made.send(1)
    made.settle()
    return made


def numbers(log: Log) -> list[int]:
    return [int(value.strip(b".")) for value in log.values]


def test_five_requests_are_in_flight_and_the_sixth_waits_for_an_answer(world: World) -> None:
    world.send(7)
    assert len(world.wire.waiting) == 5
    world.look()
    assert len(world.wire.waiting) == 5
    world.settle()
    assert numbers(world.logs[0]) == list(range(8))
    assert [each.known_metadata().offset for each in world.appended] == list(range(8))


def test_the_first_batch_of_a_partition_is_sent_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.send(4)
    _, on_done = world.wire.take()
    on_done(response((0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)))
    assert world.wire.waiting == []
    world.settle()
    assert numbers(world.logs[0]) == list(range(4))


def test_a_request_contains_one_batch_of_each_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, partitions=3, linger_ms=10)
    for partition in range(3):
        world.send(1, partition)
    world.pass_time(10)
    ((request, _),) = world.wire.waiting
    assert [each.index for each in request.topic_data[0].partition_data] == [0, 1, 2]
    world.settle()
    assert [numbers(each) for each in world.logs] == [[0], [1], [2]]


def test_lost_answers_double_nothing_and_keep_the_order(world: World) -> None:
    world.send(5)
    for _ in range(3):
        request, _ = world.wire.waiting[0]
        world.process(request)  # Written, but nobody hears of it ...
        world.process(request)  # ... and the same batch may reach the log twice.
        _, on_done = world.wire.take()
        on_done(NetworkError("broken"))
    world.wire.break_off()
    world.settle()
    assert numbers(world.logs[0]) == list(range(6))
    assert [each.known_metadata().offset for each in world.appended] == list(range(6))


def test_batches_behind_a_refused_one_are_sent_again_after_it(world: World) -> None:
    world.send(4)
    _, on_done = world.wire.take()
    on_done(response((0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)))
    assert world.metadata_needed == ["t"]
    while world.wire.waiting:
        world.look()  # OUT_OF_ORDER_SEQUENCE_NUMBER for each.
    world.settle()
    assert numbers(world.logs[0]) == list(range(5))
    assert world.sender.identifier.identity.epoch == 0, "no gap, no new epoch"


def test_only_a_record_that_is_too_large_fails_and_the_epoch_is_raised(world: World) -> None:
    first, second = world.send(2)
    _, on_done = world.wire.take()
    on_done(response((0, ErrorCode.MESSAGE_TOO_LARGE, -1)))
    world.settle()
    with pytest.raises(KohortError) as caught:
        first.known_metadata()
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert second.known_metadata().offset == 1
    assert world.sender.identifier.identity.epoch == 1


def test_a_batch_that_is_too_large_is_split_until_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, batch_size=10_000, linger_ms=5)
    world.logs[0].most_records = 3
    world.send(20)
    world.pass_time(5)
    world.send(10)
    world.settle()
    assert numbers(world.logs[0]) == list(range(30))
    assert [each.known_metadata().offset for each in world.appended] == list(range(30))


def test_a_producer_that_the_broker_forgot_continues_with_a_new_epoch(world: World) -> None:
    world.send(3)
    for _ in range(3):
        _, on_done = world.wire.take()
        on_done(response((0, ErrorCode.UNKNOWN_PRODUCER_ID, -1), log_start_offset=50))
    world.settle()
    assert numbers(world.logs[0]) == list(range(4))
    assert world.sender.identifier.identity == ProducerIdentity(9, 1)


def test_an_epoch_raised_by_one_partition_keeps_the_order_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, partitions=2)
    for partition in (0, 1, 1):
        world.send(1, partition)
        world.settle()
    lost = world.accumulator._topics["t"].partitions[1].sequences
    lost.last_acked_sequence, lost.is_unresolved = 0, True  # Of one it never became known: it has expired.
    world.send(1, 0)
    assert len(world.wire.waiting) == 1, "on its way in the old epoch"
    for number, partition in ((4, 0), (5, 1), (6, 0), (7, 1)):
        value = (b"%d" % number).ljust(60, b".")
        world.accumulator.append("t", value, None, partition, world.now_ms, ())
    world.sender.step()
    world.settle()
    assert numbers(world.logs[0]) == [0, 3, 4, 6]
    assert numbers(world.logs[1]) == [1, 2, 5, 7]
    assert world.sender.identifier.identity.epoch == 1


def test_nothing_is_sent_without_an_id_after_the_last_epoch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.sender.identifier.identity = ProducerIdentity(9, EPOCH_MAX)
    world.send(1)
    world.settle()
    monkeypatch.setattr(world.sender.identifier, "_is_asking", True)
    sequences = world.accumulator._topics["t"].partitions[0].sequences
    sequences.last_acked_sequence, sequences.is_unresolved = -1, True  # One has expired: was it written?
    world.send(1)
    assert world.sender.identifier.identity == NOBODY
    assert not world.wire.waiting, "another id is asked for"
    world.sender.identifier.identity = ProducerIdentity(10, 0)
    world.logs = [Log()]  # It does not know that one yet.
    world.settle()
    assert numbers(world.logs[0]) == [2]
    assert world.appended[2].batch.identity == ProducerIdentity(10, 0)


def test_an_answer_that_names_the_new_leader_is_believed(world: World) -> None:
    learned: list[tuple[TopicPartition, int, int, list[Node]]] = []
    world.known.learn_leader = lambda *leader: learned.append(leader)  # type: ignore[attr-defined]
    world.send(1)
    _, on_done = world.wire.take()
    on_done(response((0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1), leader=Node(2, "h", 9)))
    assert learned == [(TopicPartition("t", 0), 2, 5, [Node(2, "h", 9)])]


def test_a_duplicate_without_a_known_offset_counts_as_written(world: World) -> None:
    (sent,) = world.send(1)
    _, on_done = world.wire.take()
    on_done(response((0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER, -1)))
    assert sent.known_metadata().offset == -1


def test_a_delivery_timeout_names_the_last_error(world: World) -> None:
    sent, behind = world.send(2)
    for _ in range(400):
        if world.wire.waiting:
            _, on_done = world.wire.take()
            on_done(response((0, ErrorCode.NOT_ENOUGH_REPLICAS, -1)))
        world.pass_time(500)
    with pytest.raises(
        DeliveryTimeoutError, match=r"within delivery_timeout_ms \(120000\); last: NOT_ENOUGH"
    ):
        sent.known_metadata()
    with pytest.raises(DeliveryTimeoutError, match="last: NOT_ENOUGH"):
        behind.known_metadata()


def test_a_batch_that_expired_in_flight_delays_the_next_until_its_result_is_known(world: World) -> None:
    (late,) = world.send(1)
    request, on_done = world.wire.take()
    world.pass_time(121_000)
    assert late.is_done
    (following,) = world.send(1)
    assert world.wire.waiting == []
    on_done(world.process(request))  # It was written after all.
    world.settle()
    assert following.known_metadata().offset == 2
    assert world.sender.identifier.identity.epoch == 0


def test_after_a_lost_expired_batch_the_partition_starts_a_new_epoch(world: World) -> None:
    world.send(1)
    _, on_done = world.wire.take()
    world.pass_time(121_000)
    (following,) = world.send(1)
    on_done(NetworkError("broken"))
    world.settle()
    assert following.known_metadata().offset == 1
    assert world.sender.identifier.identity.epoch == 1


def test_retries_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, retries=2)
    (sent,) = world.send(1)
    for _ in range(3):
        _, on_done = world.wire.take()
        on_done(response((0, ErrorCode.NOT_ENOUGH_REPLICAS, -1)))
        world.pass_time(2_000)
    assert world.wire.waiting == []
    with pytest.raises(KohortError, match="NOT_ENOUGH_REPLICAS"):
        sent.known_metadata()


def test_one_in_flight_keeps_the_order_without_idempotence(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, enable_idempotence=False, max_in_flight=1)
    world.send(3)
    assert len(world.wire.waiting) == 1
    world.wire.break_off()
    world.settle()
    assert numbers(world.logs[0]) == [0, 1, 2]


@pytest.mark.parametrize("seed", range(repetitions(60, by_night=300)))
def test_each_record_is_written_once_and_in_order_for_any_failure(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = random.Random(seed)
    world = World(
        monkeypatch,
        partitions=2,
        batch_size=dice.choice((100, 400)),
        batch_max_size=dice.choice((100, 3_000)),
        linger_ms=dice.choice((0, 20)),
    )
    for log in world.logs:
        log.most_records = dice.choice((2, 1_000))
    for _ in range(300):
        match dice.randrange(7):
            case 0 | 1:
                world.send(dice.randrange(1, 4), dice.randrange(2), dice.choice((10, 60)))
            case 2 | 3 | 4 if world.wire.waiting:
                world.look()
            case 5 if world.wire.waiting:  # Written, or some of it, and nobody hears of it.
                for request, _ in world.wire.waiting[: dice.randrange(6)]:
                    world.process(request)
                world.wire.break_off()
            case 6 if world.wire.waiting:
                request, on_done = world.wire.take()
                code = dice.choice((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS))
                on_done(response(*((each.index, code, -1) for each in request.topic_data[0].partition_data)))
            case _:
                world.pass_time(dice.choice((1, 10, 100)))
    world.settle()
    for partition, log in enumerate(world.logs):
        own = [n for n, each in enumerate(world.appended) if each.batch.partition.partition == partition]
        assert numbers(log) == own
        assert [world.appended[n].known_metadata().offset for n in own] == list(range(len(own)))


def test_later_batches_stay_below_a_refused_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, batch_max_size=10_000, max_in_flight=1)
    (log,) = world.logs
    log.most_records = 12
    for size in (40, 200):
        refused = log.refused
        world.send(1)
        world.send(size)  # They wait for the first one's answer, and grow together meanwhile.
        world.settle()
    assert refused == 3, "40 records, and 20 twice"
    assert log.refused == refused
    assert numbers(log) == list(range(242))


def test_waiters_for_the_end_are_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, linger_ms=60_000)

    async def main() -> None:
        (sent,) = world.send(1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.sender.flush)
            await anyio.wait_all_tasks_blocked()
            world.sender.step()
            world.look()
        assert sent.is_done

    anyio.run(main)
