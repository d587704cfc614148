"""Quotas between the transport and those who answer: what is said, who waits, and who does not."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from kohort.broker.config import BrokerConfig
from kohort.broker.config.current import CurrentConfig
from kohort.broker.handlers.quota_switch import QuotaSwitch
from kohort.broker.handlers.quotas.metering import TURN_MS_MAX, Metering
from kohort.broker.metadata import EmbeddedMetadataStore, update
from kohort.broker.metadata.quotas import alteration, quotas
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.workers import TrioWorkers
from kohort.broker.transport.dispatch import Handle
from kohort.broker.transport.request import Origin, ReceivedRequest, Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.messages.share_fetch import (
    ShareFetchPartitionResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopicResponse,
)
from kohort.protocol.registry import BY_NAME, api_of
from kohort.protocol.schema import Message
from kohort.storage import OsFileSystem
from tests.messages import message_of

BROKER = ("User:ANONYMOUS", 2, -1)
"""The one whose fetches for its replicas are free."""
BEGAN_MS = 1_700_000_000_000


class Connection:
    """Who asks."""

    def __init__(self, user: str) -> None:
        self.principal = f"User:{user}"
        self.client_host = "/10.0.0.1"
        self.listener = 0
        self.closed = False
        self.on_close: list[Callable[[], None]] = []
        self.answers: list[Any] = []
        self.is_muted = False

    def complete(self, request: Request, message: Message) -> None:
        self.answers.append(message)

    def abandon(self, request: Request) -> None:
        self.answers.append(None)

    def mute(self) -> None:
        assert not self.is_muted
        self.is_muted = True

    def unmute(self) -> None:
        assert self.is_muted
        self.is_muted = False

    def close(self) -> None:
        self.closed = True
        for action in tuple(self.on_close):
            action()


class World:
    """Handlers that answer at once, a clock that stands, and quotas."""

    def __init__(self, folder: Path) -> None:
        self.now_ms = BEGAN_MS
        self.busy_s = 0.0
        self.asked: list[Any] = []
        self.fetched = b""
        self.put_off: list[Request] | None = None
        self.brokers: tuple[tuple[str, int, int], ...] = (BROKER,)
        self.steps = 0  # Of a task, in which it answers where it has some.
        self.steps_begun = self.running = self.running_max = self.cancelled = 0
        self.hangs = False
        self.timers = Timers()
        self.store = EmbeddedMetadataStore.open(OsFileSystem(), folder, cluster_id="c", node_id=1)
        self.rebound = 0
        self.switch = QuotaSwitch(cast(Any, self), self.store, self._metered)
        self.switch.begin(self._rebind)

    def _rebind(self) -> None:
        self.rebound += 1

    def _metered(self, inner: Any) -> Metering:
        self.metering = Metering(
            inner,
            self.store,
            CurrentConfig(BrokerConfig()),
            timers=self.timers,
            clock=cast(Any, SimpleNamespace(now_ms=lambda: self.now_ms)),
            workers=TrioWorkers(cast(trio.Nursery, None)),
            busy_s=lambda: self.busy_s,
            is_broker=lambda request, *who: (request.principal, *who) in self.brokers,
        )
        return self.metering

    def handler_of(self, api_key: int) -> Handle:
        answers: dict[int, Message] = {
            0: message_of(ProduceResponse),
            12: message_of(HeartbeatResponse),
            19: message_of(CreateTopicsResponse),
            **{each: message_of(response_of(each)) for each in (17, 18, 24, 27, 85, 30_001, 30_002)},
        }

        def handle(message: Any, request: Request) -> Any:
            self.asked.append(message)
            self.busy_s += 2.0
            if self.put_off is not None:
                self.put_off.append(request)
                return None
            if self.steps:
                return self.in_steps(answers[api_key])
            if api_key == 78:
                return shared(self.fetched)
            if api_key in answers:
                return answers[api_key]
            return fetched(self.fetched if request.may_have(len(self.fetched)) else b"")

        return handle

    async def in_steps(self, answer: Message) -> Message:
        """Answer after so many steps of a second each."""
        self.steps_begun += 1
        self.running += 1
        self.running_max = max(self.running, self.running_max)
        try:
            for _ in range(self.steps):
                self.busy_s += 1.0
                await (trio.sleep_forever() if self.hangs else trio.lowlevel.checkpoint())
        except trio.Cancelled:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        return answer

    async def allow(self, entity: dict[str, str | None], **values: float | None) -> None:
        await update(self.store, lambda now: alteration(now, entity, values))

    def ask(self, connection: Connection, message: Message, version: int | None = None) -> Any:
        """Return the answer, None where it has to wait."""
        api = BY_NAME[type(message).__name__.removesuffix("Request")]
        version = api.versions.highest if version is None else version
        request = ReceivedRequest(cast(Origin, connection), api, version, 1, "app")
        return self.switch.handler_of(api.api_key)(message, request)

    def go_on(self, until_ms: int) -> None:
        """Let time pass until `until_ms` after the beginning."""
        while (due_ms := self.timers.next_deadline_ms()) is not None and due_ms <= BEGAN_MS + until_ms:
            self.now_ms = due_ms
            self.timers.run_due(due_ms)
        self.now_ms = BEGAN_MS + until_ms


def response_of(api_key: int) -> type[Message]:
    api = api_of(api_key)
    assert api is not None
    return api.response


def produced(count: int, acks: int = 1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=b"x" * count)
    topic = message_of(TopicProduceData, name="t", partition_data=(data,))
    return message_of(ProduceRequest, acks=acks, topic_data=(topic,))


def records_of(answer: FetchResponse) -> Any:
    return answer.responses[0].partitions[0].records


def fetched(records: bytes) -> FetchResponse:
    data = message_of(PartitionData, records=records)
    topic = message_of(FetchableTopicResponse, topic="t", partitions=(data,))
    return message_of(FetchResponse, responses=(topic,))


def shared(records: bytes) -> ShareFetchResponse:
    data = message_of(ShareFetchPartitionResponse, records=records)
    topic = message_of(ShareFetchTopicResponse, partitions=(data,))
    return message_of(ShareFetchResponse, responses=(topic,))


HEARTBEAT = message_of(HeartbeatRequest)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_without_quotas_requests_are_not_wrapped(world: World) -> None:
    assert world.rebound == 0
    assert world.switch.handler_of(0).__qualname__ == world.handler_of(0).__qualname__
    await world.allow({"user": "alice"}, producer_byte_rate=1_000)
    assert world.rebound == 1
    await world.allow({"user": "bob"}, producer_byte_rate=1_000)
    assert world.rebound == 1


async def test_a_producer_over_its_quota_is_throttled_and_its_next_request_waits(world: World) -> None:
    await world.allow({"user": "alice"}, producer_byte_rate=1_000)
    alice, bob = Connection("alice"), Connection("bob")
    assert world.ask(alice, produced(10_000)).throttle_time_ms == 0
    assert world.ask(alice, produced(5_000)).throttle_time_ms == 5_000
    assert world.ask(alice, HEARTBEAT) is None
    assert world.ask(alice, produced(1)) is None
    assert world.ask(bob, produced(10**6)).throttle_time_ms == 0
    world.go_on(4_999)
    assert alice.answers == []
    world.go_on(5_000)
    assert [type(each) for each in alice.answers] == [HeartbeatResponse, ProduceResponse]
    assert world.ask(Connection("alice"), HEARTBEAT) is not None


async def test_a_delayed_request_can_be_delayed_again(world: World) -> None:
    await world.allow({"user": "alice"}, producer_byte_rate=1_000)
    alice = Connection("alice")
    world.ask(alice, produced(20_000))
    for _ in range(3):
        assert world.ask(alice, produced(10_000)) is None
    world.go_on(10_000)
    assert len(alice.answers) == 1
    assert alice.answers[0].throttle_time_ms > 0
    world.go_on(200_000)
    assert len(alice.answers) == 3
    assert not world.metering.muting or alice.answers[-1].throttle_time_ms


async def test_a_producer_with_acks_0_is_delayed_too(world: World) -> None:
    await world.allow({"client-id": "app"}, producer_byte_rate=1_000)
    alice = Connection("alice")
    world.ask(alice, produced(20_000, acks=0))
    assert world.ask(alice, HEARTBEAT) is None


async def test_a_reader_gets_no_more_at_once_than_its_quota_has_in_all(world: World) -> None:
    await world.allow({"user": None}, consumer_byte_rate=1_000)
    alice, fetch = Connection("alice"), message_of(FetchRequest, max_bytes=10**6)
    world.fetched = b"x" * 8_000
    first, second = world.ask(alice, fetch), world.ask(alice, fetch)
    assert world.asked[-1].max_bytes == 10_000
    assert (first.throttle_time_ms, records_of(first)) == (0, world.fetched)
    assert (second.throttle_time_ms, records_of(second)) == (6_000, b"")
    assert alice.is_muted
    assert world.ask(alice, HEARTBEAT) is None
    assert world.ask(Connection("bob"), HEARTBEAT) is not None
    world.go_on(11_000)
    assert not alice.is_muted
    assert records_of(world.ask(alice, fetch)) == world.fetched


async def test_a_share_fetch_is_counted_against_the_quota(world: World) -> None:
    await world.allow({"user": None}, consumer_byte_rate=1_000)
    alice = Connection("alice")
    world.fetched = b"x" * 15_000
    assert world.ask(alice, message_of(ShareFetchRequest)).throttle_time_ms == 5_000
    assert alice.is_muted


async def test_brokers_that_copy_are_not_measured(world: World) -> None:
    await world.allow({"user": None}, consumer_byte_rate=1)
    world.fetched = b"x" * 15_000
    follower = message_of(FetchRequest, max_bytes=10**6, replica_id=2)
    assert world.ask(Connection("ANONYMOUS"), follower, 12).throttle_time_ms == 0
    assert world.asked[-1].max_bytes == 10**6


@pytest.mark.parametrize(("user", "replica_id"), [("alice", 2), ("ANONYMOUS", 7), ("ANONYMOUS", 0)])
@pytest.mark.parametrize("version", [12, 17])
async def test_a_client_that_claims_to_be_a_broker_is_metered(
    world: World, user: str, replica_id: int, version: int
) -> None:
    await world.allow({"user": None}, consumer_byte_rate=1)
    world.fetched = b"x" * 15_000
    in_tag = {"replica_state": ReplicaState(replica_id=replica_id)} if version > 14 else {}
    asked = message_of(FetchRequest, max_bytes=10**6, replica_id=replica_id, **in_tag)
    assert world.ask(Connection(user), asked, version).throttle_time_ms > 0
    assert world.asked[-1].max_bytes < 10**6


async def test_the_time_of_the_loop_is_measured(world: World) -> None:
    await world.allow({"user": "alice"}, request_percentage=10)
    alice = Connection("alice")
    assert world.ask(alice, HEARTBEAT).throttle_time_ms == 1_000
    assert world.ask(alice, HEARTBEAT) is None
    assert world.ask(Connection("bob"), HEARTBEAT).throttle_time_ms == 0


@pytest.mark.parametrize("name", ["ApiVersions", "SaslHandshake", "AddPartitionsToTxn", "WriteTxnMarkers"])
async def test_every_request_is_metered(world: World, name: str) -> None:
    await world.allow({"user": "alice"}, request_percentage=10)
    alice = Connection("alice")
    world.ask(alice, message_of(BY_NAME[name].request))
    assert alice.is_muted


@pytest.mark.parametrize(("name", "version"), [("AddPartitionsToTxn", 5), ("WriteTxnMarkers", 1)])
async def test_transaction_requests_of_identified_brokers_are_not_metered(
    world: World, name: str, version: int
) -> None:
    await world.allow({"user": None}, request_percentage=10)
    world.brokers = (("User:broker", -1, -1),)
    broker, alice = Connection("broker"), Connection("alice")
    for each in (broker, alice):
        world.ask(each, message_of(BY_NAME[name].request), version)
    assert (broker.is_muted, alice.is_muted) == (False, True)


async def test_many_connections_of_a_user_share_one_quota(world: World) -> None:
    await world.allow({"user": "alice"}, request_percentage=10)
    connections = [Connection("alice") for _ in range(20)]
    for each in connections:
        world.ask(each, HEARTBEAT)
    assert len(world.asked) == 1
    for second in range(1, 100):
        world.go_on(second * 1_000)
    assert 4 <= len(world.asked) <= 10, "one in ten seconds, of which each takes two"
    assert all(each.is_muted for each in connections[10:])


@pytest.mark.parametrize("percent", [10, 25, 40])
async def test_a_busy_connection_does_not_starve_others_of_the_same_quota(world: World, percent: int) -> None:
    await world.allow({"user": "alice"}, request_percentage=percent)
    busy, others = Connection("alice"), [Connection("alice") for _ in range(3)]
    for _ in range(200):
        world.ask(busy, HEARTBEAT)
    for each in others:
        world.ask(each, HEARTBEAT)
    for second in range(1, 301):
        world.go_on(second * 1_000)
    assert [len(each.answers) for each in others] == [1, 1, 1]
    assert busy.answers


async def test_delayed_requests_keep_their_order(world: World) -> None:
    await world.allow({"user": "alice"}, request_percentage=10)
    first, alice = Connection("alice"), Connection("alice")
    world.ask(first, HEARTBEAT)
    for request in (HEARTBEAT, produced(1), HEARTBEAT):
        assert world.ask(alice, request) is None
    for second in range(1, 200):
        world.go_on(second * 1_000)
    assert [type(each) for each in alice.answers] == [HeartbeatResponse, ProduceResponse, HeartbeatResponse]


async def test_each_step_of_a_task_is_metered(world: World) -> None:
    await world.allow({"user": "alice"}, request_percentage=10)
    alice = Connection("alice")
    world.steps = 5
    answer = await world.ask(alice, message_of(CreateTopicsRequest))
    assert answer.throttle_time_ms == 1_000
    [used] = world.metering.uses(10)
    assert used.value == pytest.approx(100 * (2.0 + 5 * 1.0) / 10)


async def test_tasks_of_one_user_run_one_after_another(world: World) -> None:
    await world.allow({"user": "alice"}, request_percentage=1_000)
    world.steps = 3
    tasks = [world.ask(Connection("alice"), message_of(CreateTopicsRequest)) for _ in range(3)]
    answers: list[Any] = []

    async def run(task: Any) -> None:
        answers.append(await task)

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            for each in tasks:
                nursery.start_soon(run, each)
    assert len(answers) == 3
    assert world.running_max == 1


async def test_a_task_of_a_closed_connection_is_not_started(world: World) -> None:
    await world.allow({"user": "alice"}, request_percentage=10)
    world.steps = 3
    first, second = Connection("alice"), Connection("alice")
    one, other = (world.ask(each, message_of(CreateTopicsRequest)) for each in (first, second))
    assert other is None, "it has to wait: the first one's beginning was too much"
    await one
    second.close()
    assert world.steps_begun == 1


async def test_a_cancelled_task_is_cancelled_while_it_waits(world: World) -> None:
    await world.allow({"user": "alice"}, request_percentage=50)
    world.steps, world.hangs = 1, True
    with trio.move_on_after(0.01) as scope:
        await world.ask(Connection("alice"), message_of(CreateTopicsRequest))
    assert scope.cancelled_caught
    assert world.cancelled == 1


async def test_loop_time_outside_handlers_is_metered_too(world: World) -> None:
    await world.allow({"user": "alice"}, request_percentage=50)
    alice, bob = Connection("alice"), Connection("bob")
    world.ask(alice, HEARTBEAT)
    world.metering.note_turn(cast(Origin, alice), 2.5)  # Of which the handler has noted two.
    [used] = world.metering.uses(10)
    assert used.value == pytest.approx(25)
    world.metering.note_turn(cast(Origin, alice), 6.0)
    assert alice.is_muted
    world.metering.note_turn(cast(Origin, bob), 100.0)
    assert not bob.is_muted
    alice.close()
    world.metering.note_turn(cast(Origin, alice), 6.0)
    assert len(world.metering.muting) == 0


async def test_a_fetch_that_took_too_much_of_the_loops_time_has_no_records(world: World) -> None:
    await world.allow({"user": "alice"}, request_percentage=30, consumer_byte_rate=1_000)
    alice, fetch = Connection("alice"), message_of(FetchRequest, max_bytes=10**6)
    world.fetched = b"x" * 800
    first, second = world.ask(alice, fetch), world.ask(alice, fetch)
    assert (first.throttle_time_ms, records_of(first)) == (0, world.fetched)
    assert (second.throttle_time_ms, records_of(second)) == (1_000, b"")
    assert alice.is_muted
    [bytes_used] = [each for each in world.metering.uses(10) if each.key == "consumer_byte_rate"]
    assert bytes_used.value == 80  # What was not sent does not count.
    world.go_on(12_000)
    assert records_of(world.ask(alice, fetch)) == world.fetched


async def test_a_waiting_fetch_is_delayed_after_its_answer(world: World) -> None:
    await world.allow({"user": "alice"}, request_percentage=10)
    alice, world.put_off = Connection("alice"), []
    assert world.ask(alice, message_of(FetchRequest, max_bytes=10**6)) is None
    assert not alice.is_muted
    [request] = world.put_off
    assert not request.may_have(800)
    request.respond(fetched(b""))
    assert alice.is_muted
    assert [each.throttle_time_ms for each in alice.answers] == [1_000]


async def test_topics_beyond_the_quota_are_refused_or_waited_for(world: World) -> None:
    await world.allow({"user": "alice"}, controller_mutation_rate=1)
    alice = Connection("alice")
    topics = tuple(message_of(CreatableTopic, name=name, num_partitions=10) for name in "abc")
    request = message_of(CreateTopicsRequest, topics=topics)
    answer = await world.ask(alice, request)
    assert [each.name for each in world.asked[-1].topics] == ["a", "b"]
    assert [(each.name, each.error_code) for each in answer.topics] == [
        ("c", ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    ]
    assert answer.throttle_time_ms == 9_000
    other = Connection("alice")
    assert world.ask(other, request, 5).throttle_time_ms == 39_000
    assert [each.name for each in world.asked[-1].topics] == ["a", "b", "c"]


async def test_a_connection_that_closes_is_forgotten(world: World) -> None:
    await world.allow({"user": "alice"}, producer_byte_rate=1_000)
    alice = Connection("alice")
    world.ask(alice, produced(100_000))
    world.ask(alice, HEARTBEAT)
    alice.close()
    assert len(world.metering.muting) == 0
    assert world.timers.next_deadline_ms() is None


async def test_a_delayed_request_leaves_no_state_behind(world: World) -> None:
    await world.allow({"user": "alice"}, producer_byte_rate=1_000)
    alice = Connection("alice")
    for _ in range(5):
        world.ask(alice, produced(30_000))
        world.go_on(world.now_ms - BEGAN_MS + 600_000)
    assert alice.on_close == []
    assert len(world.metering.muting) == 0


async def test_a_removed_quota_stops_counting_and_a_kept_one_survives_a_restart(
    world: World, tmp_path: Path
) -> None:
    await world.allow({"user": "alice", "client-id": None}, producer_byte_rate=1_000, consumer_byte_rate=5)
    again = EmbeddedMetadataStore.open(OsFileSystem(), tmp_path, cluster_id="c", node_id=1)
    kept = {"producer_byte_rate": 1_000.0, "consumer_byte_rate": 5.0}
    assert list(quotas(again.snapshot())) == [({"client-id": None, "user": "alice"}, kept)]
    await world.allow({"user": "alice", "client-id": None}, producer_byte_rate=None, consumer_byte_rate=None)
    assert list(quotas(world.store.snapshot())) == []
    assert world.ask(Connection("alice"), produced(10**6)).throttle_time_ms == 0


async def test_replication_is_not_delayed_by_other_requests_of_its_connection(world: World) -> None:
    """A follower asks for offsets over the connection by which it copies."""
    await world.allow({"user": None}, request_percentage=50)
    broker = Connection("ANONYMOUS")
    world.ask(broker, HEARTBEAT)
    follower = message_of(FetchRequest, max_bytes=10**6, replica_id=2)
    for _ in range(20):
        world.ask(broker, follower, 12)
        world.metering.note_turn(cast(Origin, broker), 6.0)
    assert not broker.is_muted


@pytest.mark.parametrize("name", ["BrokerPage", "ReadableOffsets", "WriteShareGroupState"])
async def test_requests_between_brokers_are_not_metered(world: World, name: str) -> None:
    await world.allow({"user": None}, request_percentage=10)
    world.brokers = (("User:broker", -1, -1),)
    broker, alice = Connection("broker"), Connection("alice")
    for each in (broker, alice):
        world.ask(each, message_of(BY_NAME[name].request))
    assert (broker.is_muted, alice.is_muted) == (False, True)


async def test_a_blocked_task_does_not_delay_the_others(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    await world.allow({"user": "alice"}, request_percentage=1_000)
    world.steps, world.hangs = 1, True
    hanging = [world.ask(Connection("alice"), message_of(CreateTopicsRequest)) for _ in range(3)]

    async def run(task: Any) -> None:
        await task

    async def pass_time() -> None:
        while True:
            await trio.sleep(0.1)
            world.now_ms += 100

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pass_time)
            for each in hanging:
                nursery.start_soon(run, each)
            await trio.sleep(TURN_MS_MAX / 1_000 - 0.5)
            assert world.running == 1
            await trio.sleep(2 * TURN_MS_MAX / 1_000)
            assert world.running == 3
            world.hangs = False
            assert await world.ask(Connection("alice"), message_of(CreateTopicsRequest)) is not None
            began_at = trio.current_time()
            assert await world.ask(Connection("alice"), message_of(CreateTopicsRequest)) is not None
            assert trio.current_time() == began_at, "who has ended is waited for no more"
            nursery.cancel_scope.cancel()
