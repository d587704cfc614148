"""The mutants of what a broker keeps of its replicas: which text of which file is replaced by what."""

from tests.simulation.mutations import Edit, Mutant

CLUSTER = "broker/kohort/broker/cluster"
PARTITIONS = "broker/kohort/broker/partitions"
STORAGE = "storage/kohort/storage"

MUTANTS = (
    # What the journal names.
    Mutant(
        "what was kept for a failed log is overlooked",
        f"{STORAGE}/journal.py",
        "log_id in self._ends or log_id in self._named or log_id in self._kept",
        "log_id in self._ends or log_id in self._named",
    ),
    Mutant(
        "the lap before is overlooked",
        f"{STORAGE}/journal.py",
        "log_id in self._ends or log_id in self._named or log_id in self._kept",
        "log_id in self._ends or log_id in self._kept",
    ),
    Mutant(
        "a log is cut while the journal names it",
        f"{CLUSTER}/appending.py",
        "        self._flusher.when_unnamed(partition.log.log_id, done)\n",
        "        done(None)\n",
        others=(
            Edit(
                f"{CLUSTER}/appending.py",
                "                if self._flusher.is_named(partition.log.log_id):\n",
                "                if False:\n",
            ),
        ),
    ),
    Mutant(
        "a replica's files go while the journal names it",
        f"{PARTITIONS}/table.py",
        "        self._flusher.when_unnamed(log_id, lambda _: self._delete_files(partition))\n",
        "        self._delete_files(partition)\n",
    ),
    Mutant(
        "what is kept of a removed log stays",
        f"{STORAGE}/journal.py",
        "        with self._lock:\n            self._orphaned.pop(log_id, None)\n\n",
        "",
    ),
    Mutant(
        "a log that is closed and opened again is synced for the journal meanwhile",
        f"{PARTITIONS}/flusher.py",
        "            serving_log = partition.serving_log\n",
        "            serving_log = partition.log\n",
    ),
    Mutant(
        "a log that was opened again is not known to the journal",
        f"{STORAGE}/journal.py",
        "            if log.log_id in self._ends:  # This lap's: the log was opened again.\n",
        "            if self._ends.pop(log.log_id, None) is None and False:\n",
    ),
    # What is not synced.
    Mutant(
        "the folder is not told of what is not synced",
        f"{PARTITIONS}/unsynced.py",
        "        if partition.replicated and not self._is_noted and not self._keep(True):\n",
        "        if False:\n",
    ),
    Mutant(
        "the settings of the start say that all is synced",
        f"{CLUSTER}/folder_life.py",
        "            is_synced=not self._known.has_unsynced,\n",
        "            is_synced=True,\n",
    ),
    Mutant(
        "a topic that becomes strict is taken for synced",
        f"{PARTITIONS}/table.py",
        "        if serving_log.flushed_offset == serving_log.written_offset:\n",
        "        if serving_log.written_offset >= 0:\n",
        others=(
            Edit(
                f"{PARTITIONS}/table.py",
                "            self._flusher.request(partition, lambda _: self._note_synced(partition))\n",
                "            self._note_synced(partition)\n",
            ),
        ),
    ),
    Mutant(
        "nobody asks for the sync that a follower waits for",
        f"{CLUSTER}/appending.py",
        "            self._flusher.request(partition, lambda _: None)\n",
        "            pass\n",
        others=(
            Edit(
                f"{PARTITIONS}/table.py",
                "            self._flusher.request(partition, lambda _: self._note_synced(partition))\n",
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "a failed sync of what was not synced is not noted",
        f"{PARTITIONS}/unsynced.py",
        "        if partition in self._partitions and partition.replicated:\n",
        "        if False:\n",
    ),
    # Logs that fail, move away and come back.
    Mutant(
        "a log that could not be closed is forgotten",
        f"{STORAGE}/data_directory.py",
        "            before = self.logs.get(key)\n            if before is not None:\n",
        "            before = self.logs.pop(key, None)\n            if before is not None:\n",
    ),
    Mutant(
        "who hears late that a removed log was opened deletes its successor",
        f"{PARTITIONS}/table.py",
        "            return  # Its files go, or have gone: the same thread does one after the other.\n",
        "            self._delete_files(partition)\n",
    ),
    Mutant(
        "the folder of a replica that moved away is found by its topic's successor",
        f"{PARTITIONS}/table.py",
        "        return self._node_id in topic.partitions[key[1]].replicas\n",
        "        return True\n",
    ),
    Mutant(
        "a log counts as synced whose folder does not say whose it is",
        f"{STORAGE}/partition_log.py",
        "            if loaded.log_end_offset and not clean:\n",
        "            if False:\n",
    ),
)
