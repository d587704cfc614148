"""What is asked of other brokers for transactions: markers where they lead, partitions where they coordinate.

What comes together while answers are awaited goes together in the next request. Of partitions one request at
a time is asked of each broker, so that answers come in the order of the questions; of markers a few, since
one that waits for its replicas shall not hold back the others. Whoever asked hears a code in any case, and
is the one to ask again. Source: TransactionMarkerChannelManager, AddPartitionsToTxnManager.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from kohort.broker.coordination.transaction_markers import Marker, Written
from kohort.broker.runtime.other_brokers import OtherBrokers, Unreachable
from kohort.broker.runtime.throttled_log import ThrottledLog
from kohort.broker.runtime.workers import Workers
from kohort.broker.transactions.transaction import Place
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
ITEMS_PER_REQUEST_MAX = 1_000
MARKER_REQUESTS_MAX = 4

Item = TypeVar("Item")
Answered = Callable[[ErrorCode], None]


class Addition(msgspec.Struct, frozen=True, gc=False):
    """A partition that is to belong to a transaction, or is said to."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    place: Place
    verify_only: bool

    @property
    def transaction(self) -> tuple[str, int, int, bool]:
        """What those have in common that go together in a request."""
        return self.transactional_id, self.producer_id, self.producer_epoch, self.verify_only


class TransactionPeers:
    """The lines to other brokers. The loop's thread only."""

    def __init__(self, others: OtherBrokers, workers: Workers, log: ThrottledLog) -> None:
        self.node_id = others.node_id
        self._others = others
        self._workers = workers
        self._log = log
        self._markers: dict[int, _Line[tuple[Marker, Place]]] = {}
        self._additions: dict[int, _Line[Addition]] = {}

    def write(self, node_id: int, marker: Marker, place: Place, written: Written) -> None:
        """Have another broker write a marker; `written` hears what became of it."""
        line = self._markers.get(node_id)
        if line is None:
            line = self._markers[node_id] = _MarkerLine(
                node_id, self._others, self._workers, self._log, ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
        line.put((marker, place), written)

    def add(self, node_id: int, addition: Addition, answered: Answered) -> None:
        """Have another broker add a partition to a transaction, or verify that it was."""
        line = self._additions.get(node_id)
        if line is None:
            line = self._additions[node_id] = _AdditionLine(
                node_id, self._others, self._workers, self._log, ErrorCode.COORDINATOR_NOT_AVAILABLE
            )
        line.put(addition, answered)


class _Line(Generic[Item]):
    """What waits for one broker."""

    requests_max = 1

    def __init__(
        self,
        node_id: int,
        others: OtherBrokers,
        workers: Workers,
        log: ThrottledLog,
        unanswered: ErrorCode,
    ) -> None:
        """`unanswered` is told where there is no answer, or none that says anything of what was asked."""
        self._node_id = node_id
        self._others = others
        self._workers = workers
        self._log = log
        self._unanswered = unanswered
        self._waiting: list[tuple[Item, Answered]] = []
        self._requests = 0

    def put(self, item: Item, answered: Answered) -> None:
        """Ask, with what waits already."""
        self._waiting.append((item, answered))
        if self._requests < self.requests_max:
            self._requests += 1
            self._workers.spawn(self._run)

    async def _run(self) -> None:
        """Ask until nothing waits."""
        try:
            while self._waiting:
                asked, self._waiting = self._split()
                await self._ask(asked)
        finally:
            self._requests -= 1

    async def _ask(self, asked: Sequence[tuple[Item, Answered]]) -> None:
        codes: dict[Item, ErrorCode] = {}
        try:
            codes = await self._codes([item for item, _ in asked])
        except (Unreachable, ValueError) as error:  # The latter: a code that only a newer broker knows.
            self._log.warning(
                "a broker can't be asked about transactions", node_id=self._node_id, error=str(error)
            )
        for item, answered in asked:
            try:
                answered(codes.get(item, self._unanswered))
            except Exception:  # noqa: BLE001  # A supervisor: what goes wrong there is kept from the others who wait.
                self._log.exception("whoever asked another broker failed", node_id=self._node_id)

    def _split(self) -> tuple[list[tuple[Item, Answered]], list[tuple[Item, Answered]]]:
        """Return what may go together next, and the rest."""
        return self._waiting[:ITEMS_PER_REQUEST_MAX], self._waiting[ITEMS_PER_REQUEST_MAX:]

    async def _codes(self, items: Sequence[Item]) -> dict[Item, ErrorCode]:
        """Return what became of each. Raises: Unreachable."""
        raise NotImplementedError


class _MarkerLine(_Line[tuple[Marker, Place]]):
    """Markers for what another broker leads."""

    requests_max = MARKER_REQUESTS_MAX

    async def _codes(self, items: Sequence[tuple[Marker, Place]]) -> dict[tuple[Marker, Place], ErrorCode]:
        places: dict[Marker, dict[str, dict[int, None]]] = {}
        for marker, (topic, index) in items:
            places.setdefault(marker, {}).setdefault(topic, {})[index] = None
        request = WriteTxnMarkersRequest(
            markers=tuple(
                WritableTxnMarker(
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
                for marker, topics in places.items()
            )
        )
        answer = await self._others.ask(self._node_id, request, WriteTxnMarkersResponse, MARKERS_VERSION)
        return {  # In the order of the request: a producer's markers may be of several epochs.
            (marker, (topic.name, each.partition_index)): ErrorCode(each.error_code)
            for marker, result in zip(places, answer.markers, strict=False)
            for topic in result.topics
            for each in topic.partitions
        }


class _AdditionLine(_Line[Addition]):
    """Partitions for transactions that another broker coordinates."""

    def _split(self) -> tuple[list[tuple[Addition, Answered]], list[tuple[Addition, Answered]]]:
        """A request names an id once: what differs in anything else waits, and all behind it of that id."""
        together: list[tuple[Addition, Answered]] = []
        rest: list[tuple[Addition, Answered]] = []
        chosen: dict[str, tuple[str, int, int, bool] | None] = {}
        for waiting in self._waiting:
            addition = waiting[0]
            transaction = chosen.setdefault(addition.transactional_id, addition.transaction)
            if transaction == addition.transaction and len(together) < ITEMS_PER_REQUEST_MAX:
                together.append(waiting)
            else:
                chosen[addition.transactional_id] = None
                rest.append(waiting)
        return together, rest

    async def _codes(self, items: Sequence[Addition]) -> dict[Addition, ErrorCode]:
        asked: dict[tuple[str, int, int, bool], dict[str, dict[int, None]]] = {}
        for each in items:
            topic, index = each.place
            asked.setdefault(each.transaction, {}).setdefault(topic, {})[index] = None
        request = AddPartitionsToTxnRequest(
            transactions=tuple(_asked(transaction, topics) for transaction, topics in asked.items())
        )
        answer = await self._others.ask(self._node_id, request, AddPartitionsToTxnResponse, ADDITIONS_VERSION)
        if answer.error_code:
            return dict.fromkeys(items, ErrorCode(answer.error_code))
        found = {
            (result.transactional_id, topic.name, each.partition_index): ErrorCode(each.partition_error_code)
            for result in answer.results_by_transaction
            for topic in result.topic_results
            for each in topic.results_by_partition
        }
        return {
            each: found[each.transactional_id, *each.place]
            for each in items
            if (each.transactional_id, *each.place) in found
        }


def _asked(
    transaction: tuple[str, int, int, bool], topics: dict[str, dict[int, None]]
) -> AddPartitionsToTxnTransaction:
    transactional_id, producer_id, producer_epoch, verify_only = transaction
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
