"""Who uses transactions in a run: producers that take each other's ids, readers, and what befalls them."""

from functools import partial
from random import Random
from typing import Protocol
from uuid import UUID

from kohort.broker.coordination.shard import ShardState
from kohort.broker.group import Decision, Record, coordinator_partition
from kohort.broker.metadata import (
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    Mutation,
    TopicState,
)
from kohort.broker.partitions.flusher import JOURNALED_BYTES_MAX
from kohort.broker.transactions.transaction import (
    BUMPING_VERSION,
    EPOCH_MAX,
    Transaction,
    TransactionState,
)
from kohort.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kohort.protocol.records import build_batch
from kohort.protocol.registry import BY_NAME
from tests.simulation.books import Books
from tests.simulation.fault_steps import FaultSteps
from tests.simulation.metadata import FIRST_PRODUCER_ID, Metadata, places
from tests.simulation.network import Host, Link
from tests.simulation.schedule import Action, Schedule
from tests.simulation.server import STALL_MS, Server
from tests.simulation.transactions.ledger import PLAIN, Ledger, Place
from tests.simulation.transactions.process import Process
from tests.simulation.transactions.producer import PASSING, TIMEOUTS_MS, Plain, Producer, group_id_of
from tests.simulation.transactions.reader import Reader
from tests.simulation.transactions.shortener import Shortener
from tests.simulation.transactions.truth import shown
from tests.simulation.transactions.watcher import Watcher
from tests.simulation.transactions.worker import GROUP, Worker, counter_of

SHARDS = 2
COMEBACK_MS_MAX = 6_000
REST_MS_MAX = 60_000
HOLD_MS_MAX = 20_000
AWAY_MS_MAX = 3_000
LATE_MS_MAX = 2_000
WRITE_TXN_MARKERS = BY_NAME["WriteTxnMarkers"]
MARKERS_VERSION = 2
ENDED = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
OFFSETS_SHARDS = 4
GOES_ON_MS_MAX = 120_000
WAITS_FOR_AN_END_MS = 5_000
LARGE_BYTES = JOURNALED_BYTES_MAX + 1_000
ENDS_MS_MAX = max(TIMEOUTS_MS) + 30_000
READS_MS_MAX = 120_000
LOOK_MS = 500
WORKERS = 3
WORN_OUT = "p0"
"""The transactional id whose epochs are all but used up."""
COMPACTED = "compacted"
COUNTED = "counted"
SHORTENED = "shortened"
"""A topic whose oldest records are deleted now and then."""
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    COUNTED: (3, {"internal.segment.bytes": "6000"}),
    COMPACTED: (
        2,
        {
            "cleanup.policy": "compact",
            "internal.segment.bytes": "4000",
            "min.cleanable.dirty.ratio": "0.1",
            "delete.retention.ms": "20000",
            "file.delete.delay.ms": "10000",
        },
    ),
    PASSING: (1, {}),
    SHORTENED: (2, {"internal.segment.bytes": "3000", "file.delete.delay.ms": "10000"}),
}
STATE_CONFIG = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "8192",
    "min.cleanable.dirty.ratio": "0.2",
    "delete.retention.ms": "30000",
    "file.delete.delay.ms": "20000",
}


class World(Protocol):
    """What this has to do with."""

    schedule: Schedule
    books: Books
    metadata: Metadata
    server: Server | None

    def connect(self, host: Host, client_id: str, on_closed: Action) -> Link | None:
        """Return a connection to the broker, None where there is none to be had."""
        ...

    def note(self, text: str) -> None:
        """Write a line into the trace."""
        ...

    def kill_broker(self) -> None:
        """Let the broker's process die; it is started again."""
        ...


