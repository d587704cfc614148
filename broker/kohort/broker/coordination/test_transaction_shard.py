"""Transactions in a whole broker with real files: nothing follows from a decision before it is committed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from kohort.broker.broker import Broker, running
from kohort.broker.config import load_config
from kohort.broker.coordination import transaction_machine
from kohort.broker.coordination.test_shard import Client, Replicas, found, lead_others
from kohort.broker.coordination.transaction_markers import Marker
from kohort.broker.coordination.transaction_wire import Addition
from kohort.broker.group import coordinator_partition
from kohort.broker.metadata import OFFSETS_TOPIC
from kohort.broker.partitions import Partition
from kohort.broker.transactions.commands import AddPartitions, EndTransaction, MarkersDue
from kohort.broker.transactions.transaction import BUMPING_VERSION, TransactionState
from kohort.broker.transport.addresses import Address, BrokerAddresses
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kohort.protocol.records import build_batch
from kohort.protocol.schema import Message
from kohort.storage import StorageError

SETTINGS = (("transaction.state.log.num.partitions", "1"),)
NAME = "ledger"
OF_TRANSACTIONS = 1
PRODUCER = 7
GROUPS = OFFSETS_TOPIC, 0


async def begun(broker: Broker) -> tuple[Client, InitProducerIdResponse]:
    """Return a producer that has a partition in its transaction, and its connection."""
    client = await Client.to(broker)
    topic = CreatableTopic(name="air", num_partitions=1, replication_factor=1, assignments=(), configs=())
    await client.ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
    await client.ask(
        FindCoordinatorRequest(key_type=OF_TRANSACTIONS, coordinator_keys=(NAME,)), FindCoordinatorResponse
    )
    initialise = InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=60_000)
    with trio.fail_after(5):
        while (known := await client.ask(initialise, InitProducerIdResponse)).error_code:
            await trio.sleep(0.005)
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=NAME,
        v3_and_below_producer_id=known.producer_id,
        v3_and_below_producer_epoch=known.producer_epoch,
        v3_and_below_topics=(AddPartitionsToTxnTopic(name="air", partitions=(0,)),),
    )
    added = await client.ask(add, AddPartitionsToTxnResponse, 3)
    assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    return client, known


def commit_of(known: InitProducerIdResponse) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=NAME,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        committed=True,
    )


async def test_no_marker_is_written_before_the_decision_is_replicated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_machine, "WRITE_TIMEOUT_MS", 50)
    places = BrokerAddresses(Address("127.0.0.1", 0), tmp_path)
    async with running(load_config(None, SETTINGS), places) as broker:
        client, known = await begun(broker)
        sender = broker.transactions().sender
        shard = broker.transactions().shard_of(NAME)
        assert shard.index == coordinator_partition(NAME, 1)
        partition = shard._partition
        assert isinstance(partition, Partition)
        markers: list[MarkersDue] = []
        write_marker = sender.write

        def written(index: int, due: MarkersDue, *rest: object) -> None:
            markers.append(due)
            write_marker(index, due, *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(sender, "write", written)
        with monkeypatch.context() as patch:
            lead_others(patch, partition, Replicas())
            refused = await client.ask(commit_of(known), EndTxnResponse)
            assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            await trio.sleep(0.2)  # Time and again it is looked at what waits for replicas.
            assert not markers, "another coordinator may not know of the decision, and abort what is left"
            assert shard.core.transactions[NAME].state is TransactionState.PREPARE_COMMIT
            Replicas.have_all(partition, patch)
            assert len(markers) == 1
        with trio.fail_after(5):
            while shard.core.transactions[NAME].state is not TransactionState.COMPLETE_COMMIT:
                await trio.sleep(0.005)


async def test_a_failed_answer_affects_no_other_request_and_no_marker(
    tmp_path: Path,
) -> None:
    places = BrokerAddresses(Address("127.0.0.1", 0), tmp_path)
    async with running(load_config(None, SETTINGS), places) as broker:
        _, known = await begun(broker)
        shard = broker.transactions().shard_of(NAME)
        answers: list[Message] = []

        def failing(_: Message) -> None:
            raise StorageError("the partition that was asked for has failed")

        place = AddPartitions(
            shard.ask(Nobody(), failing),
            NAME,
            known.producer_id,
            known.producer_epoch,
            frozenset({("air", 1)}),
            BUMPING_VERSION,
        )
        shard.submit(place)
        end = EndTransaction(shard.ask(Nobody(), answers.append), commit_of(known), 5, None)
        shard.submit(end)
        with trio.fail_after(5):
            while not answers or shard.core.transactions[NAME].state is TransactionState.PREPARE_COMMIT:
                await trio.sleep(0.005)
        assert isinstance(answers[0], EndTxnResponse)
        assert answers[0].error_code == 0


class Nobody:
    """Asks, and has no connection."""

    def hang_up(self) -> None:
        """Nothing is there to be closed."""


async def produce(client: Client, producer_id: int, epoch: int) -> int:
    """Write a record in a transaction that the broker begins, and return what came of it."""
    batch = build_batch(
        [(1, None, b"v", ())],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        is_transactional=True,
    )
    data = TopicProduceData(name="air", partition_data=(PartitionProduceData(index=0, records=batch),))
    request = ProduceRequest(transactional_id=NAME, acks=-1, timeout_ms=1_000, topic_data=(data,))
    with trio.fail_after(5):
        while True:
            answer = await client.ask(request, ProduceResponse, 12)
            code = answer.responses[0].partition_responses[0].error_code
            if code != ErrorCode.CONCURRENT_TRANSACTIONS:  # Else the last transaction is ending yet.
                return code


@pytest.mark.parametrize(("version", "code"), [(2, ErrorCode.INVALID_PRODUCER_EPOCH), (0, ErrorCode.NONE)])
async def test_a_late_duplicate_marker_does_not_end_the_next_transaction(
    tmp_path: Path, version: int, code: ErrorCode
) -> None:
    """Of a producer whose epochs do not grow with each end nobody can tell it, in Kafka neither."""
    places = BrokerAddresses(Address("127.0.0.1", 0), tmp_path)
    async with running(load_config(None, SETTINGS), places) as broker:
        client, known = await begun(broker)
        assert await produce(client, known.producer_id, known.producer_epoch) == 0
        ended = await client.ask(commit_of(known), EndTxnResponse)
        assert (ended.error_code, ended.producer_epoch) == (0, known.producer_epoch + 1)
        assert await produce(client, ended.producer_id, ended.producer_epoch) == 0
        late = WritableTxnMarker(
            producer_id=ended.producer_id,
            producer_epoch=ended.producer_epoch,
            transaction_result=True,
            topics=(WritableTxnMarkerTopic(name="air", partition_indexes=(0,)),),
            coordinator_epoch=0,
            transaction_version=version,
        )
        answer = await client.ask(WriteTxnMarkersRequest(markers=(late,)), WriteTxnMarkersResponse, 2)
        assert answer.markers[0].topics[0].partitions[0].error_code == code
        producers = broker.partitions.serving("air", 0).log.producers
        assert producers.is_open(ended.producer_id, ended.producer_epoch) is (code is not ErrorCode.NONE)


class AnotherCoordinator:
    """A broker that coordinates the transactions; what it is asked waits for an answer."""

    node_id = 99  # Of this broker: the one that leads everything is another then.

    def __init__(self) -> None:
        self.answers: list[Callable[[ErrorCode], None]] = []

    def ask(
        self, _node_id: int, _api: object, _addition: Addition, respond: Callable[[ErrorCode], None]
    ) -> None:
        """Keep whom to answer."""
        self.answers.append(respond)


def asked_under(epoch: int) -> Addition:
    return Addition(NAME, PRODUCER, epoch, GROUPS, verify_only=True)


@asynccontextmanager
async def coordinated_elsewhere(
    folder: Path,
) -> AsyncIterator[tuple[Broker, AnotherCoordinator, list[ErrorCode | None]]]:
    """A broker that has asked whether a group's partition belongs to a transaction, and what it has heard."""
    settings = (*SETTINGS, ("offsets.topic.num.partitions", "1"))
    async with running(
        load_config(None, settings), BrokerAddresses(Address("127.0.0.1", 0), folder)
    ) as broker:
        client, _ = await begun(broker)
        await found(client)
        another = AnotherCoordinator()
        shards, heard = broker.transactions(), list[ErrorCode | None]()
        shards._others = another  # type: ignore[assignment]  # as much of them as is asked
        shards.transaction_partitions._peers = another  # type: ignore[assignment]
        shards.transaction_partitions.ask_coordinator(asked_under(0), heard.append)
        yield broker, another, heard


