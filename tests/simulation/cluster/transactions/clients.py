"""Who uses transactions in the cluster: producers of old and of new versions, their rivals, and readers."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from kohort.broker.metadata.partition_state import NO_LEADER
from kohort.broker.transactions.transaction import BUMPING_VERSION
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kohort.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kohort.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kohort.protocol.records import build_batch, read_header
from kohort.protocol.schema import Message
from tests.simulation.cluster.links import Process
from tests.simulation.cluster.session import name_of
from tests.simulation.cluster.transactions.ledger import Attempt, Ledger, values_of
from tests.simulation.cluster.transactions.partitions import WRITTEN
from tests.simulation.cluster.transactions.tasks import Tasks, Until
from tests.simulation.schedule import Pause

if TYPE_CHECKING:
    from tests.simulation.cluster.broker import Broker
    from tests.simulation.cluster.world import World

PATIENCE_MS = 2_500
PAUSE_MS_MAX = 1_500
RETRY_MS = 150
TRIES_MAX = 8
TIMEOUTS_MS = (4_000, 12_000)
ABORTED, LINGERING, LATE = 0.25, 0.1, 0.05
LATE_MS_MAX = 6_000
INIT_VERSION, ADD_VERSION = 4, 3
PRODUCE_VERSIONS = {1: 11, BUMPING_VERSION: 12}
END_VERSIONS = {1: 4, BUMPING_VERSION: 5}
OFFSET_VERSIONS = {1: 3, BUMPING_VERSION: 5}
OFFSETS_TOO = 0.6
NOBODY = -1
FATAL = frozenset(
    (
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    )
)
ABORTABLE = frozenset(
    (
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    )
)


class Ended(Exception):
    """This process is of no use any more."""


class Abortable(Exception):
    """The transaction is to be aborted."""


class Client(Process):
    """A process that asks whoever leads a partition, as far as it knows."""

    def __init__(self, world: "World", name: str, random: Random) -> None:
        super().__init__(name, world.schedule, world.links)
        self._world = world
        self._random = random
        self._leaders: dict[int, tuple[int, int]] = {}  # Epoch and leader, by the model's partition.
        Tasks(self).spawn(self.live)

    async def live(self) -> None:
        """Do what this process is for."""
        raise NotImplementedError

    async def ask(self, world_index: int, serve: Any) -> Any:
        """Return what the leader answers; None where nobody does, or nobody is known to lead."""
        _, leader = self._leaders.get(world_index, (NOBODY, NO_LEADER))
        if leader == NO_LEADER:
            await self.look(world_index)
            return None
        return await self._call(leader, serve)

    async def look(self, world_index: int) -> None:
        """Ask some broker who leads."""
        node_id = self._random.choice(self._world.node_ids)
        state = await self._call(node_id, lambda broker, reply: broker.knows(world_index, reply))
        known = self._leaders.get(world_index, (NOBODY, NO_LEADER))
        if state is not None and state.leader_epoch >= known[0]:
            self._leaders[world_index] = state.leader_epoch, state.leader
        await Pause(RETRY_MS // 2 + self._random.randrange(RETRY_MS))

    async def _call(self, node_id: int, serve: Any) -> Any:
        until = Until()
        self.call(
            name_of(node_id),
            lambda reply: self._world.deliver(node_id, lambda broker: serve(broker, reply)),
            until.put,
            PATIENCE_MS,
        )
        return await until


class TransactionalProducer(Client):
    """One process of a transactional id: it writes the same to all partitions, or has it taken back.

    By transaction.version 2, or by the one before. That tells the coordinator of each partition first, and
    the broker that leads it asks the coordinator. Its epochs do not tell the end of one transaction from that
    of the next, so that who is not answered does not ask for an end again: it is of no use any more.
    """

    def __init__(
        self, world: "World", transactional_id: str, serial: int, random: Random, ledger: Ledger
    ) -> None:
        self.transactional_id = transactional_id
        self.has_ended = False
        self._ledger = ledger
        self._timeout_ms = random.choice(TIMEOUTS_MS)
        self._identity = (NOBODY, NOBODY)
        self._version = random.choice(tuple(PRODUCE_VERSIONS))
        self._sequences: Counter[int] = Counter()  # By partition: of the next record.
        super().__init__(world, f"{transactional_id}/{serial}", random)

    async def live(self) -> None:
        """Write until another process takes the id."""
        try:
            await self._initialise()
            while True:
                await Pause(self._random.randrange(PAUSE_MS_MAX))
                await self._transact()
        except Ended:
            self.has_ended = True

    async def _initialise(self) -> None:
        """Take the id, or as its producer a new epoch (KIP-360). Raises: Ended."""
        message = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
        )
        while True:
            answer = await self._coordinate(message, INIT_VERSION)
            if isinstance(answer, InitProducerIdResponse) and not answer.error_code:
                self._identity = answer.producer_id, answer.producer_epoch
                self._sequences.clear()
                return

    async def _coordinate(self, message: Message, version: int) -> Any:
        """Return the coordinator's answer, None where it has to be asked again. Raises: Ended."""
        state_index = self._world.state_index
        assert state_index is not None

        def serve(broker: "Broker", reply: Any) -> None:
            broker.led_transactions.serve(message, version, reply)

        answer = await self.ask(state_index, serve)
        code = None if answer is None else ErrorCode(answer.error_code)
        if code in FATAL:
            raise Ended
        if code is not ErrorCode.NONE:
            await self.look(state_index)
        return answer

    async def _transact(self) -> None:
        """Write a transaction, and end it. Raises: Ended."""
        attempt = self._ledger.begin(self.transactional_id)
        indexes = list(range(len(self._world.written)))
        self._random.shuffle(indexes)
        try:
            if self._version < BUMPING_VERSION:
                await self._add(indexes)
            for _ in range(self._random.choice((1, 1, 2))):
                for index in indexes:
                    await self._produce(attempt, index)
            if self._random.random() < OFFSETS_TOO:
                await self._commit_offset(attempt)
            if self._random.random() < LINGERING:
                await Pause(int(self._random.random() * 2 * self._timeout_ms))
            is_commit = self._random.random() > ABORTED
        except Abortable:
            await self._end(attempt, is_commit=False)
            if self._version < BUMPING_VERSION:  # What it does not know of may still arrive.
                await self._initialise()
            return
        await self._end(attempt, is_commit=is_commit)

    async def _add(self, indexes: Sequence[int]) -> None:
        """Tell the coordinator where it writes. Raises: Ended, Abortable."""
        message = AddPartitionsToTxnRequest(
            transactions=(),
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._identity[0],
            v3_and_below_producer_epoch=self._identity[1],
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=WRITTEN, partitions=tuple(indexes)),),
        )
        state_index = self._world.state_index
        assert state_index is not None

        def serve(broker: "Broker", reply: Any) -> None:
            broker.led_transactions.serve(message, ADD_VERSION, reply)

        for _ in range(TRIES_MAX):
            answer = await self.ask(state_index, serve)
            if answer is not None:
                codes = {
                    ErrorCode(each.partition_error_code)
                    for topic in answer.results_by_topic_v3_and_below
                    for each in topic.results_by_partition
                }
                if codes == {ErrorCode.NONE}:
                    return
                if codes & FATAL:
                    raise Ended
                if codes & ABORTABLE:
                    raise Abortable
            await self.look(state_index)
        raise Abortable

    async def _produce(self, attempt: Attempt, index: int) -> None:
        """Write a record, again and again until that is known to be done. Raises: Ended, Abortable."""
        sequence = self._sequences[index]
        value = f"{attempt.token}/{len(attempt.values)}"
        attempt.values[value] = index
        batch = build_batch(
            [(self.schedule.time_ms, None, value.encode(), ())],
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
            base_sequence=sequence,
            is_transactional=True,
        )
        world_index, version = self._world.written[index], PRODUCE_VERSIONS[self._version]

        def serve(broker: "Broker", reply: Any) -> None:
            broker.led_transactions.produce(index, self.transactional_id, batch, version, reply)

        if self._random.random() < LATE:  # It is given up before it arrives (KIP-890).
            Tasks(self).spawn(self._send_late, world_index, serve)
            raise Abortable
        for _ in range(TRIES_MAX):
            code = await self.ask(world_index, serve)
            if code is ErrorCode.NONE:
                self._sequences[index] += 1
                return
            if code in FATAL:
                raise Ended
            if code in ABORTABLE:
                raise Abortable
            await self.look(world_index)
        raise Abortable

    async def _send_late(self, world_index: int, serve: Any) -> None:
        await Pause(self._random.randrange(LATE_MS_MAX))
        await self.ask(world_index, serve)

    async def _commit_offset(self, attempt: Attempt) -> None:
        """Have a group's offset go with the transaction. Raises: Ended, Abortable."""
        group_id, (producer_id, epoch) = group_id_of(self.transactional_id), self._identity
        if self._version < BUMPING_VERSION:
            added = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                group_id=group_id,
            )
            for _ in range(TRIES_MAX):
                answer = await self._coordinate(added, ADD_VERSION)
                if answer is not None and not answer.error_code:
                    break
            else:
                raise Abortable
        place = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=len(attempt.values), committed_metadata=attempt.token
        )
        message = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id_or_member_epoch=NOBODY,
            member_id="",
            topics=(TxnOffsetCommitRequestTopic(name=WRITTEN, partitions=(place,)),),
        )
        state_index, version = self._world.state_index, OFFSET_VERSIONS[self._version]
        assert state_index is not None

        def serve(broker: "Broker", reply: Any) -> None:
            broker.led_transactions.serve(message, version, reply)

        for _ in range(TRIES_MAX):
            answer = await self.ask(state_index + 1, serve)
            if isinstance(answer, TxnOffsetCommitResponse):
                code = ErrorCode(answer.topics[0].partitions[0].error_code)
                if code is ErrorCode.NONE:
                    attempt.has_offset = True
                    return
                if code in FATAL:
                    raise Ended
                if code in ABORTABLE:
                    raise Abortable
            await self.look(state_index + 1)
        raise Abortable

    async def _end(self, attempt: Attempt, *, is_commit: bool) -> None:
        """Have it ended, asking until that is answered. Raises: Ended where somebody else did."""
        attempt.commit_is_asked |= is_commit
        producer_id, epoch = self._identity
        message = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=is_commit,
        )
        while True:
            answer = await self._coordinate(message, END_VERSIONS[self._version])
            if isinstance(answer, EndTxnResponse):
                if not answer.error_code:
                    break
                if answer.error_code in ABORTABLE:  # Its time was up.
                    raise Ended
            if self._version < BUMPING_VERSION and answer is None:
                raise Ended
        if self._version >= BUMPING_VERSION:
            self._identity = answer.producer_id, answer.producer_epoch
            self._sequences.clear()
        self._ledger.ended(self.transactional_id, attempt, is_commit=is_commit)


