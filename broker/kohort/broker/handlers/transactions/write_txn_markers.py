"""WriteTxnMarkers: coordinators, and tools that abort what hangs, end transactions in partitions.

Source: KafkaApis.handleWriteTxnMarkersRequest; KIP-98, KIP-664.
"""

from functools import partial

from kohort.broker.coordination.transaction_markers import Marker
from kohort.broker.handlers.transactions.family import TransactionServices
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

TopicPartition = tuple[str, int]


def handle(
    transactions: TransactionServices, message: WriteTxnMarkersRequest, request: Request
) -> WriteTxnMarkersResponse | None:
    """Write all markers; answered when each is on every replica that counts, or was refused."""
    writing = _Writing(message, request)
    if not writing.waiting:
        return writing.answer()
    markers = transactions.shards().markers
    for position, each in enumerate(message.markers):
        marker = Marker(
            each.producer_id,
            each.producer_epoch,
            each.transaction_result,
            each.coordinator_epoch,
            each.transaction_version,
        )
        for place in _places(each):
            markers.write(marker, place, partial(writing.written, position, place))
    return None


def _places(marker: WritableTxnMarker) -> list[TopicPartition]:
    """Return where a marker goes, once for each partition however often it is named."""
    return list(
        dict.fromkeys((topic.name, index) for topic in marker.topics for index in topic.partition_indexes)
    )


class _Writing:
    """One request in flight: the results of its markers, partition by partition."""

    def __init__(self, message: WriteTxnMarkersRequest, request: Request) -> None:
        self._message = message
        self._request = request
        self._codes: list[dict[TopicPartition, ErrorCode]] = [{} for _ in message.markers]
        self.waiting = sum(len(_places(each)) for each in message.markers)

    def written(self, position: int, place: TopicPartition, code: ErrorCode) -> None:
        """Note the result of one; with the last, answer."""
        self._codes[position][place] = code
        self.waiting -= 1
        if not self.waiting:
            self._request.respond(self.answer())

    def answer(self) -> WriteTxnMarkersResponse:
        """Return the answer: each has its code by now."""
        return WriteTxnMarkersResponse(
            markers=tuple(
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=tuple(
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=tuple(
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index, error_code=codes[topic.name, index]
                                )
                                for index in topic.partition_indexes
                            ),
                        )
                        for topic in marker.topics
                    ),
                )
                for marker, codes in zip(self._message.markers, self._codes, strict=True)
            )
        )
