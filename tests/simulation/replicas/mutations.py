"""The mutants of what a broker keeps of its replicas."""

from tests.simulation.mutant import Edit, Mutant
from tests.simulation.operations import (
    answer,
    argument,
    condition,
    holds,
    instead_of_call,
)

PARTITIONS = "kohort.broker.partitions"
CLUSTER = "kohort.broker.cluster"

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
)
