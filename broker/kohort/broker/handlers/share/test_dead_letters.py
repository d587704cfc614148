"""Dead letters of share groups (KIP-1191) on a broker: who gets one, what is in it, and that none is lost."""

from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar

import pytest
import trio

from kohort.broker.broker import Broker
from kohort.broker.coordination.dead_letters import DeadLetters
from kohort.broker.coordination.test_shard import Client
from kohort.broker.handlers.share.test_support import (
    ACCEPT,
    GROUP,
    REJECT,
    RELEASE,
    TOPIC,
    Member,
    configure,
    prepared,
    produce,
    running,
)
from kohort.broker.runtime.other_brokers import Unreachable
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.protocol.records import Record, build_batch, iterate_batches, iterate_records
from kohort.protocol.schema import Message

A = TypeVar("A", bound=Message)
LETTERS = "dlq.jobs"
GAP = 0
PATIENCE_S = 30.0
ENABLED = {"errors.deadletterqueue.group.enable": "true"}


async def make_topic(client: Client, name: str = LETTERS, configs: dict[str, str] | None = None) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        assignments=(),
        configs=tuple(
            CreatableTopicConfig(name=key, value=value)
            for key, value in {**ENABLED, **(configs or {})}.items()
        ),
    )
    answer = await client.ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
    assert answer.topics[0].error_code == 0, answer


def letters(broker: Broker, index: int = 0, name: str = LETTERS) -> list[Record]:
    partition = broker.partitions.get(name, index)
    if partition is None:
        return []
    log = partition.log
    data = log.read(0, 1 << 20, partition.high_watermark, at_least_one_batch=True).read()
    return [record for batch in iterate_batches(data) for record in iterate_records(batch)]


async def wait_for(broker: Broker, count: int, index: int = 0) -> list[Record]:
    """Return the letters once there are as many."""
    with trio.fail_after(PATIENCE_S):
        while len(found := letters(broker, index)) < count:
            await trio.sleep(0.01)
    assert len(found) == count
    return found


async def wait_until_done(broker: Broker, start_offset: int) -> None:
    """Return once the group is done with all before that offset."""
    partitions = broker.shares().partitions
    with trio.fail_after(PATIENCE_S):
        while True:
            led = [each for key, each in partitions._led.items() if key.group_id == GROUP]
            if led and led[0].core is not None and led[0].core.start_offset == start_offset:
                return
            await trio.sleep(0.01)


def headers(record: Record) -> dict[str, str]:
    return {name: (value or b"").decode() for name, value in record.headers}


def offsets(found: list[Record]) -> list[int]:
    return [int(headers(each)["__dlq.errors.offset"]) for each in found]


@pytest.mark.requirement("R32")
async def test_a_rejected_record_gets_a_dead_letter_that_describes_it(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker, errors_deadletterqueue_topic_name=LETTERS)
        await make_topic(client)
        await produce(client, "a", "b", "c")
        member = await Member.join(broker, "one")
        await member.fetch()
        assert await member.acknowledge((0, 2, [ACCEPT, REJECT, REJECT])) is ErrorCode.NONE
        first, second = await wait_for(broker, 2)
        assert headers(first) == {
            "__dlq.errors.topic": TOPIC,
            "__dlq.errors.partition": "0",
            "__dlq.errors.offset": "1",
            "__dlq.errors.group": GROUP,
            "__dlq.errors.delivery.count": "1",
            "__dlq.errors.message": "Offset rejected by client.",
        }
        assert (first.key, first.value) == (None, None)
        await wait_until_done(broker, 3)
        assert (broker.group_counters.dead_letters, broker.group_counters.dead_letters_missing) == (2, 0)
        assert headers(second)["__dlq.errors.offset"] == "2"
        await wait_until_done(broker, 3)


