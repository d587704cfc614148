"""Mutants that the simulation of three whole brokers has to see: what parts alone did not show."""

from tests.simulation.mutant import Edit, Mutant
from tests.simulation.operations import argument
from tests.simulation.replicas.mutations import MUTANTS as OF_REPLICAS

SHARED = {each.name: each for each in OF_REPLICAS}


class WholeMutant(Mutant):
    """A mutant with the act that shows it, None for any."""

    def __init__(self, name: str, *edits: Edit, act: str | None = None, first_seed: int = 0) -> None:
        super().__init__(name, *edits, first_seed=first_seed)
        self.act = act


def shared(name: str, *, act: str | None = None, first_seed: int = 0) -> WholeMutant:
    """Return a mutant that another simulation has as well."""
    return WholeMutant(name, *SHARED[name].edits, act=act, first_seed=first_seed)


MUTANTS = (
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
)
