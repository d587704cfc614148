"""The mutants of what a broker keeps of its replicas."""

from tests.simulation.mutant import Edit, Mutant
from tests.simulation.operations import (
    answer,
    argument,
    condition,
    drop_call,
    drop_if,
    holds,
    instead_of_call,
    returns,
    without,
)

CLUSTER = "kohort.broker.cluster"
PARTITIONS = "kohort.broker.partitions"
STORAGE = "kohort.storage"

MUTANTS = (
    Mutant(
        "the folder is not told of what is not synced",
        Edit(f"{PARTITIONS}.unsynced", "Unsynced.may_leave", holds("replicated", False)),
    ),
    Mutant(
        "the settings of the start say that all is synced",
        Edit(f"{CLUSTER}.folder_life", "FolderLife.begin", argument("Found", "is_synced", "True")),
    ),
    Mutant(
        "a topic that becomes strict is taken for synced",
        Edit(
            f"{PARTITIONS}.unsynced",
            "Unsynced.note_synced",
            condition("written_offset", "serving_log.written_offset >= 0"),
        ),
        Edit(
            f"{PARTITIONS}.assignment",
            "PartitionAssignment._sync_by_settings",
            instead_of_call("self._flusher.request", "self._unsynced.note_synced(partition)"),
        ),
    ),
    Mutant(
        "the folder of a replica that moved away is found by its topic's successor",
        Edit(f"{PARTITIONS}.assignment", "PartitionAssignment._has_replica", answer("replicas", "True")),
    ),
    # A topic becomes strict while it is followed.
    Mutant(
        "a follower waits for a sync that nobody asks for",
        Edit(f"{CLUSTER}.appending", "Appending.sync_what_is_waited_for", drop_if("is_waiting")),
        Edit(f"{PARTITIONS}.assignment", "PartitionAssignment._put", drop_if("is_changed")),
    ),
    # What the journal names.
    Mutant(
        "the journal names the logs of this lap alone",
        Edit(f"{STORAGE}.journal", "Journal.may_name", returns("log_id in self._ends")),
    ),
    Mutant(
        "what was kept for a log that failed comes back behind its cut",
        Edit(f"{STORAGE}.journal", "Journal.may_name", without("_kept")),
    ),
    Mutant(
        "a log is cut while the journal has its batches",
        Edit(f"{CLUSTER}.appending", "Appending._between_writes", drop_call("_until_unnamed")),
        Edit(f"{CLUSTER}.appending", "Appending._between_writes.act", drop_if("is_named")),
    ),
)
