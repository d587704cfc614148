"""A transactional producer as a process: it counts, and writes each number to several partitions.

The offset that its group has committed says which number is next: so none is there twice, and none missing,
if transactions are what they are said to be. It does what Kafka's clients do: requests without an answer are
sent again, batches with the same sequence numbers; what can't be known to be written is aborted.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import count
from random import Random

from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kohort.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kohort.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kohort.protocol.records import build_batch
from kohort.protocol.schema import Message
from tests.simulation.network import Sent
from tests.simulation.transactions.ledger import (
    NO_IDENTITY,
    Attempt,
    Identity,
    Ledger,
    Place,
    codes_of,
)
from tests.simulation.transactions.process import Around, Ask, Process, Sleep

BUMPING_VERSION = 2
PATIENCE_MS = 4_000
RETRY_MS = 60
PAUSE_MS_MAX = 1_200
TRIES_MAX = 12  # Of a produce or a commit of offsets, before the transaction is aborted.
TIMEOUTS_MS = (3_000, 10_000, 40_000)
PAD_BYTES = (0, 0, 0, 50, 400)
ABORTED = 0.2
LINGERING = 0.3  # How many stay open for a while, some beyond their time-out.
NO_GENERATION = -1
HELD_UP = 0.03  # How many batches and ends come late, when the next transaction may have begun.
PASSING = "passing"
"""A topic that is deleted and made again: what becomes of its records is not looked at."""
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
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    )
)
COMING = frozenset(
    (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
)
"""What a client hears and asks again."""


class Ended(Exception):
    """This process is of no use any more: another has its id, or it can't know where it stands."""


class Abortable(Exception):
    """The transaction is to be aborted."""


