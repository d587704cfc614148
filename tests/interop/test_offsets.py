"""Committing, looking up and moving offsets."""

from __future__ import annotations

import time

import pytest

from tests.interop.clients import Client, Outgoing
from tests.interop.conftest import Join, MakeTopic
from tests.interop.members import Member, wait_until_shared
from tests.interop.waiting import wait_until

FIRST_MS = int(time.time()) * 1000 - 3_600_000  # Recent enough for retention to leave it alone.


def produce_ten(client: Client, bootstrap: str, topic: str) -> None:
    """Produce ten records to partition 0, a second apart."""
    records = [
        Outgoing(str(index).encode(), timestamp_ms=FIRST_MS + 1000 * index, partition=0)
        for index in range(10)
    ]
    client.produce(bootstrap, topic, records)


def wait_for_offsets(member: Member, offsets: range) -> None:
    """Return when the member has read exactly these offsets since it joined."""
    wait_until(lambda: len(member.records) >= len(offsets), f"{len(offsets)} records")
    assert [record.offset for record in member.records] == list(offsets)


@pytest.mark.requirement("R15", "R16")
def test_a_group_continues_at_its_committed_offsets(
    client: Client, bootstrap: str, make_topic: MakeTopic, join: Join
) -> None:
    place = make_topic(1)[0]
    produce_ten(client, bootstrap, place.topic)
    first = join(client, place.topic, auto_commit=False)
    wait_for_offsets(first, range(10))
    assert first.call(lambda consumer: consumer.committed(place)) is None
    first.call(lambda consumer: consumer.commit({place: 4}))
    assert first.call(lambda consumer: consumer.committed(place)) == 4
    first.close()
    second = join(client, place.topic, auto_commit=False)
    wait_for_offsets(second, range(4, 10))


@pytest.mark.requirement("R17")
def test_without_a_commit_earliest_reads_all_records_and_latest_only_new_ones(
    client: Client, bootstrap: str, make_topic: MakeTopic, join: Join
) -> None:
    place = make_topic(1)[0]
    produce_ten(client, bootstrap, place.topic)
    early = join(client, place.topic, auto_commit=False)
    wait_for_offsets(early, range(10))
    early.close()
    late = join(client, place.topic, auto_commit=False, start="latest")
    wait_until_shared([late], [place])

    def reads_what_comes() -> bool:  # librdkafka does not say when it has looked up where the end is.
        client.produce(bootstrap, place.topic, [Outgoing(b"one more", partition=0)])
        return bool(late.records)

    wait_until(reads_what_comes, "it reads what comes")
    assert late.records[0].offset >= 10


def test_a_commit_without_arguments_commits_the_position(
    client: Client, bootstrap: str, make_topic: MakeTopic, join: Join
) -> None:
    place = make_topic(1)[0]
    produce_ten(client, bootstrap, place.topic)
    member = join(client, place.topic, auto_commit=False)
    wait_for_offsets(member, range(10))
    member.call(lambda consumer: consumer.commit())
    assert member.call(lambda consumer: consumer.committed(place)) == 10
    assert member.call(lambda consumer: consumer.position(place)) == 10


def test_an_asynchronous_commit_calls_back(
    client: Client, bootstrap: str, make_topic: MakeTopic, join: Join
) -> None:
    place = make_topic(1)[0]
    produce_ten(client, bootstrap, place.topic)
    member = join(client, place.topic, auto_commit=False)
    wait_for_offsets(member, range(10))
    member.call(lambda consumer: consumer.commit_async())
    wait_until(lambda: member.consumer.async_commits == 1, "the commit's answer")
    assert member.call(lambda consumer: consumer.committed(place)) == 10


def test_closing_commits_the_position(
    client: Client, bootstrap: str, make_topic: MakeTopic, join: Join
) -> None:
    place = make_topic(1)[0]
    produce_ten(client, bootstrap, place.topic)
    first = join(client, place.topic)
    wait_for_offsets(first, range(10))
    first.close()
    second = join(client, place.topic)
    wait_until_shared([second], [place])
    assert second.call(lambda consumer: consumer.committed(place)) == 10


def test_seek_reads_again_from_there(
    client: Client, bootstrap: str, make_topic: MakeTopic, join: Join
) -> None:
    place = make_topic(1)[0]
    produce_ten(client, bootstrap, place.topic)
    member = join(client, place.topic, auto_commit=False)
    wait_for_offsets(member, range(10))
    member.records.clear()
    member.call(lambda consumer: consumer.seek(place, 7))
    wait_for_offsets(member, range(7, 10))


def test_offsets_are_found_by_time(client: Client, bootstrap: str, make_topic: MakeTopic, join: Join) -> None:
    place = make_topic(1)[0]
    produce_ten(client, bootstrap, place.topic)
    member = join(client, place.topic)
    wait_until_shared([member], [place])
    for asked_ms, expected in ((0, 0), (FIRST_MS + 3000, 3), (FIRST_MS + 3001, 4), (FIRST_MS + 9001, None)):
        found = member.call(lambda consumer, when=asked_ms: consumer.offset_for_time(place, when))  # type: ignore[misc]
        if expected is None and client.name == "confluent-kafka":  # librdkafka then names the log's end.
            assert found in (None, 10)
        else:
            assert found == expected
    assert member.call(lambda consumer: consumer.bounds(place)) == (0, 10)
