"""Members of streams groups for the core's tests: they say what Kafka Streams says."""

from collections.abc import Iterable
from itertools import chain
from typing import Any

import msgspec

from kohort.broker.group import GroupConfig, GroupCoordinator
from kohort.broker.group.consumer.test_world import Metadata, metadata_of
from kohort.broker.group.epochs.members import AWAY
from kohort.broker.group.streams.commands import StreamsGroupDescribe, StreamsGroupHeartbeat
from kohort.broker.group.streams.group import StreamsGroup
from kohort.broker.group.streams.tasks import Task, each_task
from kohort.broker.group.streams.topology import Status
from kohort.broker.group.test_world import World
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.streams_group_describe import StreamsGroupDescribeDescribedGroup
from kohort.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatCopartitionGroup,
    StreamsGroupHeartbeatKeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatSubtopology,
    StreamsGroupHeartbeatTaskIds,
    StreamsGroupHeartbeatTopicInfo,
    StreamsGroupHeartbeatTopology,
)

AT_ONCE = GroupConfig(group_streams_assignment_interval_ms=0, group_streams_initial_rebalance_delay_ms=0)


def topic(name: str, partitions: int = 0, **configs: str) -> StreamsGroupHeartbeatTopicInfo:
    """An internal topic of a topology."""
    return StreamsGroupHeartbeatTopicInfo(
        name=name,
        partitions=partitions,
        replication_factor=0,
        topic_configs=tuple(
            StreamsGroupHeartbeatKeyValue(key=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ),
    )


def subtopology(
    subtopology_id: str,
    *sources: str,
    changelogs: Iterable[str] = (),
    sinks: Iterable[str] = (),
    repartition: Iterable[StreamsGroupHeartbeatTopicInfo] = (),
    copartition: Iterable[tuple[tuple[int, ...], tuple[int, ...]]] = (),
) -> StreamsGroupHeartbeatSubtopology:
    """A subtopology as a member brings it; topics that belong together as indexes, external ones first."""
    return StreamsGroupHeartbeatSubtopology(
        subtopology_id=subtopology_id,
        source_topics=sources,
        source_topic_regex=(),
        state_changelog_topics=tuple(topic(name, cleanup_policy="compact") for name in changelogs),
        repartition_sink_topics=tuple(sinks),
        repartition_source_topics=tuple(repartition),
        copartition_groups=tuple(
            StreamsGroupHeartbeatCopartitionGroup(
                source_topics=external, source_topic_regex=(), repartition_source_topics=internal
            )
            for external, internal in copartition
        ),
    )


def application(*parts: StreamsGroupHeartbeatSubtopology, epoch: int = 0) -> StreamsGroupHeartbeatTopology:
    """A topology as a member brings it."""
    return StreamsGroupHeartbeatTopology(epoch=epoch, subtopologies=parts)


COPY = application(subtopology("0", "t"))
"""Reads `t` and keeps nothing."""
COUNT = application(subtopology("0", "t", changelogs=["g-c"]))
"""Reads `t` and keeps counts."""
WORD_COUNT = application(
    subtopology("0", "t", sinks=["g-r"]),
    subtopology("1", changelogs=["g-c"], repartition=[topic("g-r")]),
)
"""Reads `t`, sends words on through a topic of its own, and counts them."""


class StreamsWorld(World):
    """A world with topics. What the log says is what the core knows, after every decision."""

    def __init__(self, config: GroupConfig = AT_ONCE, **counts: int) -> None:
        super().__init__(config)
        self.counts = dict(counts or {"t": 4})
        self.metadata: Metadata = metadata_of(**self.counts)
        self.epochs: dict[str, int] = {}

    def change(self, **counts: int) -> None:
        """Let these be the topics from now on."""
        self.counts = dict(counts)
        configs = self.metadata.group_configs
        self.metadata = msgspec.structs.replace(
            metadata_of(self.metadata.version + 1, **counts), group_configs=configs
        )

    def configure(self, group_id: str = "g", **values: str) -> None:
        """Let this be set for a group alone."""
        configs = {group_id: {key.replace("_", "."): value for key, value in values.items()}}
        self.metadata = msgspec.structs.replace(
            self.metadata, version=self.metadata.version + 1, group_configs=configs
        )

    def make_topics(self, group_id: str = "g") -> None:
        """Let the topics be made that the group lacks."""
        topics = self.group(group_id).configured
        if topics is not None and topics.missing:
            self.change(**self.counts, **{each.name: each.partitions for each in topics.missing})

    def group(self, group_id: str = "g") -> StreamsGroup:
        group = self.core.groups[group_id]
        assert isinstance(group, StreamsGroup)
        return group

    def flush(self) -> None:
        super().flush()
        assert streams_state(self.core) == streams_state(self.follower)
        for group in self.core.groups.values():
            if isinstance(group, StreamsGroup):
                check(group)
                assert group.epoch >= self.epochs.get(group.group_id, 0)
                self.epochs[group.group_id] = group.epoch

    def describe(self, group_id: str = "g") -> StreamsGroupDescribeDescribedGroup:
        request_id = next(self.request_ids)
        self.run(self.core.handle(StreamsGroupDescribe(request_id, group_id), self.now_ms))
        return self.answer(request_id, StreamsGroupDescribeDescribedGroup)


def check(group: StreamsGroup) -> None:
    """What must hold of a group at any time.

    No task is run by two, no process has one task twice, and epochs keep their order.
    """
    runs: dict[Task, str] = {}
    places: set[tuple[str, Task]] = set()
    for member in group.members.values():
        assert member.previous_epoch <= member.epoch or member.epoch == AWAY
        assert member.epoch <= group.assignment_epoch <= group.epoch
        for held in (member.assigned, member.revoking):
            for task in each_task(held.active):
                assert task not in runs, (task, runs[task], member.member_id)
                runs[task] = member.member_id
                assert group.active_process(task) == member.process_id
            for task in chain(*map(each_task, (held.active, held.standby, held.warmup))):
                assert (member.process_id, task) not in places, (member.process_id, task)
                places.add((member.process_id, task))
    assert len(group.active_owners) == len(runs)
    target_runs = [task for target in group.targets.values() for task in each_task(target.active)]
    assert len(target_runs) == len(set(target_runs))


def streams_state(core: GroupCoordinator) -> dict[str, object]:
    """What the log says of each streams group."""
    return {
        group_id: (
            group.epoch,
            group.metadata_hash,
            group.validated_topology_epoch,
            group.last_configs,
            group.topology,
            group.assignment_epoch,
            group.members,
            group.targets,
            group.active_owners,
            group.copy_owners,
            group.state,
        )
        for group_id, group in core.groups.items()
        if isinstance(group, StreamsGroup)
    }


class Thread:
    """A member as the wire sees it: it takes its assigned tasks, and revokes the rest with its next
    heartbeat."""

    def __init__(
        self,
        world: StreamsWorld,
        name: str,
        process: str = "",
        *,
        topology: StreamsGroupHeartbeatTopology = COPY,
        group_id: str = "g",
        version: int = 0,
        instance: str | None = None,
    ) -> None:
        self.world = world
        self.instance = instance
        self.member_id = name
        self.process = process or f"process-{name}"
        self.topology = topology
        self.group_id = group_id
        self.version = version
        self.epoch = 0
        self.endpoint_epoch = -1
        self.active: set[Task] = set()
        self.standby: set[Task] = set()
        self.last = StreamsGroupHeartbeatResponse(
            throttle_time_ms=0,
            error_code=0,
            member_id=name,
            member_epoch=0,
            heartbeat_interval_ms=0,
            task_offset_interval_ms=0,
            status=(),
            endpoint_information_epoch=-1,
        )

    def command(self, epoch: int, **fields: Any) -> StreamsGroupHeartbeat:
        """What comes in when it says that."""
        said = {"instance_id": self.instance, **fields}
        message = StreamsGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            endpoint_information_epoch=self.endpoint_epoch,
            **said,
        )
        message.encode(self.version)
        request_id = next(self.world.request_ids)
        return StreamsGroupHeartbeat(
            request_id, message, self.version, "client", "/127.0.0.1", self.world.metadata
        )

    def send(self, epoch: int, **fields: Any) -> ErrorCode:
        command = self.command(epoch, **fields)
        self.world.run(self.world.core.handle(command, self.world.now_ms))
        self.last = self.world.answer(command.request_id, StreamsGroupHeartbeatResponse)
        self.last.encode(self.version)
        if not self.last.error_code:
            self.epoch = self.last.member_epoch
            self.endpoint_epoch = self.last.endpoint_information_epoch
            if self.last.active_tasks is not None:
                self.active = tasks_of(self.last.active_tasks)
                self.standby = tasks_of(self.last.standby_tasks or ())
        return ErrorCode(self.last.error_code)

    def join(self, **fields: Any) -> ErrorCode:
        return self.send(
            0,
            rebalance_timeout_ms=60_000,
            topology=self.topology,
            process_id=self.process,
            active_tasks=(),
            standby_tasks=(),
            warmup_tasks=(),
            **fields,
        )

    def heartbeat(self, **fields: Any) -> ErrorCode:
        """Say nothing new."""
        return self.send(self.epoch, **fields)

    def tell(self, **fields: Any) -> ErrorCode:
        """Report exactly the tasks that it was assigned."""
        return self.send(
            self.epoch,
            active_tasks=task_ids(self.active),
            standby_tasks=task_ids(self.standby),
            warmup_tasks=(),
            **fields,
        )

    def leave(self, epoch: int = -1) -> ErrorCode:
        return self.send(epoch)

    @property
    def statuses(self) -> dict[Status, str]:
        """The statuses that it got about its group."""
        return {Status(each.status_code): each.status_detail for each in self.last.status or ()}


def tasks_of(ids: Iterable[StreamsGroupHeartbeatTaskIds]) -> set[Task]:
    """The tasks that an answer names."""
    return {Task(each.subtopology_id, partition) for each in ids for partition in each.partitions}


def task_ids(tasks: Iterable[Task]) -> tuple[StreamsGroupHeartbeatTaskIds, ...]:
    """The same in a request."""
    found: dict[str, list[int]] = {}
    for task in sorted(tasks):
        found.setdefault(task.subtopology_id, []).append(task.partition)
    return tuple(
        StreamsGroupHeartbeatTaskIds(subtopology_id=key, partitions=tuple(partitions))
        for key, partitions in found.items()
    )


def settled(*members: Thread) -> None:
    """Let the members send heartbeats until all are stable."""
    for _ in range(8):
        for member in members:
            assert member.tell() is ErrorCode.NONE
        member.world.make_topics(member.group_id)
