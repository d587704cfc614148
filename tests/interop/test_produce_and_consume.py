"""Each client produces and reads records with its default settings."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

from tests.interop.clients import CLIENTS, Client, ConsumerOptions, Incoming, Outgoing, Place
from tests.interop.conftest import MakeTopic
from tests.interop.members import Member
from tests.interop.waiting import wait_until

FIRST_MS = int(time.time()) * 1000 - 3_600_000  # Recent enough for retention to leave it alone.
COMPRESSIONS = ("gzip", "snappy", "lz4", "zstd")


def read(client: Client, bootstrap: str, places: Sequence[Place], count: int) -> list[Incoming]:
    """Return at least `count` records of these partitions, from their start, without a group."""
    consumer = client.consumer(bootstrap, ConsumerOptions(assigned=places))
    records: list[Incoming] = []

    def enough() -> bool:
        records.extend(consumer.poll(0.2))
        return len(records) >= count

    try:
        wait_until(enough, f"{count} records")
    finally:
        consumer.close()
    return records


def test_everything_in_a_record_survives(client: Client, bootstrap: str, make_topic: MakeTopic) -> None:
    places = make_topic(3)
    sent = [
        Outgoing(b"value", b"key", (("trace", b"1"), ("trace", b"\x00\xff")), FIRST_MS, 0),
        Outgoing(None, b"tombstone", (), FIRST_MS + 1, 1),
        Outgoing(b"no key", None, (("empty", b""),), FIRST_MS + 2, 2),
        Outgoing(b"", b"", (), FIRST_MS + 3, 2),
    ]
    answers = client.produce(bootstrap, places[0].topic, sent)
    assert answers == [(0, 0), (1, 0), (2, 0), (2, 1)]
    got = sorted(read(client, bootstrap, places, 4), key=lambda each: each.timestamp_ms)
    assert [
        (each.value, each.key, each.headers, each.timestamp_ms, each.place.partition) for each in got
    ] == [(each.value, each.key, each.headers, each.timestamp_ms, each.partition) for each in sent]


def test_every_compression_is_read_by_every_client(
    client: Client, bootstrap: str, make_topic: MakeTopic
) -> None:
    places = make_topic(1)
    for compression in COMPRESSIONS:
        records = [Outgoing(f"{compression} {index} ".encode() * 20) for index in range(50)]
        client.produce(bootstrap, places[0].topic, records, compression)
    for reader in CLIENTS.values():
        values = [each.value for each in read(reader, bootstrap, places, 200)]
        assert values == [
            f"{compression} {index} ".encode() * 20 for compression in COMPRESSIONS for index in range(50)
        ], reader.name


def test_records_of_a_key_keep_their_order(client: Client, bootstrap: str, make_topic: MakeTopic) -> None:
    places = make_topic(4)
    sent = [Outgoing(f"{index}".encode(), f"key-{index % 10}".encode()) for index in range(2_000)]
    client.produce(bootstrap, places[0].topic, sent)
    by_key: dict[bytes | None, list[int]] = {}
    partitions: dict[bytes | None, set[int]] = {}
    for record in read(client, bootstrap, places, 2_000):
        by_key.setdefault(record.key, []).append(int(record.value or b"-1"))
        partitions.setdefault(record.key, set()).add(record.place.partition)
    assert {key: list(range(int(key[-1:] or b"0"), 2_000, 10)) for key in by_key if key} == by_key
    assert all(len(where) == 1 for where in partitions.values())


def test_a_record_near_the_size_limit_survives(client: Client, bootstrap: str, make_topic: MakeTopic) -> None:
    places = make_topic(1)
    value = bytes(range(256)) * 3_900  # 998,400 bytes: the clients' own limit is about a million.
    client.produce(bootstrap, places[0].topic, [Outgoing(value)])
    assert read(client, bootstrap, places, 1)[0].value == value


def test_producing_to_an_unknown_topic_creates_it(client: Client, bootstrap: str) -> None:
    topic = f"automatic-{uuid.uuid4().hex[:12]}"
    assert client.produce(bootstrap, topic, [Outgoing(b"first")]) == [(0, 0)]
    assert [each.value for each in read(client, bootstrap, [Place(topic, 0)], 1)] == [b"first"]


def test_a_waiting_reader_gets_a_record_at_once(
    client: Client, bootstrap: str, make_topic: MakeTopic
) -> None:
    places = make_topic(1)
    reader = Member(client, bootstrap, ConsumerOptions(assigned=places))
    try:
        client.produce(bootstrap, places[0].topic, [Outgoing(b"one")])
        wait_until(lambda: reader.records, "the first record")
        client.produce(bootstrap, places[0].topic, [Outgoing(b"two")])
        assert wait_until(lambda: len(reader.records) == 2, "the second record") < 1.0
    finally:
        reader.close()


def test_a_reader_from_the_end_sees_only_later_records(
    client: Client, bootstrap: str, make_topic: MakeTopic
) -> None:
    places = make_topic(1)
    client.produce(bootstrap, places[0].topic, [Outgoing(b"before")])
    reader = Member(client, bootstrap, ConsumerOptions(assigned=places, start="latest"))

    def reads_what_is_produced() -> bool:
        client.produce(bootstrap, places[0].topic, [Outgoing(b"after")])
        return bool(reader.records)

    try:
        wait_until(reads_what_is_produced, "a record from after the start")
        assert {each.value for each in reader.records} == {b"after"}
    finally:
        reader.close()
