"""The mutants: which text of which file is replaced by what."""

from dataclasses import dataclass
from typing import NamedTuple

GROUP = "broker/kohort/broker/group"
COORDINATION = "broker/kohort/broker/coordination"
PARTITIONS = "broker/kohort/broker/partitions"
STORAGE = "storage/kohort/storage"
TRANSACTIONS = "broker/kohort/broker/transactions"
HANDLERS = "broker/kohort/broker/handlers"
SHARE = f"{GROUP}/share"
SHARE_STATE = "broker/kohort/broker/share_state"

FOLLOWS = "        assert first_offset <= log.synced_offset or "


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug: `before`, which stands in `path` once, becomes `after`, and so do the `others`.

    `first_seed` is where the seeds with a bad disk begin: near one that has seen it, where few do. One that
    `is_of_transactions` is looked for by seeds with transactions alone, from there on; one that
    `is_of_sharing` by seeds with share groups.
    """

    name: str
    path: str
    before: str
    after: str
    first_seed: int = 0
    others: tuple["Edit", ...] = ()
    is_of_transactions: bool = False
    is_of_sharing: bool = False

    @property
    def edits(self) -> tuple["Edit", ...]:
        """All that is replaced."""
        return (Edit(self.path, self.before, self.after), *self.others)


class Edit(NamedTuple):
    """A text that stands in a file once, and what stands there instead."""

    path: str
    before: str
    after: str


MUTANTS = (
    # Dropped checks.
    Mutant(
        "an old generation may heartbeat",
        f"{GROUP}/classic/sessions.py",
        "        or message.generation_id != group.generation_id\n",
        "",
    ),
    Mutant(
        "an old generation may commit",
        f"{GROUP}/group.py",
        "        if generation_id != self.generation_id:\n",
        "        if generation_id > self.generation_id:\n",
    ),
    Mutant(
        "commits count between join and sync",
        f"{GROUP}/group.py",
        "        if self.state is GroupState.COMPLETING_REBALANCE:\n",
        "        if self.state is GroupState.DEAD:\n",
    ),
    Mutant(
        "a fenced member is not told so",
        f"{GROUP}/group.py",
        "            if owner != member_id:\n                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)\n",
        "",
    ),
    Mutant(
        "an old generation may sync",
        f"{GROUP}/classic/syncing.py",
        "    if message.generation_id != group.generation_id:\n",
        "    if message.generation_id > group.generation_id:\n",
    ),
    # Lost timers.
    Mutant(
        "the join timer is never set",
        f"{GROUP}/classic/rebalancing.py",
        "    turn.set_timer(JoinTimer(group.group_id), deadline_ms)\n",
        "",
    ),
    Mutant(
        "the sync timer is never set",
        f"{GROUP}/classic/rebalancing.py",
        "    turn.set_timer(SyncTimer(group.group_id), group.sync_deadline_ms)\n",
        "",
    ),
    Mutant(
        "a session timer that fires early is lost",
        f"{GROUP}/classic/sessions.py",
        "        turn.set_timer(key, member.session_deadline_ms)\n",
        "",
    ),
    Mutant(
        "a loaded member has no session",
        f"{GROUP}/coordinator.py",
        "    for member in group.members.values():\n        turn.extend_session(group, member)\n",
        "",
    ),
    # Wrong state.
    Mutant(
        "everybody gets the leader's assignment",
        f"{GROUP}/classic/syncing.py",
        "        if answer_sync(turn, member, _assigned(group, assignments[member.member_id])):\n",
        '        if answer_sync(turn, member, _assigned(group, assignments[group.leader or ""])):\n',
    ),
    Mutant(
        "a static member's return is not logged",
        f"{GROUP}/classic/static_membership.py",
        "    turn.log(group_record(group, assignments, group.state_since_ms))\n",
        "",
    ),
    Mutant(
        "the first commit of a partition stands",
        f"{GROUP}/classic/replaying.py",
        "    offsets[key.partition] = value\n",
        "    offsets.setdefault(key.partition, value)\n",
    ),
    Mutant(
        "a request that is sent twice stays parked",
        f"{GROUP}/classic/parking.py",
        "    answer_join(turn, group, member, parked_join_error(ErrorCode.REBALANCE_IN_PROGRESS, member))\n",
        "    group.awaiting_joins -= member.awaiting_join is not None\n",
    ),
    # What is taken away.
    Mutant(
        "a group with members is deleted",
        f"{GROUP}/administration.py",
        "    if not group.is_empty:\n        raise",
        "    if group.is_blank:\n        raise",
    ),
    Mutant(
        "a deleted group leaves its offsets",
        f"{GROUP}/administration.py",
        "    remove_offsets(turn, group, list(dict.fromkeys((*all_offsets(group), *pending))), "
        '"group deleted")\n',
        "",
    ),
    Mutant(
        "offsets that are read may be deleted",
        f"{GROUP}/offsets/removal.py",
        " if group.subscribes_to(topic.name) else ErrorCode.NONE\n",
        " if not topic.name else ErrorCode.NONE\n",
    ),
    Mutant(
        "offsets expire while members read on",
        f"{GROUP}/offsets/removal.py",
        "    unread = None if group.is_empty else group.subscribed_topics\n",
        "    unread = None\n",
    ),
    Mutant(
        "offsets expire by their commit alone",
        f"{GROUP}/offsets/removal.py",
        "        since_ms = max(since_ms, group.state_since_ms)",
        "        pass",
    ),
    Mutant(
        "a group outlives its last offset",
        f"{GROUP}/offsets/removal.py",
        "            for record in tombstones(group):\n                turn.log(record)\n",
        "",
    ),
    Mutant(
        "a load overlooks what was deleted",
        f"{COORDINATION}/loading.py",
        "                newest.pop(key, None)  # So that it goes behind the others.\n"
        "                newest[key] = value\n",
        "                if value is not None:\n                    newest[key] = value\n",
    ),
    Mutant(
        "a load believes a key's first record",
        f"{COORDINATION}/loading.py",
        "                newest.pop(key, None)  # So that it goes behind the others.\n"
        "                newest[key] = value\n",
        "                newest.setdefault(key, value)\n",
    ),
    # The shard's order.
    Mutant(
        "answers do not wait for the flush",
        f"{COORDINATION}/shard.py",
        "(decision.records)\n            self._pending.append((command, decision.effects))\n",
        "(decision.records)\n            self._perform(decision.effects)\n",
    ),
    Mutant(
        "a reader overtakes the flush before it",
        f"{COORDINATION}/shard.py",
        "        elif self._flushing:\n            self._flushing[-1].append((command, decision.effects))\n",
        "",
    ),
    Mutant(
        "a failed flush is answered as a good one",
        f"{COORDINATION}/shard.py",
        "        if error is not None:\n            if not isinstance(",
        "        if error is not None and not self._flushing:\n            if not isinstance(",
    ),
    Mutant(
        "a failed flush forgets to refuse",
        f"{COORDINATION}/shard.py",
        "        self._refuse_all()\n",
        "",
    ),
    Mutant(
        "a shard loads while a flush of it may fail",
        f"{COORDINATION}/shard.py",
        "        await self._logs.between_writes(partition, _do_nothing)\n",
        "",
        first_seed=190,
    ),
    # What the disk holds.
    Mutant(
        "compaction drops keys that are not dirty",
        f"{STORAGE}/compaction.py",
        "_digest(key), -1) <= offset\n",
        "_digest(key), -1) == offset\n",
    ),
    Mutant(
        "a compacted segment is not synced",
        f"{STORAGE}/cleaning.py",
        "            cleaned.file.sync()\n",
        "",
    ),
    Mutant(
        "a swap that was cut short is forgotten",
        f"{STORAGE}/swapping.py",
        "    names = file_system.list_directory(directory) or []\n    undone",
        "    names: list[str] = []\n    undone",
        first_seed=60,  # Seed 66 sees it.
    ),
    Mutant(
        "the journal goes before the logs are closed",
        f"{STORAGE}/data_directory.py",
        "        if self._lock is None:\n            return\n",
        "        if self._lock is None:\n            return\n        when_sound()\n",
    ),
    Mutant(
        "the journal begins again before the logs are synced",
        f"{PARTITIONS}/flusher.py",
        "        if self._journaled or self._journaling or",
        "        if self._journaling or",
    ),
    Mutant(
        "recovery believes the page cache",
        f"{STORAGE}/segment.py",
        "        self.file.reread()",
        "        pass",
    ),
    Mutant(
        "the journal is answered for before its sync",
        f"{STORAGE}/journal.py",
        "        file.sync()\n        self._position += len(entries)\n",
        "        self._position += len(entries)\n",
    ),
    Mutant(
        "a flush writes what was staged meanwhile",
        f"{STORAGE}/writable_log.py",
        "            if staged.batches:\n                self._write_batches(staged.batches)\n",
        "            self._write_batches([*staged.batches, *self.take_staged().batches])\n",
        others=(
            Edit(
                f"{STORAGE}/writable_log.py",
                "        self.flushed_offset = end_offset\n",
                "        self.flushed_offset = self.written_offset\n",
            ),
            Edit(
                f"{PARTITIONS}/flusher.py", "journaled=follows and bool(staged.batches)", "journaled=follows"
            ),
            Edit(f"{STORAGE}/journal.py", FOLLOWS, "        assert True or "),
        ),
    ),
    Mutant(
        "a topic that was lax is journaled at once",
        f"{PARTITIONS}/flusher.py",
        " or partition.deleted or not flushed.is_durable:",
        " or partition.deleted:",
        others=(Edit(f"{STORAGE}/journal.py", FOLLOWS, "        assert True or "),),
        first_seed=80,  # Seed 94 sees it.
    ),
    Mutant(
        "a batch is journaled behind an unsynced one",
        f"{PARTITIONS}/flusher.py",
        " or partition.deleted or not flushed.is_durable:",
        " or partition.deleted:",
    ),
    Mutant(
        "a topic that becomes lax is let out of the journal",
        f"{PARTITIONS}/flusher.py",
        "        if flush.log.needs_journal:",
        "        if flush.journaled:",
        others=(
            Edit(
                f"{PARTITIONS}/flusher.py",
                "partition.wants_sync() or flushed.needs_journal\n",
                "partition.wants_sync()\n",
            ),
            Edit(f"{STORAGE}/journal.py", "        assert not unsynced,", "        assert True or unsynced,"),
        ),
        first_seed=60,  # Seed 69 sees it.
    ),
    Mutant(
        "what the journal holds of a failed log is forgotten",
        f"{STORAGE}/journal.py",
        "                    self._leave(entry)\n                    self._is_orphaned_saved = False\n",
        "                    self._is_orphaned_saved = False\n",
    ),
    Mutant(
        "a flush is answered without its sync",
        f"{PARTITIONS}/flusher.py",
        "sync=flush.sync and not journaled",
        "sync=False",
    ),
    Mutant(
        "the high watermark runs ahead of the flush",
        f"{PARTITIONS}/partition.py",
        "            self.high_watermark = end_offset\n",
        "            self.high_watermark = self.log.log_end_offset\n",
    ),
    Mutant(
        "a deleted topic's log start comes back",
        f"{STORAGE}/data_directory.py",
        "            self.log_start_offsets,\n            self.high_watermarks,\n",
        "            self.high_watermarks,\n",
    ),
    Mutant(
        "records are acknowledged before it is known whose they are",
        f"{STORAGE}/writable_log.py",
        "            name_folder(self.file_system, self._path, self.topic_id)\n",
        "",
    ),
    Mutant(
        "batches that a crash orphaned are let go in a folder without an owner",
        f"{STORAGE}/writable_log.py",
        "            if batches:\n                self._name_folder()\n",
        "",
        first_seed=200,
    ),
    Mutant(
        "a recovery point is noted of what is not synced",
        f"{STORAGE}/writable_log.py",
        "        self._tail = Tail(run[-1].last_offset + 1, segment, segment.size_bytes)\n",
        "        self._tail = Tail(run[-1].last_offset + 1, segment, segment.size_bytes)\n"
        "        self._mark_point(run[-1].last_offset + 1, segment)\n",
    ),
    Mutant(
        "a start goes on behind a recovery point without what the log says",
        f"{STORAGE}/recovery.py",
        "            first = len(segments) - 1\n",
        "            first = len(segments)\n            return point.offset\n",
    ),
    Mutant(
        "producers in front of a recovery point are forgotten",
        f"{STORAGE}/writable_log.py",
        "path, self._written_producers.encode_snapshot())\n        point = ",
        "path, type(self._written_producers)().encode_snapshot())\n        point = ",
        is_of_transactions=True,
    ),
    Mutant(
        "a log is noted as at rest that is not synced",
        f"{STORAGE}/resting.py",
        "        newest.sync_beside()",
        "        pass",
    ),
    Mutant(
        "a log is taken for at rest whatever its files look like",
        f"{STORAGE}/resting.py",
        "            if is_as_long and known_ends.get(key, 0) <= note.end_offset:\n",
        "            if True:\n",
        others=(
            Edit(f"{STORAGE}/resting.py", "        if key not in self._unseen:\n", "        if True:\n"),
        ),
    ),
    Mutant(
        "of a log at rest one file is looked at and never the others",
        f"{STORAGE}/resting.py",
        "        if key not in self._unseen:\n",
        "        if True:\n",
        first_seed=40,
    ),
    Mutant(
        "a log is noted as at rest whose sync has failed before",
        f"{STORAGE}/segment.py",
        "        if self._lost is not None:\n            raise self._lost\n        try:\n",
        "        try:\n",
    ),
    Mutant(
        "what is in the journal alone is not asked for of a log at rest",
        f"{PARTITIONS}/log_files.py",
        "        return self._journal.end_offset(log_id_of(partition.topic_id, partition.index)) <= ",
        "        return True or ",
    ),
    # Consumer groups.
    Mutant(
        "a partition is given before it is given up",
        f"{GROUP}/consumer/reconciling.py",
        "            if holder is None or holder == member.member_id:\n",
        "            if holder is None or holder:\n",
    ),
    Mutant(
        "a member goes on before it has given up",
        f"{GROUP}/consumer/reconciling.py",
        "    if revoking and _still_owns(owned, revoking):\n",
        "    if revoking and owned is None:\n",
    ),
    Mutant(
        "what has yet to be given up is nobody's",
        f"{GROUP}/consumer/group.py",
        "    for held in (member.assigned, member.revoking):\n",
        "    for held in (member.assigned,):\n",
    ),
    Mutant(
        "who leaves a consumer group leaves its epoch as it is",
        f"{GROUP}/consumer/leaving.py",
        "group.epoch + 1, group.metadata_hash",
        "group.epoch, group.metadata_hash",
    ),
    Mutant(
        "members of a loaded consumer group have no sessions",
        f"{GROUP}/consumer/resuming.py",
        "        extend_session(turn, group, member)\n",
        "",
    ),
    Mutant(
        "more partitions are not seen",
        f"{GROUP}/consumer/subscriptions.py",
        ' + len(topic.partitions).to_bytes(4, "big")',
        "",
    ),
    # Streams groups.
    Mutant(
        "a task is given before it is given up",
        f"{GROUP}/streams/reconciling.py",
        "        return owners.active_process(task) is None and mine not in owners.copying_processes(task)\n",
        "        return mine not in owners.copying_processes(task)\n",
    ),
    Mutant(
        "a process gets a task that it has in another role",
        f"{GROUP}/streams/reconciling.py",
        "        return owners.active_process(task) != mine and mine not in owners.copying_processes(task)\n",
        "        return True\n",
    ),
    Mutant(
        "a member of a streams group goes on before it has given up",
        f"{GROUP}/streams/reconciling.py",
        "    if revoking and _still_owns(owned, revoking):\n",
        "    if revoking and owned is None:\n",
    ),
    Mutant(
        "a task that has yet to be given up is nobody's",
        f"{GROUP}/streams/group.py",
        "member.revoking):\n            for task in each_task(held.active):\n                self.active",
        "):\n            for task in each_task(held.active):\n                self.active",
    ),
    Mutant(
        "members of a loaded streams group have no sessions",
        f"{GROUP}/streams/leaving.py",
        "        extend_session(turn, group, member.member_id)\n        if member.state",
        "        if member.state",
    ),
    Mutant(
        "a standby is put on the process that runs the task",
        f"{GROUP}/streams/assignor.py",
        "            if task not in process.tasks:\n",
        "            if process.counts:\n",
    ),
    # Transactions.
    Mutant(
        "an end that comes late ends the next transaction",
        f"{TRANSACTIONS}/coordinator.py",
        "known.state in (State.EMPTY, State.ONGOING):",
        "known.state is State.EMPTY:",
        is_of_transactions=True,
    ),
    Mutant(
        "markers that are due are forgotten by a load",
        f"{TRANSACTIONS}/coordinator.py",
        "                effects.append(_markers_due(transaction))\n",
        "                pass\n",
        is_of_transactions=True,
    ),
    Mutant(
        "a transaction that is loaded has no time-out",
        f"{TRANSACTIONS}/coordinator.py",
        "                effects.append(_timer(transaction))\n",
        "                pass\n",
        is_of_transactions=True,
    ),
    Mutant(
        "who is fenced keeps its epoch",
        f"{TRANSACTIONS}/coordinator.py",
        "            state=State.PREPARE_ABORT,\n            producer_epoch=known.producer_epoch + 1,\n",
        "            state=State.PREPARE_ABORT,\n",
        is_of_transactions=True,
    ),
    Mutant(
        "partitions that are added take the place of others",
        f"{TRANSACTIONS}/coordinator.py",
        "partitions=known.partitions | command.partitions",
        "partitions=command.partitions",
        is_of_transactions=True,
    ),
    Mutant(
        "a batch of a transaction is appended unasked",
        f"{HANDLERS}/data/transactional.py",
        "        if partition.log.producers.is_open(header.producer_id, header.producer_epoch):\n",
        "        if partition.log.producers.is_open or request:\n",
        is_of_transactions=True,
    ),
    Mutant(
        "a late marker ends the producer's next transaction",
        f"{STORAGE}/producers.py",
        "        if is_bumped and self.is_open(producer_id, producer_epoch):\n",
        "        if is_bumped and not is_bumped:\n",
        is_of_transactions=True,
    ),
    Mutant(
        "a marker is told of before it is on the disk",
        f"{COORDINATION}/transaction_markers.py",
        "        self._flusher.request_commit(partition, committed)\n",
        "        self._flusher.request_commit(partition, lambda error: None)\n        committed(None)\n",
        first_seed=160,
        is_of_transactions=True,
    ),
    Mutant(
        "a failed marker is not written again",
        f"{COORDINATION}/transaction_shards.py",
        "        if code is ErrorCode.NONE or code in FINAL or",
        "        if code is not ErrorCode.CONCURRENT_TRANSACTIONS or",
        is_of_transactions=True,
    ),
    Mutant(
        "offsets of an aborted transaction count",
        f"{GROUP}/offsets/pending.py",
        "        if not is_commit:\n            return []\n",
        "",
        is_of_transactions=True,
    ),
    Mutant(
        "a load counts offsets of aborted transactions",
        f"{COORDINATION}/loading.py",
        "    if not is_committed:\n        return []\n",
        "",
        is_of_transactions=True,
    ),
    Mutant(
        "a load forgets offsets that are pending",
        f"{COORDINATION}/loading.py",
        "            return _with_pending(machine, core, pending, shard)\n    core",
        "            return core\n    core",
        is_of_transactions=True,
    ),
    Mutant(
        "readers of committed records see open transactions",
        f"{HANDLERS}/data/fetch_reading.py",
        "    if reader.wants_committed and partition_log.has_transactions:\n",
        "    if reader.wants_committed and not partition_log.has_transactions:\n",
        is_of_transactions=True,
    ),
    Mutant(
        "what a marker has ended is stable before the marker is",
        f"{STORAGE}/writable_log.py",
        "        for each in ended:\n            offset = min(offset, each.first_offset)\n",
        "",
        is_of_transactions=True,
    ),
    Mutant(
        "recovery finds no aborted transactions",
        f"{STORAGE}/transaction_index.py",
        "            new = [each for each in seen if base <= each.last_offset < bound]\n",
        "            new: list[AbortedTransaction] = []\n",
        is_of_transactions=True,
    ),
    Mutant(
        "an aborted transaction is looked for from its first record on",
        f"{STORAGE}/transaction_index.py",
        "range(bisect_left(known, start_offset, key=_LAST_OFFSET), len(known))",
        "range(bisect_left(known, start_offset, key=lambda each: each.first_offset), len(known))",
        is_of_transactions=True,
    ),
    Mutant(
        "a snapshot knows no open transaction",
        f"{STORAGE}/producers.py",
        "                    state.coordinator_epoch,\n                    state.transaction_first_offset,\n",
        "                    state.coordinator_epoch,\n                    _NONE,\n",
        is_of_transactions=True,
    ),
    Mutant(
        "a start overlooks what ended in the segment that it scans",
        f"{STORAGE}/prefix.py",
        "    found.endings.setdefault(producer_id, fields)\n",
        "",
        is_of_transactions=True,
    ),
    Mutant(
        "entries of aborted transactions stay unsynced over a start",
        f"{STORAGE}/transaction_index.py",
        ", may_be_lost=bool(new))\n",
        ")\n",
        is_of_transactions=True,
    ),
    Mutant(
        "an old generation commits offsets in a transaction",
        f"{GROUP}/group.py",
        "        if message.generation_id_or_member_epoch != self.generation_id:\n",
        "        if message.generation_id_or_member_epoch > self.generation_id:\n",
        is_of_transactions=True,
    ),
    Mutant(
        "who takes a partition over is told an offset that may change",
        f"{GROUP}/offsets/commits.py",
        "                if pending.holds(group_id, topic.name, each.partition_index)\n",
        "                if not topic.name\n",
        is_of_transactions=True,
    ),
    Mutant(
        "records that are deleted hold readers of committed ones back",
        f"{STORAGE}/writable_log.py",
        "        return max(offset, min(self.log_start_offset, high_watermark))\n",
        "        return offset\n",
        is_of_transactions=True,
    ),
    Mutant(
        "who writes nothing for long is forgotten within a transaction",
        f"{STORAGE}/producers.py",
        "            if state.transaction_first_offset == _NONE and now_ms",
        "            if now_ms",
        is_of_transactions=True,
    ),
    # Share groups.
    Mutant(
        "a delivery does not count",
        f"{SHARE}/partition.py",
        "                batch.delivery_count += 1\n",
        "",
        is_of_sharing=True,
    ),
    Mutant(
        "a record is delivered once more than its limit",
        f"{SHARE}/partition.py",
        "kind is Acknowledgement.RELEASE and batch.delivery_count < self.limits.delivery_count_limit",
        "kind is Acknowledgement.RELEASE and batch.delivery_count <= self.limits.delivery_count_limit",
        is_of_sharing=True,
    ),
    Mutant(
        "a record that is held is handed out",
        f"{SHARE}/partition.py",
        "            if batch.state is RecordState.AVAILABLE and (batch",
        "            if not batch.is_settling and (batch",
        is_of_sharing=True,
    ),
    Mutant(
        "a lock ends while its record's next state is written",
        f"{SHARE}/in_flight.py",
        "        return self.state is RecordState.ACQUIRED and not self.is_settling\n",
        "        return self.state is RecordState.ACQUIRED\n",
        is_of_sharing=True,
    ),
    Mutant(
        "records of several fates are joined",
        f"{SHARE}/in_flight.py",
        "            and self.is_held_like(other)\n",
        "",
        is_of_sharing=True,
    ),
    Mutant(
        "locks do not end",
        f"{COORDINATION}/led_share_partition.py",
        "        if acquired:\n            self._arm_locks()\n",
        "",
        is_of_sharing=True,
    ),
    Mutant(
        "a word is told to be kept before it is",
        f"{COORDINATION}/led_share_partition.py",
        "        self._write(write, done, is_settled=False)\n",
        "        self._write(write, _ignore, is_settled=False)\n        done(ErrorCode.NONE)\n",
        is_of_sharing=True,
    ),
    Mutant(
        "who leads next writes no dead letters that are missing",
        f"{COORDINATION}/led_share_partition.py",
        "        self._bury_dead(self.core.batches())",
        "        self.core.batches()",
        is_of_sharing=True,
    ),
    Mutant(
        "a dead letter is not written",
        f"{COORDINATION}/dead_letters.py",
        "            await self._write_all(key, burial)\n",
        "",
        is_of_sharing=True,
    ),
    Mutant(
        "aborted records of a later segment are handed out",
        f"{HANDLERS}/share/share_reading.py",
        "log.aborted_from(acquired[0].first_offset, acquired[-1].last_offset + 1)",
        "log.aborted_from(acquired[0].first_offset)",
        is_of_sharing=True,
    ),
    Mutant(
        "records of open transactions are handed out",
        f"{COORDINATION}/led_share_partition.py",
        "self.partition.last_stable_offset if self.wants_committed else self.partition.high_watermark",
        "self.partition.high_watermark",
        is_of_sharing=True,
    ),
    Mutant(
        "a snapshot of share state leaves its last update out",
        f"{SHARE_STATE}/coordinator.py",
        "        after.update(value)\n",
        "",
        is_of_sharing=True,
    ),
    Mutant(
        "an update of share state replaces what touches it",
        f"{SHARE_STATE}/state.py",
        "        if old.last_offset > new.last_offset:\n",
        "        if False:\n",
        is_of_sharing=True,
    ),
    Mutant(
        "the epoch of a share group is not in its log",
        f"{SHARE}/replaying.py",
        "    group.generation_id = value.epoch\n",
        "    group.generation_id = max(group.generation_id, 1)\n",
        is_of_sharing=True,
    ),
)
