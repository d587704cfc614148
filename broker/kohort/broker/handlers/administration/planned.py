"""Plans changes on a snapshot, partition by partition, and applies them to the metadata."""

from collections.abc import Callable

from kohort.broker.controller.requests import Outcomes
from kohort.broker.metadata import MetadataStore, Mutation, Snapshot, update
from kohort.broker.metadata.store import Failed, storage_error


async def carry_out(store: MetadataStore, plan: Callable[[Snapshot], tuple[Mutation, Outcomes]]) -> Outcomes:
    """Change the metadata as `plan` says, and return of each partition why it can't be, or None.

    `plan` is called again if the metadata has changed meanwhile.
    """
    outcomes: Outcomes = {}

    def decide(snapshot: Snapshot) -> Mutation:
        nonlocal outcomes
        mutation, outcomes = plan(snapshot)
        return mutation

    try:
        await update(store, decide)
    except Failed as error:
        failed = storage_error(error)
        return {place: refused or failed for place, refused in outcomes.items()}
    return outcomes
