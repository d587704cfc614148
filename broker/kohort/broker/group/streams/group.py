"""A streams group: its members, its epochs, its topology, and the owners of tasks."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar

from kohort.broker.group.config import GroupConfig
from kohort.broker.group.epochs.group import EpochGroup
from kohort.broker.group.epochs.members import FIRST_EPOCH, VERSION_OF_MEMBER_EPOCHS
from kohort.broker.group.group import STREAMS
from kohort.broker.group.rebalance_facts import Owners
from kohort.broker.group.shard_bytes import ShardBytes
from kohort.broker.group.state import GroupState
from kohort.broker.group.streams.assignor import NAME
from kohort.broker.group.streams.member import StreamsMember
from kohort.broker.group.streams.tasks import NO_TASKS, Task, Tasks, each_task
from kohort.broker.group.streams.topology import Configured, Topology
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.offset_commit import OffsetCommitRequest
from kohort.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from kohort.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

NOT_VALIDATED = -1
"""The epoch of a topology whose topics are not all there, or do not fit."""
FIRST_ENDPOINTS = 0
"""The epoch of endpoints before the first answer: it is not logged, and restarts with each load."""


class StreamsGroup(EpochGroup[StreamsMember, Tasks]):
    """A group as one shard knows it (Kafka: StreamsGroup).

    The group epoch grows with each change of its members, its topology, the topics that it needs or its
    settings; the target assignment is made for a group epoch; each member comes to the target's epoch by
    itself. All of that is logged, and so is for which epoch of its topology the topics were found to fit.
    Volatile are sessions, values derived from the current topics, and a requested shutdown.
    """

    group_type: ClassVar[str] = STREAMS
    logged: ClassVar[tuple[str, ...]] = (
        *EpochGroup.logged,
        "description_epochs",
        "last_configs",
        "topology",
        "validated_topology_epoch",
    )

    __slots__ = (
        "active_owners",
        "configured",
        "copy_owners",
        "delayed_until_ms",
        "description_epochs",
        "endpoint_epoch",
        "last_configs",
        "shutdown_member_id",
        "topology",
        "topology_bytes",
        "validated_topology_epoch",
    )

    def __init__(self, group_id: str, shard_bytes: ShardBytes | None = None) -> None:
        super().__init__(group_id, shard_bytes)
        self.assignment_epoch = FIRST_EPOCH  # Nothing is assigned: members that wait for others are in it.
        self.validated_topology_epoch = NOT_VALIDATED
        self.last_configs: Mapping[str, str] = {}
        self.description_epochs: tuple[int, int] = (NOT_VALIDATED, NOT_VALIDATED)
        self.topology: Topology | None = None
        # Derived from logged state:
        self.active_owners: dict[Task, str] = {}  # The process that runs a task, or has yet to give it up.
        self.copy_owners: dict[Task, Counter[str]] = {}  # Those that keep a copy of it, likewise.
        self.topology_bytes = 0
        # Volatile:
        self.configured: Configured | None = None  # What follows from the topics of `metadata_version`.
        self.delayed_until_ms: int | None = None  # A new group waits for more members until then.
        self.shutdown_member_id: str | None = None
        self.endpoint_epoch = FIRST_ENDPOINTS

    def owners_of(self, members: Mapping[str, StreamsMember]) -> Owners:
        """Return the owners among these of each task: its subtopology and partition."""
        return {
            (task.subtopology_id, task.partition): member_id
            for member_id, member in members.items()
            for task in each_task(member.assigned.active)
        }

    def assignor_name(self, members: Mapping[str, StreamsMember], config: GroupConfig) -> str:
        """Return the only assignor that there is."""
        return NAME

    def target(self, member_id: str) -> Tasks:
        """Return the member's target assignment."""
        return self.targets.get(member_id, NO_TASKS)

    def active_process(self, task: Task) -> str | None:
        """Return the process of the member that runs the task, or whose revocation of it is pending."""
        return self.active_owners.get(task)

    def copying_processes(self, task: Task) -> Collection[str]:
        """Return the processes with a standby or a warm-up of the task, likewise."""
        return self.copy_owners.get(task, ())

    # Logged state; `replaying` alone calls these.

    def put_topology(self, topology: Topology | None, size_bytes: int) -> None:
        """Set the logged topology, with its approximate size."""
        self._hold(size_bytes - self.topology_bytes)
        self.topology_bytes = size_bytes
        self.topology = topology
        self.refresh()

    def refresh(self) -> None:
        """Derive again the source topics, and the state of the group."""
        super().refresh()
        if self.state is GroupState.EMPTY:
            self.shutdown_member_id = None

    def _topics_read(self) -> frozenset[str]:
        return self.topology.source_topics if self.topology is not None and self.members else frozenset()

    def _state(self) -> GroupState:
        if self.members and (self.topology is None or self.topology.epoch != self.validated_topology_epoch):
            return GroupState.NOT_READY
        return super()._state()

    def _count(self, member: StreamsMember) -> None:
        for held in (member.assigned, member.revoking):
            for task in each_task(held.active):
                self.active_owners[task] = member.process_id
            for role in (held.standby, held.warmup):
                for task in each_task(role):
                    self.copy_owners.setdefault(task, Counter())[member.process_id] += 1

    def _uncount(self, member: StreamsMember) -> None:
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

    def check_commit(self, message: OffsetCommitRequest, version: int, now_ms: int) -> None:
        """Pass a commit that may be kept. Raises: ApiError (Kafka: StreamsGroup.validateOffsetCommit).

        The owner of a task may commit for it from the epoch in which it got it (KIP-1251).
        """
        epoch = message.generation_id_or_member_epoch
        if epoch < 0 and not self.members:
            return
        member = self.member(message.member_id)
        if version < VERSION_OF_MEMBER_EPOCHS:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the streams group protocol",
            )
        partitions = (
            (topic.name, each.partition_index) for topic in message.topics for each in topic.partitions
        )
        if not self._may_commit(member, epoch, partitions):
            raise _stale(epoch, member.epoch)

    def _may_commit(self, member: StreamsMember, epoch: int, partitions: Iterable[tuple[str, int]]) -> bool:
        """Return whether the member may commit for these partitions, in its epoch or an earlier one."""
        return epoch == member.epoch or (
            epoch < member.epoch
            and all(self._has_since(member, topic, partition, epoch) for topic, partition in partitions)
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

    def check_transactional_commit(self, message: TxnOffsetCommitRequest) -> None:
        """Pass a transaction's commit, as any other. Raises: ApiError."""
        epoch = message.generation_id_or_member_epoch
        member = self.member(message.member_id)
        partitions = (
            (topic.name, each.partition_index) for topic in message.topics for each in topic.partitions
        )
        if not self._may_commit(member, epoch, partitions):
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)

    def check_fetch(self, asked: OffsetFetchRequestGroup) -> None:
        """Pass a fetch that may be answered. Raises: ApiError (Kafka: StreamsGroup.validateOffsetFetch)."""
        if asked.member_id is None and asked.member_epoch < 0:
            return
        member = self.member(asked.member_id or "")
        if asked.member_epoch != member.epoch:
            raise _stale(asked.member_epoch, member.epoch)


def _stale(received: int, expected: int) -> ApiError:
    return ApiError(
        ErrorCode.STALE_MEMBER_EPOCH,
        f"The received member epoch {received} does not match the expected member epoch {expected}.",
    )
