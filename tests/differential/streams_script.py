"""Scripts for streams groups (KIP-1071): members that come, go, disagree and lie, by seed.

After every step the group is described, and has to stand as it stood on Apache Kafka. Two members at most
play, and it is compared how many tasks each has, not which, so that the numbers do not depend on how ties
fall. A member says what the broker at hand has told it. When to come again is not compared:
docs/compatibility.md says what kohort shortens. Where topics have to be made, the script goes on once they
are there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random

import trio

from kohort.broker.group.streams.tasks import Task
from kohort.broker.group.streams.test_world import application, subtopology, task_ids, topic
from kohort.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from kohort.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kohort.protocol.messages.list_groups import ListGroupsRequest
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kohort.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from kohort.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatEndpoint,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatTaskIds,
    StreamsGroupHeartbeatTopology,
)
from kohort.protocol.schema import Message
from tests.differential.told import Ask, Peer, Rendered, Told

TOPICS = {"t": 4, "u": 2}
JOINING, LEAVING, AWAY = 0, -1, -2
REBALANCE_MS = 300_000
NEVER = 404
FENCED = {110, 25, 82}
MISSING_INTERNAL_TOPICS = 3
GROUP = 32
"""The type of a group as something that has settings."""
PATIENCE_S, AGAIN_S = 30.0, 0.05
NOTHING: Mapping[str, object] = {}
STANDBYS = "streams.num.standby.replicas"

Topologies = Callable[[str], StreamsGroupHeartbeatTopology]


def _counts(group_id: str, epoch: int = 0) -> StreamsGroupHeartbeatTopology:
    """Read `t`, send it on through a topic of the application's, and count."""
    repartition, changelog = f"{group_id}-r", f"{group_id}-c"
    return application(
        subtopology("0", "t", sinks=[repartition]),
        subtopology("1", repartition=[topic(repartition)], changelogs=[changelog]),
        epoch=epoch,
    )


TOPOLOGIES: dict[str, Topologies] = {
    "counts": _counts,
    "copies": lambda _group_id: application(subtopology("0", "t")),
    "keeps": lambda group_id: application(subtopology("0", "t", changelogs=[f"{group_id}-c"])),
    "joins": lambda _group_id: application(subtopology("0", "t", "u", copartition=[((0, 1), ())])),
    "counts in a later epoch": lambda group_id: _counts(group_id, 1),
    "reads what is not there": lambda _group_id: application(subtopology("0", "nowhere", "neither")),
    "reads Kafka's own": lambda _group_id: application(subtopology("0", "__consumer_offsets")),
    "reads what can't be": lambda _group_id: application(subtopology("0", "not a name", "t")),
    "reads nothing": lambda group_id: application(subtopology("0", changelogs=[f"{group_id}-c"])),
    "reads from nobody": lambda group_id: application(subtopology("0", repartition=[topic(f"{group_id}-r")])),
}


@dataclass
class Member:
    """A member as its own process sees it."""

    member_id: str
    process_id: str
    epoch: int = JOINING
    endpoint_epoch: int = -1


