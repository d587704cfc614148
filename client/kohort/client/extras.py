"""What needs packages that kohort does not bring along."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kohort.client.errors import MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa

    from kohort.client.columns import RecordColumns
    from kohort.client.values import TopicPartition


def require_arrow() -> "Callable[[Sequence[tuple[TopicPartition, RecordColumns]]], pa.Table]":
    """Return what makes a table of columns. Raises: MissingExtraError without pyarrow or numpy."""
    try:
        from kohort.client.arrow import record_table  # noqa: PLC0415  Its packages may not be here.
    except ImportError as error:
        raise MissingExtraError(
            f"tables need pyarrow and numpy ({error}): pip install 'kohort[arrow]'"
        ) from error
    return record_table
