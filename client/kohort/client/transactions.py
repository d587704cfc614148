"""A producer's transactions: the records and offsets of one are committed or aborted together.

Source: KIP-98, KIP-360, KIP-447, KIP-890; org.apache.kafka.clients.producer.internals.TransactionManager.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from itertools import islice
from typing import TypeVar

from kohort.client.accumulator import Accumulator
from kohort.client.batch import ProducerIdentity
from kohort.client.cluster import TRANSACTIONS, Cluster
from kohort.client.config import ProducerConfig
from kohort.client.errors import (
    BrokerError,
    KohortError,
    ProducerFencedError,
    TransactionFailedError,
    TransactionStateError,
)
from kohort.client.identity import TransactionalIdentifier
from kohort.client.outcomes import FENCED
from kohort.client.request_parts import PARTITIONS_PER_REQUEST, parts_of_mapping
from kohort.client.retry import Deadline
from kohort.client.unattended import Unattended
from kohort.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kohort.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kohort.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kohort.protocol.schema import Message

FEATURE = "transaction.version"
SECOND_PROTOCOL = 2
"""The level from which brokers add partitions themselves, and each end gives the producer its next epoch."""
FIRST_PROTOCOL_HIGHEST = {
    "Produce": 11,
    "AddPartitionsToTxn": 3,
    "TxnOffsetCommit": 4,
    "EndTxn": 4,
}
"""The newest versions that belong to the first protocol."""
NAMES_IN_TXN_OFFSET_COMMIT = 5  # Later ones have ids alone.
FINAL = FENCED | {
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
"""Errors of a coordinator after which this producer can never write again."""

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer", bound=Message)
Result = TypeVar("Result")
Offsets = Mapping[TopicPartition, OffsetAndMetadata]
_NOT_OPEN = "no transaction is open; call begin_transaction()"


class State(Enum):
    """The state of a producer."""

    NEW = "has not asked for its id, or does not know what became of its last transaction"
    READY = "is in no transaction"
    OPEN = "is in a transaction"
    ENDING = "is ending a transaction"


class Transactions:
    """The transactions of one producer, one after the other. In the loop's thread."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        accumulator: Accumulator,
        identifier: TransactionalIdentifier,
        wake: Callable[[], None],
    ) -> None:
        assert config.transactional_id
        self._cluster = cluster
        self._config = config
        self._id = config.transactional_id
        self._accumulator = accumulator
        self._identifier = identifier
        self._wake = wake
        self._calls = Unattended(cluster)
        self._state = State.NEW
        self._failure: KohortError | None = None  # Why this producer is unusable.
        self.error: KohortError | None = None
        """Why the transaction can only be aborted."""
        self._is_flushing = False  # Whether an end was requested, and earlier records are being written.
        self._is_aborting = False  # Whether an abort was requested, which continues without a waiter.
        self._is_second = False
        self._has_begun = False  # Whether the coordinator knows the transaction, or may.
        self._added: set[TopicPartition] = set()
        self._to_add: set[TopicPartition] = set()
        self._is_adding = False

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open, and no abort was requested."""
        return self._state is State.OPEN and not self._is_aborting

    @property
    def produce_highest(self) -> int | None:
        """The newest version of Produce that belongs to the protocol of the cluster's transactions."""
        return self._highest("Produce")

    def _highest(self, api: str) -> int | None:
        return None if self._is_second else FIRST_PROTOCOL_HIGHEST[api]

    # Calls of the sender

    def check_may_send(self) -> None:
        """Raise why a record can't be sent now. From any thread. Raises: KohortError."""
        if self._failure is not None:
            raise self._failure
        if self._state is not State.OPEN or self._is_flushing:
            raise self._out_of_turn()
        self._check_has_not_failed()

    def _check_has_not_failed(self) -> None:
        """Return while the transaction may be committed. Raises: KohortError."""
        if isinstance(self.error, ProducerFencedError):
            raise self.error
        if self.error is not None:
            raise TransactionFailedError(f"the transaction has failed: {self.error}") from self.error

    @property
    def refusal(self) -> KohortError | None:
        """Why waiting batches are not sent any more; None if they are.

        A thread that entered before the end may append a record after it: that record belongs to no
        transaction, and would count, or not, with the next one.
        """
        return self.error if self._state is State.OPEN else self._out_of_turn()

    def _out_of_turn(self) -> TransactionStateError:
        state = State.ENDING if self._is_flushing else self._state
        if state in (State.NEW, State.READY):
            return TransactionStateError(_NOT_OPEN)
        return TransactionStateError(f"a record is sent, but the producer {state.value}")

    def may_send(self, partition: TopicPartition) -> bool:
        """Return whether batches of a partition may go out; if not, `wake` is called when they may."""
        self._has_begun = True
        if self._is_second or partition in self._added:
            return True
        self._to_add.add(partition)
        if not self._is_adding:
            self._is_adding = True
            self._cluster.tasks.start_soon(self._add)
        return False

    def failed(self, error: KohortError) -> None:
        """Take note of a batch that was not written, or of an offset that was not committed."""
        if self._state in (State.OPEN, State.ENDING) and self.error is None:
            self.error = error
            self._wake()

    async def _add(self) -> None:
        """Add partitions at the coordinator, until there are no more."""
        try:
            while self._to_add and self.error is None:
                adding = set(islice(self._to_add, PARTITIONS_PER_REQUEST))
                await self._ask_to_add(adding)
                self._added |= adding
                self._to_add -= adding
        except KohortError as error:
            self._to_add.clear()
            self.failed(self._as_raised(error))
        finally:
            self._is_adding = False
            self._wake()

    async def _ask_to_add(self, partitions: set[TopicPartition]) -> None:
        topics: dict[str, list[int]] = {}
        for each in sorted(partitions):
            topics.setdefault(each.topic, []).append(each.partition)
        identity = self._identifier.identity
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=tuple(
                AddPartitionsToTxnTopic(name=topic, partitions=tuple(numbers))
                for topic, numbers in topics.items()
            ),
        )

        async def ask() -> None:
            answer = await self._ask(request, AddPartitionsToTxnResponse, self._highest("AddPartitionsToTxn"))
            for topic in answer.results_by_topic_v3_and_below:
                for each in topic.results_by_partition:
                    what = f"partition {topic.name}-{each.partition_index}"
                    self._cluster.check_coordinated(self._id, each.partition_error_code, what, TRANSACTIONS)

        await self._retrying(ask)

    # Calls of the user

    async def settle(self) -> None:
        """Return when all calls without a waiter have ended. Raises: RequestTimeoutError."""
        await self._calls.settle(self._config.max_block_ms)

    async def begin(self) -> None:
        """Begin a transaction, as the only producer of this transactional id. Raises: KohortError."""
        await self.settle()
        if self._state is State.NEW:
            await self.init()
        if self._failure is not None:
            raise self._failure
        if self._state is not State.READY:
            raise TransactionStateError(f"a transaction is begun, but the producer {self._state.value}")
        self.error = None
        self._has_begun = False
        self._added.clear()
        self._to_add.clear()
        self._state = State.OPEN

    async def init(self) -> None:
        """Get an epoch that fences every other producer of this transactional id.

        An open transaction of an earlier producer is aborted, an ending one is ended first. Raises:
        KohortError.
        """
        await self.settle()
        if self._failure is not None:
            raise self._failure
        if self._state in (State.OPEN, State.ENDING):
            raise TransactionStateError(f"the producer can't begin anew: it {self._state.value}")
        await self._calls.run(self._init)

    async def _init(self) -> None:
        await self._next_epoch(ProducerIdentity())
        self._state = State.READY

    async def _next_epoch(self, known: ProducerIdentity) -> None:
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=self._config.transaction_timeout_ms,
            producer_id=known.producer_id,
            producer_epoch=known.epoch,
        )

        async def ask() -> InitProducerIdResponse:
            answer = await self._ask(request, InitProducerIdResponse, None)
            self._cluster.check_coordinated(self._id, answer.error_code, None, TRANSACTIONS)
            return answer

        answer = await self._retrying(ask)
        node = await self._cluster.coordinator(self._id, TRANSACTIONS)
        connection = await self._cluster.connection_to(node)
        self._is_second = connection.finalized_level(FEATURE) >= SECOND_PROTOCOL
        self._take(ProducerIdentity(answer.producer_id, answer.producer_epoch, is_transactional=True))

    def _take(self, identity: ProducerIdentity) -> None:
        if identity != self._identifier.identity:
            self._identifier.identity = identity
            self._accumulator.restart_sequences(identity)

    async def send_offsets(self, offsets: Offsets, group: GroupMetadata) -> None:
        """Commit a group's offsets with the transaction. Raises: KohortError."""
        self.check_may_send()
        if not offsets:
            return
        self._has_begun = True
        await self._calls.run(lambda: self._send_offsets(offsets, group))

    async def _send_offsets(self, offsets: Offsets, group: GroupMetadata) -> None:
        try:
            if not self._is_second:
                await self._add_offsets(group.group_id)
            for part in parts_of_mapping(offsets):
                await self._commit_offsets(part, group)
        except KohortError as error:
            raised = self._as_raised(error)
            self.failed(raised)
            raise raised from error.__cause__

    async def _add_offsets(self, group_id: str) -> None:
        identity = self._identifier.identity
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=group_id,
        )

        async def ask() -> None:
            answer = await self._ask(request, AddOffsetsToTxnResponse, None)
            self._cluster.check_coordinated(self._id, answer.error_code, None, TRANSACTIONS)

        await self._retrying(ask)

    async def _commit_offsets(self, offsets: Offsets, group: GroupMetadata) -> None:
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for partition, each in offsets.items():
            topics.setdefault(partition.topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition.partition,
                    committed_offset=each.offset,
                    committed_leader_epoch=each.leader_epoch,
                    committed_metadata=each.metadata,
                )
            )
        identity = self._identifier.identity
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group.group_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            generation_id_or_member_epoch=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=tuple(
                TxnOffsetCommitRequestTopic(name=topic, partitions=tuple(partitions))
                for topic, partitions in topics.items()
            ),
        )
        highest = NAMES_IN_TXN_OFFSET_COMMIT if self._is_second else self._highest("TxnOffsetCommit")

        async def ask() -> None:
            answer = await self._cluster.request_coordinator(
                group.group_id, request, TxnOffsetCommitResponse, highest=highest
            )
            for topic in answer.topics:
                for each in topic.partitions:
                    self._cluster.check_coordinated(
                        group.group_id,
                        each.error_code,
                        f"offsets of {topic.name}-{each.partition_index}",
                    )

        await self._retrying(ask)

    async def end(self, flush: Callable[[], Awaitable[None]], *, is_commit: bool) -> None:
        """Commit, once all was written, or abort. Raises: KohortError.

        The commit of a failed transaction is refused, and it stays open until it is aborted. If the
        end was requested without an answer, its result is unknown: the next one starts only when
        that is decided. A commit cancelled during its flush leaves the transaction open; an
        abort, and requests to the coordinator, continue.
        """
        if self._is_aborting and not is_commit:
            await self.settle()
            return
        if is_commit and self.is_open and not self._is_flushing:
            await self.settle()  # Of offsets that nobody waited for.
        if self._failure is not None:
            raise self._failure
        if self._state is not State.OPEN or self._is_flushing or self._is_aborting:
            what = "committed" if is_commit else "aborted"
            state = State.ENDING if self._is_flushing or self._is_aborting else self._state
            if state is State.READY:
                raise TransactionStateError(_NOT_OPEN)
            raise TransactionStateError(f"a transaction is {what}, but the producer {state.value}")
        if not is_commit:
            # Waiting batches are not sent any more.
            self.failed(TransactionFailedError("the transaction is aborted"))
            self._is_aborting = True
            await self._calls.run(lambda: self._abort(flush))
            return
        await self._flush(flush)
        self._check_has_not_failed()
        self._state = State.ENDING
        await self._calls.run(lambda: self._finish(is_commit=True))

    async def _abort(self, flush: Callable[[], Awaitable[None]]) -> None:
        try:
            await self._flush(flush)
            self._state = State.ENDING
            await self._finish(is_commit=False)
        finally:
            self._is_aborting = False

    async def _flush(self, flush: Callable[[], Awaitable[None]]) -> None:
        self._is_flushing = True
        try:
            await flush()
            await flush()  # Of records by a thread that entered just before; no others follow.
        finally:
            self._is_flushing = False

    async def _finish(self, *, is_commit: bool) -> None:
        try:
            await self._end(is_commit=is_commit)
        except BaseException:
            self._state = State.NEW
            raise
        self._state = State.READY
        self.error = None

    async def _end(self, *, is_commit: bool) -> None:
        if not self._has_begun:
            return
        identity = self._identifier.identity
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=is_commit,
        )

        async def ask() -> EndTxnResponse:
            answer = await self._ask(request, EndTxnResponse, self._highest("EndTxn"))
            if not is_commit and answer.error_code == ErrorCode.INVALID_TXN_STATE and not self._is_second:
                return answer  # The coordinator does not know it: the partitions were never added.
            self._cluster.check_coordinated(self._id, answer.error_code, None, TRANSACTIONS)
            return answer

        try:
            answer = await self._retrying(ask)
        except KohortError as error:
            raise self._as_raised(error) from error.__cause__
        if self._is_second:
            self._take(ProducerIdentity(answer.producer_id, answer.producer_epoch, is_transactional=True))
        elif not is_commit:  # Some of its sequences may be missing in the partitions (KIP-360).
            await self._next_epoch(identity)

    # Asking

    async def _ask(self, request: Message, answer: type[Answer], highest: int | None) -> Answer:
        """Return the answer of the coordinator. Raises: KohortError."""
        return await self._cluster.request_coordinator(
            self._id, request, answer, key_type=TRANSACTIONS, highest=highest
        )

    async def _retrying(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        try:
            return await self._cluster.retrying(attempt, deadline=Deadline(self._config.max_block_ms))
        except BrokerError as error:
            raised = self._as_raised(error)
            if raised is error:
                raise
            raise raised from error

    def _as_raised(self, error: KohortError) -> KohortError:
        """Return the error for the user; a fatal one is kept by the producer."""
        if isinstance(error, ProducerFencedError) or error.code not in FINAL:
            return error
        if error.code in FENCED:
            error = ProducerFencedError(
                error.code,
                f"another producer has the transactional id {self._id!r} by now, or a transaction was open"
                f" for longer than transaction_timeout_ms ({self._config.transaction_timeout_ms})",
            )
        self._failure = error
        return error
