"""Records of share groups on the wire: acquired, acknowledged and returned; whole brokers with real files."""

from pathlib import Path

import msgspec
import pytest
import trio

from kohort.broker.broker import Broker
from kohort.broker.coordination.share_partitions import SharePartitions
from kohort.broker.coordination.test_shard import Client
from kohort.broker.handlers.share.test_support import (
    ACCEPT,
    GROUP,
    REJECT,
    RELEASE,
    RENEW,
    TOPIC,
    Member,
    Record,
    configure,
    configure_topic,
    described,
    fetched,
    prepared,
    produce,
    records_of,
    running,
)
from kohort.broker.metadata import SHARE_STATE_TOPIC
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.protocol.messages.share_fetch import ShareFetchResponse
from kohort.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from kohort.protocol.records import ControlType, build_batch, build_transaction_marker


def led(broker: Broker) -> SharePartitions:
    return broker.shares().partitions


@pytest.mark.requirement("R32")
async def test_acknowledged_records_are_never_delivered_again_also_after_a_restart(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await produce(client, "a", "b", "c", "d")
        member = await Member.join(broker, "one")
        assert await member.fetch() == [Record(index, "abcd"[index], 1) for index in range(4)]
        assert await member.acknowledge((0, 0, [ACCEPT]), (2, 3, [REJECT, RELEASE])) is ErrorCode.NONE
    async with running(tmp_path) as broker:
        client = await Client.to(broker)
        member = await Member.join(broker, "two")
        assert [each.offset for each in await member.fetch()] == [1, 3]
        assert await described(client) == (1, 2)


@pytest.mark.requirement("R32")
async def test_a_released_record_is_delivered_with_its_delivery_count_to_a_waiting_fetch(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await produce(client, "a")
        one, two = await Member.join(broker, "one"), await Member.join(broker, "two")
        await one.fetch()
        got: list[Record] = []

        async def wait() -> None:
            got.extend(await two.fetch())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(0.1)
            assert not got
            assert await one.acknowledge((0, 0, [RELEASE])) is ErrorCode.NONE
        assert got == [Record(0, "a", 2)]


async def test_a_fetch_waits_for_the_next_record_or_its_max_wait(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        member = await Member.join(broker, "one")
        assert await member.fetch(max_wait_ms=50) == []
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def later() -> None:
                await trio.sleep(0.05)
                await produce(client, "a")

            assert await member.fetch() == [Record(0, "a", 1)]


@pytest.mark.parametrize("max_wait_ms", [0, 1])
async def test_the_first_fetch_without_waiting_returns_available_records(
    tmp_path: Path, max_wait_ms: int
) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await produce(client, "a")
        member = await Member.join(broker, "one")
        assert await member.fetch(max_wait_ms=max_wait_ms) == [Record(0, "a", 1)]
        assert await member.fetch(max_wait_ms=max_wait_ms) == []


async def test_acknowledgements_are_sent_and_answered_with_a_fetch(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await produce(client, "a", "b")
        member = await Member.join(broker, "one")
        assert len(await member.fetch(max_records=1, share_acquire_mode=1)) == 1
        assert await member.fetch((0, 0, [RELEASE])) == [Record(0, "a", 2), Record(1, "b", 1)]
        answer = await member.ask((0, 0, [ACCEPT]), max_wait_ms=0)
        assert [each.acknowledge_error_code for each in answer.responses[0].partitions] == [0]
        answer = await member.ask((0, 0, [ACCEPT]), max_wait_ms=0)
        (partition,) = answer.responses[0].partitions
        assert (partition.error_code, partition.acknowledge_error_code) == (0, ErrorCode.INVALID_RECORD_STATE)
        assert answer.acquisition_lock_timeout_ms == 30_000


async def test_a_member_cannot_acknowledge_records_of_another(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await produce(client, "a")
        one, two = await Member.join(broker, "one"), await Member.join(broker, "two")
        await one.fetch()
        await two.fetch(max_wait_ms=0)
        assert await two.acknowledge((0, 0, [ACCEPT])) is ErrorCode.INVALID_RECORD_STATE
        assert await one.acknowledge((0, 0, [ACCEPT])) is ErrorCode.NONE


@pytest.mark.parametrize("told", [(1, 0, [ACCEPT]), (0, 1, [ACCEPT] * 3), (0, 0, [7]), (0, 0, [])])
async def test_invalid_acknowledgements_change_nothing(
    tmp_path: Path, told: tuple[int, int, list[int]]
) -> None:
    async with running(tmp_path) as broker:
        _, member = await fetched(broker, "a", "b")
        assert await member.acknowledge(told) is ErrorCode.INVALID_REQUEST
        assert await member.acknowledge((0, 2**40, [ACCEPT])) is ErrorCode.INVALID_RECORD_STATE
        assert await member.acknowledge((0, 1, [ACCEPT])) is ErrorCode.NONE


@pytest.mark.requirement("R32")
async def test_an_expired_acquisition_lock_makes_the_record_available_unless_it_is_renewed(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker, share_record_lock_duration_ms="1000")
        await produce(client, "a", "b")
        one, two = await Member.join(broker, "one"), await Member.join(broker, "two")
        await one.fetch()
        await trio.sleep(0.6)
        assert await one.acknowledge((1, 1, [RENEW])) is ErrorCode.NONE
        assert await two.fetch() == [Record(0, "a", 2)]
        assert await one.acknowledge((0, 0, [ACCEPT])) is ErrorCode.INVALID_RECORD_STATE
        assert await one.acknowledge((1, 1, [ACCEPT])) is ErrorCode.NONE


async def test_a_closed_connection_releases_the_records_of_its_member(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await produce(client, "a")
        one, two = await Member.join(broker, "one"), await Member.join(broker, "two")
        await one.fetch()
        assert led(broker).session_count == 1
        await one.client._stream.aclose()
        assert await two.fetch() == [Record(0, "a", 2)]
        assert led(broker).session_count == 1


async def test_sessions_number_their_requests(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await produce(client, "a")
        member = await Member.join(broker, "one")
        assert (await member.ask(epoch=3)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert await member.acknowledge(epoch=-1) is ErrorCode.SHARE_SESSION_NOT_FOUND
        assert await member.acknowledge(epoch=0) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert (await member.ask((0, 0, [ACCEPT]))).error_code == ErrorCode.INVALID_REQUEST
        await member.fetch()
        assert (await member.ask(epoch=7)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert await member.acknowledge((0, 0, [ACCEPT]), epoch=-1) is ErrorCode.NONE
        assert led(broker).session_count == 0
        assert await described(client) == (1, 0)


async def test_the_number_of_sessions_is_limited(tmp_path: Path) -> None:
    async with running(tmp_path, ("group.share.max.share.sessions", "1")) as broker:
        await prepared(broker)
        one, two = await Member.join(broker, "one"), await Member.join(broker, "two")
        await one.fetch(max_wait_ms=0)
        assert (await two.ask(max_wait_ms=0)).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        assert await one.acknowledge(epoch=-1) is ErrorCode.NONE
        assert await two.fetch(max_wait_ms=0) == []


@pytest.mark.requirement("R32")
async def test_the_number_of_records_in_flight_is_limited_by_the_group(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker, share_partition_max_record_locks="100")
        for _ in range(3):
            await produce(client, *map(str, range(60)))
        member = await Member.join(broker, "one")
        assert len(await member.fetch()) == 100
        assert await member.fetch(max_wait_ms=0) == []
        assert len(await member.fetch((0, 49, [ACCEPT]))) == 50


async def test_unknown_topics_have_an_error(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await prepared(broker)
        member = await Member.join(broker, "one")
        (topic,) = (await member.ask(index=5)).responses
        assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        member.topic_id = type(member.topic_id)(int=99)
        codes = {each.error_code for topic in (await member.ask()).responses for each in topic.partitions}
        assert ErrorCode.UNKNOWN_TOPIC_ID in codes


async def test_an_uninitialized_partition_is_not_delivered(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await produce(client, "a")
        await Member.join(broker, "one")
        stranger = Member(client, "two", broker.metadata.snapshot().topics[TOPIC].topic_id)
        request = msgspec.structs.replace(stranger.fetching(), group_id="h")  # type: ignore[type-var]  # A struct.
        answer = await client.ask(request, ShareFetchResponse)
        assert [each.error_code for each in answer.responses[0].partitions] == [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ]


async def test_a_latest_start_offset_does_not_move(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker, share_auto_offset_reset="latest")
        await produce(client, "before")
        member = await Member.join(broker, "one")
        assert await member.fetch(max_wait_ms=200) == []
    async with running(tmp_path) as broker:
        client = await Client.to(broker)
        await produce(client, "after")
        member = await Member.join(broker, "two")
        assert await member.fetch() == [Record(1, "after", 1)]


async def test_a_group_starts_at_its_configured_duration(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker, share_auto_offset_reset="by_duration:PT1H")
        await produce(client, "of long ago")
        now_ms = broker.clock.wall_ms()
        await produce(client, batch=build_batch([(now_ms, None, b"of now", ())]))
        member = await Member.join(broker, "one")
        assert await member.fetch() == [Record(1, "of now", 1)]


def of_producer(value: bytes, sequence: int) -> bytes:
    return build_batch(
        [(1, None, value, ())], producer_id=9, producer_epoch=0, base_sequence=sequence, is_transactional=True
    )


async def test_readers_of_committed_records_are_handed_neither_open_nor_aborted_ones(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker, share_isolation_level="read_committed")
        await produce(client, "a")
        partition = broker.partitions.get(TOPIC, 0)
        assert partition is not None

        def append(batch: bytes) -> None:
            partition.append_own(batch)
            broker.flusher.request(partition, lambda error: None)

        append(of_producer(b"aborted", 0))
        await produce(client, "b")
        member = await Member.join(broker, "one")
        assert await member.fetch() == [Record(0, "a", 1)]
        marker = build_transaction_marker(
            ControlType.ABORT, timestamp_ms=1, producer_id=9, producer_epoch=0, coordinator_epoch=0
        )
        append(marker)
        assert [each.value for each in await member.fetch() if each.offset != 3] == ["b"]
        assert await member.acknowledge((0, 0, [ACCEPT]), (2, 3, [ACCEPT, 0])) is ErrorCode.NONE
        assert await described(client) == (4, 0)


async def test_aborted_records_in_a_later_segment_are_not_delivered(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker, share_isolation_level="read_committed")
        partition = broker.partitions.get(TOPIC, 0)
        assert partition is not None
        await produce(client, "a")
        await configure_topic(client, TOPIC, internal_segment_bytes="200")
        await produce(client, "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q")
        partition.append_own(of_producer(b"aborted", 0))
        marker = build_transaction_marker(
            ControlType.ABORT, timestamp_ms=1, producer_id=9, producer_epoch=0, coordinator_epoch=0
        )
        partition.append_own(marker)
        broker.flusher.request(partition, lambda error: None)
        await produce(client, "z")
        assert len(partition.log.segments) > 2
        member = await Member.join(broker, "one")
        values = [each.value for each in await member.fetch()]
        assert (values[0], values[-1]) == ("a", "z")
        assert "aborted" not in values


async def test_no_memory_is_used_for_members_that_left(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        _, member = await fetched(broker, "a")
        assert len(led(broker)._led) == 1
        await member.client._stream.aclose()
        with trio.fail_after(5):
            while led(broker)._led:
                await trio.sleep(0.01)
        assert led(broker).session_count == 0


async def test_with_share_groups_disabled_every_request_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, ("kohort.share.version", "0")) as broker:
        client = await prepared(broker)
        told = await client.ask(
            ApiVersionsRequest(client_software_name="a", client_software_version="1"), ApiVersionsResponse
        )
        finalized = {each.name for each in told.finalized_features}
        assert finalized == {"group.version", "streams.version", "transaction.version"}
        member = Member(client, "one", broker.metadata.snapshot().topics[TOPIC].topic_id)
        assert (await member.ask()).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert await member.acknowledge() is ErrorCode.UNSUPPORTED_VERSION
        (group,) = (
            await client.ask(
                ShareGroupDescribeRequest(group_ids=(GROUP,), include_authorized_operations=False),
                ShareGroupDescribeResponse,
            )
        ).groups
        assert group.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert broker._on_demand.share_partitions() is None
        assert SHARE_STATE_TOPIC not in broker.metadata.snapshot().topics


async def test_released_records_are_not_lost_to_a_closed_connection(tmp_path: Path) -> None:
    """Its session ends first, which wakes whoever waits: not the member that is going."""
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await produce(client, "a")
        one, two = await Member.join(broker, "one"), await Member.join(broker, "two")
        await one.fetch()
        frame, _, _ = one.client.frame(one.fetching())
        await one.client.send(frame)  # It waits for more, and goes.
        await trio.sleep(0.05)
        await one.client._stream.aclose()
        assert await two.fetch() == [Record(0, "a", 2)]
        await configure(client, share_delivery_count_limit="3")
        assert records_of(await two.ask((0, 0, [RELEASE]))) == [Record(0, "a", 3)]
        assert await two.fetch((0, 0, [RELEASE]), max_wait_ms=0) == []
        assert await described(client) == (1, 0)


async def test_a_poison_record_is_archived_without_its_neighbours(tmp_path: Path) -> None:
    """Ten records in one batch, delivered three times at most; whoever gets `poison` hangs up."""
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await configure(client, share_delivery_count_limit="3")
        await produce(client, *"abcd", "poison", *"efghi")
        seen: list[str] = []
        deaths = 0
        member = await Member.join(broker, "0")
        while (await described(client))[1]:
            records = await member.fetch()
            if any(each.value == "poison" for each in records):
                deaths += 1
                await member.client._stream.aclose()
                member = await Member.join(broker, str(deaths))
                continue
            for each in records:
                assert await member.acknowledge((each.offset, each.offset, [ACCEPT])) is ErrorCode.NONE
                seen.append(each.value)
        assert deaths == 3
        assert sorted(seen) == list("abcdefghi")
