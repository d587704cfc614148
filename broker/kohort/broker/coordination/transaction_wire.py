"""Requests between brokers for transactions.

A few requests with markers are under way to a broker: one that waits for its replicas must not delay the
others. Source: Kafka's TransactionMarkerChannelManager, AddPartitionsToTxnManager.
"""

from collections.abc import Mapping, Sequence

import msgspec

from kohort.broker.coordination.transaction_markers import Marker
from kohort.broker.runtime.other_brokers import OtherBrokers
from kohort.broker.transactions.transaction import TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kohort.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

MARKERS_VERSION = 2
ADDITIONS_VERSION = 5

MarkerQuestion = tuple[Marker, TopicPartition]
"""A marker, and the partition that it is for."""


class Addition(msgspec.Struct, frozen=True, gc=False):
    """A partition to be added to a transaction, or to be verified as part of it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    place: TopicPartition
    verify_only: bool

    @property
    def transaction(self) -> tuple[str, int, int, bool]:
        """The common fields of the partitions in one entry of a request."""
        return self.transactional_id, self.producer_id, self.producer_epoch, self.verify_only


class WriteMarkers:
    """WriteTxnMarkers: markers for partitions that another broker leads."""

    requests_max = 4
    fails_all = False

    def named_as(self, question: MarkerQuestion) -> tuple[None, None]:
        """All markers may go together."""
        return None, None

    def refused(self, question: MarkerQuestion) -> ErrorCode:
        """Return the code of a marker that has no answer."""
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    async def ask(
        self, others: OtherBrokers, node_id: int, questions: Sequence[MarkerQuestion]
    ) -> list[ErrorCode | None]:
        """Return what became of each marker. Raises: Unreachable, ValueError."""
        places: dict[Marker, dict[str, dict[int, None]]] = {}
        for marker, (topic, index) in questions:
            places.setdefault(marker, {}).setdefault(topic, {})[index] = None
        request = WriteTxnMarkersRequest(
            markers=tuple(_marker(marker, topics) for marker, topics in places.items())
        )
        answer = await others.ask(node_id, request, WriteTxnMarkersResponse, MARKERS_VERSION)
        codes = {  # In the order of the request: a producer's markers may be of several epochs.
            (marker, (topic.name, each.partition_index)): ErrorCode(each.error_code)
            for marker, result in zip(places, answer.markers, strict=False)
            for topic in result.topics
            for each in topic.partitions
        }
        return [codes.get(each) for each in questions]


class AddPartitionsToTransactions:
    """AddPartitionsToTxn: partitions of transactions that another broker coordinates."""

    requests_max = 1
    fails_all = False

    def named_as(self, question: Addition) -> tuple[str, tuple[str, int, int, bool]]:
        """A request names a transactional id once, with one producer, epoch and purpose."""
        return question.transactional_id, question.transaction

    def refused(self, question: Addition) -> ErrorCode:
        """Return the code of a partition that has no answer."""
        return ErrorCode.COORDINATOR_NOT_AVAILABLE

    async def ask(
        self, others: OtherBrokers, node_id: int, questions: Sequence[Addition]
    ) -> list[ErrorCode | None]:
        """Return what became of each partition. Raises: Unreachable, ValueError."""
        asked: dict[tuple[str, int, int, bool], dict[str, dict[int, None]]] = {}
        for each in questions:
            topic, index = each.place
            asked.setdefault(each.transaction, {}).setdefault(topic, {})[index] = None
        request = AddPartitionsToTxnRequest(
            transactions=tuple(_transaction(*transaction, topics) for transaction, topics in asked.items())
        )
        answer = await others.ask(node_id, request, AddPartitionsToTxnResponse, ADDITIONS_VERSION)
        if answer.error_code:
            return [ErrorCode(answer.error_code)] * len(questions)
        codes = {
            (result.transactional_id, (topic.name, each.partition_index)): ErrorCode(
                each.partition_error_code
            )
            for result in answer.results_by_transaction
            for topic in result.topic_results
            for each in topic.results_by_partition
        }
        return [codes.get((each.transactional_id, each.place)) for each in questions]


WRITE_MARKERS = WriteMarkers()
ADD_PARTITIONS = AddPartitionsToTransactions()

Topics = Mapping[str, Mapping[int, None]]


def _marker(marker: Marker, topics: Topics) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.is_commit,
        topics=tuple(
            WritableTxnMarkerTopic(name=topic, partition_indexes=tuple(indexes))
            for topic, indexes in topics.items()
        ),
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )


def _transaction(
    transactional_id: str, producer_id: int, producer_epoch: int, verify_only: bool, topics: Topics
) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        verify_only=verify_only,
        topics=tuple(
            AddPartitionsToTxnTopic(name=topic, partitions=tuple(indexes))
            for topic, indexes in topics.items()
        ),
    )
