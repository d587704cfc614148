"""Partitions moved to other brokers: replicas are added first, and those to go leave once all are in sync.

Source: KIP-455; org.apache.kafka.controller.PartitionReassignmentReplicas and PartitionReassignmentRevert.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from msgspec.structs import replace

from kohort.broker.controller.facts import UNASSIGNED, LiveBrokers
from kohort.broker.metadata.partition_state import PartitionState


class ReassignmentRefused(Exception):
    """The reassignment, or its end, can't be had; the text says why."""


def begin(state: PartitionState, target: Sequence[int], brokers: LiveBrokers) -> PartitionState:
    """Return the state on its way to these replicas, the preferred leader first.

    It replaces one that is under way. The leader and the epochs are the caller's; settling ends
    it, at once if no replica is added. Raises: ReassignmentRefused.
    """
    if not target:
        raise ReassignmentRefused("a partition needs a replica")
    if len(set(target)) != len(target):
        raise ReassignmentRefused("a broker is named more than once")
    unknown = [each for each in target if each not in brokers and each not in state.replicas]
    if unknown:
        raise ReassignmentRefused(f"broker {unknown[0]} is not in the cluster")
    original = [each for each in state.replicas if each not in state.adding]
    adding = tuple(each for each in target if each not in original)
    removing = tuple(each for each in original if each not in target)
    kept_for_now = tuple(each for each in state.isr if each in target or each in original)
    replicas = (*target, *removing)
    if not kept_for_now and not _some_in(replicas, state.elr):
        raise ReassignmentRefused("no in-sync replica would remain")
    return _with_replicas(
        replace(state, adding=adding, removing=removing, isr=kept_for_now), replicas, brokers
    )


def cancel(state: PartitionState) -> PartitionState:
    """Return the state before the reassignment; the same object if there is none.

    The leader and the epochs are the caller's. Raises: ReassignmentRefused if all replicas in sync are new,
    or, with none in sync, all eligible ones.
    """
    if not state.adding and not state.removing:
        return state
    isr = tuple(each for each in state.isr if each not in state.adding)
    if not isr and state.isr:
        raise ReassignmentRefused("only replicas that would be taken away again are in sync")
    kept = tuple(each for each in state.replicas if each not in state.adding)
    if not isr and state.elr and not _some_in(kept, state.elr):
        raise ReassignmentRefused("only replicas that would be taken away again are eligible")
    return _with_replicas(replace(state, adding=(), removing=(), isr=isr), kept, {})


def completed(state: PartitionState) -> PartitionState:
    """Return the state without the replicas that are to go, once all that were added are in sync."""
    if not state.adding and not state.removing:
        return state
    target = tuple(each for each in state.replicas if each not in state.removing)
    isr = tuple(each for each in state.isr if each in target)
    if not isr or not set(state.adding) <= set(isr):
        return state
    return _with_replicas(replace(state, adding=(), removing=(), isr=isr), target, {})


def _some_in(replicas: Sequence[int], nodes: Sequence[int]) -> bool:
    return not set(replicas).isdisjoint(nodes)


def _with_replicas(state: PartitionState, replicas: tuple[int, ...], brokers: LiveBrokers) -> PartitionState:
    directories = state.directories
    if directories:
        known: Mapping[int, UUID] = dict(zip(state.replicas, directories, strict=True))
        directories = tuple(known.get(each) or _directory(each, brokers) for each in replicas)
    elr = tuple(each for each in state.elr if each in replicas)
    last_known = tuple(each for each in state.last_known_elr if each in replicas)
    return replace(state, replicas=replicas, directories=directories, elr=elr, last_known_elr=last_known)


def _directory(node_id: int, brokers: LiveBrokers) -> UUID:
    broker = brokers.get(node_id)
    return UNASSIGNED if broker is None else broker.directory_id
