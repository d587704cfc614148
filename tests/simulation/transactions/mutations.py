"""The mutants of transactions."""

from tests.simulation.mutant import Edit, Mutant
from tests.simulation.operations import (
    answer,
    argument,
    assign,
    compare,
    drop_assignment,
    drop_call,
    drop_element,
    drop_if,
    drop_loop,
    holds,
    instead_of_call,
    replace,
    without,
)

GROUP = "kohort.broker.group"
COORDINATION = "kohort.broker.coordination"
STORAGE = "kohort.storage"
TRANSACTIONS = "kohort.broker.transactions"
HANDLERS = "kohort.broker.handlers"

MUTANTS = (
    Mutant(
        "producers in front of a recovery point are forgotten",
        Edit(
            f"{STORAGE}.writable_log",
            "WritableLog._mark_point",
            replace("self._written_producers", "type(self._written_producers)()"),
        ),
        is_of_transactions=True,
    ),
    Mutant(
        "an end that comes late ends the next transaction",
        Edit(f"{TRANSACTIONS}.ending", "_may_end", drop_element("State.ONGOING")),
        is_of_transactions=True,
    ),
    Mutant(
        "markers that are due are forgotten by a load",
        Edit(
            f"{TRANSACTIONS}.coordinator",
            "TransactionCoordinator.loaded",
            drop_call("effects.append", index=0),
        ),
        is_of_transactions=True,
    ),
    Mutant(
        "a transaction that is loaded has no time-out",
        Edit(
            f"{TRANSACTIONS}.coordinator",
            "TransactionCoordinator.loaded",
            drop_call("effects.append", index=1),
        ),
        is_of_transactions=True,
    ),
    Mutant(
        "who is fenced keeps its epoch",
        Edit(
            f"{TRANSACTIONS}.coordinator",
            "TransactionCoordinator._fence",
            argument("replace", "producer_epoch", None),
        ),
        is_of_transactions=True,
    ),
    Mutant(
        "partitions that are added take the place of others",
        Edit(
            f"{TRANSACTIONS}.coordinator",
            "TransactionCoordinator._add_partitions",
            argument("replace", "partitions", "command.partitions", index=0),
        ),
        is_of_transactions=True,
    ),
    Mutant(
        "a batch of a transaction is appended unasked",
        Edit(f"{HANDLERS}.data.transactional", "Permissions.may_append", holds("is_open", True)),
        is_of_transactions=True,
    ),
    Mutant(
        "a late marker ends the producer's next transaction",
        Edit(f"{STORAGE}.producers", "ProducerStateTable.check_marker", holds("is_open", False)),
        is_of_transactions=True,
    ),
    Mutant(
        "a marker is told of before it is on the disk",
        Edit(
            f"{COORDINATION}.transaction_markers",
            "MarkerWriter._append",
            instead_of_call(
                "request_commit",
                "self._flusher.request_commit(partition, lambda error: None)\ncommitted(None)",
            ),
        ),
        is_of_transactions=True,
    ),
    Mutant(
        "a failed marker is not written again",
        Edit(
            f"{COORDINATION}.marker_sender",
            "_EndingTransaction._written",
            replace("code is ErrorCode.NONE", "code is not ErrorCode.CONCURRENT_TRANSACTIONS"),
        ),
        is_of_transactions=True,
    ),
    Mutant(
        "offsets of an aborted transaction count",
        Edit(f"{GROUP}.offsets.pending", "PendingOffsets.take", drop_if("is_commit")),
        is_of_transactions=True,
    ),
    Mutant(
        "a load counts offsets of aborted transactions",
        Edit(f"{COORDINATION}.loading", "_settled", drop_if("is_committed")),
        is_of_transactions=True,
    ),
    Mutant(
        "a load forgets offsets that are pending",
        Edit(f"{COORDINATION}.loading", "loaded_core", answer("_with_pending", "core", index=0)),
        is_of_transactions=True,
    ),
    Mutant(
        "readers of committed records see open transactions",
        Edit(
            f"{HANDLERS}.data.fetch_reading",
            "_read",
            replace("partition_log.has_transactions", "not partition_log.has_transactions"),
        ),
        is_of_transactions=True,
    ),
    Mutant(
        "what a marker has ended is stable before the marker is",
        Edit(f"{STORAGE}.writable_log", "WritableLog.last_stable_offset", drop_loop("ended")),
        is_of_transactions=True,
    ),
    Mutant(
        "recovery finds no aborted transactions",
        Edit(f"{STORAGE}.transaction_index", "TransactionIndexFiles.load", assign("new", "[]")),
        is_of_transactions=True,
    ),
    Mutant(
        "an aborted transaction is looked for from its first record on",
        Edit(
            f"{STORAGE}.transaction_index",
            "AbortedTransactions.between",
            argument("bisect_left", "key", "lambda each: each.first_offset"),
        ),
        is_of_transactions=True,
    ),
    Mutant(
        "a snapshot knows no open transaction",
        Edit(
            f"{STORAGE}.producers",
            "ProducerStateTable.encode_snapshot",
            replace("state.transaction_first_offset", "_NONE"),
        ),
        is_of_transactions=True,
    ),
    Mutant(
        "a start overlooks what ended in the segment that it scans",
        Edit(f"{STORAGE}.prefix", "_note_transaction", drop_call("endings.setdefault")),
        is_of_transactions=True,
    ),
    Mutant(
        "entries of aborted transactions stay unsynced over a start",
        Edit(
            f"{STORAGE}.transaction_index",
            "TransactionIndexFiles.load",
            argument("self.write", "may_be_lost", None),
        ),
        is_of_transactions=True,
    ),
    Mutant(
        "an old generation commits offsets in a transaction",
        Edit(
            f"{GROUP}.classic.group",
            "ClassicGroup.check_transactional_commit",
            compare("generation_id_or_member_epoch", "!=", ">"),
        ),
        is_of_transactions=True,
    ),
    Mutant(
        "who takes a partition over is told an offset that may change",
        Edit(f"{GROUP}.offsets.commits", "_without_unstable", holds("pending.holds", False)),
        is_of_transactions=True,
    ),
    Mutant(
        "records that are deleted hold readers of committed ones back",
        Edit(
            f"{STORAGE}.writable_log", "WritableLog.last_stable_offset", answer("log_start_offset", "offset")
        ),
        is_of_transactions=True,
    ),
    Mutant(
        "who writes nothing for long is forgotten within a transaction",
        Edit(f"{STORAGE}.producers", "ProducerStateTable._expired", without("transaction_first_offset")),
        is_of_transactions=True,
    ),
    Mutant(
        "what is stable does not end before open transactions",
        Edit(f"{STORAGE}.writable_log", "WritableLog.last_stable_offset", drop_assignment("offset", index=1)),
        is_of_transactions=True,
    ),
    Mutant(
        "a shard counts offsets of aborted transactions",
        Edit(
            f"{COORDINATION}.shard",
            "Shard._stage_transactional",
            replace("write.end.is_commit", "True", index=1),
        ),
        is_of_transactions=True,
    ),
)