class StreamsScript:
    """One script; `play` asks all of it."""

    def __init__(self, seed: int, told: Told) -> None:
        self._random = random = Random(f"streams group {seed}")
        self._told = told
        self._has_standbys = random.random() < 0.3
        # Which of the tasks keep something is a matter of ties: with standbys all do.
        topologies = ("counts", "counts", "counts", "keeps", "copies", "joins")
        self._topology = "keeps" if self._has_standbys else random.choice(topologies)
        one_process = random.random() < 0.2
        self._members = [
            Member(name, "process" if one_process else f"process-{name}") for name in ("a", "b")
        ][: random.choice((1, 2, 2, 2))]
        self._has_endpoints = random.random() < 0.4
        self._steps = random.randint(12, 30)

    async def play(self) -> None:
        """Ask everything. Raises: Differs."""
        if self._has_standbys:
            await self._configure("1")
        for _ in range(self._steps):
            await self._step()
            await self._look()

    async def _step(self) -> None:
        random = self._random
        member = random.choice(self._members)
        chance = random.random()
        if chance < 0.25:
            return await self._aside()
        if member.epoch == JOINING or chance < 0.32:
            return await self._join(member)
        if chance < 0.88:
            return await self._live(member, self._beat(member, tells=random.random() < 0.7))
        return await self._leave(member)

    # -- a member's words ---------------------------------------------------------------------------------

    async def _join(self, member: Member) -> None:
        name = self._topology
        if self._random.random() < 0.15:
            name = self._random.choice([*TOPOLOGIES])
        ask = self._beat(member, epoch=JOINING, topology=name, tells=True, forgets=True)
        await self._live(member, ask)

    async def _leave(self, member: Member) -> None:
        answer = await self._told.ask(self._beat(member, epoch=LEAVING))
        if not answer["error_code"]:
            member.epoch, member.endpoint_epoch = JOINING, -1

    async def _live(self, member: Member, ask: Ask) -> None:
        answer = await self._told.ask(ask)
        if not answer["error_code"]:
            member.epoch, member.endpoint_epoch = (
                answer["member_epoch"],
                answer["endpoint_information_epoch"],
            )
            if any(each["status_code"] == MISSING_INTERNAL_TOPICS for each in answer["status"] or ()):
                await self._topics_made(member)
        elif answer["error_code"] in FENCED:
            member.epoch, member.endpoint_epoch = JOINING, -1

    def _beat(
        self,
        member: Member,
        *,
        epoch: int | None = None,
        topology: str | None = None,
        tells: bool = False,
        forgets: bool = False,
        wrong: Mapping[str, object] = NOTHING,
    ) -> Ask:
        """Return a heartbeat; who `tells` says which tasks it has, who `forgets` that it has none."""
        said_epoch, endpoint_epoch = member.epoch if epoch is None else epoch, member.endpoint_epoch
        joins = topology is not None
        endpoint = None
        if joins and self._has_endpoints:
            endpoint = StreamsGroupHeartbeatEndpoint(host=f"host-{member.member_id}", port=80)

        def build(peer: Peer) -> Message:
            has = {} if forgets else peer.given.get(member.member_id, {})
            said: dict[str, object] = {}
            if tells:
                said = {
                    "active_tasks": _ids(has, "active"),
                    "standby_tasks": _ids(has, "standby"),
                    "warmup_tasks": (),
                }
            if topology is not None:
                said |= {
                    "topology": TOPOLOGIES[topology](peer.group_id),
                    "rebalance_timeout_ms": REBALANCE_MS,
                    "process_id": member.process_id,
                    "user_endpoint": endpoint,
                }
            who = {"group_id": peer.group_id, "member_id": member.member_id, "member_epoch": said_epoch}
            fields = {**who, "endpoint_information_epoch": endpoint_epoch, **said, **wrong}
            return StreamsGroupHeartbeatRequest(**fields)  # type: ignore[arg-type]  # They are its fields.

        def learn(peer: Peer, answer: Message) -> None:
            assert isinstance(answer, StreamsGroupHeartbeatResponse)
            if answer.error_code in FENCED or said_epoch < 0:
                peer.given.pop(member.member_id, None)
            elif answer.active_tasks is not None:
                kinds = (("active", answer.active_tasks), ("standby", answer.standby_tasks or ()))
                peer.given[member.member_id] = {
                    f"{kind} {each.subtopology_id}": each.partitions for kind, ids in kinds for each in ids
                }

        text = (
            f"heartbeat of {member.member_id} in {said_epoch} {topology=} {tells=} {forgets=} {wrong or ''}"
        )
        return Ask("StreamsGroupHeartbeat", 0, build, text, "streams", learn, _heard)

    async def _topics_made(self, member: Member) -> None:
        """Return once the group has the topics that are being made for it, and has taken notice."""
        with trio.move_on_after(PATIENCE_S):
            while await self._state() == "NotReady":
                ask = self._beat(member)
                answer = await self._say(ask)
                assert isinstance(answer, StreamsGroupHeartbeatResponse)
                ask.learn(self._told.peer, answer)
                if not answer.error_code:
                    member.epoch = answer.member_epoch
                    member.endpoint_epoch = answer.endpoint_information_epoch
                await trio.sleep(AGAIN_S)

    async def _state(self) -> str:
        answer = await self._say(self._described())
        assert isinstance(answer, StreamsGroupDescribeResponse)
        return answer.groups[0].group_state

    async def _say(self, ask: Ask) -> Message:
        """Return an answer that nobody compares: how often it is asked for is a matter of time."""
        peer = self._told.peer
        return await peer.ask(ask.name, ask.version, ask.build(peer), ask.client_id)

    # -- beside it ----------------------------------------------------------------------------------------

    async def _aside(self) -> None:
        choices: list[Callable[[], Awaitable[object]]] = [
            self._go_wrong,
            self._go_wrong,
            self._go_wrong,
            self._commit,
            self._fetch,
            self._list,
            self._delete,
            self._as_another_kind,
        ]
        if self._has_standbys:
            choices.append(lambda: self._configure(self._random.choice("012")))
        await self._random.choice(choices)()

    async def _go_wrong(self) -> None:
        """Say something that is refused."""
        member = self._random.choice(self._members)
        wrong: tuple[dict[str, object], ...] = (
            {"member_epoch": NEVER},
            {"member_epoch": AWAY},
            {"member_epoch": -3},
            {"member_epoch": JOINING, "rebalance_timeout_ms": 5},
            {"member_id": ""},
            {"group_id": ""},
            {"group_id": "nobody's group", "member_epoch": 1},
            {"member_id": "stranger", "member_epoch": 1},
            {"member_id": "stranger", "member_epoch": LEAVING},
            {"instance_id": "i"},
            {"rack_id": ""},
            {"active_tasks": ()},
            {"topology": _counts("nobody")},
            {"task_offsets": ()},
            {"process_id": ""},
            {"active_tasks": task_ids([Task("0", 9)]), "standby_tasks": (), "warmup_tasks": ()},
            {"active_tasks": task_ids([Task("7", 0)]), "standby_tasks": (), "warmup_tasks": ()},
        )
        said = self._random.choice(wrong)
        ask = self._beat(member, epoch=max(member.epoch, 1), wrong=said)
        answer = await self._told.ask(ask)
        if answer["error_code"] in FENCED and "member_id" not in said and "group_id" not in said:
            member.epoch, member.endpoint_epoch = JOINING, -1

    async def _commit(self) -> None:
        random = self._random
        member = random.choice(self._members)
        epoch = random.choice((member.epoch, member.epoch, member.epoch - 1, member.epoch + 1, -1))
        asked = random.choice((member.member_id, member.member_id, "", "stranger"))
        version, index = random.randint(8, 9), random.randint(0, 2)

        def build(peer: Peer) -> Message:
            partition = OffsetCommitRequestPartition(
                partition_index=index, committed_offset=index, committed_metadata=None
            )
            topics = (OffsetCommitRequestTopic(name="t", partitions=(partition,)),)
            return OffsetCommitRequest(
                group_id=peer.group_id,
                generation_id_or_member_epoch=epoch,
                member_id=asked,
                topics=topics,
            )

        await self._told.ask(Ask("OffsetCommit", version, build, f"commit t-{index} of {asked!r} in {epoch}"))

    async def _fetch(self) -> None:
        random = self._random
        member = random.choice(self._members)
        epoch = random.choice((member.epoch, member.epoch, -1, member.epoch + 1))
        asked = random.choice((member.member_id, member.member_id, None, "stranger"))

        def build(peer: Peer) -> Message:
            topics = (OffsetFetchRequestTopics(name="t", partition_indexes=(0, 1, 2)),)
            group = OffsetFetchRequestGroup(
                group_id=peer.group_id, member_id=asked, member_epoch=epoch, topics=topics
            )
            return OffsetFetchRequest(groups=(group,), require_stable=False)

        await self._told.ask(Ask("OffsetFetch", 9, build, f"fetch offsets of {asked!r} in {epoch}"))

    async def _list(self) -> None:
        states = self._random.choice(
            ((), ("Stable",), ("notready",), ("NOT_READY",), ("RECONCILING",), ("Empty",))
        )
        types = self._random.choice(((), ("streams",), ("Streams",), ("consumer",)))
        message = ListGroupsRequest(states_filter=states, types_filter=types)
        await self._told.ask(Ask("ListGroups", 5, lambda _peer: message, f"list {states} {types}"))

    async def _delete(self) -> None:
        is_empty = all(each.epoch == JOINING for each in self._members)
        if is_empty and self._random.random() < 0.5:
            return  # It may stay, so that its epoch goes on.

        def build(peer: Peer) -> Message:
            return DeleteGroupsRequest(groups_names=(peer.group_id,))

        await self._told.ask(Ask("DeleteGroups", 2, build, "delete"))

    async def _configure(self, standbys: str) -> None:
        def build(peer: Peer) -> Message:
            config = IncrementalAlterConfigsRequestAlterableConfig(
                name=STANDBYS, config_operation=0, value=standbys
            )
            resource = IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=GROUP, resource_name=peer.group_id, configs=(config,)
            )
            return IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)

        def configured(peer: Peer) -> Message:
            asked = DescribeConfigsResource(
                resource_type=GROUP, resource_name=peer.group_id, configuration_keys=(STANDBYS,)
            )
            return DescribeConfigsRequest(resources=(asked,))

        await self._told.ask(Ask("IncrementalAlterConfigs", 1, build, f"{STANDBYS}={standbys}"))
        # It is asked for until it is there and stays, and so has come to where groups are kept.
        with trio.move_on_after(PATIENCE_S):
            while not _is_set(await self._say(Ask("DescribeConfigs", 4, configured, "")), standbys):
                await trio.sleep(AGAIN_S)
        await self._told.ask(
            Ask("DescribeConfigs", 4, configured, f"look at {STANDBYS}", mask=_value, settles=True)
        )

    async def _as_another_kind(self) -> None:
        """Ask of a streams group what is asked of other kinds."""
        if all(each.epoch == JOINING for each in self._members):
            return  # It would become a group of that kind.

        def consumer(peer: Peer) -> Message:
            return ConsumerGroupHeartbeatRequest(
                group_id=peer.group_id,
                member_id="stranger",
                member_epoch=JOINING,
                rebalance_timeout_ms=REBALANCE_MS,
                subscribed_topic_names=("t",),
                topic_partitions=(),
            )

        def described(peer: Peer) -> Message:
            return ConsumerGroupDescribeRequest(
                group_ids=(peer.group_id,), include_authorized_operations=False
            )

        def classic(peer: Peer) -> Message:
            return HeartbeatRequest(
                group_id=peer.group_id, generation_id=1, member_id="a", group_instance_id=None
            )

        def describe(peer: Peer) -> Message:
            return DescribeGroupsRequest(groups=(peer.group_id,), include_authorized_operations=False)

        name, version, build = self._random.choice(
            (
                ("ConsumerGroupHeartbeat", 1, consumer),
                ("ConsumerGroupDescribe", 1, described),
                ("Heartbeat", 4, classic),
                ("DescribeGroups", 6, describe),
            )
        )
        await self._told.ask(Ask(name, version, build, f"{name} of a streams group"))

    async def _look(self) -> None:
        """Have the group described."""
        await self._told.ask(self._described())

    def _described(self) -> Ask:
        def build(peer: Peer) -> Message:
            return StreamsGroupDescribeRequest(group_ids=(peer.group_id,), include_authorized_operations=True)

        return Ask("StreamsGroupDescribe", 0, build, "describe", mask=_seen)


