"""What is done to a cluster whose faults are over: a topic becomes strict, etcd is restored, brokers roll."""

import asyncio
from collections.abc import Iterable
from typing import Any

from kohort.client import KohortError, NewTopic, ResourceType, aio
from kohort.testing.simulation import World
from kohort.testing.simulation.simulated_broker import DATA, SimulatedBroker
from kohort.testing.simulation.simulated_cluster import SimulatedCluster
from tests.simulation.whole.books import Books
from tests.simulation.whole.fail_overs import FAIL_OVERS, FailOvers
from tests.simulation.whole.reading import read_values

ACTS = ("strict", "restore", "roll", *FAIL_OVERS)
LAX, NEWER = "lax", "newer"
RECORDS = 20
STOP_SECONDS_MAX = 120
WELL_SECONDS_MAX = 300
NOTICED_SECONDS = 2.0  # Every broker has heard of a new setting.


class Acts:
    """What happens to the cluster, one act after another."""

    def __init__(self, world: World, cluster: SimulatedCluster, books: Books, topic: str) -> None:
        self._world = world
        self._cluster = cluster
        self._books = books
        self._topic = topic
        self._fail_overs = FailOvers(world, cluster, books, topic, self._become_well)

    async def play(self, name: str) -> None:
        """Play the one of this name. Raises: Violation, NotReached."""
        await self._become_well()
        acts = {
            "strict": self._become_strict,
            "restore": self._restore,
            "roll": self._roll,
            **self._fail_overs.acts,
        }
        self._world.note(f"the act: {name}")
        await acts[name]()
        await self._become_well()

    async def _become_well(self) -> None:
        """Return when every partition has a leader, and all its replicas in sync. Raises: Violation."""
        rule = "a cluster without faults becomes well"
        await self._books.hold_within(self._world, rule, self._unwell, WELL_SECONDS_MAX)

    def _unwell(self) -> list[str]:
        """Return what is missing."""
        if not self._cluster.is_complete:
            return ["a broker does not serve, or does not know all others"]
        snapshots = [each.broker.metadata.snapshot() for each in self._brokers if each.broker is not None]
        return [
            f"{name}-{partition.index}: {partition}"
            for snapshot in snapshots
            for name, topic in snapshot.topics.items()
            for partition in topic.partitions
            if partition.leader < 0 or set(partition.isr) != set(partition.replicas) or partition.adding
        ]

    @property
    def _brokers(self) -> Iterable[SimulatedBroker]:
        return self._cluster.brokers.values()

    def _leader(self, topic: str) -> int:
        broker = self._cluster.brokers[1].broker
        assert broker is not None
        return broker.metadata.snapshot().topics[topic].partitions[0].leader

    async def _write(self, topic: str, name: str, **options: Any) -> set[str]:
        """Write some values by a producer of its own. Return them. Raises: KohortError."""
        values = {f"{name}-{number}" for number in range(RECORDS)}
        async with aio.Producer(bootstrap_servers=self._cluster.bootstrap, acks="all", **options) as producer:
            for value in sorted(values):
                await (await producer.send(topic, value.encode(), key=value.encode()))
        return values

    # -- the acts -------------------------------------------------------------------------------------------

    async def _become_strict(self) -> None:
        """Let a topic sync each record from now on. Then its leader alone may lose its power."""
        random, bootstrap = self._world.random, self._cluster.bootstrap
        settings = {"flush.messages": "1000", "min.insync.replicas": "2"}
        async with aio.Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_topics(NewTopic(LAX, 1, len(self._cluster.brokers), configs=settings))
            written = await self._write(LAX, "lax")
            await admin.alter_configs(ResourceType.TOPIC, LAX, values={"flush.messages": "1"})
        await asyncio.sleep(NOTICED_SECONDS)
        if random.random() < 0.3:
            written |= await self._write_strictly()
        leader = self._cluster.brokers[self._leader(LAX)]
        for each in self._brokers:
            if each is not leader:
                each.pause(4)
        leader.lose_power()
        await asyncio.sleep(random.uniform(0.1, 2))
        leader.start()
        await self._become_well()
        lost = written - await read_values(bootstrap, LAX)
        self._books.hold("what was written before a topic became strict survives", not lost, lost)

    async def _write_strictly(self) -> set[str]:
        try:
            return await self._write(LAX, "strict", delivery_timeout_ms=60_000)
        except KohortError as error:
            self._books.hold("a topic that became strict takes records", False, error)
            raise

    async def _restore(self) -> None:
        """Restore etcd from a backup, under brokers that run or were stopped."""
        is_running = self._world.random.random() < 0.5
        etcd, bootstrap = self._cluster.etcd, self._cluster.bootstrap
        backup = etcd.backup()
        await self._roll()
        async with aio.Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_topics(NewTopic(NEWER, 1, len(self._cluster.brokers)))
        await self._write(NEWER, "newer")
        self._take(await self._write(self._topic, "before-restore"))
        await self._become_well()
        if not is_running:
            await self._stop_all()
        etcd.restore(backup)
        self._world.note("etcd is restored from a backup")
        if not is_running:
            self._start_all()
        await self._world.until(self._has_forgotten, WELL_SECONDS_MAX)
        await self._become_well()
        for each in self._brokers:
            folders = each.disk.file_system.list_directory(DATA) or []
            is_kept = any(name.startswith(f"{NEWER}-0") and name.endswith("-stray") for name in folders)
            self._books.hold("logs that restored metadata lack are set aside", is_kept, folders)
        self._take(await self._write(self._topic, "after-restore"))

    def _take(self, values: set[str]) -> None:
        self._books.sent |= values
        self._books.acknowledged |= values

    def _has_forgotten(self) -> bool:
        return all(
            each.broker is not None and NEWER not in each.broker.metadata.snapshot().topics
            for each in self._brokers
        )

    async def _stop_all(self) -> None:
        for each in self._brokers:
            each.stop()
        await self._world.until(lambda: not any(each.is_running for each in self._brokers), STOP_SECONDS_MAX)

    def _start_all(self) -> None:
        for each in self._brokers:
            each.start()

    async def _roll(self) -> None:
        """Stop and start one broker after another."""
        for each in self._brokers:
            each.stop()
            await self._world.until(lambda each=each: not each.is_running, STOP_SECONDS_MAX)  # type: ignore[misc]
            each.start()
            await self._become_well()
