"""Who is no member: an administrator who deletes and removes, and consumers that commit without a group.

Neither looks at the answers: the books do.
"""

from collections.abc import Callable
from random import Random

from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from kohort.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import Message
from tests.simulation.member import COMMIT, LEAVE, SPARE_TOPIC, Around, Member
from tests.simulation.network import Host, Link

DELETE_GROUPS = BY_NAME["DeleteGroups"]
OFFSET_DELETE = BY_NAME["OffsetDelete"]
COMMIT_INTERVAL_MS = 15_000
HOLIDAY_MS_MAX = 150_000  # Long enough for offsets to expire.
HOLIDAY = 0.1
MISTAKEN = 0.1  # How often it commits to a group that has members.


class Administrator:
    """Deletes groups and offsets, and removes members, whether that is allowed or not."""

    def __init__(self, world: Around, members: Callable[[], list[Member]], group_ids: list[str]) -> None:
        self._world = world
        self._members = members
        self._group_ids = group_ids
        self._host = Host("admin")
        self._link: Link | None = None

    def delete_group(self) -> bool:
        """Ask for one group's deletion; return whether anybody could be asked."""
        link = self._connected()
        if link is not None:
            self._delete(link, self._random.choice(self._group_ids))
        return link is not None

    def delete_offsets(self) -> bool:
        """Ask for the deletion of a group's offsets of one topic."""
        link = self._connected()
        if link is None:
            return False
        group_id = self._random.choice(self._group_ids)
        counts = self._world.partition_counts()
        topics = sorted(counts)
        if self._random.random() < 0.5:  # One that its members read, if it has any.
            topics = [topic for each in self._members_of(group_id) for topic in each.plan.topics] or topics
        topic = self._random.choice(topics)
        partitions = tuple(
            OffsetDeleteRequestPartition(partition_index=index)
            for index in range(counts[topic])
            if self._random.random() < 0.8
        )
        message = OffsetDeleteRequest(
            group_id=group_id,
            topics=(OffsetDeleteRequestTopic(name=topic, partitions=partitions),),
        )
        link.send(OFFSET_DELETE, 0, message, _ignore)
        return True

    def remove_members(self) -> bool:
        """Ask for some members of a group to be removed at once."""
        link, somebody = self._connected(), self._random.choice(self._members())
        if link is not None:
            some = [each for each in self._members_of(somebody.plan.group_id) if self._random.random() < 0.4]
            self._remove(link, some)
        return link is not None

    def empty_and_delete(self) -> bool:
        """Remove all members of a group, and ask for its deletion before they can come back."""
        link, somebody = self._connected(), self._random.choice(self._members())
        if link is not None:
            self._remove(link, self._members_of(somebody.plan.group_id))
            self._delete(link, somebody.plan.group_id)
        return link is not None

    @property
    def _random(self) -> Random:
        return self._world.random

    def _members_of(self, group_id: str) -> list[Member]:
        return [each for each in self._members() if each.plan.group_id == group_id]

    def _connected(self) -> Link | None:
        if self._link is None or self._link.closed:
            self._link = self._world.connect(self._host, "admin", lambda: None)
        return self._link

    def _delete(self, link: Link, group_id: str) -> None:
        link.send(DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=(group_id,)), _ignore)

    def _remove(self, link: Link, members: list[Member]) -> None:
        """Name static members by their instance, others by the id that they last had."""
        identities = tuple(
            MemberIdentity(
                member_id="" if instance is not None else each.membership.member_id,
                group_instance_id=instance,
                reason="member was removed by admin",
            )
            for each in members
            if (instance := each.membership.settings.group_instance_id) or each.membership.member_id
        )
        if identities:
            group_id = members[0].plan.group_id
            message = LeaveGroupRequest(group_id=group_id, member_id="", members=identities)
            link.send(LEAVE, 5, message, _ignore)


class Loner:
    """A consumer that chose its partitions itself: it commits under no generation and no member id."""

    def __init__(self, world: Around, group_id: str, topic: str, others: list[str]) -> None:
        self._world = world
        self.group_id = group_id
        self._topic = topic
        self._others = others
        self._host = Host(group_id)
        self._link: Link | None = None
        self._waits = False
        self._offset = 0
        self._stopped = False
        self._next(COMMIT_INTERVAL_MS)

    def stop(self) -> None:
        """Commit no more."""
        self._stopped = True

    def _next(self, longest_ms: int) -> None:
        self._world.schedule.after(1 + int(self._world.random.random() * longest_ms), self._commit)

    def _commit(self) -> None:
        if self._stopped:
            return
        dice = self._world.random.random
        self._next(HOLIDAY_MS_MAX if dice() < HOLIDAY else 2 * COMMIT_INTERVAL_MS)
        link = self._connected()
        if link is None:
            return
        self._waits = True
        if dice() < MISTAKEN:
            group_id, topic, offset = self._others[int(dice() * len(self._others))], SPARE_TOPIC, 0
        else:
            self._offset += int(dice() * 5)
            group_id, topic, offset = self.group_id, self._topic, self._offset
        token = self._world.next_token()
        partitions = tuple(
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=token
            )
            for index in range(1 if topic == SPARE_TOPIC else 3)
            if topic == SPARE_TOPIC or dice() < 0.7
        )
        topics = (OffsetCommitRequestTopic(name=topic, partitions=partitions),)
        message = OffsetCommitRequest(group_id=group_id, topics=topics)
        link.send(COMMIT, 9, message, self._answered)

    def _answered(self, _message: Message) -> None:
        self._waits = False

    def _connected(self) -> Link | None:
        """Return a connection on which nothing is under way that could arrive behind what comes next."""
        if self._link is not None and self._waits:
            self._link.die()
            self._link.hang_up()
        if self._link is None or self._link.closed:
            self._waits = False
            self._link = self._world.connect(self._host, self.group_id, lambda: None)
        return self._link


def _ignore(_message: Message) -> None:
    """Leave the answer to the books."""
