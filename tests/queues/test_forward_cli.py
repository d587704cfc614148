"""`kohort forward`: a process that is looked at, reloaded, and killed beside the broker."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio

from kohort.client import Admin, NewTopic, Producer, TopicPartition
from tests.cli.here import kohort
from tests.differential.apache_kafka import ApacheKafka
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until
from tests.ports import free_port
from tests.queues.service import HttpDouble, http_double
from tests.queues.test_kmq import read_all

ROOT = Path(__file__).parents[2]
ROUNDS = int(os.environ.get("ROUNDS", "4"))
SEED = int(os.environ.get("SEED") or secrets.randbelow(1_000_000))
RECORDS_A_ROUND = 60
ATTEMPTS_MAX = 3
FAILS_EVERY = 20
SETTINGS_FILE = """\
bootstrap_servers = "{bootstrap}"

[[forward]]
name = "{name}"
topic = "{topic}"
url = "{url}"
retry_delays_ms = [100, 300]
attempts_max = {attempts_max}
session_timeout_ms = 6000
"""


@pytest.fixture
def service() -> Iterator[HttpDouble]:
    with http_double() as server:
        yield server


def start(file: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "kohort.cli", "forward", "--config", str(file), *arguments]
    with file.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(command, stderr=log, cwd=ROOT)


def get(port: int, path: str) -> tuple[int, str]:
    """Return status and body; 0 while nobody listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def test_a_process_tells_how_it_is_and_takes_new_settings_over(
    bootstrap: str, topic: str, service: HttpDouble, free_port: int, tmp_path: Path
) -> None:
    name = f"d-{uuid.uuid4().hex[:6]}"
    file = tmp_path / "forward.toml"
    text = SETTINGS_FILE.format(bootstrap=bootstrap, name=name, topic=topic, url=service.url, attempts_max=2)
    file.write_text(text)
    assert kohort("forward", "--config", str(file), "--check").stdout.strip().endswith("1 destination(s)")
    process = start(file, "--http", f"127.0.0.1:{free_port}")
    try:
        wait_until(lambda: get(free_port, "/health/ready")[0] == 200, "it is ready", 40)
        assert get(free_port, "/health/live")[0] == 200
        with Producer(bootstrap_servers=bootstrap) as producer:
            for value in (b"ok", b"status 400", b"fail 1,x"):
                producer.send(topic, value, partition=0)
        wait_until(lambda: len(service.pushes) == 4, "all are pushed")

        def told() -> dict[str, Any]:
            found: dict[str, Any] = json.loads(get(free_port, "/api/v1/forward")[1])["destinations"][0]
            return found

        wait_until(lambda: told()["uncommitted"] == 0 and told()["running"] == 0, "all are done")
        assert told()["counts"] == {"done": 2, "dead": 1, "retry": 1}
        status = ("forward", "--config", str(file), "--http", f"127.0.0.1:{free_port}", "--status")
        head, row, failure = kohort(*status).stdout.splitlines()
        assert head.split()[:5] == ["DESTINATION", "CIRCUIT", "RUNNING", "LIMIT", "UNFINISHED"]
        assert [row.split()[each] for each in (0, 1, 2, 4, 5, 6, 9)] == [
            name,
            "closed",
            "0",
            "0",
            "2",
            "1",
            "1",
        ]
        assert failure == f"{name}, the last failure: status 503"
        assert json.loads(kohort(*status, "--json").stdout)["destinations"] == [told()]
        metrics = get(free_port, "/metrics")[1]
        assert f'kohort_forward_records_total{{action="dead",name="{name}"}} 1.0' in metrics
        assert f'kohort_forward_circuit_open{{name="{name}"}} 0.0' in metrics

        replayed = kohort("forward", "--config", str(file), "--replay", name)
        assert replayed.stdout.startswith("1 record(s) of ")
        wait_until(lambda: service.times["status 400"] == 2, "the dead letter is pushed once more")

        with http_double() as other:
            file.write_text(text.replace(service.url, other.url))
            process.send_signal(signal.SIGHUP)
            wait_until(lambda: told_url(free_port) == other.url, "the new address is taken over", 40)
            with Producer(bootstrap_servers=bootstrap) as producer:
                producer.send(topic, b"elsewhere", partition=0)
            wait_until(lambda: other.values() == ["elsewhere"], "it goes to the new address", 40)
            file.write_text("forward = 1")
            process.send_signal(signal.SIGHUP)
            log = file.with_suffix(".log")
            wait_until(lambda: "the settings stay as they are" in log.read_text(), "a mistake is said")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