class CommittedReader(Client):
    """Reads what is committed of one partition."""

    def __init__(self, world: "World", index: int, random: Random, ledger: Ledger) -> None:
        self.position = 0
        self._index = index
        self._ledger = ledger
        super().__init__(world, f"committed{index}", random)

    async def live(self) -> None:
        """Read on."""
        world_index = self._world.written[self._index]
        while True:
            await Pause(self._random.randrange(PAUSE_MS_MAX))
            position = self.position
            serve = partial(_read, self._index, position)
            answer = await self.ask(world_index, serve)
            if answer is None:
                await self.look(world_index)
                continue
            records, aborted = answer
            for offset, record in enumerate(records, position):
                if isinstance(record.value, bytes):
                    self._see(offset, record.value, aborted)
            self.position += len(records)

    def _see(self, offset: int, batch: bytes, aborted: Any) -> None:
        header = read_header(batch)
        is_hidden = header.is_control or any(
            each.producer_id == header.producer_id and each.first_offset <= offset <= each.last_offset
            for each in aborted
        )
        if not is_hidden:
            for value in values_of(batch):
                self._ledger.shown(self._index, value)


def group_id_of(transactional_id: str) -> str:
    """Return the group whose offset an id's producers commit."""
    return f"counted-by-{transactional_id}"


def _read(index: int, position: int, broker: "Broker", reply: Any) -> None:
    broker.led_transactions.read_committed(index, position, reply)
