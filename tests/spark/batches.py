"""Batches made by hand, for segments that no broker has written."""

from kohort.protocol.records import ControlType, build_transaction_marker

T0 = 1_700_000_000_000


def marker(offset: int, kind: ControlType, producer_id: int) -> bytes:
    """Return the end of a transaction."""
    return build_transaction_marker(
        kind,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=T0,
        base_offset=offset,
    )
