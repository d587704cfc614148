"""A streams group: its members, its epochs, its topology, and who has which task."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from kohort.broker.group.config import GroupConfig
from kohort.broker.group.consumer.group import VERSION_OF_MEMBER_EPOCHS
from kohort.broker.group.epochs.group import EpochGroup
from kohort.broker.group.group import STREAMS
from kohort.broker.group.reports import Owners
from kohort.broker.group.shard_bytes import ShardBytes
from kohort.broker.group.state import GroupState
from kohort.broker.group.streams.assignor import NAME
from kohort.broker.group.streams.member import StreamsMember
from kohort.broker.group.streams.tasks import NO_TASKS, Task, Tasks, each_task
from kohort.broker.group.streams.topology import Configured, Topology
from kohort.protocol.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from kohort.protocol.messages.offset_commit import OffsetCommitRequest
    from kohort.protocol.messages.offset_fetch import OffsetFetchRequestGroup
    from kohort.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

NOT_VALIDATED = -1
"""The epoch of a topology whose topics are not all there, or do not fit."""
FIRST_EPOCH = 1
"""The epoch of a new group, in which nothing is assigned: members that wait for more of them are in it."""
FIRST_ENDPOINTS = 0
"""The epoch of endpoints that nobody was told of yet: it is not logged, and begins anew with each load."""


class StreamsGroup(EpochGroup[StreamsMember]):
    """A group as one shard knows it (Kafka: StreamsGroup).

    The group epoch grows with each change of its members, its topology, the topics that it needs or its
    settings; the target assignment is made for a group epoch; each member comes to the target's epoch by
    itself. All of that is logged, and so is for which epoch of its topology the topics were found to fit.
    Volatile are sessions, what follows from the topics as they are, and who asked for a shutdown.

    `generation_id` is the group epoch; `members` stays empty, so that no classic request finds any.
    """

    group_type: ClassVar[str] = STREAMS

    __slots__ = (
        "active_owners",
        "configured",
        "copy_owners",
        "delayed_until_ms",
        "description_epochs",
        "endpoint_epoch",
        "instances",
        "last_configs",
        "metadata_hash",
        "metadata_version",
        "shutdown_member_id",
        "streams_members",
        "targets",
        "topology",
        "topology_bytes",
        "validated_topology_epoch",
    )

    def __init__(self, group_id: str, shard_bytes: ShardBytes | None = None) -> None:
        super().__init__(group_id, shard_bytes)
        self.protocol_type = STREAMS
        self.generation_id = FIRST_EPOCH
        self.subscribed_topics = frozenset()
        self.metadata_hash = 0
        self.validated_topology_epoch = NOT_VALIDATED
        self.last_configs: Mapping[str, str] = {}
        self.description_epochs: tuple[int, int] = (NOT_VALIDATED, NOT_VALIDATED)
        self.topology: Topology | None = None
        self.assignment_epoch = FIRST_EPOCH
        self.streams_members: dict[str, StreamsMember] = {}
        self.targets: dict[str, Tasks] = {}
        # Derived from what is logged:
        self.active_owners: dict[Task, str] = {}  # The process that runs a task, or has yet to give it up.
        self.copy_owners: dict[Task, Counter[str]] = {}  # Those that keep a copy of it, likewise.
        self.instances: dict[str, str] = {}  # The static members' ids, by group.instance.id.
        self.topology_bytes = 0
        # Volatile:
        self.configured: Configured | None = None  # What follows from the topics of `metadata_version`.
        self.metadata_version: int | None = None
        self.delayed_until_ms: int | None = None  # A new group waits for more members until then.
        self.shutdown_member_id: str | None = None
        self.endpoint_epoch = FIRST_ENDPOINTS

    @property
    def epoch_members(self) -> Mapping[str, StreamsMember]:
        """The members, by their ids."""
        return self.streams_members

    def owners_of(self, members: Mapping[str, StreamsMember]) -> Owners:
        """Return who of these runs which task: its subtopology and partition."""
        return {
            (task.subtopology_id, task.partition): member_id
            for member_id, member in members.items()
            for task in each_task(member.assigned.active)
        }

    def assignor_name(self, members: Mapping[str, StreamsMember], config: GroupConfig) -> str:
        """Return the only assignor that there is."""
        return NAME

    @property
    def is_blank(self) -> bool:
        """Whether the log says nothing of the group."""
        return False

    def static_member(self, instance_id: str) -> StreamsMember | None:
        """Return the member with that group.instance.id."""
        member_id = self.instances.get(instance_id)
        return None if member_id is None else self.streams_members[member_id]

    def streams_member(self, member_id: str) -> StreamsMember:
        """Return the member. Raises: ApiError UNKNOWN_MEMBER_ID."""
        member = self.streams_members.get(member_id)
        if member is None:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def target(self, member_id: str) -> Tasks:
        """Return what the member shall have."""
        return self.targets.get(member_id, NO_TASKS)

    def active_process(self, task: Task) -> str | None:
        """Return the process of whoever runs the task, or has yet to say that it has given it up."""
        return self.active_owners.get(task)

    def copying_processes(self, task: Task) -> Collection[str]:
        """Return the processes with a standby or a warm-up of the task, likewise."""
        return self.copy_owners.get(task, ())

    # What is logged; `replaying` alone calls these.

    def put_member(self, member: StreamsMember) -> None:
        """Let the member stand as logged."""
        former = self.streams_members.get(member.member_id)
        if former is not None:
            self._hold(-former.metadata_bytes)
            self._release(former)
        self.streams_members[member.member_id] = member
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        self._hold(member.metadata_bytes)
        for held in (member.assigned, member.revoking):
            for task in each_task(held.active):
                self.active_owners[task] = member.process_id
            for role in (held.standby, held.warmup):
                for task in each_task(role):
                    self.copy_owners.setdefault(task, Counter())[member.process_id] += 1
        self.refresh()

    def drop_member(self, member_id: str) -> None:
        """Forget the member, if it is one."""
        member = self.streams_members.pop(member_id, None)
        if member is None:
            return
        self._hold(-member.metadata_bytes)
        self._release(member)
        self.sessions.pop(member_id, None)
        self.revocations.pop(member_id, None)
        if member.instance_id is not None and self.instances.get(member.instance_id) == member_id:
            del self.instances[member.instance_id]
        self.refresh()

    def let_go(self) -> None:
        """Forget the past and the topology of a group that goes."""
        super().let_go()
        self.put_topology(None, 0)

    def put_topology(self, topology: Topology | None, size_bytes: int) -> None:
        """Let the topology stand as logged; it takes about so much."""
        self._hold(size_bytes - self.topology_bytes)
        self.topology_bytes = size_bytes
        self.topology = topology
        self.refresh()

    def refresh(self) -> None:
        """Derive anew which topics are read, and in which state the group is."""
        self.state = self._state()
        reads = self.topology is not None and self.state is not GroupState.EMPTY
        self.subscribed_topics = (
            self.topology.source_topics if reads and self.topology is not None else frozenset()
        )
        if self.state is GroupState.EMPTY:
            self.shutdown_member_id = None

    def subscribes_to(self, topic: str) -> bool:
        """Return whether the application reads the topic; an empty group reads none."""
        return self.subscribed_topics is not None and topic in self.subscribed_topics

    def _state(self) -> GroupState:
        if not self.streams_members:
            return GroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return GroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        epoch = self.assignment_epoch
        if all(each.is_reconciled(epoch) for each in self.streams_members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def _release(self, member: StreamsMember) -> None:
        for held in (member.assigned, member.revoking):
            for task in each_task(held.active):
                if self.active_owners.get(task) == member.process_id:
                    del self.active_owners[task]
            for role in (held.standby, held.warmup):
                for task in each_task(role):
                    self._release_copy(task, member.process_id)

    def _release_copy(self, task: Task, process_id: str) -> None:
        counts = self.copy_owners.get(task)
        if counts is None:
            return
        counts[process_id] -= 1
        if counts[process_id] <= 0:
            del counts[process_id]
        if not counts:
            del self.copy_owners[task]

    # Offsets.

    def committer(self, message: "OffsetCommitRequest", version: int) -> None:
        """Pass a commit that may be kept. Raises: ApiError (Kafka: StreamsGroup.validateOffsetCommit).

        Whoever has a task may commit for it from the epoch on in which it got it (KIP-1251).
        """
        epoch = message.generation_id_or_member_epoch
        if epoch < 0 and not self.streams_members:
            return
        member = self.streams_member(message.member_id)
        if version < VERSION_OF_MEMBER_EPOCHS:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the streams group protocol",
            )
        places = ((topic.name, each.partition_index) for topic in message.topics for each in topic.partitions)
        if not self._may_commit(member, epoch, places):
            raise _stale(epoch, member.epoch)

    def _may_commit(self, member: StreamsMember, epoch: int, places: Iterable[tuple[str, int]]) -> bool:
        """Return whether the member may commit for these partitions, in its epoch or an earlier one."""
        return epoch == member.epoch or (
            epoch < member.epoch
            and all(self._has_since(member, topic, partition, epoch) for topic, partition in places)
        )

    def _has_since(self, member: StreamsMember, topic: str, partition: int, epoch: int) -> bool:
        """Return whether the member ran the task that reads the partition in that earlier epoch already."""
        subtopologies = () if self.topology is None else self.topology.subtopologies
        for subtopology in subtopologies:
            if topic in subtopology.inputs:
                for held in (member.assigned, member.revoking):
                    since = held.active.get(subtopology.subtopology_id, {}).get(partition)
                    if since is not None and epoch >= since:
                        return True
        return False

    def check_transactional(self, message: "TxnOffsetCommitRequest") -> None:
        """Pass a transaction's commit, as any other. Raises: ApiError."""
        epoch = message.generation_id_or_member_epoch
        member = self.streams_member(message.member_id)
        places = ((topic.name, each.partition_index) for topic in message.topics for each in topic.partitions)
        if not self._may_commit(member, epoch, places):
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)

    def check_fetch(self, asked: "OffsetFetchRequestGroup") -> None:
        """Pass a fetch that may be answered. Raises: ApiError (Kafka: StreamsGroup.validateOffsetFetch)."""
        if asked.member_id is None and asked.member_epoch < 0:
            return
        member = self.streams_member(asked.member_id or "")
        if asked.member_epoch != member.epoch:
            raise _stale(asked.member_epoch, member.epoch)


def _stale(received: int, expected: int) -> ApiError:
    return ApiError(
        ErrorCode.STALE_MEMBER_EPOCH,
        f"The received member epoch {received} does not match the expected member epoch {expected}.",
    )