def test_a_destination_that_cannot_be_opened_leaves_the_others_alone(
    bootstrap: str, topic: str, service: HttpDouble, free_port: int, tmp_path: Path
) -> None:
    name = f"d-{uuid.uuid4().hex[:6]}"
    file, log = tmp_path / "forward.toml", tmp_path / "forward.log"
    text = SETTINGS_FILE.format(bootstrap=bootstrap, name=name, topic=topic, url=service.url, attempts_max=2)
    other = f'[[forward]]\nname = "{name}-other"\ntopic = "{topic}"\n'
    file.write_text(f'{text}\n{other}url = "https://localhost/"\nca_file = "nowhere.pem"\n')
    process = start(file, "--http", f"127.0.0.1:{free_port}")
    try:
        wait_until(lambda: f"{name}-other starts anew" in log.read_text(), "it is tried again", 40)
        wait_until(lambda: f'"{name}","topic"' in get(free_port, "/api/v1/forward")[1], "one runs", 40)
        file.write_text(f'{text}\n{other}url = "grpc://localhost/a.b/c"\n')
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: "by gRPC needs a new start" in log.read_text(), "that is refused", 40)
        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send(topic, b"ok", partition=0)
        wait_until(lambda: service.values() == ["ok"], "it is pushed", 40)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


def test_who_asks_where_nobody_serves_is_told(tmp_path: Path, free_port: int) -> None:
    file = tmp_path / "forward.toml"
    file.write_text("")
    without = kohort("forward", "--config", str(file), "--status")
    assert (without.returncode, "--status needs --http" in without.stderr) == (2, True)
    done = kohort("forward", "--config", str(file), "--http", f"127.0.0.1:{free_port}", "--status")
    assert (done.returncode, done.stderr.startswith("kohort: no kohort forward serves HTTP")) == (1, True)


def told_url(port: int) -> str | None:
    """Return where the one destination is; None while it is begun anew."""
    status, body = get(port, "/api/v1/forward")
    destinations = json.loads(body)["destinations"] if status == 200 else []
    return destinations[0]["url"] if destinations and destinations[0]["partitions"] else None


@pytest.mark.parametrize(
    "was, becomes, words",
    [
        ("127.0.0.1:1/", "example.org/", "not one of allowed_hosts"),
        ("[[forward]]", "[[other]]", "unknown field"),
    ],
)
def test_a_mistake_in_the_file_is_said_in_one_line(
    tmp_path: Path, was: str, becomes: str, words: str
) -> None:
    file = tmp_path / "forward.toml"
    text = SETTINGS_FILE.format(
        bootstrap="b:1", name="d", topic="t", url="http://127.0.0.1:1/", attempts_max=1
    )
    file.write_text(text.replace(was, becomes))
    done = kohort("forward", "--config", str(file))
    assert done.returncode == 2
    assert words in done.stderr


