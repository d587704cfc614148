"""A topic to a table, exactly once for its readers, and the group's lag told truly."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.pipeline.ingest.batch_table import TableTakenError
    from kohort.pipeline.ingest.checkpoint import CheckpointError
    from kohort.pipeline.ingest.comparison import Comparison, GroupAheadError, GroupBusyError
    from kohort.pipeline.ingest.formats import TableFormatError
    from kohort.pipeline.ingest.job import Ingest, Summary, ingest
    from kohort.pipeline.ingest.manifest import ManifestError
    from kohort.pipeline.ingest.reconciling import reconcile
    from kohort.pipeline.ingest.sink import CheckpointLostError
    from kohort.pipeline.ingest.table import read_manifest

_HOME = {
    "batch_table": "TableTakenError",
    "checkpoint": "CheckpointError",
    "comparison": "Comparison GroupAheadError GroupBusyError",
    "formats": "TableFormatError",
    "job": "Ingest Summary ingest",
    "manifest": "ManifestError",
    "reconciling": "reconcile",
    "sink": "CheckpointLostError",
    "table": "read_manifest",
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names.split()}

__all__ = [
    "CheckpointError",
    "CheckpointLostError",
    "Comparison",
    "GroupAheadError",
    "GroupBusyError",
    "Ingest",
    "ManifestError",
    "Summary",
    "TableFormatError",
    "TableTakenError",
    "ingest",
    "read_manifest",
    "reconcile",
]


def __getattr__(name: str) -> object:
    """Import a public name at its first use: reconciling needs no Spark."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    value: object = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
