"""`kohort wire`, of hexadecimal, of captures and before a broker that real clients use."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import Producer as LibrdkafkaProducer
from kafka import KafkaConsumer, KafkaProducer

from kohort.cli.test_wire_capture import BROKER, CLIENT, Talk, pcap, pcapng
from kohort.protocol.headers import ResponseHeader, frame_request
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.testing import Broker
from tests.cli.here import kohort

MESSAGE = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
HEARTBEAT = b"".join(frame_request(MESSAGE, 4, 7, "app"))
REPLY = HeartbeatResponse(throttle_time_ms=0, error_code=27).encode(4)
ANSWER = (5 + len(REPLY)).to_bytes(4, "big") + ResponseHeader(correlation_id=7).encode(1) + REPLY


def test_a_request_is_shown_byte_by_byte() -> None:
    done = kohort("wire", HEARTBEAT.hex())
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == f"Heartbeat v4 request, correlation id 7, {len(HEARTBEAT)} bytes"
    assert "00004   00 0c                    request_api_key          12: Heartbeat" in done.stdout
    assert "compact string" in done.stdout


@pytest.mark.parametrize("from_file", [True, False])
def test_an_answer_is_decoded_as_the_given_api(from_file: bool, tmp_path: Path) -> None:
    (tmp_path / "answer.xxd").write_text(f"00000000: {ANSWER.hex(' ', 2)}  ............\n")
    given = ("--file", str(tmp_path / "answer.xxd")) if from_file else ("-",)
    done = kohort("wire", "--answer", "heartbeat", "--api-version", "4", *given, stdin=ANSWER.hex())
    assert done.returncode == 0
    assert "27: REBALANCE_IN_PROGRESS" in done.stdout


def test_json_output_has_one_line_for_each_frame() -> None:
    done = kohort("wire", "--json", "-", stdin=(HEARTBEAT * 2).hex())
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["api"] for each in frames] == ["Heartbeat", "Heartbeat"]
    assert b"".join(bytes.fromhex(each["bytes"]) for each in frames[0]["fields"]) == HEARTBEAT


def test_a_damaged_frame_is_shown_up_to_the_damage() -> None:
    done = kohort("wire", HEARTBEAT[:-4].hex())
    assert done.returncode == 1
    assert "cut short: only" in done.stdout
    assert "generation_id" in done.stdout
    assert "  damaged here: " in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("no",), 1, "line 1 is no hexadecimal: 'no'"),
        ((), 1, "there are no bytes"),
        (("--answer", "Fetch"), 2, "--answer and --api-version go together"),
        (("--answer", "Fetched", "--api-version", "1", "00"), 2, "there is no API 'Fetched'"),
        (("--answer", "Heartbeat", "--api-version", "9", "00"), 2, "Heartbeat has the versions 0-4, not 9"),
        (("00", "--proxy", "localhost:1"), 2, "one of them"),
        (("--proxy", "a:b:c"), 2, "is not an address"),
    ],
)
def test_impossible_arguments_are_reported(arguments: Sequence[str], code: int, words: str) -> None:
    done = kohort("wire", *arguments)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr


def test_broker_and_client_do_not_import_construct() -> None:
    text = (
        "import sys, kohort.broker.main, kohort.client, kohort.cli.commands\n"
        "from kohort.client import Admin, Consumer, Producer\nprint('construct' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# -- captures ---------------------------------------------------------------------------------------------


def test_a_capture_is_reassembled(tmp_path: Path) -> None:
    talk = Talk(CLIENT, BROKER)
    sent = [*talk.opening, *talk.says(HEARTBEAT, 9)[::-1], *talk.says(ANSWER, side=1)]
    path = tmp_path / "kafka.pcap"
    path.write_bytes(pcap(sent, 101))
    done = kohort("wire", "--capture", str(path))
    assert done.returncode == 0, done.stderr
    titles = [line for line in done.stdout.splitlines() if "->" in line]
    there, back = "10.0.0.1:40000 -> 10.0.0.2:9092", "10.0.0.2:9092 -> 10.0.0.1:40000"
    assert titles == [
        f"22:13:20.500 {there}  Heartbeat v4 request, correlation id 7, {len(HEARTBEAT)} bytes",
        f"22:13:20.500 {back}  Heartbeat v4 answer, correlation id 7, {len(ANSWER)} bytes",
    ]
    assert "27: REBALANCE_IN_PROGRESS" in done.stdout
    assert kohort("wire", "--capture", str(path), "--only", "Fetch").stdout == ""
    other = kohort("wire", "--capture", str(path), "--port", "1234")
    assert (other.returncode, "the capture has 9092, 40000" in other.stderr) == (1, True)


def test_missing_packets_are_reported(tmp_path: Path) -> None:
    talk = Talk(CLIENT, BROKER)
    sent = talk.says(HEARTBEAT) + talk.says(HEARTBEAT, begin=len(HEARTBEAT) + 9)
    path = tmp_path / "kafka.pcap"
    path.write_bytes(pcap([*talk.opening, *sent], 101))
    done = kohort("wire", "--capture", str(path), "--summary")
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 1
    assert "packets are missing" in done.stderr


def test_a_file_that_is_no_capture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kafka.pcap").write_bytes(b"nothing of that kind, for 24 bytes and more")
    done = kohort("wire", "--capture", str(tmp_path / "kafka.pcap"))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1


def test_an_impossible_timestamp_is_omitted(tmp_path: Path) -> None:
    talk = Talk(CLIENT, BROKER)
    path = tmp_path / "kafka.pcapng"
    path.write_bytes(pcapng([*talk.opening, *talk.says(HEARTBEAT)], 101, resolution=0, seconds=1e15))
    done = kohort("wire", "--capture", str(path), "--summary")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("--:--:--.--- 10.0.0.1:40000 -> ")


# -- the proxy --------------------------------------------------------------------------------------------


class Proxy:
    """The command in a process of its own, and what it prints."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "kohort.cli", "wire", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.told = self.process.stderr.readline()
        self.at = self.told.split()[1]
        self._lines: list[str] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self._lines.extend(self.process.stdout)

    def end(self) -> list[dict[str, Any]]:
        """Return every frame that went through."""
        self.process.terminate()
        assert self.process.wait(30) in (0, 1)
        self._reading.join()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()
        return [json.loads(line) for line in self._lines]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as made:
        made.create_topic("t")
        yield made


