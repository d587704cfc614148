"""The registry over HTTP and in its topic: several of them, restarts, and what a request may be."""

from __future__ import annotations

import json
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kohort.broker.transport.addresses import Address
from kohort.client import Admin, Consumer, NewTopic, Producer
from kohort.client.admin_values import ResourceType
from kohort.client.values import TopicPartition
from kohort.registry.records import TOPIC, Record, SchemaKey, SchemaValue, decode, encode
from kohort.registry.server import BODY_BYTES_MAX
from kohort.testing import Broker, BrokerFailed
from kohort.testing.schema_registry import RunningRegistry
from tests.registry.asking import ask, register

LOCAL = Address("127.0.0.1", 0)


@pytest.fixture
def other_url(broker: Broker) -> Iterator[str]:
    """A second registry of the same topic."""
    registry = RunningRegistry(broker.bootstrap, LOCAL)
    yield f"http://{registry.address}"
    registry.close()


def enum(number: int) -> dict[str, object]:
    return {"type": "enum", "name": f"E{number}", "symbols": ["A"]}


def records_of(broker: Broker) -> list[Record]:
    """Return what the topic says, to one who reads what is committed."""
    partition = TopicPartition(TOPIC, 0)
    options = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=broker.bootstrap, **options) as consumer:  # type: ignore[arg-type]  # Checked.
        consumer.assign(partition)
        end = consumer.end_offsets(partition)[partition]
        found: list[Record] = []
        while consumer.position(partition) < end:
            found += [decode(each.key or b"", each.value) for each in consumer.poll(timeout_ms=100)]
    return found


def test_answers_have_confluents_media_type(url: str) -> None:
    told = ask(url, "GET", "/subjects")
    assert (told.status, told.media_type) == (200, "application/vnd.schemaregistry.v1+json")
    assert ask(url, "GET", "/").content == {}
    assert ask(url, "GET", "/schemas/types").content[0] == "AVRO"
    assert ask(url, "GET", "/v1/metadata/id").content["id"]
    refused = ask(url, "GET", "/subjects/none/versions/1")
    assert (refused.status, refused.content["error_code"]) == (404, 40401)
    assert refused.media_type == told.media_type


def test_the_topic_is_compacted_and_has_one_partition(url: str, broker: Broker) -> None:
    ask(url, "GET", "/subjects")
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert len(admin.describe_topics(TOPIC)[TOPIC].partitions) == 1
        assert admin.describe_configs(ResourceType.TOPIC, TOPIC)["cleanup.policy"].value == "compact"


def test_a_schema_is_in_the_topic_when_its_id_is_returned(url: str, broker: Broker) -> None:
    subject = uuid.uuid4().hex
    schema_id = register(url, subject, "string")
    there = [each for each in records_of(broker) if each.key == SchemaKey(subject, 1)]
    assert there == [Record(SchemaKey(subject, 1), SchemaValue(subject, 1, schema_id, '"string"'))]


def test_a_restarted_registry_has_the_same_state(url: str, other_url: str) -> None:
    subject = uuid.uuid4().hex
    schema_id = register(url, subject, enum(1))
    ask(url, "PUT", f"/config/{subject}", {"compatibility": "FULL"})
    assert ask(other_url, "GET", f"/subjects/{subject}/versions/1").content["id"] == schema_id
    assert ask(other_url, "GET", f"/config/{subject}").content == {"compatibilityLevel": "FULL"}


def test_each_registry_knows_schemas_of_another_at_once(url: str, other_url: str) -> None:
    for number in range(10):
        subject = uuid.uuid4().hex
        schema_id = register(url, subject, enum(number + 100))
        assert ask(other_url, "GET", f"/subjects/{subject}/versions/latest").content["id"] == schema_id
        assert ask(other_url, "GET", f"/schemas/ids/{schema_id}").status == 200
        url, other_url = other_url, url


def test_two_that_write_at_once_give_no_id_and_no_version_twice(
    url: str, other_url: str, broker: Broker
) -> None:
    subject = uuid.uuid4().hex
    ask(url, "PUT", f"/config/{subject}", {"compatibility": "NONE"})

    def write(number: int) -> int:
        return register((url, other_url)[number % 2], subject, enum(number // 2 + 1_000))

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(write, range(40)))
    assert ids[::2] == ids[1::2], "one schema, asked for at both, has one id"
    assert len(set(ids)) == 20
    values = [each.value for each in records_of(broker) if isinstance(each.key, SchemaKey)]
    there = [each for each in values if isinstance(each, SchemaValue) and each.subject == subject]
    assert Counter(each.version for each in there) == Counter(range(1, 21))
    assert {each.id for each in there} == set(ids)


def test_a_registry_continues_after_its_broker_restarted() -> None:
    with Broker() as broker:
        registry = RunningRegistry(broker.bootstrap, LOCAL)
        url = f"http://{registry.address}"
        first = register(url, "s", enum(1))
        broker.restart()
        assert register(url, "t", enum(1)) == first
        assert ask(url, "GET", "/subjects").content == ["s", "t"]
        registry.close()


def test_an_id_is_returned_while_no_broker_runs() -> None:
    with Broker() as broker:
        registry = RunningRegistry(broker.bootstrap, LOCAL)
        url = f"http://{registry.address}"
        schema_id = register(url, "s", enum(1))
        broker.stop()
        assert ask(url, "GET", f"/schemas/ids/{schema_id}").status == 200
        broker.start()
        registry.close()


DEEP = b"[" * 960 + b"]" * 960


def test_records_of_an_older_or_unknown_registry_are_read() -> None:
    key, value = encode(Record(SchemaKey("old", 3), SchemaValue("old", 3, 40, '"string"')))
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics(NewTopic(TOPIC, partitions=1, configs={"cleanup.policy": "compact"}))
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send(TOPIC, value, key=key)
            producer.send(TOPIC, b"no JSON", key=b"no key")
            producer.send(TOPIC, b"{}", key=b'{"keytype":"NOOP","magic":0}')
            producer.send(TOPIC, value.replace(b'"id":40', b'"id":41,"ruleSet":{"a":' + DEEP + b"}"), key=key)
        registry = RunningRegistry(broker.bootstrap, LOCAL)
        url = f"http://{registry.address}"
        assert ask(url, "GET", "/subjects/old/versions").content == [3]
        assert register(url, "new", "int") == 41
        registry.close()


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"schema": 1}', b"\xff", b"[" * 50_000])
def test_an_invalid_request_is_refused(url: str, body: bytes) -> None:
    assert ask(url, "POST", "/subjects/s/versions", body).status in (400, 422)