class Scene:
    """A broker, a service that notes each push, and two workers, all of them processes."""

    def __init__(self, broker: BrokerProcess | ApacheKafka, folder: Path) -> None:
        self.topic = "jobs"
        self.kills: Counter[str] = Counter()
        self.journal = folder / "journal"
        self.journal.touch()
        self._broker = broker
        self._random = Random(SEED)
        self._port = free_port()
        self._file = folder / "forward.toml"
        self._sent = 0
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        return "{}:{}".format(*self._broker.address)

    def open(self) -> None:
        url = f"http://127.0.0.1:{self._port}/"
        self._file.write_text(
            SETTINGS_FILE.format(
                bootstrap=self.bootstrap, name="d", topic=self.topic, url=url, attempts_max=ATTEMPTS_MAX
            )
        )
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topics(NewTopic(self.topic, partitions=2))
        for role in ("service", "worker 1", "worker 2"):
            self._start(role)

    def play(self) -> None:
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for number in range(self._sent, self._sent + RECORDS_A_ROUND):
                word = (
                    "status 503" if number % FAILS_EVERY == 0 else "fail 1" if number % 7 == 0 else "sleep 5"
                )
                producer.send(self.topic, f"{word},{number}".encode(), partition=number % 2)
        self._sent += RECORDS_A_ROUND
        time.sleep(self._random.uniform(0.05, 1.5))
        victim = self._random.choice(["service", "worker 1", "worker 2", "broker"])
        self.kills[victim.split()[0]] += 1
        if victim != "broker":
            self._end(victim)
            self._start(victim)
        elif isinstance(self._broker, BrokerProcess):
            self._broker.restart(signal.SIGKILL)
        else:
            self._broker.stop()
            self._broker.restart()

    def settle(self) -> None:
        """Return when everything of the topic and of the retries is committed."""

        def is_settled() -> bool:
            with Admin(bootstrap_servers=self.bootstrap) as admin:
                kept = admin.list_group_offsets("forward-d")
                topics = (self.topic, "forward-d__retry-1", "forward-d__retry-2")
                parts = [TopicPartition(topic, number) for topic in topics for number in range(2)]
                ends = admin.list_offsets(dict.fromkeys(parts, -1))
                return all((kept[each].offset if each in kept else 0) == ends[each].offset for each in parts)

        wait_until(is_settled, "all is committed", 120)

    def dead(self) -> Counter[int]:
        """Return the numbers of the dead letters, each as often as it is there."""
        letters = trio.run(lambda: read_all("forward-d__dead", {"bootstrap_servers": self.bootstrap}))
        return Counter(number_of((each.value or b"").decode()) for each in letters)

    def pushes(self) -> Counter[tuple[int, int]]:
        """Return how often each record was pushed as its first attempt, its second, and so on."""
        lines = self.journal.read_text().splitlines()
        return Counter((number_of(line), int(line.split()[1])) for line in lines)

    @property
    def sent(self) -> int:
        return self._sent

    def close(self) -> None:
        for role in list(self._processes):
            self._end(role)

    def _start(self, role: str) -> None:
        if role == "service":
            command = [sys.executable, "-m", "tests.queues.service", str(self._port), str(self.journal)]
            self._processes[role] = subprocess.Popen(command, cwd=ROOT)
        else:
            self._processes[role] = start(self._file)

    def _end(self, role: str) -> None:
        process = self._processes.pop(role)
        process.kill()
        process.wait()


def number_of(value: str) -> int:
    """Return the number that a record has at its end."""
    return int(value.rsplit(",", 1)[1])


def test_a_process_may_be_started_before_its_broker(
    mortal_broker: BrokerProcess | ApacheKafka, service: HttpDouble, tmp_path: Path
) -> None:
    """A machine starts them in any order, and a broker may be away just then."""
    bootstrap = "{}:{}".format(*mortal_broker.address)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic("early", partitions=2))
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send("early", b"ok", partition=0)
    mortal_broker.stop()
    file = tmp_path / "forward.toml"
    file.write_text(
        SETTINGS_FILE.format(bootstrap=bootstrap, name="d", topic="early", url=service.url, attempts_max=2)
    )
    process = start(file)
    try:
        log = file.with_suffix(".log")
        wait_until(
            lambda: "no connection to" in log.read_text() or process.poll() is not None, "it tries", 40
        )
        if isinstance(mortal_broker, BrokerProcess):
            mortal_broker.start()
        else:
            mortal_broker.restart()
        wait_until(lambda: service.values() == ["ok"] or process.poll() is not None, "it is pushed", 120)
        assert process.poll() is None, log.read_text()
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def scene(mortal_broker: BrokerProcess | ApacheKafka, tmp_path: Path) -> Iterator[Scene]:
    found = Scene(mortal_broker, tmp_path)
    yield found
    found.close()


def test_no_death_loses_a_record(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    scene.open()
    for _ in range(ROUNDS):
        scene.play()
    scene.settle()
    pushes, dead = scene.pushes(), scene.dead()
    with capsys.disabled():
        sys.stdout.write(
            f"\nkilled: {dict(scene.kills)}; {scene.sent} records, {sum(pushes.values())} pushes,"
            f" {sum(dead.values())} dead letters (SEED={SEED})\n"
        )
    assert {number for number, _ in pushes} == set(range(scene.sent))
    assert max(attempt for _, attempt in pushes) == ATTEMPTS_MAX
    # What always fails is dead, and whatever was pushed for the last time either succeeded or is.
    assert {number for number in range(scene.sent) if number % FAILS_EVERY == 0} <= dead.keys()
    # Each death may repeat what was under way, and a retry that was written and not committed.
    assert max(pushes.values()) <= 1 + sum(scene.kills.values())
