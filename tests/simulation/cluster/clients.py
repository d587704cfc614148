"""Who uses the cluster: a producer with acks=all and a consumer for each partition."""

from typing import TYPE_CHECKING, Any

from kohort.broker.metadata.partition_state import NO_LEADER
from kohort.protocol.errors import ErrorCode
from tests.simulation.cluster.broker import Broker
from tests.simulation.cluster.links import Process
from tests.simulation.cluster.session import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.cluster.world import World

TIMEOUT_MS = 2_500
PRODUCE_MS_MAX = 160
CONSUME_MS_MAX = 200


class Client(Process):
    """Somebody who knows, more or less, who leads one partition."""

    def __init__(self, world: "World", index: int, kind: str) -> None:
        super().__init__(f"{kind}{index}", world.schedule, world.links)
        self.world = world
        self.index = index
        self.leader = NO_LEADER
        self.leader_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self._silent: set[int] = set()  # They gave no answer: others are asked who leads.
        self.after(1_000 + world.random.randrange(100), self.turn)

    def turn(self) -> None:
        """Do the next thing."""
        raise NotImplementedError

    def ask(
        self,
        node_id: int,
        serve: "Callable[[Broker, Callable[[Any], None]], None]",
        heard: "Callable[[Any], None]",
    ) -> None:
        """Have a broker do something; `heard` is given its answer, or None."""

        def note(answer: Any) -> None:
            if answer is None:
                self._silent.add(node_id)
            else:
                self._silent.discard(node_id)
            heard(answer)

        self.call(
            name_of(node_id),
            lambda reply: self.world.deliver(node_id, lambda broker: serve(broker, reply)),
            note,
            TIMEOUT_MS,
        )

    def look(self) -> None:
        """Ask some broker who leads, then go on: as clients do, none that gave no answer last."""

        def heard(state: Any) -> None:
            if state is not None and state.leader_epoch >= self.leader_epoch:
                self.leader, self.replicas = state.leader, state.replicas
                self.leader_epoch = state.leader_epoch
            self.after(50 + self.world.random.randrange(100), self.turn)

        answering = [each for each in self.world.node_ids if each not in self._silent]
        if not answering:
            self._silent.clear()
        node_id = self.world.random.choice(answering or self.world.node_ids)
        self.ask(node_id, lambda broker, reply: broker.knows(self.index, reply), heard)


class Producer(Client):
    """Sends one record after another; what it heard no answer to, it does not send again."""

    def __init__(self, world: "World", index: int) -> None:
        self.acknowledged = 0
        super().__init__(world, index, "producer")

    def turn(self) -> None:
        """Send a record."""
        if self.leader == NO_LEADER:
            self.look()
            return
        value = self.world.next_value()

        def heard(answer: Any) -> None:
            if answer is None or isinstance(answer, ErrorCode):
                self.world.books.seen["produce failed"] += 1
                if answer is ErrorCode.NOT_ENOUGH_REPLICAS:
                    self.world.books.seen["produce refused: too few in sync"] += 1
                self.look()
            else:
                self.acknowledged += 1
                self.world.books.seen["produce acknowledged"] += 1
                self.after(self.world.random.randrange(PRODUCE_MS_MAX), self.turn)

        self.ask(self.leader, lambda broker, reply: broker.produce(self.index, value, reply), heard)


class Consumer(Client):
    """Reads what is committed, from the leader or a follower, and asks now and then where the end is."""

    def __init__(self, world: "World", index: int) -> None:
        self.position = 0
        self.latest = 0  # The largest end that it was told.
        self._unclean_since = 0
        super().__init__(world, index, "consumer")

    def turn(self) -> None:
        """Read on, or ask for the end."""
        if self.leader == NO_LEADER:
            self.look()
            return
        self._begin_anew_if_unclean()
        if self.world.random.random() < 0.3:
            self._ask_latest()
            return
        node_id, position, epoch = self.leader, self.position, self.leader_epoch
        if self.world.random.random() < 0.3:
            node_id = self.world.random.choice(self.replicas)

        def heard(answer: Any) -> None:
            if answer is None or isinstance(answer, ErrorCode):
                self.look()
                return
            leader_epoch, high_watermark, records, is_leader = answer
            self._begin_anew_if_unclean()
            if position == self.position and leader_epoch >= self._unclean_since:
                self._take(leader_epoch, high_watermark, records, is_leader=is_leader)
            self.after(self.world.random.randrange(CONSUME_MS_MAX), self.turn)

        self.ask(node_id, lambda broker, reply: broker.read(self.index, epoch, position, reply), heard)

    def _take(
        self, leader_epoch: int, high_watermark: int, records: tuple[Any, ...], *, is_leader: bool
    ) -> None:
        book = self.world.books
        book.expect(
            "nobody is shown a high watermark below what he has read",
            high_watermark >= self.position,
            lambda: f"partition {self.index}: {high_watermark} to who is at {self.position}",
        )
        if is_leader or not self._unclean_since:
            for place, record in enumerate(records):
                book.reads(self.index, leader_epoch, self.position + place, record)
            book.seen["record read"] += len(records)
            book.seen["record read from a follower"] += 0 if is_leader else len(records)
            self.position += len(records)
        self.leader_epoch = max(self.leader_epoch, leader_epoch)

    def _ask_latest(self) -> None:
        epoch = self.leader_epoch

        def heard(answer: Any) -> None:
            if answer is None or isinstance(answer, ErrorCode):
                self.look()
                return
            leader_epoch, latest = answer
            self._begin_anew_if_unclean()
            if leader_epoch >= max(self.leader_epoch, self._unclean_since):
                self.leader_epoch = leader_epoch
                self.world.books.expect(
                    "the end that consumers are told never goes back",
                    latest >= max(self.latest, self.position),
                    lambda: (
                        f"partition {self.index}: {latest} after {self.latest}, read up to {self.position}"
                    ),
                )
                self.latest = latest
            self.after(self.world.random.randrange(CONSUME_MS_MAX), self.turn)

        self.ask(self.leader, lambda broker, reply: broker.latest_offset(self.index, epoch, reply), heard)

    def _begin_anew_if_unclean(self) -> None:
        since = self.world.books.partitions[self.index].unclean_since
        if since != self._unclean_since:
            self._unclean_since = since
            self.position = self.latest = 0
