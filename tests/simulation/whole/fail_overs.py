"""Acts in which another broker has to lead, just when something has begun."""

import asyncio
from base64 import b64decode
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from kohort.broker.etcd.messages import Json
from kohort.broker.group.partition import coordinator_partition
from kohort.broker.partitions.flusher import JOURNALED_BYTES_MAX
from kohort.client import KohortError, NewTopic, OffsetAndMetadata, TopicPartition, aio
from kohort.testing.simulation import World
from kohort.testing.simulation.simulated_broker import DATA, SimulatedBroker
from kohort.testing.simulation.simulated_cluster import SimulatedCluster
from kohort.testing.simulation.world import NotReached
from tests.simulation.whole.books import Books
from tests.simulation.whole.reading import read_values

FAIL_OVERS = ("late", "times", "trim", "remake", "empty", "cut", "kept")
"""The names of the acts."""
TIMED, SHORTENED, REMADE, CUT, KEPT, DOOMED = "timed", "shortened", "remade", "cut", "kept", "doomed"
LARGE_BYTES = JOURNALED_BYTES_MAX + 1_000
LAP_BYTES = 40_000  # Some of these end the lap of a small journal, which has no room for them.
RECORDS = 10
TIMED_PARTITIONS = 6
HELD_SECONDS = 20.0
FAIL_OVER_SECONDS = 0.5
LAG_SECONDS = 6.0  # The leader takes no more account of a follower that is silent.
LOOKS, LOOK_SECONDS = 40, 0.5
GROUP = "of-a-former-topic"
CAUGHT_UP_SECONDS_MAX = 60
RECORDS_BEHIND_A_CUT = 2  # The first one and the large one.
SHORT = {"request_timeout_ms": 400, "delivery_timeout_ms": 500}  # Of a write that may fail.
FAILED_SECONDS_MAX = 4.0  # Before the leader counts on its followers no more.


