"""The mutants of what a broker keeps of its replicas: which text of which file is replaced by what."""

from tests.simulation.mutations import Edit, Mutant

CLUSTER = "broker/kohort/broker/cluster"
PARTITIONS = "broker/kohort/broker/partitions"

MUTANTS = (
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
        "the folder of a replica that moved away is found by its topic's successor",
        f"{PARTITIONS}/table.py",
        "        return self._node_id in topic.partitions[key[1]].replicas\n",
        "        return True\n",
    ),
)