def _ids(has: dict[str, tuple[int, ...]], kind: str) -> tuple[StreamsGroupHeartbeatTaskIds, ...]:
    tasks = [
        Task(key.partition(" ")[2], each)
        for key, indexes in has.items()
        if key.startswith(kind)
        for each in indexes
    ]
    return task_ids(tasks)


def _heard(answer: Rendered) -> Rendered:
    """Return what is compared of a heartbeat's answer."""
    endpoints = answer["partitions_by_user_endpoint"]
    statuses = answer["status"]
    return {
        **answer,
        "heartbeat_interval_ms": None,
        "status": None if statuses is None else sorted(map(_in_order, statuses), key=str),
        **{f"{kind}_tasks": _count(answer[f"{kind}_tasks"]) for kind in ("active", "standby", "warmup")},
        "partitions_by_user_endpoint": None
        if endpoints is None
        else sorted(
            [each["user_endpoint"]["host"], sum(len(part["partitions"]) for part in each[kind])]
            for each in endpoints
            for kind in ("active_partitions", "standby_partitions")
        ),
    }


def _in_order(status: Rendered) -> Rendered:
    """Return a status with the topics that it names in order: Kafka has them in a hash table's."""
    head, colon, names = status["status_detail"].partition("Internal topics are missing: ")
    return {**status, "status_detail": head + colon + ", ".join(sorted(names.split(", ")))}


def _is_set(answer: Message, value: str) -> bool:
    assert isinstance(answer, DescribeConfigsResponse)
    return any(each.value == value for each in answer.results[0].configs)


def _value(answer: Rendered) -> Rendered:
    """Return what the only setting is set to."""
    return {"values": [each["value"] for each in answer["results"][0]["configs"]]}


def _count(ids: Iterable[Rendered] | None) -> int | None:
    """Return how many tasks there are."""
    return None if ids is None else sum(len(each["partitions"]) for each in ids)


def _seen(answer: Rendered) -> Rendered:
    """Return what is compared of a description."""
    (group,) = answer["groups"]
    members = [
        {
            **member,
            **{
                which: {kind: _count(ids) for kind, ids in member[which].items()}
                for which in ("assignment", "target_assignment")
            },
        }
        for member in group["members"]
    ]
    return {**group, "members": members}
