"""`reconcile`: compares a checkpoint with a group, and brings the group to the checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.pipeline.ingest.checkpoint import Checkpoint, CheckpointError
from kohort.pipeline.ingest.comparison import Comparison
from kohort.pipeline.ingest.folder import open_folder
from kohort.pipeline.ingest.group_offsets import BrokerGroup
from kohort.pipeline.servers import Servers, as_servers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def reconcile(
    checkpoint: str,
    group: str,
    bootstrap: str | Servers,
    *,
    execute: bool = False,
    backwards: bool = False,
    spark: SparkSession | None = None,
) -> Comparison:
    """Return the difference between a group and a checkpoint; with `execute`, bring the group there.

    Spark need not run: a session is needed only for a checkpoint that is not on this machine. Nothing is
    changed without `execute`, and nothing goes backwards without `backwards`.

    Raises: CheckpointError where the checkpoint has no batch yet, GroupBusyError where the group has live
    members, GroupAheadError where it would have to go back, KohortError.
    """
    progress = Checkpoint(open_folder(spark, checkpoint)).progress()
    if progress is None:
        raise CheckpointError(f"{checkpoint} has no batch that Spark has committed")
    with BrokerGroup(group, as_servers(bootstrap)) as offsets:
        found = offsets.look(progress.offsets)
        if execute:
            if not backwards:
                found.require_not_ahead(group)
            wanted = found.commit(backwards=backwards)
            if wanted:
                offsets.commit(wanted, f"spark batch {progress.batch_id}, reconciled")
    return found
