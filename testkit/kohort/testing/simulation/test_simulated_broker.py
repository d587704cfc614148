"""The real broker and the real client in virtual time, over all that can happen to a broker."""

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
import trio

from kohort.client import aio
from kohort.testing.simulation.kernel import SECOND, Kernel
from kohort.testing.simulation.network import Network
from kohort.testing.simulation.patches import simulated
from kohort.testing.simulation.simulated_broker import SimulatedBroker
from kohort.testing.simulation.trio_process import TrioProcess
from kohort.testing.simulation.trio_sockets import put_on_network
from tests.hash_seeds import under_hash_seeds

RECORDS = 60
SECONDS_MAX = 900  # Who waits for a JoinGroup that a host without power had waits five minutes.


class Shop:
    """A broker, a producer that counts, and consumers of one group."""

    def __init__(self, seed: int) -> None:
        self.kernel = Kernel(seed)
        self.network = Network(self.kernel)
        self.broker = SimulatedBroker(self.kernel, self.network, "broker", {"num.partitions": "3"})
        self.acknowledged: list[int] = []
        self.seen: list[tuple[int, str, int, int]] = []  # Time, consumer, partition, value.

    def run(self, name: str, main: Callable[..., Awaitable[object]], *arguments: object) -> TrioProcess:
        """Begin a program on a host of its own."""
        process = TrioProcess(self.kernel, name, main, *arguments)
        put_on_network(process, self.network, self.network.host(name))
        return process

    async def produce(self) -> None:
        """Send numbers, one after the other, until each is acknowledged."""
        await trio.sleep(2)
        async with aio.Producer(bootstrap_servers=self.broker.bootstrap, acks="all") as producer:
            for number in range(RECORDS):
                value = str(number).encode()
                await (await producer.send("orders", value, key=value))
                self.acknowledged.append(number)
                await trio.sleep(0.2)

    async def consume(self, name: str) -> None:
        """Note what is shown."""
        async with aio.Consumer(
            "orders",
            bootstrap_servers=self.broker.bootstrap,
            group_id="shop",
            auto_offset_reset="earliest",
            metadata_max_age_ms=5_000,
        ) as consumer:
            async for record in consumer:
                assert record.value is not None
                self.seen.append((self.kernel.time_ns, name, record.partition, int(record.value)))

    @property
    def values(self) -> set[int]:
        """The numbers that somebody was shown."""
        return {each[3] for each in self.seen}


@contextmanager
def shop(seed: int) -> Iterator[Shop]:
    made = Shop(seed)
    try:
        with simulated(made.kernel):
            yield made
    finally:
        with simulated(made.kernel):
            made.kernel.close()
        made.broker.disk.let_go()


def trace(seed: int) -> str:
    """Return a digest of all that consumers were shown and when, while the broker is killed."""
    with shop(seed) as made:
        made.run("producer", made.produce)
        for name in ("a", "b"):
            made.run(name, made.consume, name)
        made.kernel.call_after(6 * SECOND, made.broker.kill)
        made.kernel.call_after(8 * SECOND, made.broker.start)
        made.kernel.run(lambda: len(made.values) == RECORDS, SECONDS_MAX)
        return hashlib.sha256(repr((made.seen, made.kernel.actions_run)).encode()).hexdigest()


def test_consumers_are_shown_what_was_acknowledged() -> None:
    with shop(1) as made:
        producer = made.run("producer", made.produce)
        made.run("a", made.consume, "a")
        made.kernel.run(lambda: not producer.alive and len(made.values) == RECORDS, SECONDS_MAX)
        assert producer.outcome is not None
        producer.outcome.unwrap()
        assert made.broker.failure() is None


@pytest.mark.parametrize("seed", range(6))
def test_acknowledged_records_survive_kills_and_power_failures(seed: int) -> None:
    with shop(seed) as made:
        kernel, broker = made.kernel, made.broker
        producer = made.run("producer", made.produce)
        for name in ("a", "b"):
            made.run(name, made.consume, name)
        for number in range(4):
            fault = broker.kill if kernel.random.random() < 0.5 else broker.lose_power
            at_ns = (4 + 6 * number) * SECOND + kernel.random.randrange(3 * SECOND)
            kernel.call_after(at_ns, fault)
            kernel.call_after(at_ns + kernel.random.randrange(2 * SECOND), broker.start)
        kernel.run(lambda: not producer.alive and made.values >= set(made.acknowledged), SECONDS_MAX)
        assert producer.outcome is not None
        producer.outcome.unwrap()
        assert broker.lives == 5
        assert len(made.acknowledged) == RECORDS


