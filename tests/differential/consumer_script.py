"""Scripts for consumer groups (KIP-848): members that come, go, change their minds and lie, by seed.

After every step the group is described, and has to stand as it stood on Apache Kafka. Where the assignor of
the script is `uniform`, it is compared how many partitions each member has, not which: then the script lets
the group come to rest before it changes, so that the numbers are the same whichever partitions move.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from string import ascii_uppercase

from kohort.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.messages.list_groups import ListGroupsRequest
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
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kohort.protocol.messages.sync_group import SyncGroupRequest
from kohort.protocol.schema import Message
from tests.differential.told import Ask, Peer, Rendered, Told

TOPICS = {"alpha": 3, "beta": 2, "gamma": 1, "dozen": 12}
REBALANCE_MS = 300_000
JOINING, LEAVING, AWAY = 0, -1, -2
MEMBERS_MAX = 5
HASH_TABLE = 16
"""How many buckets a small HashMap of Java has."""
REGEXES = ("al.*|be.*", "[ab].*", "gam+a", "nothing", "dozen|alpha", "(unclosed", "*")
FENCED = {110, 25, 82}


def java_bucket(text: str) -> int:
    """Return where a small HashMap of Java keeps a string."""
    code = 0
    for each in text:
        code = (31 * code + ord(each)) & 0xFFFFFFFF
    return (code ^ (code >> 16)) % HASH_TABLE


def member_ids(random: Random, count: int) -> list[str]:
    """Return ids whose order is the one in which Java walks over them: it breaks ties between members."""
    ids = []
    for place, bucket in enumerate(sorted(random.sample(range(HASH_TABLE), count))):
        while True:
            rest = base64.urlsafe_b64encode(random.randbytes(15)).decode()
            member_id = f"{ascii_uppercase[place]}{rest}"
            if java_bucket(member_id) == bucket:
                break
        ids.append(member_id)
    return ids


@dataclass
class Member:
    """A member as its own process sees it."""

    member_id: str
    client_id: str
    topics: list[str]
    regex: str | None = None
    assignor: str | None = None
    instance_id: str | None = None
    epoch: int = JOINING
    is_in: bool = False
    owned: dict[str, tuple[int, ...]] | None = None
    """What it has confirmed, as Kafka gave it; on the other broker it confirms what that one gave."""


def heartbeat(
    version: int,
    member: Member,
    epoch: int,
    *,
    group_id: str | None = None,
    member_id: str | None = None,
    instance_id: str | None = None,
    says: str = "nothing",
    rebalance_ms: int = -1,
    wish: bool = False,
    assignor: str | None = None,
    topics: list[str] | None = None,
    regex: str | None = None,
) -> Ask:
    """Return a heartbeat. `says` what the member has: nothing, `none`, what was `given`, or `strange`."""
    asked_id = member.member_id if member_id is None else member_id

    def build(peer: Peer) -> Message:
        given = peer.given.get(asked_id, {})
        owned: tuple[ConsumerGroupHeartbeatTopicPartitions, ...] | None
        if says == "nothing":
            owned = None
        elif says == "strange":
            owned = (ConsumerGroupHeartbeatTopicPartitions(topic_id=peer.topic_id("gamma"), partitions=(7,)),)
        elif says == "none":
            owned = ()
        else:
            owned = tuple(
                ConsumerGroupHeartbeatTopicPartitions(topic_id=peer.topic_id(name), partitions=indexes)
                for name, indexes in sorted(given.items())
            )
        return ConsumerGroupHeartbeatRequest(
            group_id=peer.group_id if group_id is None else group_id,
            member_id=asked_id,
            member_epoch=epoch,
            instance_id=instance_id,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=tuple(member.topics if topics is None else topics) if wish else None,
            subscribed_topic_regex=regex if version >= 1 else None,
            server_assignor=assignor,
            topic_partitions=owned,
        )

    def learn(peer: Peer, answer: Message) -> None:
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        if answer.error_code in FENCED or epoch < 0:
            peer.given.pop(asked_id, None)
        elif answer.assignment is not None:
            peer.given[asked_id] = {
                str(peer.plain(each.topic_id)): each.partitions for each in answer.assignment.topic_partitions
            }

    text = (
        f"heartbeat of {asked_id} in {epoch} instance={instance_id} says={says} "
        f"topics={member.topics if topics is None and wish else topics} regex={regex} by={assignor} "
        f"timeout={rebalance_ms} group={group_id}"
    )
    return Ask("ConsumerGroupHeartbeat", version, build, text, member.client_id, learn)


def _counted(answer: Rendered) -> Rendered:
    """Return an answer in which assignments say how many partitions there are of each topic."""
    if isinstance(answer, dict):
        return {
            key: len(value) if key == "partitions" and "topic_id" in answer else _counted(value)
            for key, value in answer.items()
        }
    return [_counted(each) for each in answer] if isinstance(answer, list) else answer


class ConsumerScript:
    """One script; `play` asks all of it."""

    def __init__(self, seed: int, told: Told) -> None:
        self._random = random = Random(f"consumer group {seed}")
        self._told = told
        self.style = random.choice(("range", "range", "range", "static", "uniform"))
        self._assignor = "uniform" if self.style == "uniform" else "range"
        ids = member_ids(random, MEMBERS_MAX * 2 if self.style == "static" else MEMBERS_MAX)
        self._spare = ids[MEMBERS_MAX:]
        count = random.choice((1, 2, 3, 3, 4)) if self.style == "uniform" else random.randint(1, MEMBERS_MAX)
        self._members = [self._member(number, ids[number]) for number in range(count)]
        self._steps = random.randint(12, 30)

    async def play(self) -> None:
        """Ask everything. Raises: Differs."""
        for _ in range(self._steps):
            await self._step()
            await self._look()
            if self.style == "uniform":
                await self._rest()

    # -- steps --------------------------------------------------------------------------------------------

    async def _step(self) -> None:
        random = self._random
        inside = [each for each in self._members if each.is_in]
        outside = [each for each in self._members if not each.is_in]
        if outside and (not inside or random.random() < 0.25):
            return await self._join(random.choice(outside))
        if not inside or random.random() < 0.35:
            return await self._aside()
        member = random.choice(inside)
        chance = random.random()
        if chance < 0.12:
            return await self._leave(member)
        if chance < 0.22 and self.style != "uniform":
            return await self._change(member)
        if chance < 0.30:
            return await self._join(member)  # It lost the answer to its join, or has started anew.
        return await self._beat(member)

    async def _join(self, member: Member) -> None:
        instance_id = member.instance_id
        if instance_id is not None and self._random.random() < 0.3 and self._spare:
            member.member_id = self._spare.pop(0)  # Its process has started anew.
        version = self._version(member)
        await self._live(
            member,
            heartbeat(
                version,
                member,
                JOINING,
                instance_id=instance_id,
                says="none",
                rebalance_ms=REBALANCE_MS,
                wish=member.regex is None or bool(member.topics),
                assignor=member.assignor,
                regex=member.regex,
            ),
        )

    async def _beat(self, member: Member, says: str | None = None) -> None:
        chosen = says or self._random.choice(("nothing", "nothing", "given", "given", "given", "full"))
        if chosen == "full":
            ask = heartbeat(
                self._version(member),
                member,
                member.epoch,
                instance_id=member.instance_id,
                says="given",
                rebalance_ms=REBALANCE_MS,
                wish=member.regex is None or bool(member.topics),
                assignor=member.assignor,
                regex=member.regex,
            )
        else:
            ask = heartbeat(
                self._version(member),
                member,
                member.epoch,
                instance_id=member.instance_id,
                says=chosen,
            )
        await self._live(member, ask)

    async def _change(self, member: Member) -> None:
        if member.regex is not None and self._random.random() < 0.7:
            member.regex = self._random.choice(REGEXES[:5])
            ask = heartbeat(1, member, member.epoch, instance_id=member.instance_id, regex=member.regex)
        else:
            member.topics = self._topics()
            ask = heartbeat(
                self._version(member), member, member.epoch, instance_id=member.instance_id, wish=True
            )
        await self._live(member, ask)

    async def _leave(self, member: Member) -> None:
        epoch = LEAVING
        if member.instance_id is not None and self._random.random() < 0.6:
            epoch = AWAY
        ask = heartbeat(self._version(member), member, epoch, instance_id=member.instance_id)
        answer = await self._ask(ask)
        if answer["error_code"] == 0:
            member.is_in, member.epoch = False, JOINING

    async def _live(self, member: Member, ask: Ask) -> None:
        answer = await self._ask(ask)
        if answer["error_code"] == 0:
            member.is_in, member.epoch = True, answer["member_epoch"]
        elif answer["error_code"] in FENCED:
            member.is_in, member.epoch = False, JOINING

    async def _rest(self) -> None:
        """Let every member confirm what it was given, until nothing changes any more."""
        for _ in range(4):
            for member in self._members:
                if member.is_in:
                    await self._beat(member, "given")
        await self._look()

    # -- beside it ----------------------------------------------------------------------------------------

    async def _aside(self) -> None:
        choices: list[Callable[[], Awaitable[None]]] = [
            self._lie,
            self._lie,
            self._lie,
            self._malformed,
            self._commit,
            self._commit,
            self._fetch,
            self._fetch,
            self._list,
            self._describe_others,
            self._delete_offsets,
            self._delete,
            self._as_classic,
        ]
        await self._random.choice(choices)()

    async def _lie(self) -> None:
        random = self._random
        member = random.choice(self._members)
        epoch = random.choice((member.epoch, member.epoch + 1, member.epoch - 1, 0, 99, 2**31 - 1))
        asked = random.choice((member.member_id, "stranger", member.member_id))
        instance_id = random.choice((member.instance_id, member.instance_id, "unknown", "static-0"))
        if epoch == JOINING and self.style == "uniform":
            epoch = 99
        if (epoch, asked) == (JOINING, "stranger") or (epoch == JOINING and not member.is_in):
            epoch = 7  # Else it would be in earnest.
        if epoch < 0:
            epoch = 3
        says = random.choice(("nothing", "given", "strange"))
        ask = heartbeat(
            self._version(member), member, epoch, member_id=asked, instance_id=instance_id, says=says
        )
        answer = await self._ask(ask)
        if answer["error_code"] == 0 and asked == member.member_id:
            member.epoch = answer["member_epoch"]

    async def _malformed(self) -> None:
        random = self._random
        member = random.choice(self._members)
        version = self._version(member)
        wrong = random.choice(
            (
                heartbeat(version, member, 1, group_id=""),
                heartbeat(version, member, -3),
                heartbeat(version, member, AWAY),
                heartbeat(version, member, 0, says="none", wish=True),
                heartbeat(version, member, 0, says="none", wish=True, rebalance_ms=0),
                heartbeat(version, member, 0, says="given", wish=True, rebalance_ms=1000, topics=[""]),
                heartbeat(version, member, 0, says="strange", wish=True, rebalance_ms=1000),
                heartbeat(version, member, 0, says="none", rebalance_ms=1000),
                heartbeat(version, member, 0, wish=True, rebalance_ms=1000),
                heartbeat(version, member, 0, says="none", wish=True, rebalance_ms=1000, assignor="odd"),
                heartbeat(version, member, 1, assignor="odd"),
                heartbeat(version, member, 1, instance_id=""),
                heartbeat(version, member, 1, member_id=""),
                heartbeat(1, member, 0, member_id="", says="none", wish=True, rebalance_ms=1000),
                heartbeat(1, member, 0, says="none", rebalance_ms=1000, regex="(unclosed"),
                heartbeat(1, member, max(member.epoch, 1), regex="*"),
                heartbeat(version, member, LEAVING, member_id="stranger"),
                heartbeat(version, member, LEAVING, instance_id="unknown"),
                heartbeat(version, member, 1, group_id="nobody's group"),
                heartbeat(version, member, LEAVING, group_id="nobody's group"),
            )
        )
        await self._ask(wrong)

    async def _commit(self) -> None:
        random = self._random
        member = random.choice(self._members)
        epoch = random.choice((member.epoch, member.epoch, member.epoch - 1, member.epoch + 1, -1, 0))
        asked = random.choice((member.member_id, member.member_id, member.member_id, "", "stranger"))
        instance_id = random.choice((member.instance_id, None, "unknown"))
        version = random.randint(7 if instance_id else 2, 10)
        topic, index = self._partition()
        offset = random.randint(0, 99)

        def build(peer: Peer) -> Message:
            partition = OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=offset,
                committed_leader_epoch=offset % 3 - 1,
                committed_metadata="here" if offset % 2 else None,
            )
            return OffsetCommitRequest(
                group_id=peer.group_id,
                generation_id_or_member_epoch=epoch,
                member_id=asked,
                group_instance_id=instance_id,
                topics=(
                    OffsetCommitRequestTopic(
                        name=topic if version < 10 else "",
                        topic_id=peer.topic_id(topic),
                        partitions=(partition,),
                    ),
                ),
            )

        text = f"commit {topic}-{index} {offset} of {asked!r} in {epoch} instance={instance_id}"
        await self._ask(Ask("OffsetCommit", version, build, text, member.client_id))

    async def _fetch(self) -> None:
        random = self._random
        member = random.choice(self._members)
        version = random.randint(2, 10)
        epoch = random.choice((member.epoch, member.epoch, -1, 0, member.epoch + 1, member.epoch - 1))
        asked = random.choice((member.member_id, member.member_id, None, "stranger", ""))
        topic, index = self._partition()
        every = random.random() < 0.4
        stable = version >= 7 and random.random() < 0.3

        def build(peer: Peer) -> Message:
            old = OffsetFetchRequestTopic(name=topic, partition_indexes=(index, index + 1))
            new = OffsetFetchRequestTopics(
                name=topic, topic_id=peer.topic_id(topic), partition_indexes=(index, index + 1)
            )
            group = OffsetFetchRequestGroup(
                group_id=peer.group_id,
                member_id=asked,
                member_epoch=epoch,
                topics=None if every else (new,),
            )
            return OffsetFetchRequest(
                group_id=peer.group_id if version < 8 else "",
                topics=(None if every else (old,)) if version < 8 else (),
                groups=(group,) if version >= 8 else (),
                require_stable=stable,
            )

        text = f"fetch offsets of {asked!r} in {epoch}, {'all' if every else f'{topic}-{index}'}"
        await self._ask(Ask("OffsetFetch", version, build, text, member.client_id))

    async def _list(self) -> None:
        random = self._random
        states = random.choice(([], ["Stable"], ["empty"], ["RECONCILING"], ["Assigning"], ["Odd"]))
        types = random.choice(([], [], ["consumer"], ["Consumer"], ["classic"], ["share"], ["odd"]))
        version = random.randint(3, 5)
        message = ListGroupsRequest(
            states_filter=tuple(states) if version >= 4 else (),
            types_filter=tuple(types) if version >= 5 else (),
        )
        await self._ask(Ask("ListGroups", version, lambda _peer: message, f"list {states} {types}"))

    async def _describe_others(self) -> None:
        random = self._random
        groups = random.choice((["nobody's group"], [""], [], ["nobody's group", "nobody's other"]))
        if random.random() < 0.5:
            message: Message = ConsumerGroupDescribeRequest(
                group_ids=tuple(groups), include_authorized_operations=False
            )
            name, version = "ConsumerGroupDescribe", random.randint(0, 1)
        else:
            name, version = "DescribeGroups", random.randint(0, 6)
            message = DescribeGroupsRequest(groups=tuple(groups), include_authorized_operations=False)
        await self._ask(Ask(name, version, lambda _peer: message, f"describe {groups}"))

    async def _delete(self) -> None:
        other = self._random.random() < 0.3
        if self._random.random() < 0.5 and not any(each.is_in for each in self._members):
            return  # An empty group may stay, so that its epoch goes on.

        def build(peer: Peer) -> Message:
            return DeleteGroupsRequest(groups_names=("nobody's group",) if other else (peer.group_id,))

        await self._ask(Ask("DeleteGroups", self._random.randint(0, 2), build, f"delete other={other}"))

    async def _delete_offsets(self) -> None:
        topic, index = self._partition()

        def build(peer: Peer) -> Message:
            partition = OffsetDeleteRequestPartition(partition_index=index)
            asked = OffsetDeleteRequestTopic(name=topic, partitions=(partition,))
            return OffsetDeleteRequest(group_id=peer.group_id, topics=(asked,))

        await self._ask(Ask("OffsetDelete", 0, build, f"delete offsets of {topic}-{index}"))

    async def _as_classic(self) -> None:
        """Ask by the classic protocol of a consumer group: as who is no member there."""
        random = self._random
        member = random.choice(self._members)
        asked = random.choice((member.member_id, "stranger"))
        epoch = max(member.epoch, 1)

        def beat(peer: Peer) -> Message:
            return HeartbeatRequest(
                group_id=peer.group_id, generation_id=epoch, member_id=asked, group_instance_id=None
            )

        def sync(peer: Peer) -> Message:
            return SyncGroupRequest(
                group_id=peer.group_id,
                generation_id=epoch,
                member_id=asked,
                group_instance_id=None,
                protocol_type=None,
                protocol_name=None,
                assignments=(),
            )

        def join(peer: Peer) -> Message:
            return JoinGroupRequest(
                group_id=peer.group_id,
                session_timeout_ms=30_000,
                rebalance_timeout_ms=REBALANCE_MS,
                member_id="stranger",
                group_instance_id=None,
                protocol_type=random_type,
                protocols=(JoinGroupRequestProtocol(name="range", metadata=b"odd"),),
                reason=None,
            )

        def leave(peer: Peer) -> Message:
            gone = MemberIdentity(member_id="stranger", group_instance_id=None, reason=None)
            return LeaveGroupRequest(group_id=peer.group_id, member_id="", members=(gone,))

        def describe(peer: Peer) -> Message:
            return DescribeGroupsRequest(groups=(peer.group_id,), include_authorized_operations=False)

        random_type = random.choice(("connect", "consumer"))
        name, version, build = random.choice(
            (
                ("Heartbeat", 4, beat),
                ("SyncGroup", 5, sync),
                ("JoinGroup", 9, join),
                ("LeaveGroup", 5, leave),
                ("DescribeGroups", 6, describe),
            )
        )
        if name == "JoinGroup" and not any(each.is_in for each in self._members):
            return  # It would make a classic group.
        await self._ask(Ask(name, version, build, f"{name} by the classic protocol as {asked}"))

    # -- odds and ends ------------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Have the group described."""

        def build(peer: Peer) -> Message:
            return ConsumerGroupDescribeRequest(
                group_ids=(peer.group_id,), include_authorized_operations=False
            )

        version = self._random.randint(0, 1)
        # Apache Kafka resolves expressions beside the requests, and makes the next epoch when it is done.
        settles = self.style == "regex"
        await self._ask(Ask("ConsumerGroupDescribe", version, build, "describe", settles=settles))

    async def _ask(self, ask: Ask) -> Rendered:
        if self.style == "uniform":
            ask.mask = _counted
        return await self._told.ask(ask)

    def _member(self, number: int, member_id: str) -> Member:
        random = self._random
        member = Member(member_id, f"client-{number}", self._topics(), assignor=self._assignor)
        if self.style == "static" and random.random() < 0.7:
            member.instance_id = f"static-{number}"
        if self.style == "regex" and random.random() < 0.7:
            member.regex = random.choice(REGEXES[:5])
            if random.random() < 0.7:
                member.topics = []
        return member

    def _topics(self) -> list[str]:
        if self.style == "uniform":
            return ["dozen"]
        names = ("alpha", "alpha", "beta", "gamma", "dozen", "nowhere")
        return sorted(set(self._random.sample(names, self._random.choice((1, 1, 2, 3)))))

    def _partition(self) -> tuple[str, int]:
        topic = self._random.choice(("alpha", "beta", "gamma", "nowhere"))
        return topic, self._random.randint(0, TOPICS.get(topic, 1))

    def _version(self, member: Member) -> int:
        return 1 if member.regex is not None else self._random.randint(0, 1)
