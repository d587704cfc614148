"""The rule for every change of an ISR: a replica that leaves one that is too small stays eligible.

While an ISR is below `min.insync.replicas`, or a replica outside of it is eligible, the high watermark
does not move. So every replica in the ELR has all acknowledged records, and may lead.
Source: KIP-966; PartitionChangeBuilder.maybePopulateTargetElr.
"""

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from kohort.broker.metadata.partition_state import PartitionState


def min_in_sync(state: PartitionState, min_insync_replicas: int) -> int:
    """Return how large the ISR has to be: never larger than there are replicas."""
    return min(min_insync_replicas, len(state.replicas))


def with_isr(
    state: PartitionState, isr: Iterable[int], min_insync_replicas: int, *, lost: Collection[int] = ()
) -> PartitionState:
    """Return the state with this ISR and the ELR that follows from it; `lost` came back empty.

    The epochs are the caller's. `isr` keeps the order in which it comes.
    """
    now_in_sync = tuple(isr)
    if len(now_in_sync) >= min_in_sync(state, min_insync_replicas):
        return replace(state, isr=now_in_sync, elr=(), last_known_elr=())
    were_eligible = (*state.elr, *state.isr)
    gone = (*now_in_sync, *lost)
    elr = tuple(each for each in state.replicas if each in were_eligible and each not in gone)
    last_known = state.last_known_elr
    if now_in_sync or elr:
        last_known = ()
    elif were_eligible:  # No complete replica is left: note who had everything last.
        last_known = tuple(each for each in state.replicas if each in were_eligible)
    return replace(state, isr=now_in_sync, elr=elr, last_known_elr=last_known)