class FailOvers:
    """What happens to a cluster that is well. Each act leaves brokers that run, or are started by `start`."""

    def __init__(
        self,
        world: World,
        cluster: SimulatedCluster,
        books: Books,
        topic: str,
        become_well: Callable[[], Awaitable[None]],
    ) -> None:
        self._world = world
        self._cluster = cluster
        self._books = books
        self._topic = topic
        self._become_well = become_well
        self.acts: dict[str, Callable[[], Awaitable[None]]] = {
            "late": self._join_late,
            "times": self._ask_by_time,
            "trim": self._shorten,
            "remake": self._make_again,
            "empty": self._lose_a_disk,
            "cut": self._cut_what_is_journaled,
            "kept": self._cut_what_is_kept,
        }

    # -- parts ----------------------------------------------------------------------------------------------

    def _state(self, topic: str, partition: int, but: SimulatedBroker | None = None) -> Any:
        """Return the agreed state of a partition, from a broker that serves."""
        others = (each.broker for each in self._world.brokers if each is not but)
        serving = next(each for each in others if each is not None)
        return serving.metadata.snapshot().topics[topic].partitions[partition]

    def _told(self, partition: int) -> str:
        state = self._state(self._topic, partition)
        return f"{self._topic}-{partition} is led by {state.leader}, in sync are {state.isr}"

    def _followers(self, leader: int) -> list[SimulatedBroker]:
        return [broker for number, broker in self._cluster.brokers.items() if number != leader]

    def _cut(self, one: SimulatedBroker, other: SimulatedBroker) -> None:
        network = self._world.network
        network.cut(one.host, other.host, by=self)
        network.cut(other.host, one.host, by=self)

    def _mend(self) -> None:
        network, hosts = self._world.network, [each.host for each in self._cluster.brokers.values()]
        for one in hosts:
            for other in hosts:
                if one is not other:
                    network.mend(one, other, by=self)

    async def _recover(self) -> None:
        """Have everybody run and reach everybody. Raises: NotReached."""
        self._mend()
        for each in self._cluster.brokers.values():
            if not each.is_running:
                each.start()
        await self._become_well()

    def _admin(self) -> Any:
        return aio.Admin(bootstrap_servers=self._cluster.bootstrap, request_timeout_ms=5_000)

    async def _create(self, topic: str, partitions: int = 1) -> None:
        async with self._admin() as admin:
            await admin.create_topics(NewTopic(topic, partitions, len(self._cluster.brokers)))
        await self._become_well()

    async def _write(self, topic: str, partition: int, values: list[str]) -> set[str]:
        """Write values at once. Return the values that were acknowledged within ten seconds."""
        acknowledged = set[str]()
        async with aio.Producer(
            bootstrap_servers=self._cluster.bootstrap,
            acks="all",
            request_timeout_ms=10_000,
            delivery_timeout_ms=11_000,
        ) as producer:
            told = [(each, await producer.send(topic, each.encode(), partition=partition)) for each in values]
            for value, outcome in told:
                with suppress(KohortError):
                    await outcome
                    acknowledged.add(value)
        return acknowledged

    # -- the acts -------------------------------------------------------------------------------------------

    async def _join_late(self) -> None:
        """Let etcd make a change late that was not answered: a follower joins, and is cut off before.

        Then all others die. What was acknowledged since then has to be on that follower.
        """
        state = self._state(self._topic, 0)
        leader = self._cluster.brokers[state.leader]
        follower = self._cluster.brokers[next(each for each in state.replicas if each != state.leader)]
        number = next(number for number, each in self._cluster.brokers.items() if each is follower)
        follower.kill()
        await self._world.until(lambda: number not in self._state(self._topic, 0).isr)
        held = asyncio.Event()
        hold_nothing = self._cluster.etcd.hold

        def hold(path: str, form: Json) -> float:
            if path != "kv/txn" or not _lets_in(form, number, state.replicas):
                return 0.0
            if not held.is_set():
                self._cut(leader, follower)
                held.set()
            return HELD_SECONDS

        self._cluster.etcd.hold = hold
        follower.start()
        await self._world.until(held.is_set, CAUGHT_UP_SECONDS_MAX)
        self._world.note(f"etcd holds back that {follower.name} joins")
        await asyncio.sleep(LAG_SECONDS)
        partitions = [index for index in range(3) if self._state(self._topic, index).leader == state.leader]
        for partition in partitions:
            values = [f"late-{partition}-{each}" for each in range(RECORDS)]
            self._books.sent.update(values)
            acknowledged = await self._write(self._topic, partition, values)
            self._books.acknowledged |= acknowledged
            self._world.note(f"{len(acknowledged)} values are acknowledged: {self._told(partition)}")
        with suppress(NotReached):  # What was held back may have been another partition's.
            await self._world.until(lambda: number in self._state(self._topic, 0).isr, 2 * HELD_SECONDS)
        self._cluster.etcd.hold = hold_nothing
        self._world.note(f"etcd has made it: {', '.join(map(self._told, partitions))}")
        for each in self._followers(number):
            each.kill()
        await asyncio.sleep(HELD_SECONDS)
        self._world.note(f"the others are dead: {', '.join(map(self._told, partitions))}")
        await self._recover()

    async def _ask_by_time(self) -> None:
        """Ask a new leader for a record by its time before it knows which records are acknowledged."""
        await self._create(TIMED, TIMED_PARTITIONS)
        brokers = self._cluster.brokers
        leader = self._state(TIMED, 0).leader
        led = [each for each in range(TIMED_PARTITIONS) if self._state(TIMED, each).leader == leader]
        for partition in led[1:]:
            await self._write(TIMED, partition, ["timed"])
        acknowledged = set(led[1:])
        if await self._write(TIMED, led[0], ["timed"]):
            acknowledged.add(led[0])
        brokers[leader].kill()
        slow = self._world.random.choice(self._followers(leader))
        slow.pause(LOOKS * LOOK_SECONDS)
        async with self._admin() as admin:
            for _ in range(LOOKS):
                await asyncio.sleep(LOOK_SECONDS)
                for partition in acknowledged:
                    asked = TopicPartition(TIMED, partition)
                    with suppress(KohortError):
                        found = (await admin.list_offsets({asked: 1}))[asked]
                        self._books.cluster.found_by_time(partition, found.offset, was_written=True)
        await self._recover()

    async def _shorten(self) -> None:
        """Delete the first records while no follower hears of it. Once that is acknowledged it stays."""
        await self._create(SHORTENED)
        await self._write(SHORTENED, 0, [str(each) for each in range(RECORDS)])
        leader, partition, deleted = self._state(SHORTENED, 0).leader, TopicPartition(SHORTENED, 0), 0
        for each in self._followers(leader):
            self._cut(self._cluster.brokers[leader], each)
        async with self._admin() as admin:
            with suppress(KohortError):
                await admin.delete_records({partition: RECORDS // 2})
                deleted = RECORDS // 2
        self._cluster.brokers[leader].lose_power()  # What it had sent is not sent again.
        self._mend()
        await self._world.until(lambda: self._state(SHORTENED, 0).leader not in {leader, -1})
        async with aio.Consumer(bootstrap_servers=self._cluster.bootstrap) as consumer:
            start = (await consumer.beginning_offsets(partition))[partition]
        self._books.hold("deleted records stay deleted over a change of the leader", start >= deleted, start)
        await self._recover()

    async def _lose_a_disk(self) -> None:
        """Give a broker an empty disk. The others have everything, and it gets all of it again."""
        broker = self._world.random.choice(list(self._cluster.brokers.values()))
        broker.lose_power()
        broker.disk.become_new()
        values = [f"disk-lost-{each}" for each in range(RECORDS)]
        self._books.sent.update(values)
        self._books.acknowledged |= await self._write(self._topic, 0, values)
        await self._recover()
        for each in self._cluster.brokers.values():  # Whoever has nothing but the new disk leads by then.
            if each is not broker:
                each.stop()
                await self._world.until(lambda each=each: not each.is_running)  # type: ignore[misc]
                await self._recover()

    async def _cut_what_is_journaled(self) -> None:
        """Cut off a leader with records that nobody else has. Its log is cut then, and it dies.

        Its journal had those records, in this lap or in the one before. Behind the cut the log has one that
        is too large for a journal, and no other: a start that takes them from there puts one behind that.
        """
        await self._create(CUT)
        acknowledged = await self._write(CUT, 0, ["first"])
        number = self._state(CUT, 0).leader
        leader, network = self._cluster.brokers[number], self._world.network
        for each in self._followers(number):
            self._cut(leader, each)
        unknown = {"unknown-1", "unknown-2", *(f"unknown-{each}".ljust(LAP_BYTES) for each in (3, 4, 5))}
        await self._write_to_leader(CUT, sorted(unknown))
        network.cut_off(leader.host)
        await self._world.until(lambda: self._state(CUT, 0, but=leader).leader not in {number, -1})
        acknowledged |= await self._write(CUT, 0, ["large".ljust(LARGE_BYTES)])
        self._mend()
        network.reconnect(leader.host)
        await self._die_behind_a_cut(CUT, number, unknown, acknowledged)

    async def _cut_what_is_kept(self) -> None:
        """Cut a log of which the file beside the journal has batches, as that of another log that has failed.

        Logs that failed together are kept there: one is opened again, and the other cannot be.
        """
        brokers = self._cluster.brokers
        number = self._world.random.choice(list(brokers))
        replicas = [number, *(each for each in brokers if each != number)]
        async with self._admin() as admin:
            placed = {KEPT: {0: replicas, 1: replicas}, DOOMED: {0: replicas}}
            await admin.create_topics(*(NewTopic(name, replicas=each) for name, each in placed.items()))
        await self._become_well()
        acknowledged = await self._write(KEPT, 0, ["first"])
        leader, network = brokers[number], self._world.network
        for each in self._followers(number):
            self._cut(leader, each)
        unknown = {"unknown-1", "unknown-2"}
        await self._write_to_leader(KEPT, sorted(unknown))
        await self._write_to_leader(KEPT, ["neighbour"], 1)
        for folder in self._kept_folders:
            leader.disk.fail_folder(folder)
        # Of what was written before a small journal knows nothing any more: it has begun again.
        last = "unknown-3"
        unknown.add(last)
        for topic, index, value in ((KEPT, 0, last), (KEPT, 1, "neighbour"), (DOOMED, 0, "doomed")):
            with suppress(KohortError):
                await self._write_to_leader(topic, [value], index, **SHORT)
        async with self._admin() as admin:
            await admin.delete_topics(DOOMED)  # The journal is emptied for it, and all its logs are synced.
        await self._world.until(lambda: self._has_failed(leader), FAILED_SECONDS_MAX)
        network.cut_off(leader.host)
        await self._world.until(lambda: self._state(KEPT, 0, but=leader).leader not in {number, -1})
        acknowledged |= await self._write(KEPT, 0, ["large".ljust(LARGE_BYTES)])
        leader.disk.mend_folder(self._kept_folders[0])
        self._mend()
        network.reconnect(leader.host)
        await self._die_behind_a_cut(KEPT, number, unknown, acknowledged)

    @property
    def _kept_folders(self) -> list[str]:
        return [f"{DATA / KEPT}-{index}" for index in range(2)]

    def _has_failed(self, broker: SimulatedBroker) -> bool:
        """Return whether no log of the topic serves."""
        assert broker.broker is not None
        found = [broker.broker.partitions.peek(KEPT, index) for index in range(2)]
        return all(each is None or each.serving_log is None for each in found)

    def _synced_end(self, broker: SimulatedBroker, topic: str) -> int | None:
        """Return up to where the log of partition 0 is on the disk, None while it does not serve."""
        partition = None if broker.broker is None else broker.broker.partitions.peek(topic, 0)
        serving_log = None if partition is None else partition.serving_log
        return None if serving_log is None else serving_log.synced_offset

    async def _die_behind_a_cut(
        self, topic: str, number: int, unknown: set[str], acknowledged: set[str]
    ) -> None:
        """Let the broker die once its log is cut, and lead later: what was cut off it stays away."""
        broker = self._cluster.brokers[number]
        await self._world.until(lambda: self._synced_end(broker, topic) == RECORDS_BEHIND_A_CUT)
        self._world.note(f"the log of {broker.name} is cut, and it dies")
        self._world.random.choice((SimulatedBroker.kill, SimulatedBroker.lose_power))(broker)
        acknowledged |= await self._write(topic, 0, [f"more-{each}" for each in range(2 * RECORDS)])
        broker.disk.heal()
        broker.start()
        await self._become_well()
        self._world.note(f"{broker.name} is to lead")
        for each in self._followers(number):
            each.kill()
        await self._world.until(lambda: self._state(topic, 0).leader == number)
        await self._recover()
        found = await read_values(self._cluster.bootstrap, topic)
        self._books.hold("what was cut off a log stays away", not unknown & found, unknown & found)
        lost = acknowledged - found
        self._books.hold("what was acknowledged is there behind a cut", not lost, lost)

    async def _write_to_leader(
        self, topic: str, values: list[str], partition: int = 0, **options: Any
    ) -> None:
        """Write each value in a batch of its own, which the leader alone has to acknowledge."""
        async with aio.Producer(
            bootstrap_servers=self._cluster.bootstrap, acks=1, enable_idempotence=False, **options
        ) as producer:
            for value in values:
                await (await producer.send(topic, value.encode(), partition=partition))

    async def _make_again(self) -> None:
        """Delete a topic and create it again while no broker coordinates the group that has read it."""
        await self._create(REMADE)
        partition = TopicPartition(REMADE, 0)
        await self._write(REMADE, 0, [str(each) for each in range(RECORDS)])
        async with self._admin() as admin:
            await admin.alter_group_offsets(GROUP, {partition: OffsetAndMetadata(RECORDS // 2)})
            state = self._state("__consumer_offsets", coordinator_partition(GROUP, 2))
            self._cluster.brokers[state.leader].kill()
            is_gone = False
            for _ in range(LOOKS):
                with suppress(KohortError):
                    if not is_gone:
                        await admin.delete_topics(REMADE)
                        is_gone = True
                    await admin.create_topics(NewTopic(REMADE, 1, len(self._cluster.brokers) - 1))
                    break
                await asyncio.sleep(LOOK_SECONDS)
            await self._recover()
            values = {f"again-{each}" for each in range(RECORDS)}
            acknowledged = await self._write(REMADE, 0, sorted(values))
            committed = (await admin.list_group_offsets(GROUP, [partition])).get(partition)
        found = await read_values(self._cluster.bootstrap, REMADE)
        self._books.cluster.made_again(committed, found, {str(each) for each in range(RECORDS)})
        self._books.cluster.read_again(acknowledged, found)


def _lets_in(form: Json, number: int, replicas: tuple[int, ...]) -> bool:
    """Return whether a transaction lets a broker into the in-sync replicas of such a partition."""
    for operation in form["success"]:
        put = operation.get("request_put")
        if put is not None and "/partitions/" in b64decode(put["key"]).decode(errors="replace"):
            state: dict[str, Any] = msgspec.json.decode(b64decode(put["value"]))
            if number in state["isr"] and len(state["isr"]) > 1 and tuple(state["replicas"]) == replicas:
                return True
    return False
