"""One partition settled: what its state has to be, as brokers live, drain and come back empty.

Source: PartitionChangeBuilder.electLeader, KIP-966 (eligible leaders), KIP-455 (reassignment), KIP-858
(directory ids).
"""

from collections.abc import Callable, Collection

from msgspec.structs import replace

from kohort.broker.controller.facts import UNASSIGNED, LiveBrokers, TopicRules
from kohort.broker.controller.in_sync import with_isr
from kohort.broker.controller.reassignment import completed
from kohort.broker.metadata.partition_state import NO_LEADER, PartitionState


def settled(state: PartitionState, brokers: LiveBrokers, rules: TopicRules) -> PartitionState:
    """Return the right state of the partition; the same object if it is right already.

    A broker that is dead, or came back empty, leaves the ISR; a draining one leaves it if others stay. A
    reassignment whose new replicas are in sync ends. Then the leader is kept, or a new one elected. Settling
    twice changes no more than once.
    """
    others = _with_another_folder(state, brokers)
    if not others and _is_calm(state, brokers):
        return state
    draft = _with_directories(state, others, brokers) if others else state
    lost = _lost(state, others, brokers)
    draft = with_isr(draft, _in_sync(draft, brokers, lost), rules.min_insync_replicas, lost=lost)
    draft = completed(draft)
    draft = _with_leader(draft, brokers, rules)
    return with_epochs(state, draft)


def reassigned(before: PartitionState, after: PartitionState, brokers: LiveBrokers) -> PartitionState:
    """Return `before` after a reassignment was started or cancelled, with a leader in sync.

    A leader that only the former reassignment had added is no replica any more, and another leads. Without
    a live replica in sync there is no leader, until settling elects an eligible one.
    """
    if after == before or after.leader in after.isr:
        return with_epochs(before, after)
    leader = _elected(replace(after, elr=()), brokers)
    return with_epochs(before, replace(after, leader=NO_LEADER if leader is None else leader))


def with_epochs(before: PartitionState, after: PartitionState) -> PartitionState:
    """Return `after` with the epochs that follow from the differences; `before` if there are none.

    A new leader epoch also fences the fetches of replicas that were taken away.
    """
    if after == before:
        return before
    leads_anew = after.leader != before.leader or not set(before.replicas) <= set(after.replicas)
    return replace(
        after,
        leader_epoch=before.leader_epoch + leads_anew,
        partition_epoch=before.partition_epoch + 1,
    )


def led_anew(state: PartitionState) -> PartitionState:
    """Return the state with the same leader and a new leader epoch, because it has registered again."""
    return replace(state, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1)


def _is_calm(state: PartitionState, brokers: LiveBrokers) -> bool:
    """Return whether nothing can be to decide: all live, and nothing is under way."""
    if state.adding or state.removing or state.elr or state.leader not in state.isr:
        return False
    for node_id in state.isr:
        broker = brokers.get(node_id)
        if broker is None or not broker.may_be_chosen:
            return False
    return True


def _with_another_folder(state: PartitionState, brokers: LiveBrokers) -> tuple[int, ...]:
    """Return the replicas whose current folder differs from the known one."""
    others: tuple[int, ...] = ()
    for node_id, directory in zip(state.replicas, state.directories, strict=False):
        broker = brokers.get(node_id)
        if broker is not None and directory not in {broker.directory_id, UNASSIGNED}:
            others += (node_id,)
    return others


def _lost(state: PartitionState, others: Collection[int], brokers: LiveBrokers) -> tuple[int, ...]:
    """Return the replicas with another folder that do not count any more.

    That is all of them, unless they are the last: if no other replica is complete, one whose folder has
    most records stays, as the last known leader does in Kafka. One that came back empty does not.
    """
    had_all = [each for each in (state.leader, *state.isr, *state.elr) if each in (*state.isr, *state.elr)]
    if any(each not in others for each in had_all):
        return tuple(others)
    known = dict(zip(state.replicas, state.directories, strict=False))
    stays = _first(had_all, lambda each: known[each] in brokers[each].former_directories)
    return tuple(each for each in others if each != stays)


def _with_directories(state: PartitionState, others: Collection[int], brokers: LiveBrokers) -> PartitionState:
    directories = tuple(
        brokers[node_id].directory_id if node_id in others else directory
        for node_id, directory in zip(state.replicas, state.directories, strict=True)
    )
    return replace(state, directories=directories)


def _in_sync(state: PartitionState, brokers: LiveBrokers, lost: Collection[int]) -> tuple[int, ...]:
    alive = tuple(each for each in state.isr if each in brokers and each not in lost)
    return tuple(each for each in alive if not brokers[each].is_draining) or alive


def _with_leader(state: PartitionState, brokers: LiveBrokers, rules: TopicRules) -> PartitionState:
    """Return the state with the leader that it can have, elected in the order of its replicas."""
    leader = _elected(state, brokers)
    if leader is None and rules.unclean_leader_election:
        leader = _unclean(state, brokers)
        if leader is not None:  # Its log is the valid one from now on, whatever others had.
            return replace(state, leader=leader, isr=(leader,), elr=(), last_known_elr=())
    if leader is None:
        return replace(state, leader=NO_LEADER)
    if leader not in state.isr:
        state = with_isr(state, (*state.isr, leader), rules.min_insync_replicas)
    return replace(state, leader=leader)


def _elected(state: PartitionState, brokers: LiveBrokers) -> int | None:
    """Return a leader without loss: the current one, else one in sync, else an eligible one."""
    in_sync = [each for each in state.replicas if each in state.isr]
    if state.leader in in_sync:
        in_sync.insert(0, state.leader)
    eligible = [each for each in state.replicas if each in state.elr]
    stays = [each for each in in_sync if _may_be_chosen(each, brokers)]
    return _first((*stays, *in_sync, *eligible), lambda each: each in brokers)


def _unclean(state: PartitionState, brokers: LiveBrokers) -> int | None:
    """Return an unclean leader; one that came back empty has the fewest records, so it comes last."""
    with_a_log = [each for each in state.replicas if each not in state.last_known_elr]
    stays = [each for each in with_a_log if _may_be_chosen(each, brokers)]
    return _first((*stays, *with_a_log, *state.replicas), lambda each: each in brokers)


def _may_be_chosen(node_id: int, brokers: LiveBrokers) -> bool:
    broker = brokers.get(node_id)
    return broker is None or broker.may_be_chosen


def _first(nodes: Collection[int], holds: Callable[[int], bool]) -> int | None:
    return next((each for each in nodes if holds(each)), None)
