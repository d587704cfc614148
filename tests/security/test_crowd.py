"""Ten thousand strangers, and a client beside them that has said who it is: what it waits, what they take."""

from __future__ import annotations

import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kohort.client import Admin, NewTopic
from kohort.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kohort.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.attacks.stopwatch import Stopwatch
from tests.attacks.wire import Line
from tests.messages import message_of
from tests.repetitions import only_by_night
from tests.security.guarded import PASSWORD, PLAIN_USERS, USER, Guarded, guarded

TOPIC = "asked"
STRANGERS = 10_000
PER_SECOND = 1_000
CALM_S, HELD_S = 5.0, 5.0
PAUSE_S = 0.002
GREW_BYTES_MAX = 64 * 1024 * 1024
SLOWER_MAX = 2.0
NOISE_MS = 1.0
"""What a single answer takes is less: below it a machine's other work is all that one sees."""
COME_WITHIN_S = 60.0
Record = Callable[[str, object], None]
ASKED = message_of(
    ListOffsetsRequest,
    replica_id=-1,
    topics=(
        message_of(
            ListOffsetsTopic,
            name=TOPIC,
            partitions=(message_of(ListOffsetsPartition, partition_index=0, timestamp=-1),),
        ),
    ),
)


class Client:
    """One who has said who it is, and asks where a topic ends, again and again."""

    def __init__(self, here: Guarded) -> None:
        host, port = here.at("SASL_PLAINTEXT").rsplit(":", 1)
        self._pid = here.broker.pid
        self._line = Line((host, int(port)))
        self._line.ask(SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse, version=1)
        token = f"\0{USER}\0{PASSWORD}".encode()
        self._line.ask(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse, version=2)

    def p99_ms(self, until: Callable[[], bool]) -> tuple[float, int]:
        """Return what 99 of 100 answers took at most, and how many there were."""
        waited_ms = []
        while not until():
            watch = Stopwatch(self._pid)
            answer = self._line.ask(ASKED, ListOffsetsResponse, version=7)
            waited_ms.append(watch.waited_ms())
            assert answer.topics[0].partitions[0].offset == 0
            time.sleep(PAUSE_S)
        waited_ms.sort()
        return waited_ms[len(waited_ms) * 99 // 100], len(waited_ms)


def after(seconds: float) -> Callable[[], bool]:
    end_s = time.monotonic() + seconds
    return lambda: time.monotonic() >= end_s


@contextmanager
def crowd(here: Guarded) -> Iterator[Callable[[], bool]]:
    """Let the strangers come; yield what says whether all have."""
    ports = [here.at(each).rsplit(":", 1)[1] for each in ("SASL_PLAINTEXT", "SASL_SSL")]
    command = [sys.executable, "-m", "tests.security.crowd", str(STRANGERS), str(PER_SECOND), *ports]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            began_s = time.monotonic()

            def have_come() -> bool:
                assert time.monotonic() - began_s < COME_WITHIN_S, "the strangers do not come"
                return bool(selector.select(0))

            yield have_come
        process.stdin.close()
        process.wait(COME_WITHIN_S)


@only_by_night
def test_ten_thousand_unauthenticated_connections_use_little_and_delay_nobody(
    tmp_path: Path, record_property: Record
) -> None:
    settings = ("sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512", f"sasl.jaas.config={PLAIN_USERS}")
    with guarded(tmp_path, *settings) as here:
        with Admin(bootstrap_servers=here.plain) as admin:
            admin.create_topics(NewTopic(TOPIC, partitions=1))
        client = Client(here)
        client.p99_ms(after(1.0))
        before = here.broker.resident_bytes()
        calm_ms, _ = client.p99_ms(after(CALM_S))
        with crowd(here) as have_come:
            coming_ms, answers = client.p99_ms(have_come)
            held_ms, _ = client.p99_ms(after(HELD_S))
            assert here.broker.open_files() < 2 * 256 + 150
            Client(here)  # A newcomer comes in.
        grew = here.broker.peak_resident_bytes() - before
        told = (
            f"p99 {calm_ms:.2f} ms, {coming_ms:.2f} while they come ({answers} answers), {held_ms:.2f} then"
        )
        record_property("told", f"{told}; {grew / 1e6:.1f} MB")
        assert grew < GREW_BYTES_MAX
        most_ms = max(SLOWER_MAX * calm_ms, NOISE_MS)
        assert coming_ms <= most_ms, told
        assert held_ms <= most_ms, told
