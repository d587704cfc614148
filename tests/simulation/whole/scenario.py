"""One run of whole brokers: clients write, read, commit and change things while all kinds of faults happen.

The brokers are real, as broker.py composes them, with real bytes on a virtual network, and files on disks
that lose what was not synced. The clients are kohort's own, on asyncio, each in a process of its own.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from kohort.client import (
    ConfigurationError,
    KohortError,
    NewTopic,
    ProducerFencedError,
    ResourceType,
    TopicPartition,
    aio,
)
from kohort.testing.simulation import World
from kohort.testing.simulation.running import run_seed
from kohort.testing.simulation.simulated_cluster import SimulatedCluster
from kohort.testing.simulation.world import App
from tests.simulation.whole.acts import ACTS, Acts
from tests.simulation.whole.books import PROTOCOLS, Books
from tests.simulation.whole.cluster_clients import BROKERS, ClusterClients
from tests.simulation.whole.etcd_faults import EtcdFaults
from tests.simulation.whole.fail_overs import FAIL_OVERS
from tests.simulation.whole.folder_faults import folders_fail
from tests.simulation.whole.keeping import check as check_kept
from tests.simulation.whole.keeping import keep
from tests.simulation.whole.keeping import topics as topics_to_keep
from tests.simulation.whole.late_batch import send_late
from tests.simulation.whole.limits import Limits
from tests.simulation.whole.onlooker import Onlooker
from tests.simulation.whole.reached import counted
from tests.simulation.whole.reading import read_to_end
from tests.simulation.whole.sharing import prepare, share
from tests.simulation.whole.trimming import TOPIC as TRIMMED
from tests.simulation.whole.trimming import check as check_trimmed
from tests.simulation.whole.trimming import trim
from tests.simulation.whole.two_deaths import die_twice

TOPIC = "orders"
PARTITIONS = 3
MOVED_REPLICAS = 2
CHAOS_SECONDS = 90
SETTLE_SECONDS = 900
TRANSACTIONS_END_SECONDS = 60  # What a dead producer has left open is aborted by then.
# As of the other internal topics: a broker would make 24, and most of the run is theirs.
EVENT_PARTITIONS = 2
TRANSACTION_TIMEOUT_SECONDS = 15
SURELY_NEWEST_SECONDS = 60  # By then nothing arrives any more of what was sent before.
QUICK_SECONDS = 1  # So it was asked once.
RETRY_SECONDS = 0.5
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "log.retention.check.interval.ms": "5000",
    "transactional.id.expiration.ms": "600000",
}
LAG_MS = "5000"  # In acts that wait until a follower counts no more.


class Shape(NamedTuple):
    """How long a run has faults, the act of three brokers behind them (None: any), and the trace's file."""

    seconds: float = CHAOS_SECONDS
    act: str | None = None
    trace: Path | None = None


async def one_run(world: World, books: Books, shape: Shape, limits: Limits) -> None:
    """Run it on a broker alone. Raises: Violation, NotReached."""
    world.note(f"limits: {limits.told}")
    broker = await world.broker(settings=SETTINGS | limits.settings)
    await _create(
        world,
        broker.bootstrap,
        NewTopic(TOPIC, PARTITIONS, 1, configs=limits.topic_settings(TOPIC)),
        NewTopic(TRIMMED, 1, 1, configs=limits.topic_settings(TRIMMED)),
        *topics_to_keep(limits, 1),
        *limits.internal_topics(broker.settings, event_partitions=1),
    )
    run = Run(world, books, broker.bootstrap)
    run.begin()
    fail_folders, mend_folders = folders_fail([broker])
    async with world.chaos(
        kill=run.apps,
        restart=[broker],
        fail_disks=[broker],
        pause_seconds=20,
        cut_network=True,
        also=[fail_folders, fail_folders],
        every_seconds=3,
    ):
        await asyncio.sleep(shape.seconds)
    mend_folders()
    await run.end()
    await die_twice(broker, books)


async def three_run(world: World, books: Books, shape: Shape, limits: Limits) -> None:
    """Run it on three brokers with their etcd, and an act in the end. Raises: Violation, NotReached."""
    world.note(f"limits: {limits.told}")
    settings = {**SETTINGS, **limits.settings, "min.insync.replicas": "2"}
    act = shape.act or world.random.choice(ACTS)
    if act in FAIL_OVERS:
        settings["replica.lag.time.max.ms"] = LAG_MS
    if act == "strict":
        # Events of groups are never synced: with them no folder is taken for whole after a power failure.
        settings["kohort.group.events.enable"] = "false"
    cluster = await world.cluster(BROKERS, settings=settings)
    run, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert run is not None

    def stop(violation: str) -> None:
        world.note(violation)
        loop.call_soon_threadsafe(run.cancel)

    books.replication.on_violation = stop
    with Onlooker(books.replication, cluster.brokers).in_place():
        await _run_cluster(world, books, shape._replace(act=act), limits, cluster)