def with_librdkafka(at: str) -> bytes:
    producer = LibrdkafkaProducer({"bootstrap.servers": at, "compression.type": "zstd"})
    producer.produce("t", b"value", b"key", headers=[("h", b"x")])
    assert producer.flush(30) == 0
    settings = {"bootstrap.servers": at, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = LibrdkafkaConsumer(settings)
    consumer.subscribe(["t"])
    try:
        message = consumer.poll(30)
        assert message is not None
        value = message.value()
        assert isinstance(value, bytes)
        return value
    finally:
        consumer.close()


def with_kafka_python(at: str) -> bytes:
    producer = KafkaProducer(bootstrap_servers=at)
    producer.send("t", b"value", b"key", headers=[("h", b"x")]).get(30)
    producer.close()
    consumer = KafkaConsumer(
        "t", bootstrap_servers=at, group_id="g", auto_offset_reset="earliest", consumer_timeout_ms=30_000
    )
    try:
        found: bytes = next(iter(consumer)).value
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("client", [with_librdkafka, with_kafka_python])
def test_real_clients_work_through_the_proxy_and_all_frames_are_shown(client: Any, broker: Broker) -> None:
    proxy = Proxy("--proxy", broker.bootstrap, "--rewrite", "--json")
    try:
        assert client(proxy.at) == b"value"
    finally:
        frames = proxy.end()
    assert [each for each in frames if each["problem"]] == []
    said = {(each["api"], each["answer"]) for each in frames}
    for api in ("ApiVersions", "Metadata", "Produce", "FindCoordinator", "JoinGroup", "SyncGroup", "Fetch"):
        assert {(api, False), (api, True)} <= said, api
    for api, is_answer in (("Produce", False), ("Fetch", True)):
        chosen = [each for each in frames if (each["api"], each["answer"]) == (api, is_answer)]
        fields = [each for frame in chosen for each in frame["fields"]]
        values = {each["meaning"] for each in fields if each["field"].endswith("records[0].value")}
        assert "'value'" in values, api
    ports = {frame["way"].split()[3].rpartition(":")[2] for frame in frames if not frame["answer"]}
    assert ports == {broker.bootstrap.rpartition(":")[2]}


def test_an_address_in_use_is_reported_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        done = kohort("wire", "--proxy", "127.0.0.1:1", "--listen", at)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "in use" in done.stderr


def test_without_rewriting_the_proxy_warns_that_clients_bypass_it(broker: Broker) -> None:
    proxy = Proxy("--proxy", broker.bootstrap, "--json")
    try:
        assert with_kafka_python(proxy.at) == b"value"
    finally:
        frames = proxy.end()
    assert "--rewrite has them stay" in proxy.told
    assert "Metadata" in {each["api"] for each in frames}
    assert "Produce" not in {each["api"] for each in frames}


PAGE = Path(__file__).parents[2] / "docs" / "wire.md"


def test_the_examples_on_the_page_are_the_real_output() -> None:
    examples = re.findall(r"```text\n\$ kohort (.*?)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 3
    for command, printed in examples:
        assert kohort(*command.split()).stdout.rstrip() == printed.rstrip()
