"""Records on the live page in a real browser, decoded by a schema registry that has hostile names."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kohort.broker.transport.addresses import Address
from kohort.client import Avro, Producer, SchemaRegistry
from kohort.client.schema_header import with_header
from kohort.testing.schema_registry import RunningRegistry
from tests.interop.broker_process import BrokerProcess
from tests.page.browser import Browser, find_chromium
from tests.ports import free_port

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine: install Debian's package `chromium`"
)
MARKUP = '<img src=x onerror="window.harmed=1">'
USER = {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}
SHOWN = "document.getElementById('messages').innerText"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    url = f"http://127.0.0.1:{free_port()}"
    process = BrokerProcess(tmp_path_factory.mktemp("decoded"), f"kohort.schema.registry.url={url}")
    process.start()
    host, port = url.removeprefix("http://").split(":")
    registry = RunningRegistry(process.bootstrap, Address(host, int(port)))
    avro = Avro(url)
    subject = f"users-value{MARKUP}"
    with Producer(bootstrap_servers=process.bootstrap) as producer:
        value = avro.serializer(subject, USER)({"name": MARKUP})
        broken = with_header(SchemaRegistry(url).look_up(subject, json.dumps(USER)), b"\x62")
        for each in (value, broken, with_header(99, b"unknown"), b"plain"):
            producer.send("users", each, partition=0)
    yield process
    registry.close()
    process.stop()


@pytest.fixture(scope="module")
def page(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The messages of the topic, each of them open."""
    assert CHROMIUM is not None
    with Browser(CHROMIUM, tmp_path_factory.mktemp("chromium")) as page:
        page.open(f"http://{broker.http}/#/topic?name=users")
        page.until("document.querySelectorAll('#messages .open').length === 4", "the records are listed")
        page.run("document.querySelectorAll('#messages .open').forEach((each) => each.click())")
        yield page
        assert page.run("window.harmed === undefined && !document.querySelector('main img')")
        assert page.complaints == []


def test_a_record_is_json_with_its_schema(page: Browser) -> None:
    text = page.run(SHOWN)
    assert f'"name": {json.dumps(MARKUP)}' in text
    assert f"JSON, schema 1, users-value{MARKUP} version 1, AVRO" in text


def test_what_is_not_decoded_is_raw_with_the_reason(page: Browser) -> None:
    text = page.run(SHOWN)
    assert "Not decoded: it does not fit schema 1: it ends too early" in text
    assert "Not decoded: the schema registry has no schema 99" in text
    assert "00 00 00 00 01 62" in text or "\\u0000\\u0000\\u0000\\u0000\\u0001b" in text
    assert text.count("Not decoded") == 2
    assert "plain" in text


def test_the_bytes_are_shown_on_request(page: Browser) -> None:
    page.run(
        """(() => { const field = document.querySelector('[aria-label="Shown as"]');
          field.value = 'hex'; field.dispatchEvent(new Event('change')); })()"""
    )
    page.until(f"{SHOWN}.includes('00 00 00 00 01')", "the bytes are shown")
    assert json.dumps(MARKUP) not in page.run(SHOWN)