async def test_an_unwritten_marker_counts_as_the_end(tmp_path: Path) -> None:
    async with coordinated_elsewhere(tmp_path) as (broker, another, heard):
        written: list[ErrorCode] = []
        marker = Marker(PRODUCER, 1, is_commit=True, coordinator_epoch=0, transaction_version=2)
        broker.transactions().markers.write(marker, GROUPS, written.append)
        another.answers[0](ErrorCode.NONE)  # In the same round, and from before the end.
        assert heard == [ErrorCode.INVALID_TXN_STATE], "it would open a transaction that nobody ends"
        with trio.fail_after(5):
            while not written:
                await trio.sleep(0.005)
        assert written == [ErrorCode.NONE]
        broker.transactions().transaction_partitions.ask_coordinator(asked_under(1), heard.append)
        another.answers[1](ErrorCode.NONE)
        assert heard[1:] == [None]


async def test_a_changed_leader_makes_the_producer_look_up_its_coordinator_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with coordinated_elsewhere(tmp_path) as (broker, another, heard):
        partition = broker.partitions.serving(*GROUPS)
        monkeypatch.setattr(partition, "leader_epoch", partition.leader_epoch + 1)
        another.answers[0](ErrorCode.NONE)
        assert heard == [ErrorCode.NOT_COORDINATOR], "its transaction may be as it was"
