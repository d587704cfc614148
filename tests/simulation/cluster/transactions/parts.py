"""The broker's parts for transactions in one process of the cluster, on the model of replication.

Real are the coordinators of transactions and of groups with their shards, which load from replicated logs;
who writes markers, and the lines to other brokers; the handlers; and who may write to a partition. Rounds,
time and links are the model's.
"""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from kohort.broker.config import BrokerConfig
from kohort.broker.config.current import CurrentConfig
from kohort.broker.coordination.counters import GroupCounters
from kohort.broker.coordination.group_machine import GroupMachine
from kohort.broker.coordination.group_shards import GroupShards
from kohort.broker.coordination.services import CoordinatorServices
from kohort.broker.coordination.transactions import transaction_shards
from kohort.broker.group import GroupConfig
from kohort.broker.group.test_world import CheckedCoordinator
from kohort.broker.handlers.data import init_producer_id
from kohort.broker.handlers.data.transactional import Permissions
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.handlers.transactions import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    txn_offset_commit,
    write_txn_markers,
)
from kohort.broker.handlers.transactions.family import TransactionServices
from kohort.broker.metadata import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kohort.broker.metadata.partition_state import NO_LEADER
from kohort.broker.partitions.roles import Committed
from kohort.broker.replication import Leadership
from kohort.broker.runtime.other_brokers import Unreachable
from kohort.broker.runtime.timers import Timers
from kohort.broker.transactions.transaction import TransactionState
from kohort.broker.transport.request import Origin, ReceivedRequest, Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.records import BatchHeader, read_header
from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import Message
from tests.simulation.cluster.session import name_of
from tests.simulation.cluster.transactions.partitions import WRITTEN, LedPartition, Table, places_of
from tests.simulation.cluster.transactions.tasks import Tasks, Until
from tests.simulation.schedule import Pause

if TYPE_CHECKING:
    from tests.simulation.cluster.broker import Broker