@pytest.mark.parametrize("without_power", [False, True])
def test_a_broker_dies_between_two_operations_on_its_disk(without_power: bool) -> None:
    with shop(5) as made:
        kernel, broker = made.kernel, made.broker
        producer = made.run("producer", made.produce)
        made.run("a", made.consume, "a")

        def serve_again() -> None:
            broker.live_on()
            if not broker.is_running:
                broker.start()

        for number in range(20):  # A producer may wait for half a minute for a broker that lost its power.
            at_ns = (4 + 3 * number) * SECOND
            die = partial(broker.die_at_operation, 3 * (number % 6), without_power=without_power)
            kernel.call_after(at_ns, die)
            kernel.call_after(at_ns + 2 * SECOND, serve_again)
        kernel.run(lambda: not producer.alive and made.values >= set(made.acknowledged), SECONDS_MAX)
        assert broker.lives > 3
        assert len(made.acknowledged) == RECORDS


def test_nothing_that_a_dead_broker_sends_arrives() -> None:
    with shop(5) as made:
        made.run("producer", made.produce)
        made.kernel.run(lambda: len(made.acknowledged) == 5)
        made.broker.die_at_operation(0, without_power=True)
        made.kernel.run(lambda: not made.broker.is_running, SECONDS_MAX)
        before = len(made.acknowledged)
        made.kernel.run_for(30 * SECOND)
        assert len(made.acknowledged) == before
        made.broker.start()
        made.kernel.run(lambda: len(made.acknowledged) == RECORDS, SECONDS_MAX)


def test_a_broker_whose_order_to_die_is_taken_back_lives() -> None:
    with shop(5) as made:
        made.run("producer", made.produce)
        made.kernel.run(lambda: len(made.acknowledged) == 5)
        made.broker.die_at_operation(50, without_power=True)
        made.broker.live_on()
        made.kernel.run(lambda: len(made.acknowledged) == RECORDS, SECONDS_MAX)
        assert made.broker.lives == 1


def test_a_slow_disk_delays_acknowledgements() -> None:
    with shop(6) as made:
        made.run("producer", made.produce)
        made.kernel.run(lambda: len(made.acknowledged) == 5)
        began_ns = made.kernel.time_ns
        made.kernel.run(lambda: len(made.acknowledged) == 10)
        fast_ns, began_ns = made.kernel.time_ns - began_ns, made.kernel.time_ns
        made.broker.disk.latency_ms = 4_000
        made.kernel.run(lambda: len(made.acknowledged) == 15)
        assert made.kernel.time_ns - began_ns > 2 * fast_ns
        assert made.broker.lives == 1


def test_a_disk_that_cannot_sync_loses_nothing_that_was_acknowledged() -> None:
    with shop(7) as made:
        made.run("producer", made.produce)
        made.run("a", made.consume, "a")
        for second in range(4, 16, 4):
            made.kernel.call_after(second * SECOND, partial(made.broker.disk.fail_sync, 1, 2))
        made.kernel.run(lambda: len(made.acknowledged) == RECORDS, SECONDS_MAX)
        made.kernel.run(lambda: made.values == set(made.acknowledged), SECONDS_MAX)


def test_a_clean_stop_and_a_start() -> None:
    with shop(3) as made:
        made.run("producer", made.produce)
        made.kernel.run(lambda: len(made.acknowledged) == 5)
        made.broker.stop()
        made.kernel.run(lambda: not made.broker.process.alive)
        made.kernel.run_for(30 * SECOND)
        assert made.broker.lives == 1  # It stays stopped.
        made.broker.start()
        made.run("a", made.consume, "a")
        made.kernel.run(lambda: len(made.values) == RECORDS, SECONDS_MAX)


def test_a_paused_broker_goes_on() -> None:
    with shop(4) as made:
        made.run("producer", made.produce)
        made.kernel.run(lambda: len(made.acknowledged) == 5)
        made.broker.process.pause(20 * SECOND)
        made.kernel.run_for(15 * SECOND)
        assert len(made.acknowledged) <= 6  # One answer may have been on its way.
        made.run("a", made.consume, "a")
        made.kernel.run(lambda: len(made.values) == RECORDS, SECONDS_MAX)


def test_a_seed_gives_the_same_run_whatever_the_hash_seed() -> None:
    assert len(under_hash_seeds(f"from {__name__} import trace; print(trace(5))")) == 1
    assert trace(5) != trace(6)
