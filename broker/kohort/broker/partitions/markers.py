"""Markers that end a producer's transaction in a partition."""

from kohort.broker.partitions.partition import Partition
from kohort.protocol.errors import ApiError
from kohort.protocol.records import ControlType, build_transaction_marker


def append_marker(
    partition: Partition,
    kind: ControlType,
    producer_id: int,
    producer_epoch: int,
    *,
    coordinator_epoch: int,
    now_ms: int,
    is_bumped: bool = False,
) -> int:
    """Stage the marker that ends a producer's transaction here; return its offset; the caller flushes.

    Raises: ApiError with what Kafka answers, and then nothing has changed.
    """
    if partition.error_code is not None:
        raise ApiError(partition.error_code)
    partition.log.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, is_bumped=is_bumped)
    marker = build_transaction_marker(
        kind,
        timestamp_ms=now_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
    )
    return partition.append_own(marker)
