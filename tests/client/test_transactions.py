"""Transactions of kohort's producer, by both of Kafka's protocols for them: all of one counts, or nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import uuid4

import anyio
import pytest

from kohort.client import (
    Admin,
    BrokerError,
    CommitFailedError,
    ConfigurationError,
    Consumer,
    GroupMetadata,
    KohortError,
    Producer,
    ProducerFencedError,
    ResourceType,
    TopicPartition,
    TransactionFailedError,
    TransactionStateError,
)
from kohort.client.aio import Producer as AsyncProducer
from kohort.protocol.errors import ErrorCode
from tests.client.steps import LONG_MS

PATIENCE_S = 30.0

MakeTopic = Callable[[int], str]


def committed(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    """Return what readers of committed records get: so many values, and not one more for a while."""
    values: list[bytes | None] = []
    with Consumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=uuid4().hex,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        deadline = time.monotonic() + PATIENCE_S
        while len(values) < count and time.monotonic() < deadline:
            values += [each.value for each in consumer.poll(timeout_ms=200)]
        values += [each.value for each in consumer.poll(timeout_ms=300)]
    return values


@pytest.mark.usefixtures("protocol")
def test_a_transaction_block_is_atomic(
    bootstrap: str, topic: MakeTopic, group: str, transactional_id: str
) -> None:
    name = topic(3)
    expected: list[bytes] = []
    with Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as producer:
        for turn in range(6):
            values = [b"%d-%d" % (turn, index) for index in range(3)]
            offset = {TopicPartition(name, 0): turn + 1}
            if turn % 2:
                with pytest.raises(ZeroDivisionError), producer.transaction():  # noqa: PT012
                    for index, value in enumerate(values):
                        producer.send(name, value, partition=index).result(PATIENCE_S)
                    producer.send_offsets(offset, group)
                    1 / 0  # noqa: B018
            else:
                with producer.transaction():
                    for index, value in enumerate(values):
                        producer.send(name, value, partition=index)
                    producer.send_offsets(offset, group)
                expected += values
    assert sorted(committed(bootstrap, name, len(expected))) == sorted(expected)  # type: ignore[type-var]
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert admin.list_group_offsets(group)[TopicPartition(name, 0)].offset == 5


@pytest.mark.usefixtures("protocol")
def test_an_abort_drops_unsent_records(bootstrap: str, topic: MakeTopic, transactional_id: str) -> None:
    name = topic(1)
    with Producer(
        bootstrap_servers=bootstrap,
        transactional_id=transactional_id,
        linger_ms=LONG_MS,
        delivery_timeout_ms=2 * LONG_MS,
    ) as producer:
        producer.begin_transaction()
        delivery = producer.send(name, b"never")
        producer.abort_transaction()
        with pytest.raises(TransactionFailedError, match="aborted"):
            delivery.result(PATIENCE_S)
        with producer.transaction():
            producer.send(name, b"after")
    assert committed(bootstrap, name, 1) == [b"after"]


@pytest.mark.usefixtures("protocol")
def test_the_newest_producer_of_an_id_fences_the_others(
    bootstrap: str, topic: MakeTopic, transactional_id: str
) -> None:
    name = topic(1)
    with (
        Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as old,
        Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as new,
    ):
        old.begin_transaction()
        old.send(name, b"of the old one").result(PATIENCE_S)
        new.init_transactions()  # Which aborts that.
        with pytest.raises(KohortError), old.transaction():  # It is in one still, and does not know.
            pass
        with pytest.raises(ProducerFencedError, match=transactional_id):
            old.commit_transaction()
        with pytest.raises(ProducerFencedError):
            old.begin_transaction()
        with new.transaction():
            new.send(name, b"of the new one")
    assert committed(bootstrap, name, 1) == [b"of the new one"]


@pytest.mark.usefixtures("protocol")
def test_every_first_call_of_a_fenced_producer_raises_fenced(
    bootstrap: str, topic: MakeTopic, group: str, transactional_id: str
) -> None:
    name = topic(1)

    def result_of_a_record(old: Producer) -> None:
        old.send(name, b"late").result(PATIENCE_S)

    def a_block(old: Producer) -> None:
        with old.transaction():
            old.send(name, b"late")

    def commit_behind_a_record(old: Producer) -> None:
        old.send(name, b"late")
        old.commit_transaction()

    def offsets(old: Producer) -> None:
        old.send_offsets({TopicPartition(name, 0): 1}, group)

    for call in (result_of_a_record, commit_behind_a_record, offsets, a_block):
        with (
            Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as old,
            Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as new,
        ):
            old.init_transactions()
            if call is not a_block:
                old.begin_transaction()
            new.init_transactions()
            with pytest.raises(ProducerFencedError, match=transactional_id):
                call(old)
            with pytest.raises(ProducerFencedError, match=transactional_id):
                old.commit_transaction() if call is not a_block else old.begin_transaction()


@pytest.mark.usefixtures("protocol")
def test_offsets_of_a_removed_member_fail_the_transaction(
    bootstrap: str, topic: MakeTopic, group: str, transactional_id: str
) -> None:
    name = topic(1)
    with (
        Consumer(name, bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False) as consumer,
        Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as producer,
    ):
        while not consumer.assignment():
            consumer.poll(timeout_ms=100)
        now = consumer.group_metadata()
        old = GroupMetadata(group, now.generation_id - 1, now.member_id)
        with pytest.raises(BrokerError) as raised, producer.transaction():  # noqa: PT012
            producer.send(name, b"never")
            producer.send_offsets({TopicPartition(name, 0): 7}, old)
        assert raised.value.code is ErrorCode.ILLEGAL_GENERATION
        with producer.transaction():
            producer.send(name, b"counts")
            producer.send_offsets({TopicPartition(name, 0): 1}, now)
    assert committed(bootstrap, name, 1) == [b"counts"]
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert admin.list_group_offsets(group)[TopicPartition(name, 0)].offset == 1


def test_a_removed_member_cannot_commit_records_polled_before(
    bootstrap: str, topic: MakeTopic, group: str, transactional_id: str
) -> None:
    where = TopicPartition(topic(1), 0)
    with (
        Consumer(
            where.topic, bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False
        ) as consumer,
        Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as producer,
        Admin(bootstrap_servers=bootstrap) as admin,
    ):
        while not consumer.assignment():
            consumer.poll(timeout_ms=100)
        before = consumer.group_metadata()
        admin.remove_group_members(group)
        with pytest.raises(CommitFailedError):
            consumer.commit({where: 7})  # It hears that it is no member any more.
        assert consumer.group_metadata() == before
        with pytest.raises(BrokerError) as raised, producer.transaction():
            producer.send_offsets({where: 7}, consumer.group_metadata())
        assert raised.value.code is ErrorCode.UNKNOWN_MEMBER_ID
        while not consumer.assignment() or consumer.group_metadata() == before:
            consumer.poll(timeout_ms=100)
        with producer.transaction():
            producer.send_offsets({where: 1}, consumer.group_metadata())
        assert admin.list_group_offsets(group)[where].offset == 1


def test_a_record_that_fails_fails_all(bootstrap: str, topic: MakeTopic, transactional_id: str) -> None:
    name = topic(2)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_configs(ResourceType.TOPIC, name, values={"max.message.bytes": "1000"})
    with Producer(
        bootstrap_servers=bootstrap, transactional_id=transactional_id, compression_type=None
    ) as producer:
        with pytest.raises(TransactionFailedError) as raised, producer.transaction():  # noqa: PT012
            producer.send(name, b"small", partition=0)
            producer.send(name, b"x" * 5_000, partition=1)
        assert isinstance(raised.value.__cause__, BrokerError)
        assert raised.value.__cause__.code is ErrorCode.MESSAGE_TOO_LARGE
        producer.begin_transaction()
        failed = producer.send(name, b"x" * 5_000, partition=1)
        with pytest.raises(BrokerError):
            failed.result(PATIENCE_S)
        with pytest.raises(TransactionFailedError, match="MESSAGE_TOO_LARGE"):
            producer.send(name, b"small", partition=0)  # There is no use in it any more.
        producer.abort_transaction()
        with producer.transaction():
            producer.send(name, b"counts", partition=0)
    assert committed(bootstrap, name, 1) == [b"counts"]


def test_calls_in_the_wrong_state_raise_an_error(
    bootstrap: str, topic: MakeTopic, transactional_id: str
) -> None:
    name = topic(1)
    with Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as producer:
        for call in (
            lambda: producer.send(name, b"x"),
            producer.commit_transaction,
            producer.abort_transaction,
            lambda: producer.send_offsets({TopicPartition(name, 0): 1}, "group"),
        ):
            with pytest.raises(TransactionStateError):
                call()
        with producer.transaction(), pytest.raises(TransactionStateError):
            producer.begin_transaction()
    with (
        Producer(bootstrap_servers=bootstrap) as plain,
        pytest.raises(ConfigurationError, match="transactional_id"),
        plain.transaction(),
    ):
        pass
    for options in ({"transactional_id": ""}, {"transactional_id": "a", "acks": 1}):
        with pytest.raises(ConfigurationError, match="transactional_id"):
            Producer(bootstrap_servers=bootstrap, **options)  # type: ignore[arg-type]


def test_an_open_transaction_is_aborted_at_the_close(
    bootstrap: str, topic: MakeTopic, transactional_id: str
) -> None:
    name = topic(1)
    producer = Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    producer.begin_transaction()
    producer.send(name, b"never").result(PATIENCE_S)
    producer.close()
    with Producer(bootstrap_servers=bootstrap) as plain:
        plain.send(name, b"behind it").result(PATIENCE_S)
    assert committed(bootstrap, name, 1) == [b"behind it"]  # Which nothing that is open holds back.


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_the_asynchronous_producer_has_them_too(
    bootstrap: str, topic: MakeTopic, group: str, transactional_id: str, loop: str
) -> None:
    name = topic(2)

    async def main() -> None:
        with anyio.fail_after(PATIENCE_S):
            async with AsyncProducer(
                bootstrap_servers=bootstrap, transactional_id=transactional_id
            ) as producer:
                async with producer.transaction():
                    await producer.send(name, b"counts", partition=0)
                    await producer.send_offsets({TopicPartition(name, 0): 3}, group)
                with pytest.raises(ZeroDivisionError):  # noqa: PT012
                    async with producer.transaction():
                        await (await producer.send(name, b"never", partition=1))
                        1 / 0  # noqa: B018
                with anyio.move_on_after(0.5):  # Cancelled: aborted as well.
                    async with producer.transaction():
                        await (await producer.send(name, b"never", partition=0))
                        await anyio.sleep(PATIENCE_S)
                await producer.begin_transaction()
                await producer.send(name, b"counts too", partition=1)
                await producer.commit_transaction()

    anyio.run(main, backend=loop)
    assert sorted(committed(bootstrap, name, 2)) == [b"counts", b"counts too"]  # type: ignore[type-var]