ASK_TIMEOUT_MS = 2_000
READ_RECORDS_MAX = 40
AT_REST = frozenset(
    (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
)
NEVER_MS = 1 << 62
CONFIG = CurrentConfig(BrokerConfig())
HANDLERS: dict[str, Callable[..., Any]] = {
    "AddOffsetsToTxn": add_offsets_to_txn.handle,
    "AddPartitionsToTxn": add_partitions_to_txn.handle,
    "EndTxn": end_txn.handle,
    "TxnOffsetCommit": txn_offset_commit.handle,
    "WriteTxnMarkers": write_txn_markers.handle,
}

BATCHED_FROM = add_partitions_to_txn.BATCHED_FROM
ASKED_BY_BROKERS = ("AddPartitionsToTxn", "WriteTxnMarkers")

Reply = Callable[[Any], None]


class Rounds:
    """The end of each of the loop's rounds, and who waits for replicas: this is the broker's flusher."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._prepared: list[Callable[[], None]] = []

    def prepare(self, action: Callable[[], None]) -> None:
        """Let `action` stage at the end of this round."""
        self._prepared.append(action)
        if len(self._prepared) == 1:
            self._broker.after(0, self._end)

    def _end(self) -> None:
        prepared, self._prepared = self._prepared, []
        for action in prepared:
            action()

    def request_commit(self, partition: LedPartition, done: Committed) -> None:
        """Call `done` once every replica that counts has what is there now."""
        partition.when_committed(done)


class _Origin:
    """Who asks by the links: an answer goes back the way it came, and who is hung up on hears nothing."""

    client_host, principal, listener = "/127.0.0.1", "User:ANONYMOUS", 0

    def __init__(self, reply: Reply) -> None:
        self.on_close: list[Callable[[], None]] = []
        self._reply = reply

    def complete(self, _request: Request, message: Message) -> None:
        self._reply(message)

    def close(self) -> None:
        """Say nothing: whoever asks runs out of patience."""


class TransactionParts:
    """What one process has for transactions."""

    def __init__(self, broker: "Broker", state_index: int, written: tuple[int, ...]) -> None:
        self.node_id = broker.node_id
        self._broker = broker
        self._state_index = state_index
        self._written = written
        self._places = places_of(state_index, written)
        self._table = Table(broker, self._places)
        self._rounds = Rounds(broker)
        self._woken_at_ms = NEVER_MS
        self._timers = Timers(self._timer_set)
        clock, workers = cast(Any, self), Tasks(broker)
        table, rounds = cast(Any, self._table), cast(Any, self._rounds)
        metadata = others = cast(Any, self)
        services = CoordinatorServices(
            metadata, CONFIG, table, rounds, self._timers, clock, cast(Any, workers), others
        )
        self.groups = GroupShards(
            GroupMachine(GroupConfig(), CheckedCoordinator),
            services,
            ensure_topic=self._topic_is_there,
            counters=GroupCounters(),
            note=lambda _: None,
        )
        self.shards = transaction_shards(services, self.groups, ensure_topic=self._topic_is_there)
        groups = GroupServices(self.groups, metadata, self.node_id, GroupCounters(), self._topic_is_there)
        self._transactions = TransactionServices(lambda: self.shards, groups, cast(Any, self))
        self._permissions = Permissions(self._transactions)
        self._workers = workers

    # -- what its parts ask of the machine ------------------------------------------------------------------

    def now_ms(self) -> int:
        """Return the time: this is the broker's clock."""
        return self._broker.schedule.time_ms

    wall_ms = now_ms

    async def next(self) -> int:
        """Return a producer id that nobody has had."""
        await Pause(1)
        return self._broker.world.next_value()

    async def _topic_is_there(self) -> None:
        """Stand for making an internal topic."""

    def watch(self, _follow: object) -> Callable[[], None]:
        """Tell of no change: who leads what is told by `begin` and `end`."""
        return lambda: None

    def snapshot(self) -> Any:
        """Return the metadata as they are known here."""

        def topic(name: str, indexes: tuple[int, ...]) -> Any:
            states = (self._broker.state(each) for each in indexes)
            leaders = (NO_LEADER if state is None else state.leader for state in states)
            return SimpleNamespace(
                name=name,
                topic_id=self._broker.world.topic_ids[indexes[0]],
                partitions=[SimpleNamespace(leader=each) for each in leaders],
            )

        of_topics = {
            TRANSACTIONS_TOPIC: (self._state_index,),
            OFFSETS_TOPIC: (self._state_index + 1,),
            WRITTEN: self._written,
        }
        topics = {name: topic(name, indexes) for name, indexes in of_topics.items()}
        by_id = {each.topic_id: each for each in topics.values()}
        return SimpleNamespace(topics=topics, topics_by_id=by_id)

    def _timer_set(self) -> None:
        deadline_ms = self._timers.next_deadline_ms()
        if deadline_ms is not None and deadline_ms < self._woken_at_ms:
            self._woken_at_ms = deadline_ms
            self._broker.after(max(0, deadline_ms - self.now_ms()), self._timer_due)

    def _timer_due(self) -> None:
        if self.now_ms() >= self._woken_at_ms:
            self._woken_at_ms = NEVER_MS
            self._timers.run_due(self.now_ms())
            self._timer_set()

    async def ask(self, node_id: int, request: Message, answer: type[Message], version: int) -> Any:
        """Return another broker's answer. Raises: Unreachable."""
        broker, until = self._broker, Until()
        broker.call(
            name_of(node_id),
            lambda reply: broker.world.deliver(
                node_id, lambda other: other.led_transactions.serve(request, version, reply)
            ),
            until.put,
            ASK_TIMEOUT_MS,
        )
        found = await until
        if not isinstance(found, answer):
            raise Unreachable(f"broker {node_id} does not answer")
        return found

    # -- what it leads --------------------------------------------------------------------------------------

    def begin(self, index: int, core: Leadership) -> None:
        """Lead a partition from now on."""
        self._table.begin(index, core)
        self._refresh(index)

    def end(self, index: int) -> None:
        """Lead it no more."""
        self._table.end(index)
        self._refresh(index)

    def _refresh(self, index: int) -> None:
        if index == self._state_index:
            self.shards.refresh()
        elif index == self._state_index + 1:
            self.groups.refresh()

    def advanced(self, index: int) -> None:
        """More of a partition is on every replica that counts."""
        self._table.advanced(index)

    def led(self, world_index: int) -> LedPartition | None:
        """Return a partition of the model that transactions are about, where it is led here."""
        return self._table.peek(*self._places[world_index])

    def under_way(self) -> list[str]:
        """Return the transactional ids coordinated here that have not ended, or that they load."""
        try:
            shards = list(self.shards.active())
        except ApiError:
            return [TRANSACTIONS_TOPIC]
        return [
            transactional_id
            for shard in shards
            for transactional_id, each in shard.core.transactions.items()
            if each.state not in AT_REST
        ]

    def offset(self, group_id: str) -> str | None:
        """Return what a group has committed, as its coordinator knows it: the metadata of its one offset."""
        group = self.groups.group(group_id)
        found = {} if group is None else group.offsets.get(WRITTEN, {})
        return found[0].metadata if found else None

    # -- who asks -------------------------------------------------------------------------------------------

    def serve(self, message: Message, version: int, reply: Reply) -> None:
        """Answer a request of a client's, or of another broker's."""
        broker = self._broker
        if not broker.may_act:
            return
        name = type(message).__name__.removesuffix("Request")

        def answer(found: Any) -> None:
            if broker.may_act:
                if name not in ASKED_BY_BROKERS or version < BATCHED_FROM:
                    broker.world.answered(broker)
                reply(found)

        request = _request(name, version, answer)
        if name == "InitProducerId":
            found: Any = init_producer_id.handle(cast(Any, self), cast(Any, message), request)
        else:
            found = HANDLERS[name](self._transactions, message, request)
        if isinstance(found, Awaitable):
            self._workers.spawn(self._later, found, answer)
        elif found is not None:
            answer(found)

    @property
    def transactions(self) -> TransactionServices:
        """Where handlers of records find those of transactions."""
        return self._transactions

    @staticmethod
    async def _later(found: Awaitable[Any], answer: Reply) -> None:
        message = await found
        if message is not None:
            answer(message)

    def produce(self, index: int, transactional_id: str, batch: bytes, version: int, reply: Reply) -> None:
        """Append a batch of a transaction, once it is known to belong there; reply with a code (acks=all)."""
        if not self._broker.may_act:
            return

        def answer(code: ErrorCode) -> None:
            if self._broker.may_act:
                self._broker.world.answered(self._broker)
                reply(code)

        partition = self._table.peek(WRITTEN, index)
        if partition is None:
            answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        header = read_header(batch)

        def resume(error: ApiError | None) -> None:
            if error is None:
                self._append(partition, header, batch, answer)
            else:
                answer(error.code)

        try:
            request = _request("Produce", version, reply)
            if self._permissions.may_append(cast(Any, partition), header, request, transactional_id, resume):
                resume(None)
        except ApiError as error:
            answer(error.code)

    @staticmethod
    def _append(
        partition: LedPartition, header: BatchHeader, batch: bytes, answer: Callable[[ErrorCode], None]
    ) -> None:
        """Do what a produce does with a batch that may be appended."""
        if partition.leadership is None:
            answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        refused = partition.leadership.check_enough_replicas()
        if refused is not None:
            answer(refused)
            return
        try:
            if partition.log.producers.check(header) is None:
                partition.append_own(batch)  # type: ignore[misc]  # as of a partition
        except ApiError as error:
            answer(error.code)
            return
        partition.when_committed(
            lambda error: answer(ErrorCode.NONE if error is None else ErrorCode.NOT_LEADER_OR_FOLLOWER)
        )

    def read_committed(self, index: int, offset: int, reply: Reply) -> None:
        """Reply with what a reader of committed records gets: (records, those aborted)."""
        partition = self._table.peek(WRITTEN, index)
        if not self._broker.may_act or partition is None or partition.leadership is None:
            return
        if partition.leadership.check_read(offset) is not None:
            return
        self._broker.world.answered(self._broker)
        end_offset = min(partition.last_stable_offset, offset + READ_RECORDS_MAX)
        records = tuple(self._broker.disk.logs[partition.world_index].records[offset:end_offset])
        reply((records, partition.log.aborted_transactions.between(offset, end_offset)))


def _request(name: str, version: int, reply: Reply) -> Request:
    return ReceivedRequest(cast(Origin, _Origin(reply)), BY_NAME[name], version, 1, "producer")