async def _run_cluster(
    world: World, books: Books, shape: Shape, limits: Limits, cluster: SimulatedCluster
) -> None:
    assert shape.act is not None
    await _create(
        world,
        cluster.bootstrap,
        NewTopic(TOPIC, PARTITIONS, BROKERS, configs=limits.topic_settings(TOPIC)),
        NewTopic(
            TRIMMED,
            1,
            MOVED_REPLICAS,
            configs={"min.insync.replicas": "1", **limits.topic_settings(TRIMMED)},
        ),
        *topics_to_keep(limits, BROKERS),
        *limits.internal_topics(cluster.brokers[1].settings, EVENT_PARTITIONS),
    )
    run = Run(world, books, cluster.bootstrap)
    run.begin()
    clients = ClusterClients(world, books, cluster.bootstrap, run.over)
    run.apps += [
        world.process("mover", clients.move, TRIMMED, MOVED_REPLICAS),
        world.process("maker", clients.make_again),
        world.process("operator", clients.change_settings),
        world.process("looker", clients.look_by_time, TOPIC, PARTITIONS),
    ]
    brokers, etcd = list(cluster.brokers.values()), EtcdFaults(cluster)
    etcd.begin()
    fail_folders, mend_folders = folders_fail(brokers)
    async with world.chaos(
        kill=run.apps,
        restart=[*brokers, *cluster.etcd.members],
        pause=[*run.apps, *brokers],
        fail_disks=brokers,
        pause_seconds=20,
        cut_network=True,
        also=[*etcd.kinds, fail_folders],
        every_seconds=2.5,
    ):
        await asyncio.sleep(shape.seconds)
    etcd.end()
    mend_folders()
    await run.stop_writing()
    await Acts(world, cluster, books, TOPIC).play(shape.act)
    await send_late(world, cluster, books.cluster)
    await run.end()


async def _create(world: World, bootstrap: str, *topics: NewTopic) -> None:
    async with aio.Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topics(*topics)
    await prepare(world, bootstrap)


class Run:
    """Writers, readers and an administrator, and what they have to come to."""

    def __init__(self, world: World, books: Books, bootstrap: str) -> None:
        self.apps: list[App] = []
        self.over = asyncio.Event()
        self._world = world
        self._books = books
        self._bootstrap = bootstrap

    def begin(self) -> None:
        """Start the processes."""
        world, books, process = self._world, self._books, self._world.process
        clients = Clients(world, books, self._bootstrap, self.over)
        self.apps += [
            *(process(f"producer-{number}", clients.produce, f"p{number}") for number in range(2)),
            *(process(f"transactional-{number}", clients.transact, f"t{number}") for number in range(2)),
            *(
                process(f"member-{protocol}-{number}", clients.consume, protocol)
                for protocol in PROTOCOLS
                for number in range(2)
            ),
            *(
                process(f"member-share-{number}", share, world, books.sharing, self._bootstrap, TOPIC)
                for number in range(2)
            ),
            process("trimmer", trim, world, books.trimming, self._bootstrap, self.over),
            process("keeper", keep, world, books.keeping, self._bootstrap, self.over),
            process("administrator", clients.administer),
        ]

    async def stop_writing(self) -> None:
        """Return when all but the members of groups have ended. Raises: NotReached."""
        self.over.set()
        writers = [each for each in self.apps if not each.name.startswith("member")]
        await self._world.until(lambda: not any(each.is_running for each in writers), SETTLE_SECONDS)

    async def end(self) -> None:
        """Check what there is when everything has settled. Raises: Violation, NotReached."""
        books = self._books
        await self.stop_writing()
        await asyncio.sleep(TRANSACTIONS_END_SECONDS)
        for shown in (*books.shown.values(), books.sharing.values):
            not_shown = partial(lambda shown: books.counting - set(shown), shown)
            rule = "a group is shown what counts"
            await books.hold_within(self._world, rule, not_shown, SETTLE_SECONDS)
        for error in (each for app in self.apps for each in app.failures):
            if isinstance(error, ConfigurationError) or not isinstance(error, KohortError):
                raise error
        books.check_end(await read_all(self._bootstrap))
        books.check_shown()
        await check_trimmed(books.trimming, self._bootstrap)
        await check_kept(books.keeping, self._bootstrap)