async def test_a_dead_letter_has_the_record_if_the_group_copies_records(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(
            broker,
            errors_deadletterqueue_topic_name=LETTERS,
            errors_deadletterqueue_copy_record_enable="true",
        )
        await make_topic(client, configs={"max.message.bytes": "1000"})
        values = [f"{number} " * 100 for number in range(8)]
        batch = build_batch([(1_700_000_000_000, b"key", each.encode(), ()) for each in values])
        await produce(client, batch=batch)
        await produce(client, "x" * 2000)
        member = await Member.join(broker, "one")
        await member.fetch()
        await member.fetch(max_wait_ms=10)
        assert await member.acknowledge((0, 8, [REJECT])) is ErrorCode.NONE
        found = await wait_for(broker, 9)
        assert offsets(found) == list(range(9))
        assert [(each.key, each.value) for each in found[:8]] == [(b"key", each.encode()) for each in values]
        assert found[8].value is None  # It is larger than what the topic takes: its letter says where it is.
        await wait_until_done(broker, 9)


async def test_a_record_delivered_too_often_gets_a_dead_letter_and_an_undelivered_one_does_not(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(
            broker, errors_deadletterqueue_topic_name=LETTERS, share_delivery_count_limit="2"
        )
        await make_topic(client)
        await produce(client, "a", "b", "c")
        member = await Member.join(broker, "one")
        await member.fetch()
        assert await member.acknowledge((0, 2, [RELEASE, RELEASE, GAP])) is ErrorCode.NONE
        await member.fetch()
        assert await member.acknowledge((0, 1, [RELEASE, ACCEPT])) is ErrorCode.NONE
        (letter,) = await wait_for(broker, 1)
        assert headers(letter)["__dlq.errors.delivery.count"] == "2"
        assert headers(letter)["__dlq.errors.message"] == "Offset delivery count exceeded the threshold."
        await wait_until_done(broker, 3)


async def test_a_lock_that_expires_too_often_causes_a_dead_letter(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(
            broker,
            errors_deadletterqueue_topic_name=LETTERS,
            share_delivery_count_limit="2",
            share_record_lock_duration_ms="1000",
        )
        await make_topic(client)
        await produce(client, "a")
        member = await Member.join(broker, "one")
        assert [each.deliveries for each in await member.fetch()] == [1]
        assert [each.deliveries for each in await member.fetch(max_wait_ms=30_000)] == [2]
        (letter,) = await wait_for(broker, 1)
        assert headers(letter)["__dlq.errors.delivery.count"] == "2"


@pytest.mark.parametrize(
    ("name", "configs", "settings"),
    [
        ("dlq.nowhere", None, ()),
        ("dlq.closed", {"errors.deadletterqueue.group.enable": "false"}, ()),
        ("other", {}, ()),
    ],
)
async def test_without_a_writable_topic_there_is_no_dead_letter_and_the_record_is_archived(
    tmp_path: Path, name: str, configs: dict[str, str] | None, settings: tuple[tuple[str, str], ...]
) -> None:
    async with running(tmp_path, *settings) as broker:
        client = await prepared(broker, errors_deadletterqueue_topic_name=name)
        if configs is not None:
            await make_topic(client, name, configs)
        await produce(client, "a")
        member = await Member.join(broker, "one")
        await member.fetch()
        assert await member.acknowledge((0, 0, [REJECT])) is ErrorCode.NONE
        await wait_until_done(broker, 1)
        assert letters(broker, name=name) == []
        assert broker.group_counters.dead_letters_missing == 1
        assert broker.group_counters.dead_letters == 0


async def test_the_dead_letter_topic_is_created_if_allowed(tmp_path: Path) -> None:
    async with running(tmp_path, ("errors.deadletterqueue.auto.create.topics.enable", "true")) as broker:
        client = await prepared(broker, partitions=1, errors_deadletterqueue_topic_name=LETTERS)
        await produce(client, "a")
        member = await Member.join(broker, "one")
        await member.fetch()
        assert await member.acknowledge((0, 0, [REJECT])) is ErrorCode.NONE
        await wait_for(broker, 1)
        configs = broker.metadata.snapshot().topics[LETTERS].configs
        assert configs == {**ENABLED, "message.timestamp.type": "CreateTime"}


@pytest.mark.requirement("R32")
async def test_a_letter_that_was_not_written_before_the_end_is_written_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)

    with monkeypatch.context() as patch:
        patch.setattr(DeadLetters, "_append", refuse)
        async with running(tmp_path) as broker:
            client = await prepared(broker, errors_deadletterqueue_topic_name=LETTERS)
            await make_topic(client)
            await produce(client, "a", "b")
            member = await Member.join(broker, "one")
            await member.fetch()
            assert await member.acknowledge((0, 0, [REJECT])) is ErrorCode.NONE
            assert letters(broker) == []
    async with running(tmp_path) as broker:
        client = await Client.to(broker)
        member = await Member.join(broker, "two")
        assert [each.offset for each in await member.fetch()] == [1]  # Nobody sees the other one again.
        (letter,) = await wait_for(broker, 1)
        assert offsets([letter]) == [0]
        assert "__dlq.errors.message" not in headers(letter)  # Who began to give it up knew why.
        await configure(client, errors_deadletterqueue_topic_name="")
        assert await member.acknowledge((1, 1, [REJECT])) is ErrorCode.NONE
        await wait_until_done(broker, 2)
        assert len(letters(broker)) == 1


async def test_letters_go_to_the_broker_that_leads_their_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Others:
        """Another broker, which is this one again."""

        node_id = 99

        def __init__(self, client: Client) -> None:
            self.client = client
            self.asked: list[int] = []

        async def ask(self, node_id: int, request: Message, answer: type[A], version: int, /) -> A:
            found = await self.client.ask(request, answer, version)
            self.asked.append(node_id)
            if len(self.asked) == 1:
                raise Unreachable("the answer is lost")  # What was asked has been done: it is done twice.
            return found

    async with running(tmp_path) as broker:
        client = await prepared(broker, errors_deadletterqueue_topic_name=LETTERS)
        await make_topic(client)
        await produce(client, "a")
        member = await Member.join(broker, "one")
        await member.fetch()
        writer = broker.shares().partitions.dead_letters
        others = Others(await Client.to(broker))
        monkeypatch.setattr(writer, "_others", others)
        monkeypatch.setattr(writer, "_partitions", SimpleNamespace(leads=lambda topic, index: False))
        assert await member.acknowledge((0, 0, [REJECT])) is ErrorCode.NONE
        assert offsets(await wait_for(broker, 2)) == [0, 0]
        await wait_until_done(broker, 1)
        leader = broker.metadata.snapshot().topics[LETTERS].partitions[0].leader
        assert others.asked == [leader, leader]
