"""Mutants that the simulation of whole brokers has to see: what parts alone did not show."""

from tests.simulation.cluster.mutations import MUTANTS as OF_CLUSTERS
from tests.simulation.mutant import Edit, Mutant
from tests.simulation.mutations import MUTANTS as OF_ONE_BROKER
from tests.simulation.operations import (
    answer,
    argument,
    drop_call,
    drop_if,
    instead_of_call,
    replace,
    returns,
)
from tests.simulation.replicas.mutations import MUTANTS as OF_REPLICAS

COORDINATION = "kohort.broker.coordination"
HANDLERS = "kohort.broker.handlers.data"
TRANSACTIONS = "kohort.broker.transactions"
SHARED = {each.name: each for each in (*OF_ONE_BROKER, *OF_CLUSTERS, *OF_REPLICAS)}


class WholeMutant(Mutant):
    """A mutant with the scenario that shows it, and of three brokers the act, None for any."""

    def __init__(
        self,
        name: str,
        *edits: Edit,
        scenario: str = "three",
        act: str | None = None,
        first_seed: int = 0,
    ) -> None:
        super().__init__(name, *edits, first_seed=first_seed)
        self.scenario = scenario
        self.act = act


def shared(name: str, *, scenario: str = "three", act: str | None = None, first_seed: int = 0) -> WholeMutant:
    """Return a mutant that another simulation has as well."""
    return WholeMutant(name, *SHARED[name].edits, scenario=scenario, act=act, first_seed=first_seed)


MUTANTS = (
    shared("batches that a crash orphaned are let go in a folder without an owner", scenario="one"),
    shared("a change of the isr that is not found counts as refused, though etcd makes it later", act="late"),
    shared("a follower waits for a sync that nobody asks for", act="strict"),
    shared("the journal names the logs of this lap alone", act="cut", first_seed=28),
    shared("a log is cut while the journal has its batches", act="cut"),
    shared("what was kept for a log that failed comes back behind its cut", act="kept"),
    WholeMutant(
        "logs that metadata lack after a restore are deleted",
        Edit(
            "kohort.broker.partitions.assignment",
            "PartitionAssignment._remove_one",
            argument("announce_deletion", "is_kept", "False"),
        ),
        act="restore",
    ),
    WholeMutant(
        "a committed offset counts for whatever topic has the name",
        Edit("kohort.broker.group.offsets.commits", "_is_of_another", returns("False")),
        Edit(
            "kohort.broker.coordination.group_shards",
            "GroupShards._loaded",
            replace("self.deleted_topics.any_of(ids, now)", "name not in now.topics"),
        ),
        Edit("kohort.broker.coordination.group_shards", "GroupShards._loaded", drop_if("_deleted_unheard")),
        act="remake",
    ),
    WholeMutant(
        "a time finds nothing while the end is unknown",
        Edit(f"{HANDLERS}.list_offsets", "_Finder._find", drop_call("self._check_end", index=1)),
        act="times",
    ),
    WholeMutant(
        "DeleteRecords is answered by the leader alone",
        Edit(f"{HANDLERS}.delete_records", "handle", drop_call("until_begun_everywhere")),
        Edit(f"{HANDLERS}.delete_records", "_outcome", replace("start.is_everywhere", "True")),
        Edit(
            f"{HANDLERS}.delete_records",
            "_outcome",
            replace("start.leadership.low_watermark", "result.low_watermark"),
        ),
        act="trim",
    ),
    shared("a topic that becomes strict is taken for synced", act="strict"),
    shared("the furthest in sync is counted", act="roll"),
    shared("whoever fetches is in sync", act="roll"),
    shared("a log that diverges counts", act="cut"),
    shared("a follower believes the leader's high watermark", act="roll"),
    shared("a new leader keeps the leader epoch", act="roll"),
    shared("records are acknowledged before it is known whose they are", scenario="one"),
    WholeMutant(
        "a producer that is faster than its markers is fenced",
        Edit(f"{TRANSACTIONS}.ending", "check_end", drop_if("is_prepared")),
        Edit(
            f"{TRANSACTIONS}.ending",
            "_may_end",
            answer(
                "_is_retry",
                "_is_retry(known, message.producer_id, message.producer_epoch)"
                " or (is_newest and not known.state.is_prepared)",
            ),
        ),
    ),
    WholeMutant(
        "a decision is followed before it is committed",
        Edit(
            f"{COORDINATION}.shard",
            "Shard._carry_out",
            instead_of_call("self._pending.append", "self._perform(decision.effects)", index=1),
        ),
        first_seed=1,
    ),
    WholeMutant(
        "a late batch of an older producer is not verified",
        Edit(
            f"{COORDINATION}.transaction_partitions",
            "TransactionPartitions.verify",
            argument("ask_coordinator", 1, "lambda code: answered(None)"),
        ),
        act="times",
    ),
)