def test_a_body_and_a_schema_have_their_limits(url: str) -> None:
    assert ask(url, "POST", "/subjects/s/versions", b" " * (BODY_BYTES_MAX + 1)).status == 413
    large = {"type": "enum", "name": "E", "symbols": [f"S{n}" for n in range(150_000)]}
    told = ask(url, "POST", "/subjects/large/versions", {"schema": json.dumps(large)})
    assert told.content["error_code"] == 42209
    small = {**large, "symbols": large["symbols"][:80_000]}
    assert register(url, "large", small)


def test_a_page_under_a_borrowed_name_is_refused(url: str) -> None:
    assert ask(url, "GET", "/subjects", headers={"host": "evil.example"}).status == 421


@pytest.mark.parametrize("media_type", ["text/plain", "text/plain; a=application/json", None])
def test_a_page_of_another_site_registers_nothing(url: str, media_type: str | None) -> None:
    subject = uuid.uuid4().hex
    path, schema = f"/subjects/{subject}/versions", {"schema": '"string"'}
    headers = {"origin": "http://evil.example"}
    simple = headers if media_type is None else {**headers, "content-type": media_type}
    assert ask(url, "POST", path, schema, headers=simple).status == 403
    assert subject not in ask(url, "GET", "/subjects", headers=headers).content
    asked_for = {**headers, "content-type": "application/vnd.schemaregistry.v1+json; charset=utf-8"}
    assert ask(url, "POST", path, schema, headers=asked_for).status == 200


def test_a_hundred_requests_at_once_are_all_answered(url: str) -> None:
    subject = uuid.uuid4().hex
    ask(url, "PUT", f"/config/{subject}", {"compatibility": "NONE"})
    together = threading.Barrier(20)

    def many(number: int) -> list[int]:
        together.wait()
        return [register(url, subject, enum(5_000 + each)) for each in range(number, number + 5)]

    with ThreadPoolExecutor(20) as pool:
        found = [each for ids in pool.map(many, range(0, 100, 5)) for each in ids]
    assert len(set(found)) == 100


@pytest.mark.parametrize("count", [0, 2, 9])
def test_a_recreated_topic_is_read_again(count: int) -> None:
    """Whether the other topic is empty, shorter than the one before, or longer."""
    with Broker() as broker:
        registry = RunningRegistry(broker.bootstrap, LOCAL)
        url = f"http://{registry.address}"
        for number in range(4):
            register(url, f"before-{number}", enum(number))
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.delete_topics(TOPIC)
            admin.create_topics(NewTopic(TOPIC, partitions=1, configs={"cleanup.policy": "compact"}))
        other = RunningRegistry(broker.bootstrap, LOCAL)
        names = [f"behind-{number}" for number in range(count)]
        for number, name in enumerate(names):
            assert register(f"http://{other.address}", name, enum(100 + number)) == number + 1
        assert register(url, "new", enum(999)) == count + 1
        assert register(url, "newer", enum(1000)) == count + 2
        assert ask(url, "GET", "/subjects").content == sorted([*names, "new", "newer"])
        assert ask(f"http://{other.address}", "GET", "/subjects").content == sorted([*names, "new", "newer"])
        assert json.loads(ask(url, "GET", f"/schemas/ids/{count + 1}").content["schema"]) == enum(999)
        other.close()
        registry.close()
        ids = [each.value.id for each in records_of(broker) if isinstance(each.value, SchemaValue)]
        assert len(set(ids)) == len(ids), "an id was given twice"


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_would_lose_schemas_is_refused(policy: str) -> None:
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics(NewTopic(TOPIC, partitions=1, configs={"cleanup.policy": policy}))
        registry = RunningRegistry(broker.bootstrap, LOCAL)
        with pytest.raises(ConnectionError):
            ask(f"http://{registry.address}", "GET", "/subjects")
        with pytest.raises(BrokerFailed) as caught:
            registry.close()
        assert f"cleanup.policy={policy}" in str(caught.value.__cause__)
