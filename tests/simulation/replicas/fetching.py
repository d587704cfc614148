"""A fetch of a follower: what a fetcher does with its leader's answer, and what the leader does."""

from typing import TYPE_CHECKING, Any, cast

from kohort.broker.partitions import Partition
from kohort.broker.replication import Diverging
from kohort.broker.replication.replica_fetch import answer_to
from kohort.protocol.errors import ErrorCode
from kohort.storage import StorageError
from tests.simulation.replicas.topic import FETCHED_MAX, Topic, batches, records_of, values_in

if TYPE_CHECKING:
    from tests.simulation.replicas.world import World


async def fetch_once(world: "World", topic: Topic) -> None:
    """Do what a fetcher does, and what its leader does."""
    try:
        await _ask(world, topic)
    except StorageError as error:
        world.note(f"{topic.name}: {error}")
    finally:
        topic.is_fetching = False


async def _ask(world: "World", topic: Topic) -> None:
    partition = world.partition(topic)
    if partition is None or partition.following is None or partition.serving_log is None:
        return
    following, host = partition.following, world.host
    at = following.next_fetch()
    if at is None:
        host.appending.sync_what_is_waited_for(partition)
        topic.waits_since = topic.waits_since or world.step
        waited = world.step - topic.waits_since
        world.expect(
            "a follower does not wait for a sync for ever", waited < world.act.waiting_steps, topic.name
        )
        return
    topic.waits_since = 0
    if at.leader_epoch != topic.leader_epoch:
        return
    refused = answer_to(at, cast(Any, topic.leader))
    if isinstance(refused, Diverging):
        before = values_in(partition.log)
        await host.appending.cut(partition, following, following.diverged(refused))
        world.changed_at = world.step
        if partition.following is following and partition.serving_log is not None:
            topic.gone |= before - values_in(partition.log)
        topic.cut_at = partition.log.log_end_offset if partition.serving_log is not None else None
        return
    if refused is ErrorCode.OFFSET_OUT_OF_RANGE:
        cut = following.out_of_range(0, topic.leader.log_end_offset)
        if cut is not None:
            await host.appending.cut(partition, following, cut)
        return
    assert refused is None, refused
    if topic.left and not at.offset:
        topic.gone |= topic.left
        topic.left = set()
    if world.act.is_delicate_behind_cuts and topic.cut_at is not None and at.offset > topic.cut_at:
        topic.cut_at, world.changed_at = None, world.step
    _tell(world, topic, partition, at.offset)
    following.answered(topic.committed, 0)
    records = batches(topic.leader, at.offset)
    topic.gone -= {each.value for each in topic.leader.records[at.offset : at.offset + FETCHED_MAX]}
    if records and await host.appending.append(partition, following, records):
        await host.appending.flush([partition])


def _tell(world: "World", topic: Topic, partition: Partition, offset: int) -> None:
    """See a leader find no difference before this offset."""
    found, known = records_of(partition.log)[:offset], topic.leader.records[:offset]
    world.expect(
        "where a leader finds no difference the logs are the same",
        found == known,
        f"{topic.name}: {found[-5:]} {known[-5:]}",
    )
    if offset >= len(topic.told):
        topic.told = list(known)
        if world.act.commits == 1 or world.random.random() < world.act.commits:
            topic.committed = max(topic.committed, world.random.randint(0, offset))
    if partition.durable:
        topic.told_as_strict = max(topic.told_as_strict, offset)
