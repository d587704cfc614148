"""One broker as a script sees it: connections, who is who there, and what has been answered by now."""

from __future__ import annotations

import re
from collections.abc import Callable
from uuid import UUID

import msgspec
import trio

from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupResponse
from kohort.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kohort.protocol.schema import Message
from tests.differential.wire import Connection

TOPICS = {"alpha": 3, "beta": 2, "gamma": 1}
NO_ID = UUID(int=0)
BARRIERS = 2
DESCRIBE_VERSION = 6
LOOK_EVERY_S = 0.02

Rendered = object
"""An answer in plain values, members under their labels: what can be compared."""

_UNORDERED = {
    "members": "member_id",
    "topics": "name",
    "groups": "group_id",
    "results": "group_id",
    "partitions": "partition_index",
}
_MEMBER_ID = re.compile(r"[\w-]*[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Broker:
    """A broker that serves many scripts: its address, its topics' ids, connections that nobody uses."""

    def __init__(self, name: str, address: tuple[str, int]) -> None:
        self.name = name
        self.address = address
        self.topic_ids: dict[str, UUID] = {}
        self._idle: list[Connection] = []

    async def connection(self) -> Connection:
        """Return a connection on which nothing is under way.

        A new one has been answered once: until a broker has accepted it, others overtake it.
        """
        if self._idle:
            return self._idle.pop()
        connection = Connection(self.address)
        await connection.ask("ApiVersions", 0, ApiVersionsRequest())
        return connection

    def give_back(self, connection: Connection) -> None:
        """Take a connection back on which nothing is under way."""
        self._idle.append(connection)

    def close(self) -> None:
        """Close the connections that nobody uses."""
        for each in self._idle:
            each.close()
        self._idle.clear()

    async def prepare(self) -> None:
        """Create the topics, and the offsets topic; return when every coordinator answers."""
        control = await self.connection()
        topics = tuple(
            CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=(), configs=())
            for name, count in TOPICS.items()
        )
        await control.ask("CreateTopics", 7, CreateTopicsRequest(topics=topics, timeout_ms=30_000))
        while not self.topic_ids:
            found = await control.ask("Metadata", 12, MetadataRequest(topics=None))
            assert isinstance(found, MetadataResponse)
            ids = {each.name: each.topic_id for each in found.topics if each.name in TOPICS}
            complete = {each.name: len(each.partitions) for each in found.topics if each.name in TOPICS}
            if complete == TOPICS:
                self.topic_ids = {str(name): topic_id for name, topic_id in ids.items()}
        await self._wait_for_coordinators(control)
        self.give_back(control)

    async def _wait_for_coordinators(self, control: Connection) -> None:
        keys = tuple(f"probe-{number}" for number in range(200))
        with trio.fail_after(30):
            while True:
                await control.ask("FindCoordinator", 4, FindCoordinatorRequest(coordinator_keys=keys))
                answer = await control.ask("DescribeGroups", 6, DescribeGroupsRequest(groups=keys))
                assert isinstance(answer, DescribeGroupsResponse)
                if {each.error_code for each in answer.groups} == {69}:  # GROUP_ID_NOT_FOUND, each of them.
                    return
                await trio.sleep(LOOK_EVERY_S)


