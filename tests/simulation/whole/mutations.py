"""Mutants that the simulation of three whole brokers has to see: what parts alone did not show."""

from tests.simulation.cluster.mutations import MUTANTS as OF_CLUSTERS
from tests.simulation.mutant import Edit, Mutant
from tests.simulation.operations import answer, argument, drop_call, drop_if, replace, returns
from tests.simulation.replicas.mutations import MUTANTS as OF_REPLICAS

HANDLERS = "kohort.broker.handlers.data"
TRANSACTIONS = "kohort.broker.transactions"
SHARED = {each.name: each for each in (*OF_CLUSTERS, *OF_REPLICAS)}


class WholeMutant(Mutant):
    """A mutant with the act that shows it, None for any."""

    def __init__(self, name: str, *edits: Edit, act: str | None = None, first_seed: int = 0) -> None:
        super().__init__(name, *edits, first_seed=first_seed)
        self.act = act


def shared(name: str, *, act: str | None = None, first_seed: int = 0) -> WholeMutant:
    """Return a mutant that another simulation has as well."""
    return WholeMutant(name, *SHARED[name].edits, act=act, first_seed=first_seed)


MUTANTS = (
    shared("a change of the isr that is not found counts as refused, though etcd makes it later", act="late"),
    shared("a follower waits for a sync that nobody asks for", act="strict"),
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
)