class Clients:
    """The code of the processes. Each begins again when it is started again."""

    def __init__(self, world: World, books: Books, bootstrap: str, over: asyncio.Event) -> None:
        self._world = world
        self._books = books
        self._bootstrap = bootstrap
        self._over = over
        self._numbers = 0
        self._had: set[str] = set()  # Transactional ids that a producer has had.

    def _value(self, name: str) -> str:
        self._numbers += 1
        value = f"{name}-{self._numbers}"
        self._books.sent.add(value)
        return value

    async def produce(self, name: str) -> None:
        """Write values one by one. Record the acknowledged ones."""
        async with aio.Producer(
            bootstrap_servers=self._bootstrap,
            acks="all",
            request_timeout_ms=10_000,
            delivery_timeout_ms=20_000,
        ) as producer:
            while not self._over.is_set():
                value = self._value(name)
                try:
                    told = await (await producer.send(TOPIC, value.encode(), key=value.encode()))
                except KohortError:
                    continue  # It may be there, or come to be there.
                self._books.acknowledged.add(value)
                self._books.written.add(told.partition)
                await asyncio.sleep(self._world.random.uniform(0, 0.5))

    async def transact(self, name: str) -> None:
        """Write transactions, and commit or abort them. Who is started again fences its former life."""
        async with aio.Producer(
            bootstrap_servers=self._bootstrap,
            transactional_id=name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_SECONDS * 1_000,
        ) as producer:
            initialising = self._world.seconds
            await producer.init_transactions()
            newest_at = self._world.seconds
            if name in self._had or newest_at - initialising > QUICK_SECONDS:
                newest_at += SURELY_NEWEST_SECONDS
            self._had.add(name)
            while not self._over.is_set():
                began = self._world.seconds
                try:
                    await self._one_transaction(producer, name, self._world.random)
                except ProducerFencedError as error:
                    is_late = self._world.seconds - began >= TRANSACTION_TIMEOUT_SECONDS or began < newest_at
                    self._books.hold("the newest producer in time is not fenced", is_late, f"{name}: {error}")
                    raise  # The process ends, and is started again.

    async def _one_transaction(self, producer: Any, name: str, random: Random) -> None:
        values = frozenset(self._value(name) for _ in range(random.randrange(1, 5)))
        self._books.transactions.append(values)
        await producer.begin_transaction()
        try:
            if random.random() < 0.2:  # It may end before its coordinator has heard that it has begun.
                for value in sorted(values):
                    await producer.send(TOPIC, value.encode(), key=value.encode())
                await asyncio.sleep(random.uniform(0, 0.01))
                await producer.abort_transaction()
                self._books.aborted.append(values)
                return
            for value in sorted(values):
                await (await producer.send(TOPIC, value.encode(), key=value.encode()))
            await asyncio.sleep(random.uniform(0, 1))
            if random.random() < 0.7:
                await producer.commit_transaction()
                self._books.committed.append(values)
            else:
                await producer.abort_transaction()
                self._books.aborted.append(values)
        except ProducerFencedError:
            raise
        except KohortError:
            await producer.abort_transaction()

    async def consume(self, protocol: str) -> None:
        """Be a member of a group that reads committed records."""
        options: dict[str, Any] = {"session_timeout_ms": 10_000} if protocol == "classic" else {}
        async with aio.Consumer(
            TOPIC,
            bootstrap_servers=self._bootstrap,
            group_id=f"{protocol}-group",
            group_protocol=protocol,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            fetch_max_wait_ms=5_000,
            enable_auto_commit=False,
            **options,
        ) as consumer:
            async for record in consumer:
                assert record.value is not None
                self._books.shown[protocol][record.value.decode()] += 1
                if self._world.random.random() < 0.3:
                    with suppress(KohortError):  # The group has moved on.
                        await consumer.commit()

    async def administer(self) -> None:
        """Change settings of the topic, and create and delete another one, again and again."""
        random = self._world.random
        async with aio.Admin(bootstrap_servers=self._bootstrap) as admin:
            while not self._over.is_set():
                await asyncio.sleep(random.uniform(1, 5))
                try:
                    if random.random() < 0.5:
                        changed = {"segment.ms": str(random.choice((2_000, 10_000, 600_000)))}
                        await admin.alter_configs(ResourceType.TOPIC, TOPIC, values=changed)
                    else:
                        await admin.create_topics(NewTopic("fleeting", 1))
                        await admin.delete_topics("fleeting")
                except KohortError as error:
                    self._world.note(f"the administrator has {type(error).__name__}: {str(error)[:80]}")


async def read_all(bootstrap: str) -> list[tuple[int, int, str]]:
    """Return all committed records of the topic: partition, offset and value."""
    partitions = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
    async with aio.Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        records = await read_to_end(consumer, *partitions)
    return [(record.partition, record.offset, record.value.decode()) for record in records]


SCENARIOS = {"one": one_run, "three": three_run}


class Played(NamedTuple):
    """What came of a run."""

    world: World
    books: Books
    reached: Counter[str]
    """How often the run has reached what depends on limits."""
    error: BaseException | None


def play(
    scenario: str,
    seed: int,
    shape: Shape = Shape(),  # noqa: B008  # It does not change.
    *,
    on_line: Callable[[str], object] | None = None,
) -> Played:
    """Run a seed of a scenario, with limits of its own. `on_line` is given all that happens."""
    books, limits = Books(), Limits(seed)
    test = partial(SCENARIOS[scenario], books=books, shape=shape, limits=limits)
    with limits.in_place(), counted() as reached:
        world, error = run_seed(test, seed, on_line=on_line)
    return Played(world, books, reached, books.replication.violation or error)