class Side:
    """One broker and one script on it."""

    def __init__(self, broker: Broker, group_id: str, control: Connection) -> None:
        self.broker = broker
        self.group_id = group_id
        self.parked: dict[int, Connection] = {}
        self._control = control
        self._ids: dict[str, str] = {}
        self._labels: dict[str, str] = {}

    # Who is who.

    def member_id(self, label: str) -> str:
        """Return the id that this broker gave to the member of that label; others stand for themselves."""
        return self._ids.get(label, label)

    def topic_id(self, name: str) -> UUID:
        """Return the id that this broker gave to the topic; one that nobody has, for another name."""
        return self.broker.topic_ids.get(name, UUID(int=0xDEAD))

    # Asking.

    async def send(self, number: int, name: str, version: int, message: Message, client_id: str) -> None:
        """Send a request, whose answer may take long."""
        connection = await self.broker.connection()
        connection.send(name, version, message, client_id)
        self.parked[number] = connection

    async def settled(self, number: int, *, may_wait: bool, asked: str = "") -> dict[int, Rendered]:
        """Return the answers that have come, once what was sent has been handled.

        A broker handles the requests of one group in the order of their arrival, and answers in that
        order. So when a heartbeat sent later has been answered, and another after it, then all is here
        that could be answered without waiting for anybody else.
        """
        found: dict[int, Message] = {}
        if not may_wait:
            connection = self.parked.pop(number)
            found[number] = await connection.answer()
            self.broker.give_back(connection)
        if self.parked:
            if may_wait and asked != self.group_id:
                await self.barrier(asked)  # Another group's requests go their own way.
            await self.barrier()
            found.update(self._taken())
        return self.rendered(found)

    async def barrier(self, group_id: str | None = None) -> None:
        """Return when what was sent to the group has been handled, and its answers lie in their sockets."""
        asked = self.group_id if group_id is None else group_id
        stranger = HeartbeatRequest(group_id=asked, generation_id=0, member_id="nobody")
        for _ in range(BARRIERS):
            await self._control.ask("Heartbeat", 3, stranger)
        await self._control.ask("ApiVersions", 0, ApiVersionsRequest())

    async def describe(self) -> Rendered:
        """Return how the group stands."""
        request = DescribeGroupsRequest(groups=(self.group_id,))
        return self._plain(await self._control.ask("DescribeGroups", DESCRIBE_VERSION, request))

    async def wait(
        self, until: Callable[[bool, Rendered], bool], within_s: float
    ) -> dict[int, Rendered] | None:
        """Return the answers that came until the condition held; None if it did not in time.

        The condition sees whether any answer has come, and how the group stands.
        """
        found: dict[int, Message] = {}
        until_s = trio.current_time() + within_s
        while trio.current_time() < until_s:
            found.update(self._taken())
            if until(bool(found), await self.describe()):
                await self.barrier()
                found.update(self._taken())
                return self.rendered(found)
            await trio.sleep(LOOK_EVERY_S)
        return None

    def forget(self, number: int) -> None:
        """Expect no answer to that request any more."""
        connection = self.parked.pop(number, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Give back what is idle and close what is not."""
        self.broker.give_back(self._control)
        for connection in self.parked.values():
            connection.close()
        self.parked.clear()

    # What was answered.

    def rendered(self, answers: dict[int, Message]) -> dict[int, Rendered]:
        """Return the answers in plain values; member ids that came with them get their labels first."""
        for number, answer in sorted(answers.items()):
            if isinstance(answer, JoinGroupResponse) and answer.member_id:
                label = f"m{number}"
                if answer.member_id not in self._labels and _MEMBER_ID.fullmatch(answer.member_id):
                    self._labels[answer.member_id] = label
                    self._ids[label] = answer.member_id
        return {number: self._plain(answer) for number, answer in sorted(answers.items())}

    def _taken(self) -> dict[int, Message]:
        found = {}
        for number, connection in list(self.parked.items()):
            answer = connection.take()
            if answer is not None:
                found[number] = answer
                del self.parked[number]
                self.broker.give_back(connection)
        return found

    def _plain(self, value: object, name: str = "") -> object:
        if isinstance(value, msgspec.Struct):
            return {
                each: self._plain(getattr(value, each), each)
                for each in value.__struct_fields__
                if each != "throttle_time_ms"
            }
        if isinstance(value, tuple):
            items = [self._plain(each) for each in value]
            key = _UNORDERED.get(name)
            if name == "groups":  # A list of all groups holds those of other scripts.
                items = [each for each in items if str(_get(each, "group_id")).startswith(self.group_id)]
            return items if key is None else sorted(items, key=lambda each: (str(_get(each, key)), str(each)))
        if isinstance(value, str):
            return _MEMBER_ID.sub(lambda found: self._labels.get(found[0], "m?"), value)
        if isinstance(value, UUID):
            names = {topic_id: topic for topic, topic_id in self.broker.topic_ids.items()}
            return names.get(value, str(value))
        if name == "port":
            return "its own" if value == self.broker.address[1] else value
        return bytes(value) if isinstance(value, memoryview) else value


def _get(item: object, name: str) -> object:
    return item.get(name) if isinstance(item, dict) else None