class Ensemble:
    """All of them, moved by a random of their own."""

    def __init__(self, world: World, random: Random, producers: int) -> None:
        self.ledger = Ledger(world.books)
        self._world = world
        self._random = random
        self._ids = [f"p{number}" for number in range(producers)]
        self._serial = 0
        self._made = 0
        worker_ids = [f"w{number}" for number in range(WORKERS)]
        self._processes: dict[str, list[Producer]] = {each: [] for each in (*self._ids, *worker_ids)}
        self._places = [(topic, index) for topic, (count, _) in TOPICS.items() for index in range(count)]
        self._inputs = [each for each in self._places if each[0] == COUNTED]
        self._counters = [(each, group_id_of(each), self._anchor(each)) for each in self._ids]
        self._counters += [(counter_of(each), GROUP, each) for each in self._inputs]
        self._readers: list[Reader] = []
        self._others: list[Process] = []
        self._stopped = False
        self._is_calm = False
        self._wants_to_come: set[str] = set()
        faults = [
            (6, self._kill),
            (5, self._send_a_rival),
            (5, self._rest),
            (5, self._hold),
            (5, self._lose_connection),
            (3, self._cut),
            (2, self._make_again),
            (2, self._drop_shard),
            (12, self._send_a_late_marker),
        ]
        self._fault_steps = FaultSteps(world.schedule, random, faults)

    def states(self) -> list[TopicState]:
        """Return what the metadata begin with."""
        topics = [self._topic(name) for name in TOPICS]
        return [*topics, TopicState(TRANSACTIONS_TOPIC, UUID(int=98), places(SHARDS), STATE_CONFIG)]

    def _topic(self, name: str) -> TopicState:
        self._made += 1
        count, configs = TOPICS[name]
        return TopicState(name, UUID(int=20_000 + self._made), places(count), configs)

    # -- their life -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Act from now on."""
        for transactional_id in self._processes:
            if transactional_id != WORN_OUT:
                self._come(transactional_id)
        self._wants_to_come.add(WORN_OUT)
        self._wear_out()
        topics = self._world.metadata.snapshot().topics
        for place in self._places:
            if place[0] != PASSING:
                for number in range(2):
                    name = f"reader-{place[0]}-{place[1]}-{number}"
                    reader = Reader(
                        self._world,
                        name,
                        self._fresh_random(),
                        ledger=self.ledger,
                        place=place,
                        topic_id=topics[place[0]].topic_id,
                        start=partial(self._start_of, place) if place[0] == SHORTENED else None,
                    )
                    self._readers.append(reader)
                    reader.begin()
        plain = Plain(self._world, "plain", self._fresh_random(), ledger=self.ledger, places=self._places)
        watcher = Watcher(
            self._world, "watcher", self._fresh_random(), ledger=self.ledger, anchors=self._counters
        )
        places = [each for each in self._places if each[0] == SHORTENED]
        shortener = Shortener(self._world, "shortener", self._fresh_random(), places=places)
        self._others += (plain, watcher, shortener)
        for each in self._others:
            each.begin()
        self._fault_steps.later(self._step)

    def _fresh_random(self) -> Random:
        return Random(self._random.getrandbits(64))

    def _wear_out(self) -> None:
        """Have the log say of one id that its epochs are all but used up, as a coordinator before had it."""
        server = self._world.server
        for shard in [] if server is None else server.transactions.all_shards():
            if shard.index == coordinator_partition(WORN_OUT, SHARDS) and shard.state is ShardState.ACTIVE:
                worn = Transaction(
                    WORN_OUT,
                    producer_id=FIRST_PRODUCER_ID - 1,
                    producer_epoch=EPOCH_MAX - self._random.randrange(2, 7),
                    timeout_ms=TIMEOUTS_MS[0],
                    state=TransactionState.COMPLETE_COMMIT,
                    last_update_ms=self._world.schedule.time_ms,
                )
                shard._carry_out(None, Decision((Record(worn.key, worn.value()),)))
                self._come(WORN_OUT)
                return
        self._world.schedule.after(10, self._wear_out)

    def _come(self, transactional_id: str) -> None:
        """Begin a process, unless there is one, or nobody is to act any more."""
        self._wants_to_come.discard(transactional_id)
        if self._stopped or any(not each.stopped for each in self._processes[transactional_id]):
            return
        self._start(transactional_id)

    def _start(self, transactional_id: str) -> Producer:
        self._serial += 1
        name, random = f"{transactional_id}/{self._serial}", self._fresh_random()
        producer: Producer
        if transactional_id in self._ids:
            anchor = self._anchor(transactional_id)
            producer = Producer(
                self._world, name, random, ledger=self.ledger, places=self._places, anchor=anchor
            )
        else:
            producer = Worker(
                self._world, name, random, ledger=self.ledger, places=self._places, inputs=self._inputs
            )
        alive = [each for each in self._processes[transactional_id] if not each.stopped]
        self._processes[transactional_id] = [*alive, producer]
        if self._is_calm:
            producer.calm()
        producer.begin()
        return producer

    def _step(self) -> None:
        if self._stopped:
            return
        self._fault_steps.later(self._step)
        self._fault_steps.fault()
        self._replace_the_dead()

    def _replace_the_dead(self) -> None:
        for transactional_id, processes in self._processes.items():
            is_there = any(not each.stopped for each in processes)
            if not is_there and transactional_id not in self._wants_to_come:
                self._wants_to_come.add(transactional_id)
                delay_ms = int(self._random.random() * COMEBACK_MS_MAX)
                self._world.schedule.after(delay_ms, partial(self._come, transactional_id))

    # -- what befalls them ----------------------------------------------------------------------------------

    def _one(self) -> Producer | None:
        alive = [each for processes in self._processes.values() for each in processes if not each.stopped]
        return self._random.choice(alive) if alive else None

    def _kill(self) -> None:
        if producer := self._one():
            producer.kill()

    def _send_a_rival(self) -> None:
        """Let a second process take an id, while the first does not know."""
        if producer := self._one():
            self._start(producer.transactional_id)

    def _rest(self) -> None:
        if producer := self._one():
            producer.rest(self._fault_steps.span_ms(REST_MS_MAX))

    def _hold(self) -> None:
        """Let what a process sends be late: it gives up meanwhile, and asks again on another connection."""
        if producer := self._one():
            producer.hold(self._fault_steps.span_ms(HOLD_MS_MAX))

    def _lose_connection(self) -> None:
        clients: list[Process] = [*self._readers]
        if producer := self._one():
            clients = [producer, self._random.choice(self._readers)]
        self._random.choice(clients).lose_connection()

    def _cut(self) -> None:
        if producer := self._one():
            self._fault_steps.cut(producer, HOLD_MS_MAX)

    def _make_again(self) -> None:
        """Delete a topic, and make another of its name, while transactions have it."""
        metadata, server = self._world.metadata, self._world.server
        if PASSING not in metadata.snapshot().topics or server is None or not server.serving:
            return
        metadata.apply(Mutation(delete=(PASSING,)))
        delay_ms = self._random.choice((0, 0, 1, int(self._random.random() * AWAY_MS_MAX)))
        self._world.schedule.after(delay_ms, partial(self._make, self._topic(PASSING)))

    def _make(self, topic: TopicState) -> None:
        server = self._world.server
        if server is not None and server.serving:
            self._world.metadata.apply(Mutation(put=(topic,)))
        else:
            self._world.schedule.after(AWAY_MS_MAX, partial(self._make, topic))

    def _drop_shard(self) -> None:
        """Let a shard of transactions drop its state, as a bug would make it."""
        server = self._world.server
        shards = [] if server is None or not server.serving else server.transactions.all_shards()
        if shards:
            self._random.choice(shards)._fail()

    def _send_a_late_marker(self) -> None:
        """Have a marker that was written come once more, from a coordinator that gave its request up.

        Only those of transaction.version 2 can be told from one of the producer's next transaction.
        """
        server = self._world.server
        if server is None or not server.serving:
            return
        ended = [
            (shard.index, each)
            for shard in server.transactions.all_shards()
            for each in shard.core.transactions.values()
            if each.state in ENDED and each.client_version >= BUMPING_VERSION and each.producer_epoch
        ]
        if not ended:
            return
        index, transaction = self._random.choice(ended)
        coordinator = server.partitions.peek(TRANSACTIONS_TOPIC, index)
        topic, partition = self._random.choice(
            [*self._places, (OFFSETS_TOPIC, self._random.randrange(OFFSETS_SHARDS))]
        )
        marker = WritableTxnMarker(
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            transaction_result=transaction.state is TransactionState.COMPLETE_COMMIT,
            topics=(WritableTxnMarkerTopic(name=topic, partition_indexes=(partition,)),),
            coordinator_epoch=0 if coordinator is None else coordinator.leader_epoch,
            transaction_version=BUMPING_VERSION,
        )
        link = self._world.connect(Host("peer"), "peer", lambda: None)
        if link is not None:
            link.hold(int(self._random.random() * LATE_MS_MAX))
            request = WriteTxnMarkersRequest(markers=(marker,))
            link.send(WRITE_TXN_MARKERS, MARKERS_VERSION, request, lambda _: link.hang_up())

    # -- what must hold -------------------------------------------------------------------------------------

    def check_going_on(self) -> None:
        """Let nothing befall anybody: then each counter goes on, whatever was left open."""
        self._calm()
        before = self.ledger.commits()
        deadline_ms = self._world.schedule.time_ms + GOES_ON_MS_MAX
        while True:
            self._run(LOOK_MS)
            self._replace_the_dead()
            now = self.ledger.commits()
            waiting = [each for each, _, _ in self._counters if now.get(each, 0) <= before.get(each, 0)]
            if not waiting:
                return
            rule = "once faults stop, every producer commits again"
            in_time = self._world.schedule.time_ms < deadline_ms
            self._world.books.expect(rule, in_time, lambda w=waiting: f"{w}: {self._transactions()}")  # type: ignore[misc]  # a bound default

    def _calm(self) -> None:
        self._is_calm = True
        self._fault_steps.calm()
        for transactional_id, processes in self._processes.items():
            alive = [each for each in processes if not each.stopped]
            for rival in alive[1:]:
                rival.kill()  # Else they would take the id from each other for ever.
            self._processes[transactional_id] = alive[:1]
            for each in alive[:1]:
                each.calm()
        for reader in (*self._readers, *self._others):
            reader.calm()

    def stop(self) -> None:
        """Let all producers die where they are, and the broker, and see every transaction end by its time."""
        self._let_a_marker_wait()
        self._stopped = True
        for each in (*self._others, *(each for processes in self._processes.values() for each in processes)):
            each.kill()
        if self._world.server is not None:
            self._world.kill_broker()
        deadline_ms = self._world.schedule.time_ms + ENDS_MS_MAX
        while self._is_open():
            self._run(LOOK_MS)
            rule = "the last stable offset catches up in the end"
            in_time = self._world.schedule.time_ms < deadline_ms
            self._world.books.expect(rule, in_time, lambda: f"{self._open_places()}: {self._transactions()}")

    def _let_a_marker_wait(self) -> None:
        """Let the write of a log take long once a transaction in it is being ended; go on for a part of it.

        What is written is too large for the journal, so that other logs are on the disk long before.
        """
        server = self._world.server
        producer = self._next_to_end()
        if producer is None or server is None or not server.serving:
            return
        partition = server.partitions.get(*producer.anchor)
        if partition is None or partition.error_code is not None:
            return
        value = f"{PLAIN}:large".encode() + bytes(LARGE_BYTES)
        partition.append_own(build_batch([(self._world.schedule.time_ms, None, value, ())]))
        server.flusher.stalled = partition
        server.flusher.request(partition, lambda _: None)
        self._run(self._random.randrange(STALL_MS))

    def _next_to_end(self) -> Producer | None:
        """Return a producer once it has asked to end a transaction, None where none does for long."""
        producers = [each for name in self._ids for each in self._processes[name] if not each.stopped]
        for _ in range(WAITS_FOR_AN_END_MS):
            before = {each for each in producers if each.is_ending}
            self._run(1)
            for each in producers:
                if each.is_ending and each not in before:
                    return each
        return None

    def _run(self, duration_ms: int) -> None:
        self._world.schedule.run_until(self._world.schedule.time_ms + duration_ms)

    def _transactions(self) -> list[Transaction]:
        server = self._world.server
        shards = [] if server is None else server.transactions.all_shards()
        return [each for shard in shards for each in shard.core.transactions.values()]

    def _is_open(self) -> bool:
        return bool(self._open_places()) or any(
            each.state is TransactionState.ONGOING or each.state.is_prepared for each in self._transactions()
        )

    def _open_places(self) -> list[object]:
        """Return which partitions do not serve, or have something that is not stable yet."""
        server = self._world.server
        if server is None or not server.serving:
            return ["the broker"]
        found: list[object] = []
        if any(shard.state is not ShardState.ACTIVE for shard in server.transactions.all_shards()):
            found.append("a shard")
        for place in self._places:
            if place[0] not in self._world.metadata.snapshot().topics:
                continue
            partition = server.partitions.get(*place)
            if partition is None or partition.error_code is not None:
                found.append(place)
            elif partition.last_stable_offset < partition.log.log_end_offset:
                found.append((place, partition.last_stable_offset, partition.log.log_end_offset))
        return found

    def check_all(self) -> None:
        """Have everything read from the beginning, and check that with what the logs say."""
        for reader in self._readers:
            reader.calm()
            reader.hurry()
        deadline_ms = self._world.schedule.time_ms + READS_MS_MAX
        while behind := [each.name for each in self._readers if not self._has_read(each)]:
            self._run(LOOK_MS)
            rule = "readers come to the end"
            in_time = self._world.schedule.time_ms < deadline_ms
            self._world.books.expect(rule, in_time, lambda behind=behind: f"{behind}")  # type: ignore[misc]  # a bound default
        server = self._world.server
        assert server is not None
        starts = {place: self._start_of(place) for place in self._places if place[0] == SHORTENED}
        there: dict[Place, list[str]] = {}
        for reader in self._readers:
            partition = server.partitions.get(*reader.place)
            assert partition is not None
            there[reader.place] = truth = [value for _, value in shown(partition.log, is_committed=True)]
            rule = "readers are shown what is committed, in its order"
            holds = reader.values == truth
            differs = sorted(set(reader.values) ^ set(truth))
            self._world.books.expect(rule, holds, lambda r=reader, d=differs: f"{r.place}: {d}")  # type: ignore[misc]  # bound defaults
        offsets = {each: self._offset_of(server, group, place) for each, group, place in self._counters}

        def is_kept(place: Place, offset: int | None) -> bool:
            start = starts.get(place) or 0
            return place[0] != PASSING and (not start or (offset is not None and offset >= start))

        self.ledger.check_complete(there, offsets, is_kept)

    def _start_of(self, place: Place) -> int | None:
        """Return where a log begins by now, None where there is none."""
        server = self._world.server
        partition = None if server is None else server.partitions.get(*place)
        log = None if partition is None else partition.serving_log
        return None if log is None else log.log_start_offset

    @staticmethod
    def _offset_of(server: Server, group_id: str, place: Place) -> int:
        """Return what a group has committed."""
        topic, index = place
        group = server.group_shards.group(group_id)
        value = None if group is None else group.offsets.get(topic, {}).get(index)
        return 0 if value is None else value.offset

    def _anchor(self, transactional_id: str) -> Place:
        """Return where an id's producers write every number."""
        return self._places[self._ids.index(transactional_id) % 3]

    def _has_read(self, reader: Reader) -> bool:
        server = self._world.server
        partition = None if server is None else server.partitions.get(*reader.place)
        return partition is not None and reader.position >= partition.log.log_end_offset
