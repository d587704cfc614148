"""The mutants of groups, their shards and what the disk holds, and those of the worlds beside them."""

from tests.simulation.mutant import Edit, Mutant
from tests.simulation.operations import (
    answer,
    argument,
    assign,
    before_assignment,
    compare,
    condition,
    drop_assignment,
    drop_call,
    drop_element,
    drop_if,
    drop_loop,
    holds,
    instead_of_assignment,
    instead_of_call,
    instead_of_if,
    replace,
    returns,
    without,
)
from tests.simulation.sharing.mutations import MUTANTS as OF_SHARING
from tests.simulation.transactions.mutations import MUTANTS as OF_TRANSACTIONS

GROUP = "kohort.broker.group"
COORDINATION = "kohort.broker.coordination"
PARTITIONS = "kohort.broker.partitions"
STORAGE = "kohort.storage"

MUTANTS = (
    # Dropped checks.
    Mutant(
        "an old generation may heartbeat",
        Edit(f"{GROUP}.classic.sessions", "heartbeat", without("generation_id")),
    ),
    Mutant(
        "an old generation may commit",
        Edit(f"{GROUP}.classic.group", "ClassicGroup.check_commit", compare("generation_id", "!=", ">")),
    ),
    Mutant(
        "commits count between join and sync",
        Edit(
            f"{GROUP}.classic.group",
            "ClassicGroup.check_commit",
            replace("GroupState.COMPLETING_REBALANCE", "GroupState.DEAD"),
        ),
    ),
    Mutant(
        "a fenced member is not told so",
        Edit(f"{GROUP}.classic.group", "ClassicGroup.check_member", drop_if("owner", index=1)),
    ),
    Mutant(
        "an old generation may sync",
        Edit(f"{GROUP}.classic.syncing", "_check", compare("generation_id", "!=", ">")),
    ),
    # Lost timers.
    Mutant(
        "the join timer is never set",
        Edit(f"{GROUP}.classic.rebalancing", "_wait_for_joins", drop_call("turn.set_timer")),
    ),
    Mutant(
        "the sync timer is never set",
        Edit(f"{GROUP}.classic.rebalancing", "_begin_generation", drop_call("turn.set_timer")),
    ),
    Mutant(
        "a session timer that fires early is lost",
        Edit(f"{GROUP}.classic.sessions", "_end_or_go_on", drop_call("turn.set_timer")),
    ),
    Mutant(
        "a loaded member has no session",
        Edit(f"{GROUP}.classic.sessions", "resume", drop_loop("group.members")),
    ),
    # Wrong state.
    Mutant(
        "everybody gets the leader's assignment",
        Edit(
            f"{GROUP}.classic.syncing",
            "_complete_rebalance",
            replace("member.member_id", "group.leader or ''"),
        ),
    ),
    Mutant(
        "a static member's return is not logged",
        Edit(f"{GROUP}.classic.static_membership", "_welcome_back", drop_call("turn.log")),
    ),
    Mutant(
        "the first commit of a partition stands",
        Edit(
            f"{GROUP}.offsets.replaying",
            "keep_offset",
            instead_of_assignment("offsets[key.partition]", "offsets.setdefault(key.partition, value)"),
        ),
    ),
    Mutant(
        "a request that is sent twice stays parked",
        Edit(
            f"{GROUP}.classic.parking",
            "park_join",
            instead_of_call("answer_join", "group.awaiting_joins -= member.awaiting_join is not None"),
        ),
    ),
    # What is taken away.
    Mutant(
        "a group with members is deleted",
        Edit(f"{GROUP}.administration", "_check_deletion", condition("is_empty", "group.is_blank")),
    ),
    Mutant(
        "a deleted group leaves its offsets",
        Edit(f"{GROUP}.administration", "delete_group", drop_call("remove_offsets")),
    ),
    Mutant(
        "offsets that are read may be deleted",
        Edit(f"{GROUP}.offsets.removal", "_delete_topic", holds("subscribes_to", False)),
    ),
    Mutant(
        "offsets expire while members read on",
        Edit(f"{GROUP}.offsets.removal", "_expire", holds("is_empty", True)),
    ),
    Mutant(
        "offsets expire by their commit alone",
        Edit(f"{GROUP}.offsets.removal", "_is_expired", drop_assignment("since_ms", index=1)),
    ),
    Mutant(
        "a group outlives its last offset",
        Edit(f"{GROUP}.offsets.removal", "expire_offsets", drop_loop("tombstones")),
    ),
    Mutant(
        "a load overlooks what was deleted",
        Edit(f"{COORDINATION}.loading", "_newest", drop_call("newest.pop")),
        Edit(
            f"{COORDINATION}.loading",
            "_newest",
            instead_of_assignment("newest[key]", "if value is not None:\n    newest[key] = value"),
        ),
    ),
    Mutant(
        "a load believes a key's first record",
        Edit(f"{COORDINATION}.loading", "_newest", drop_call("newest.pop")),
        Edit(
            f"{COORDINATION}.loading",
            "_newest",
            instead_of_assignment("newest[key]", "newest.setdefault(key, value)"),
        ),
    ),
    # The shard's order.
    Mutant(
        "answers do not wait for the flush",
        Edit(
            f"{COORDINATION}.shard",
            "Shard._carry_out",
            instead_of_call("self._pending.append", "self._perform(decision.effects)", index=1),
        ),
    ),
    Mutant(
        "a reader overtakes the flush before it",
        Edit(f"{COORDINATION}.shard", "Shard._carry_out", drop_if("_flushing")),
    ),
    Mutant(
        "a failed flush is answered as a good one",
        Edit(
            f"{COORDINATION}.shard",
            "Shard._flushed",
            condition("error", "error is not None and not self._flushing", index=0),
        ),
    ),
    Mutant(
        "a failed flush forgets to refuse",
        Edit(f"{COORDINATION}.shard", "Shard.close", drop_call("_refuse_all")),
    ),
    Mutant(
        "a shard loads while a flush of it may fail",
        Edit(f"{COORDINATION}.shard", "Shard.load", drop_call("between_writes")),
        first_seed=160,  # Seed 176 sees it.
    ),
    # What the disk holds.
    Mutant(
        "compaction drops keys that are not dirty",
        Edit(f"{STORAGE}.compaction", "NewestOffsets.is_newest", compare("offset", "<=", "==")),
    ),
    Mutant(
        "a compacted segment is not synced",
        Edit(f"{STORAGE}.cleaning", "LogCleaning._clean", drop_call("file.sync")),
    ),
    Mutant(
        "a swap that was cut short is forgotten",
        Edit(f"{STORAGE}.swapping", "finish_swaps", before_assignment("undone", "names = []")),
        first_seed=60,  # Seed 66 sees it.
    ),
    Mutant(
        "the journal goes before the logs are closed",
        Edit(
            f"{STORAGE}.data_directory", "DataDirectory.close", before_assignment("failures", "when_sound()")
        ),
    ),
    Mutant(
        "the journal begins again before the logs are synced",
        Edit(f"{PARTITIONS}.flusher", "Flusher._begin_lap", without("_journaled")),
    ),
    Mutant(
        "recovery believes the page cache",
        Edit(f"{STORAGE}.segment", "Segment.recover", drop_call("file.reread")),
    ),
    Mutant(
        "the journal is answered for before its sync",
        Edit(f"{STORAGE}.journal", "Journal._append", drop_call("file.sync")),
    ),
    Mutant(
        "a flush writes what was staged meanwhile",
        Edit(
            f"{STORAGE}.writable_log",
            "WritableLog.write_staged",
            instead_of_if(
                "staged.batches", "self._write_batches([*staged.batches, *self.take_staged().batches])"
            ),
        ),
        Edit(
            f"{STORAGE}.writable_log",
            "WritableLog.became_durable",
            assign("self.flushed_offset", "self.written_offset"),
        ),
        Edit(f"{PARTITIONS}.flusher", "_flush_of", without("staged.batches")),
        Edit(f"{STORAGE}.journal", "Journal._check_follows", holds("synced_offset", True)),
    ),
    Mutant(
        "a topic that was lax is journaled at once",
        Edit(f"{PARTITIONS}.flusher", "_flush_of", without("is_durable")),
        Edit(f"{STORAGE}.journal", "Journal._check_follows", holds("synced_offset", True)),
        first_seed=120,  # Seed 123 sees it.
    ),
    Mutant(
        "a batch is journaled behind an unsynced one",
        Edit(f"{PARTITIONS}.flusher", "_flush_of", without("is_durable")),
    ),
    Mutant(
        "a topic that becomes lax is let out of the journal",
        Edit(f"{PARTITIONS}.flusher", "Flusher._succeeded", condition("needs_journal", "flush.journaled")),
        Edit(f"{PARTITIONS}.flusher", "_flush_of", without("needs_journal")),
        Edit(f"{STORAGE}.journal", "Journal._check_synced", holds("unsynced", True)),
        first_seed=120,  # Seed 131 sees it.
    ),
    Mutant(
        "what the journal holds of a failed log is forgotten",
        Edit(f"{STORAGE}.journal", "Journal.recall", drop_call("_leave")),
    ),
    Mutant(
        "a flush is answered without its sync",
        Edit(f"{PARTITIONS}.flusher", "Job.run", argument("write_staged", "sync", "False")),
    ),
    Mutant(
        "the high watermark runs ahead of the flush",
        Edit(
            f"{PARTITIONS}.partition",
            "Partition.committed",
            assign("self.high_watermark", "self.log.log_end_offset"),
        ),
    ),
    Mutant(
        "a deleted topic's log start comes back",
        Edit(
            f"{STORAGE}.log_records",
            "LogRecords._forget",
            instead_of_call(
                "self._records.pop",
                "record = self._records.pop(key, LogRecord()); self._records[key] = LogRecord();"
                " self._records[key].log_start_offset = record.log_start_offset",
            ),
        ),
    ),
    Mutant(
        "records are acknowledged before it is known whose they are",
        Edit(f"{STORAGE}.writable_log", "WritableLog._name_folder", drop_call("name_folder")),
    ),
    Mutant(
        "batches that a crash orphaned are let go in a folder without an owner",
        Edit(f"{STORAGE}.partition_log", "PartitionLog.open", drop_if("clean")),
        Edit(f"{STORAGE}.writable_log", "WritableLog.write_again", drop_if("batches")),
    ),
    Mutant(
        "a recovery point is noted of what is not synced",
        Edit(
            f"{STORAGE}.writable_log",
            "WritableLog._write_run",
            instead_of_assignment(
                "self._tail",
                "self._tail = Tail(run[-1].last_offset + 1, segment, segment.size_bytes)\n"
                "self._mark_point(run[-1].last_offset + 1, segment)",
            ),
        ),
    ),
    Mutant(
        "a start goes on behind a recovery point without what the log says",
        Edit(
            f"{STORAGE}.recovery",
            "LogLoader._recover",
            instead_of_assignment("first", "first = len(segments)\nreturn point.offset", index=1),
        ),
    ),
    Mutant(
        "a log is noted as at rest that is not synced",
        Edit(f"{STORAGE}.resting", "look_at", drop_call("sync_beside")),
    ),
    Mutant(
        "a log is taken for at rest whatever its files look like",
        Edit(f"{STORAGE}.resting", "RestingLogs.load", holds("is_as_long", True)),
        Edit(f"{STORAGE}.resting", "RestingLogs.still_matches", holds("_unseen", True)),
    ),
    Mutant(
        "of a log at rest one file is looked at and never the others",
        Edit(f"{STORAGE}.resting", "RestingLogs.still_matches", holds("_unseen", True)),
        first_seed=40,
    ),
    Mutant(
        "a log is noted as at rest whose sync has failed before",
        Edit(f"{STORAGE}.resting", "RestingLogs._note", drop_call("_doubted.add")),
        Edit(f"{STORAGE}.segment", "Segment.sync_beside", drop_if("_lost")),
    ),
    Mutant(
        "what is in the journal alone is not asked for of a log at rest",
        Edit(f"{PARTITIONS}.log_files", "LogFiles.is_sound", answer("_journal.end_offset", "True")),
    ),
    # Consumer groups.
    Mutant(
        "a partition is given before it is given up",
        Edit(f"{GROUP}.consumer.reconciling", "_next", replace("holder == member.member_id", "holder")),
    ),
    Mutant(
        "a member goes on before it has given up",
        Edit(
            f"{GROUP}.consumer.reconciling", "_next", replace("_still_owns(owned, revoking)", "owned is None")
        ),
    ),
    Mutant(
        "what has yet to be given up is nobody's",
        Edit(f"{GROUP}.consumer.group", "_each", drop_element("member.revoking")),
    ),
    Mutant(
        "who leaves a consumer group leaves its epoch as it is",
        Edit(
            f"{GROUP}.consumer.leaving", "remove_member", replace("group.epoch + 1", "group.epoch", index=0)
        ),
    ),
    Mutant(
        "members of a loaded consumer group have no sessions",
        Edit(f"{GROUP}.epochs.leaving", "resume", drop_call("extend_session")),
    ),
    Mutant(
        "more partitions are not seen",
        Edit(
            f"{GROUP}.metadata",
            "metadata_hash",
            replace(
                "topic.topic_id.bytes + len(topic.partitions).to_bytes(4, 'big')", "topic.topic_id.bytes"
            ),
        ),
    ),
    # Streams groups.
    Mutant(
        "a task is given before it is given up",
        Edit(f"{GROUP}.streams.reconciling", "_next.active_is_free", without("active_process")),
    ),
    Mutant(
        "a process gets a task that it has in another role",
        Edit(f"{GROUP}.streams.reconciling", "_next.copy_is_free", returns("True")),
    ),
    Mutant(
        "a member of a streams group goes on before it has given up",
        Edit(
            f"{GROUP}.streams.reconciling", "_next", replace("_still_owns(owned, revoking)", "owned is None")
        ),
    ),
    Mutant(
        "a task that has yet to be given up is nobody's",
        Edit(f"{GROUP}.streams.group", "StreamsGroup._count", drop_element("member.revoking")),
    ),
    Mutant(
        "members of a streams group have no sessions",
        Edit(f"{GROUP}.streams.sessions", "extend_session", drop_call("begin_session")),
    ),
    Mutant(
        "a standby is put on the process that runs the task",
        Edit(
            f"{GROUP}.streams.assignor",
            "_Assignment._give_standby",
            replace("task not in process.tasks", "process.counts"),
        ),
    ),
    # Transactions.
    # Share groups.
    *OF_TRANSACTIONS,
    *OF_SHARING,
)