class Producer(Process):
    """One process of a transactional id, by an old protocol, or by that of transaction.version 2."""

    MAY_BE_LATE = frozenset(("Produce",))  # Each batch is verified.

    def __init__(
        self,
        world: Around,
        name: str,
        random: Random,
        *,
        ledger: Ledger,
        places: Sequence[Place],
        anchor: Place,
    ) -> None:
        """`anchor` gets every number; some of the other `places` do, as chance has it."""
        super().__init__(world, name, random)
        self.transactional_id = name.partition("/")[0]
        self.group_id = group_id_of(self.transactional_id)
        self.has_ended = False
        self._is_calm = False
        self._ledger = ledger
        self._places = places
        self.anchor = anchor
        self._version = random.choice((1, BUMPING_VERSION))
        self._timeout_ms = random.choice(TIMEOUTS_MS)
        self._counter: str | None = None  # Where others count on, too.
        self._member_id, self._generation_id = "", NO_GENERATION  # Of no group, as those before KIP-447 say.
        self._identity = NO_IDENTITY
        self._sequences: dict[Place, int] = defaultdict(int)
        self.is_careful = self._version < BUMPING_VERSION  # Its epochs can't tell a request that comes late.

    @property
    def is_ending(self) -> bool:
        """Whether it has asked last to end its transaction."""
        return self._asked == "EndTxn"

    def calm(self) -> None:
        """Go on, on a network that is whole, and let no transaction's time be up."""
        super().calm()
        self._is_calm = True

    def ended(self) -> None:
        """Be known as a process that is over."""
        self.has_ended = True

    async def run(self) -> None:
        """Count until another process takes the id."""
        try:
            await self._initialise()
            number = await self._next_number()
            while True:
                await Sleep(int(self._random.random() * PAUSE_MS_MAX))
                number += await self._count(number)
        except Ended:
            return

    # -- asking ---------------------------------------------------------------------------------------------

    async def _ask(
        self,
        api: str,
        version: int,
        message: Message,
        attempt: Attempt | None = None,
        identity: Identity | None = None,
    ) -> Message | None:
        known = self._identity if identity is None else identity

        def on_sent(sent: Sent) -> None:
            self._ledger.sends(sent, self.transactional_id, known, attempt, self._counter)

        return await Ask(api, version, message, PATIENCE_MS, on_sent)

    async def _until_done(
        self, api: str, version: int, message: Message, attempt: Attempt | None = None
    ) -> Message:
        """Return the answer that says that all is done. Raises: Ended, Abortable."""
        for _ in range(TRIES_MAX):
            answer = await self._ask(api, version, message, attempt)
            if answer is not None and self._is_done(codes_of(answer)):
                return answer
            await Sleep(RETRY_MS + int(self._random.random() * RETRY_MS))
        raise Abortable

    def _is_done(self, codes: Iterable[int]) -> bool:
        """Return whether none has failed. Raises: Ended, Abortable."""
        found = {ErrorCode(each) for each in codes} - {ErrorCode.NONE}
        if found & FATAL:
            raise Ended
        if found & ABORTABLE:
            raise Abortable
        assert found <= COMING, f"a producer that does as it should is told {found}"
        return not found

    # -- an id, and where to go on --------------------------------------------------------------------------

    async def _initialise(self, identity: Identity = NO_IDENTITY) -> None:
        """Take an id with a new epoch; with `identity` as the producer that goes on (KIP-360)."""
        message = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
        )
        while True:
            answer = await self._ask("InitProducerId", 4, message, identity=identity)
            if isinstance(answer, InitProducerIdResponse):
                try:
                    is_done = self._is_done((answer.error_code,))
                except Abortable as error:
                    raise Ended from error
                if is_done:
                    self._identity = Identity(answer.producer_id, answer.producer_epoch)
                    self._sequences.clear()
                    return
            await Sleep(RETRY_MS)

    async def _next_number(self) -> int:
        """Return what the group has committed, once that is stable."""
        topic, index = self.anchor
        wanted = (OffsetFetchRequestTopics(name=topic, partition_indexes=(index,)),)
        group = OffsetFetchRequestGroup(group_id=self.group_id, topics=wanted)
        while True:
            message = OffsetFetchRequest(groups=(group,), require_stable=True)
            answer = await self._ask("OffsetFetch", 9, message)
            if isinstance(answer, OffsetFetchResponse):
                [found] = answer.groups
                if not found.error_code and not found.topics[0].partitions[0].error_code:
                    return max(0, found.topics[0].partitions[0].committed_offset)
            await Sleep(RETRY_MS)

    # -- a transaction --------------------------------------------------------------------------------------

    async def _count(self, number: int) -> int:
        """Write a number in a transaction; return 1 if it is committed, else 0. Raises: Ended."""
        dice = self._random
        attempt = self._ledger.begin(self.transactional_id, number, self._counter)
        others = [each for each in self._places if each != self.anchor]
        places = [self.anchor, *dice.sample(others, dice.randrange(len(others)))]
        try:
            if self._version < BUMPING_VERSION:
                await self._add_partitions(places)
            is_early = dice.random() < 0.3
            if is_early:
                await self._commit_offset(attempt)
            for _ in range(dice.choice((1, 1, 2, 3))):
                await self._produce(attempt, [each for each in places if dice.random() < 0.7])
            await self._produce(attempt, places)
            if dice.random() < LINGERING and not self._is_calm:
                await Sleep(int(dice.random() ** 3 * 2 * self._timeout_ms))
            if not is_early:
                await self._commit_offset(attempt)
        except Abortable:
            await self._end(attempt, is_commit=False)
            if self._version < BUMPING_VERSION:
                await self._initialise(self._identity)
            return 0
        is_commit = dice.random() > ABORTED
        await self._end(attempt, is_commit=is_commit)
        return int(is_commit)

    async def _add_partitions(self, places: Sequence[Place]) -> None:
        message = AddPartitionsToTxnRequest(
            transactions=(),
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._identity.producer_id,
            v3_and_below_producer_epoch=self._identity.epoch,
            v3_and_below_topics=tuple(
                AddPartitionsToTxnTopic(name=topic, partitions=tuple(indexes))
                for topic, indexes in _by_topic(places).items()
            ),
        )
        await self._until_done("AddPartitionsToTxn", 3, message)

    async def _produce(self, attempt: Attempt, places: Sequence[Place]) -> None:
        """Write to each place; what was not told to be written is written again. Raises: Ended, Abortable."""
        batches = {place: self._batch(attempt, place) for place in places}
        for _ in range(TRIES_MAX):
            if not batches:
                return
            message = ProduceRequest(
                transactional_id=self.transactional_id,
                acks=-1,
                timeout_ms=PATIENCE_MS,
                topic_data=tuple(
                    TopicProduceData(
                        name=topic,
                        partition_data=tuple(
                            PartitionProduceData(index=index, records=batches[topic, index][0])
                            for index in indexes
                        ),
                    )
                    for topic, indexes in _by_topic(list(batches)).items()
                ),
            )
            version = 12 if self._version >= BUMPING_VERSION else 11
            self._may_hold_up()
            answer = await self._ask("Produce", version, message, attempt)
            if isinstance(answer, ProduceResponse):
                for topic in answer.responses:
                    for each in topic.partition_responses:
                        if (
                            topic.name == PASSING
                            and each.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                        ):
                            raise Abortable  # It was made again, and knows the producer by a marker alone.
                        if self._is_done((each.error_code,)):
                            _, values = batches.pop((topic.name, each.index))
                            self._sequences[topic.name, each.index] += len(values)
                            attempt.offsets.update(zip(values, count(each.base_offset), strict=False))
            if batches:
                await Sleep(RETRY_MS + int(self._random.random() * RETRY_MS))
        raise Abortable

    def _batch(self, attempt: Attempt, place: Place) -> tuple[bytes, list[str]]:
        """Return a batch of some records, and their values."""
        dice, rows, values = self._random, [], []
        for _ in range(dice.choice((1, 1, 2, 3))):
            value = f"{attempt.token}/{len(attempt.records)}"
            attempt.records[value] = place
            values.append(value)
            padded = value.encode() + bytes(dice.choice(PAD_BYTES))
            rows.append((self._schedule.time_ms, value.encode(), padded, ()))
        batch = build_batch(
            rows,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            base_sequence=self._sequences[place],
            is_transactional=True,
        )
        return batch, values

    async def _commit_offset(self, attempt: Attempt) -> None:
        """Have the group's offset go on with the transaction."""
        topic, index = self.anchor
        if self._version < BUMPING_VERSION:
            added = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self._identity.producer_id,
                producer_epoch=self._identity.epoch,
                group_id=self.group_id,
            )
            answer = await self._until_done("AddOffsetsToTxn", 3, added)
            assert isinstance(answer, AddOffsetsToTxnResponse)
        offset = TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=attempt.number + 1, committed_metadata=attempt.token
        )
        message = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self.group_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            generation_id_or_member_epoch=self._generation_id,
            member_id=self._member_id,
            topics=(TxnOffsetCommitRequestTopic(name=topic, partitions=(offset,)),),
        )
        version = 5 if self._version >= BUMPING_VERSION else 3
        await self._until_done("TxnOffsetCommit", version, message, attempt)

    def _may_hold_up(self) -> None:
        """Let what is asked next be late, now and then: it is asked again before it arrives."""
        if self._random.random() < HELD_UP:
            self.hold(PATIENCE_MS + int(self._random.random() * PAUSE_MS_MAX))

    async def _end(self, attempt: Attempt, *, is_commit: bool) -> None:
        """End the transaction, asking until that is answered. Raises: Ended where somebody else did."""
        message = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            committed=is_commit,
        )
        version = 5 if self._version >= BUMPING_VERSION else 3
        if not self.is_careful:
            self._may_hold_up()
        while True:
            answer = await self._ask("EndTxn", version, message, attempt)
            if isinstance(answer, EndTxnResponse):
                try:
                    is_done = self._is_done((answer.error_code,))
                except Abortable as error:  # Its time was up, or it never began.
                    raise Ended from error
                if is_done:
                    break
            await Sleep(RETRY_MS)
        if self._version >= BUMPING_VERSION:
            self._identity = Identity(answer.producer_id, answer.producer_epoch)
            self._sequences.clear()


