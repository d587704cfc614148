"""A broker with a schema registry, as a test has them."""

import json
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from kohort.client import Producer
from kohort.client.schema_header import with_header
from kohort.testing import Broker, BrokerFailed

pytest_plugins = ["pytester"]


def register(url: str, subject: str) -> Any:
    body = json.dumps({"schema": '"string"'}).encode()
    with urlopen(Request(f"{url}/subjects/{subject}/versions", body), timeout=20) as answer:
        return json.load(answer)["id"]


def subjects(url: str) -> Any:
    with urlopen(f"{url}/subjects", timeout=20) as answer:
        return json.load(answer)


def test_it_keeps_schemas_and_its_url_when_the_broker_starts_again() -> None:
    with Broker(schema_registry=True) as broker:
        url = broker.schema_registry
        assert register(url, "one") == 1
        broker.restart()
        assert broker.schema_registry == url
        assert subjects(url) == ["one"]
        assert register(url, "two") == 1


def test_each_broker_has_schemas_of_its_own() -> None:
    with Broker(schema_registry=True) as one, Broker(schema_registry=True) as other:
        register(one.schema_registry, "one")
        assert subjects(other.schema_registry) == []


def decoded(broker: Broker, subject: str) -> Any:
    """Write a record by a schema of the registry; return how the page decodes it."""
    schema_id = register(broker.schema_registry, subject)
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("names", with_header(schema_id, b"\x06Ada"), partition=0)
    with urlopen(f"{broker.http}/api/v1/live/messages/names?partition=0", timeout=20) as answer:
        return json.load(answer)["records"][-1]["value"]["decoded"]


def test_the_page_decodes_records_by_it_also_when_it_came_later_and_after_a_restart() -> None:
    with Broker(http=True, schema_registry=True) as broker:
        assert decoded(broker, "one")["text"] == '"Ada"'
    with Broker(http=True) as broker:
        broker.start_schema_registry()
        assert decoded(broker, "one")["text"] == '"Ada"'
        broker.restart()
        assert decoded(broker, "two")["text"] == '"Ada"'


def test_the_page_decodes_by_the_registry_that_the_test_names() -> None:
    nobody = "http://127.0.0.1:1"
    with Broker({"kohort.schema.registry.url": nobody}, http=True, schema_registry=True) as broker:
        assert "does not answer" in decoded(broker, "one")["problem"]


async def test_an_asynchronous_test_has_it_too() -> None:
    async with Broker(schema_registry=True) as broker:
        assert broker.schema_registry.startswith("http://127.0.0.1:")


def test_a_broker_without_one_says_how_to_have_it() -> None:
    with Broker() as broker:
        with pytest.raises(BrokerFailed, match=r"Broker\(schema_registry=True\)"):
            _ = broker.schema_registry
        url = broker.start_schema_registry()
        assert broker.start_schema_registry() == broker.schema_registry == url
        assert subjects(url) == []


def test_time_that_a_test_moves_is_not_the_registrys() -> None:
    with Broker(schema_registry=True) as broker:
        register(broker.schema_registry, "one")
        broker.clock.advance(60)
        assert register(broker.schema_registry, "two") == 1


def test_the_fixture_gives_the_url_of_the_fixtures_broker(pytester: pytest.Pytester) -> None:
    code = (
        Path(__file__).read_text(encoding="utf-8").partition("def test_it")[0].replace("pytest_plugins", "_")
    )
    pytester.makepyfile(
        f"""{code}
def test_one(kohort_schema_registry, kohort_broker):
    assert kohort_broker.schema_registry == kohort_schema_registry
    assert register(kohort_schema_registry, "one") == 1

def test_two(kohort_schema_registry):
    assert subjects(kohort_schema_registry) == []
"""
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)
