"""The control port of `kohort serve --ephemeral --control`: what other languages do with a test's broker."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from kohort.broker.transport.addresses import Address
from kohort.client import Producer, SchemaRegistry
from kohort.client.schema_header import with_header
from kohort.testing import Broker
from kohort.testing.control import ControlServer

Ask = Callable[..., tuple[int, dict[str, object]]]


def asker(address: str) -> Ask:
    def ask(method: str, path: str, /, **body: object) -> tuple[int, dict[str, object]]:
        connection = http.client.HTTPConnection(address, timeout=30)
        connection.request(method, path, json.dumps(body) if body else None)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        is_text = response.headers["Content-Type"].startswith("text/plain")
        return response.status, {"text": text} if is_text else json.loads(text)

    return ask


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as broker:
        yield broker


@pytest.fixture
def ask(broker: Broker) -> Iterator[Ask]:
    with ControlServer(broker, Address("127.0.0.1", 0)) as server:
        yield asker(str(server.address))


def send(broker: Broker, value: bytes = b"one") -> None:
    with Producer(bootstrap_servers=broker.bootstrap, client_id="writer") as producer:
        producer.send("orders", value=value, key=b"\xff")


def commit(broker: Broker, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "kitchen", "log_level": 0})
    consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    consumer.close()


def test_time_advances(broker: Broker, ask: Ask) -> None:
    before = broker.clock.time()
    assert ask("POST", "/time", advance_seconds=3600)[0] == 200
    _, answer = ask("GET", "/time")
    assert float(str(answer["time"])) >= before + 3600
    assert ask("POST", "/time", advance_seconds=-1)[0] == 400


def test_faults_are_ordered_and_taken_back(broker: Broker, ask: Ask) -> None:
    assert ask("POST", "/faults", api="Produce", error="NOT_LEADER_OR_FOLLOWER")[0] == 200
    assert ask("POST", "/faults", api="Produce", action="tear")[0] == 200
    assert ask("POST", "/faults", api="Produce", delay_seconds=0.01)[0] == 200
    assert ask("POST", "/faults", api="Metadata", action="drop", times=99, client="nobody")[0] == 200
    send(broker)
    assert ask("DELETE", "/faults")[0] == 200
    _, answer = ask("GET", "/requests?api=Produce&client=writer")
    requests = answer["requests"]
    assert isinstance(requests, list)
    assert "answered NOT_LEADER_OR_FOLLOWER by order" in requests[0]["fault"]
    assert requests[0]["errors"] == ["NOT_LEADER_OR_FOLLOWER"]


@pytest.mark.parametrize(
    "body, words",
    [
        ({"api": "Fetsch", "error": "NOT_COORDINATOR"}, "did you mean Fetch"),
        ({"api": "Fetch", "error": "NO_SUCH"}, "no error of Kafka is named 'NO_SUCH'"),
        ({"api": "Fetch"}, "give one of error, delay_seconds and action"),
        ({"api": "Fetch", "acton": "drop"}, "unknown field `acton`"),
        ({"error": "NOT_COORDINATOR"}, "missing required field `api`"),
    ],
)
def test_a_wrong_order_is_refused_with_words(ask: Ask, body: dict[str, object], words: str) -> None:
    status, answer = ask("POST", "/faults", **body)
    assert status == 400
    assert words in str(answer["error"])


def test_requests_are_held_and_released(broker: Broker, ask: Ask) -> None:
    _, begun = ask("POST", "/holds", api="Produce", client="writer")
    with ThreadPoolExecutor() as threads:
        sending = threads.submit(send, broker)
        status, answer = ask("POST", f"/holds/{begun['hold']}/wait", count=1)
        assert status == 200
        assert len(list(answer["requests"])) == 1  # type: ignore[call-overload]
        assert broker.records("orders") == ()
        assert ask("POST", f"/holds/{begun['hold']}/release", count=2)[0] == 400
        assert ask("POST", f"/holds/{begun['hold']}/release", count=1)[0] == 200
        sending.result(20)
    status, answer = ask("POST", f"/holds/{begun['hold']}/wait", within_seconds=0.01)
    assert status == 409
    assert "holds 0 requests, not 1" in str(answer["error"])
    assert ask("DELETE", f"/holds/{begun['hold']}")[0] == 200
    assert ask("DELETE", f"/holds/{begun['hold']}")[0] == 404


def test_the_end_of_the_server_ends_its_holds(broker: Broker) -> None:
    with ThreadPoolExecutor() as threads:
        with ControlServer(broker, Address("127.0.0.1", 0)) as server:
            ask = asker(str(server.address))
            ask("POST", "/holds", api="Produce")
            sending = threads.submit(send, broker)
            ask("POST", "/holds/1/wait")
        sending.result(20)


def test_expectations_answer_with_what_was_found_or_what_was_seen(broker: Broker, ask: Ask) -> None:
    send(broker)
    commit(broker, 1)
    status, answer = ask("POST", "/expect/commit", group="kitchen", topic="orders", offset=1)
    assert status == 200
    assert answer["offsets"] == [{"topic": "orders", "partition": 0, "offset": 1}]
    status, answer = ask(
        "POST", "/expect/commit", group="kitchen", topic="orders", offset=2, within_seconds=0
    )
    assert status == 409
    assert "seen instead: offset 1 is committed" in str(answer["error"])
    status, answer = ask("POST", "/expect/records", topic="orders", values=["one"])
    assert status == 200
    [record] = list(answer["records"])  # type: ignore[call-overload]
    assert (record["value"], record["key_base64"]) == ("one", "/w==")
    assert ask("POST", "/expect/no-lag", group="kitchen", topic="orders")[0] == 200
    assert ask("POST", "/expect/members", group="kitchen", count=0)[0] == 200
    assert ask("POST", "/expect/request", api="Produce", client="writer")[0] == 200


def test_history_is_read(broker: Broker, ask: Ask) -> None:
    send(broker)
    commit(broker, 1)
    assert ask("GET", "/groups/kitchen")[1]["state"] == "Empty"
    assert ask("GET", "/groups/nobody") == (404, {"error": "there is no group 'nobody'"})
    assert ask("GET", "/records/nothing") == (404, {"error": "there is no topic 'nothing'"})
    assert "kitchen: no rebalance is known." in str(ask("GET", "/groups/kitchen/explain")[1]["text"])
    assert "topic 'orders': 1 records" in str(ask("GET", "/report")[1]["text"])
    assert ask("POST", "/topics", name="payments", partitions=2)[1] == {"name": "payments"}
    assert ask("GET", "/records/payments") == (200, {"records": []})
    status, answer = ask("GET", "/nowhere")
    assert status == 404
    assert "POST /expect/commit" in str(answer["error"])
    assert ask("POST", "/groups/nobody/rebalance")[0] == 404


def test_a_page_of_a_browser_is_refused(broker: Broker) -> None:
    with ControlServer(broker, Address("127.0.0.1", 0)) as server:
        connection = http.client.HTTPConnection(str(server.address), timeout=30)
        for headers in ({"Origin": "http://example.org"}, {"Host": "example.org"}):
            connection.request("DELETE", "/faults", headers=headers)
            response = connection.getresponse()
            assert response.status == 403
            response.read()
        connection.close()


@pytest.mark.parametrize(("path", "host"), [("/report", "["), ("http://[", "localhost")])
def test_a_request_that_names_no_address_is_answered(broker: Broker, path: str, host: str) -> None:
    with ControlServer(broker, Address("127.0.0.1", 0)) as server:
        connection = http.client.HTTPConnection(str(server.address), timeout=30)
        connection.request("GET", path, headers={"Host": host})
        assert connection.getresponse().status in (400, 403)
        connection.close()


def test_it_listens_on_an_address_of_ipv6(broker: Broker) -> None:
    with ControlServer(broker, Address("::1", 0)) as server:
        assert asker(str(server.address))("GET", "/time")[0] == 200


@pytest.mark.parametrize(
    "headers", [{"Transfer-Encoding": "chunked"}, {"Content-Length": "-1"}, {"Content-Length": "x"}]
)
def test_a_body_without_its_length_is_refused(broker: Broker, headers: dict[str, str]) -> None:
    with ControlServer(broker, Address("127.0.0.1", 0)) as server:
        connection = http.client.HTTPConnection(str(server.address), timeout=30)
        connection.putrequest("POST", "/holds")
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        assert connection.getresponse().status == 411
        connection.close()


@pytest.mark.parametrize(
    ("path", "body"),
    [("/time", {"advance_seconds": 1e300}), ("/topics", {"name": "a", "configs": {"name": "b"}})],
)
def test_an_order_that_cannot_be_carried_out_is_answered(
    ask: Ask, path: str, body: dict[str, object]
) -> None:
    status, answer = ask("POST", path, **body)
    assert status in (400, 500)
    assert answer["error"]


@contextmanager
def serving(*options: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    command = [sys.executable, "-m", "kohort.cli", "serve", "--ephemeral", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield process, dict(word.split("=", 1) for word in line.split()[2:])
    finally:
        process.kill()
        process.wait()


def test_the_page_of_the_command_decodes_records_by_its_registry() -> None:
    with serving("--control", "127.0.0.1:0", "--schema-registry", "127.0.0.1:0") as (_, addresses):
        schema_id = SchemaRegistry(f"http://{addresses['schema-registry']}").register("names", '"string"')
        with Producer(bootstrap_servers=addresses["kafka"]) as producer:
            producer.send("names", value=with_header(schema_id, b"\x06Ada"), partition=0)
        status, page = asker(addresses["http"])("GET", "/api/v1/live/messages/names?partition=0")
    assert status == 200
    assert '"Ada"' in json.dumps(page).replace("\\", "")


def test_the_command_says_where_it_is_and_ends_by_a_signal() -> None:
    with serving("--control", "127.0.0.1:0", "--set", "num.partitions=2") as (process, addresses):
        ask = asker(addresses["control"])
        assert ask("POST", "/topics", name="orders")[0] == 200
        with Producer(bootstrap_servers=addresses["kafka"]) as producer:
            producer.send("orders", value=b"one")
        assert ask("POST", "/expect/records", topic="orders", count=1)[0] == 200
        connection = http.client.HTTPConnection(addresses["http"], timeout=30)
        connection.request("GET", "/health/live")
        assert connection.getresponse().status == 200
        connection.close()
        ask("POST", "/holds", api="Produce")
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(30) == 0
        assert not Path(addresses["data"]).exists()


@pytest.mark.parametrize(
    "options, words",
    [
        (["--control", "127.0.0.1:0"], "--control is for tests: give --ephemeral as well"),
        (["--ephemeral", "--control", "127.0.0.1:0", "--advertise", "a:1"], "one --listen"),
        (["--ephemeral", "--control", "127.0.0.1:0", "--set", "num.partitions=x"], "num.partitions"),
    ],
)
def test_what_it_cannot_do_is_said(options: list[str], words: str) -> None:
    command = [sys.executable, "-m", "kohort.cli", "serve", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert words in done.stderr