class Plain(Process):
    """A producer without transactions: what it writes counts at once, but is read behind those before it."""

    def __init__(
        self, world: Around, name: str, random: Random, *, ledger: Ledger, places: Sequence[Place]
    ) -> None:
        super().__init__(world, name, random)
        self._ledger = ledger
        self._places = places
        self._number = 0

    async def run(self) -> None:
        """Write to one place after another; what is not answered is not written again."""
        dice = self._random
        while True:
            await Sleep(int(dice.random() * 4 * PAUSE_MS_MAX))
            topic, index = dice.choice(self._places)
            self._number += 1
            value = f"plain:{self.name}:{self._number}".encode()
            batch = build_batch([(self._schedule.time_ms, value, value, ())])
            data = (PartitionProduceData(index=index, records=batch),)
            message = ProduceRequest(
                acks=-1,
                timeout_ms=PATIENCE_MS,
                topic_data=(TopicProduceData(name=topic, partition_data=data),),
            )
            await Ask("Produce", 11, message, PATIENCE_MS, partial(self._sent))

    def _sent(self, _sent: Sent) -> None:
        """Keep no books of what counts by itself."""


def group_id_of(transactional_id: str) -> str:
    """Return the group whose offset an id's producers commit."""
    return f"counted-by-{transactional_id}"


def _by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in places:
        topics.setdefault(topic, []).append(index)
    return topics
