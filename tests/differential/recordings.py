"""What Apache Kafka has answered to scripts, kept beside the tests; and the scripts played on a broker.

python -m tests.differential.recordings KIND ... [--scripts N]  plays them on Apache Kafka, and keeps its
answers. The ordinary tests play the same scripts on kohort, and need no Java for that.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from uuid import UUID

import trio

from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kohort.protocol.records import build_batch
from tests.differential import (
    consumer_script,
    share_records,
    share_requests,
    share_script,
    share_transactions,
    streams_script,
)
from tests.differential.apache_kafka import ApacheKafka
from tests.differential.run import IN_ORDER
from tests.differential.told import Ask, Differs, Known, Peer, Rendered, Told, TooSlow
from tests.differential.wire import Connection, produce
from tests.interop.broker_process import BrokerProcess

FOLDER = Path(__file__).with_name("recorded")
AT_ONCE = 16
ATTEMPTS, ATTEMPTS_KAFKA = 10, 3
SPARE = 20
"""So many more are recorded: what Apache Kafka does not answer as it should, in time, is left out."""
PATIENCE_S = 60.0
LOOK_EVERY_S = 0.05
GROUP_ID_NOT_FOUND = 69
FIRST_TIMESTAMP_MS = 1_700_000_000_000
SETTINGS = (
    "offsets.topic.num.partitions=4",
    "offsets.topic.replication.factor=1",
    "auto.create.topics.enable=false",
    "log.retention.ms=-1",  # The records are old: they bear the same times in each run.
    "group.initial.rebalance.delay.ms=0",
    "transaction.state.log.num.partitions=4",
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
    "share.coordinator.state.topic.num.partitions=4",
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
    "group.share.min.record.lock.duration.ms=1000",
    "group.share.max.record.lock.duration.ms=600000",
    "group.share.max.session.timeout.ms=600000",
    "group.share.session.timeout.ms=600000",
    "group.consumer.assignment.interval.ms=0",
    "group.share.assignment.interval.ms=0",
    "group.streams.assignment.interval.ms=0",
    "group.streams.initial.rebalance.delay.ms=0",
)
OF_KAFKA = (
    # Assignments are made with the heartbeat that asks for them, not beside it.
    "group.consumer.assignor.offload.enable=false",
    "group.share.assignor.offload.enable=false",
    "group.streams.assignor.offload.enable=false",
)


class Script(Protocol):
    """One script, made for whoever answers it."""

    async def play(self) -> None:
        """Ask everything. Raises: Differs, TooSlow."""
        ...


@dataclass(frozen=True)
class Kind:
    """A kind of scripts: what they are called, and the topics that they find."""

    name: str
    script: Callable[[int, Told], Script]
    topics: dict[str, int]
    batches: dict[str, Sequence[int]] = field(default_factory=dict)
    """How many records each batch has that stands in partition 0 of a topic."""
    scripts: int = 300
    warm_up: Callable[[Connection, dict[str, UUID]], Awaitable[None]] | None = None
    """What has to be asked before all is there that a broker makes at first use."""

    @property
    def path(self) -> Path:
        """Where Apache Kafka's answers are kept."""
        return FOLDER / f"{self.name}.json.xz"


KINDS = {
    each.name: each
    for each in (
        Kind("consumer-groups", consumer_script.ConsumerScript, consumer_script.TOPICS),
        Kind(
            "share-groups",
            share_script.ShareScript,
            share_script.TOPICS,
            dict(share_records.BATCHES),
            warm_up=share_requests.warm_up,
        ),
        Kind(
            "share-groups-on-transactions",
            share_transactions.TransactionsScript,
            share_transactions.TOPICS,
            scripts=100,
            warm_up=share_transactions.write_log,
        ),
        Kind("streams-groups", streams_script.StreamsScript, streams_script.TOPICS, scripts=150),
    )
}


@dataclass
class Played:
    """How one script ended."""

    seed: int
    told: Told


def recorded(kind: Kind) -> dict[int, list[Rendered]]:
    """Return what Apache Kafka has answered, by seed."""
    kept = json.loads(lzma.decompress(kind.path.read_bytes()))
    return {int(seed): answers for seed, answers in kept.items()}


def keep(kind: Kind, played: Iterable[Played]) -> None:
    """Write down what Apache Kafka has answered."""
    answers = {str(each.seed): each.told.theirs for each in played}
    data = json.dumps(answers, separators=(",", ":"), sort_keys=True).encode()
    FOLDER.mkdir(exist_ok=True)
    kind.path.write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))


async def prepare(kind: Kind, address: tuple[str, int]) -> dict[str, UUID]:
    """Make the topics and their records; return the topics' ids once every coordinator answers."""
    control = Connection(address)
    try:
        topics = tuple(
            CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=(), configs=())
            for name, count in kind.topics.items()
        )
        await control.ask("CreateTopics", 7, CreateTopicsRequest(topics=topics, timeout_ms=30_000))
        with trio.fail_after(PATIENCE_S):
            topic_ids = await _topic_ids(kind, control)
            for topic, sizes in kind.batches.items():
                await _fill(control, topic, sizes)
            await _wait_for_coordinators(control)
            if kind.warm_up is not None:
                await kind.warm_up(control, topic_ids)
    finally:
        control.close()
    return topic_ids


async def _topic_ids(kind: Kind, control: Connection) -> dict[str, UUID]:
    while True:
        found = await control.ask("Metadata", 12, MetadataRequest(topics=None))
        assert isinstance(found, MetadataResponse)
        led = {
            str(each.name): each.topic_id
            for each in found.topics
            if each.name in kind.topics
            and len(each.partitions) == kind.topics[each.name]
            and all(partition.leader_id >= 0 for partition in each.partitions)
        }
        if len(led) == len(kind.topics):
            return led
        await trio.sleep(LOOK_EVERY_S)


async def _fill(control: Connection, topic: str, sizes: Sequence[int]) -> None:
    for number, size in enumerate(sizes):
        batch = build_batch(
            [(FIRST_TIMESTAMP_MS + number, None, b"%d of %d" % (each, number), ()) for each in range(size)]
        )
        await produce(control, topic, batch)


async def _wait_for_coordinators(control: Connection) -> None:
    keys = tuple(f"probe-{number}" for number in range(100))
    while True:
        await control.ask("FindCoordinator", 4, FindCoordinatorRequest(coordinator_keys=keys))
        answer = await control.ask("DescribeGroups", 6, DescribeGroupsRequest(groups=keys))
        assert isinstance(answer, DescribeGroupsResponse)
        if {each.error_code for each in answer.groups} == {GROUP_ID_NOT_FOUND}:
            return
        await trio.sleep(LOOK_EVERY_S)


async def play_all(
    kind: Kind,
    address: tuple[str, int],
    theirs: dict[int, list[Rendered]] | None,
    seeds: Iterable[int],
    allowed: Callable[[Ask, Rendered, Rendered], Known | None] = lambda _ask, _ours, _theirs: None,
) -> list[Played]:
    """Return how the scripts ended. With `theirs` they are compared with that, else that is what is new."""
    topic_ids = await prepare(kind, address)
    played: list[Played] = []
    left = iter(seeds)

    async def work() -> None:
        for seed in left:
            for attempt in range(ATTEMPTS_KAFKA if theirs is None else ATTEMPTS):
                peer = Peer(address, topic_ids, f"group-{seed}-{attempt}-of-{kind.name}")
                kept = None if theirs is None else theirs[seed]
                told = Told(peer, [] if kept is None else kept, is_recording=kept is None, allowed=allowed)
                try:
                    await kind.script(seed, told).play()
                except Differs:
                    pass
                except TooSlow:
                    assert attempt + 1 < ATTEMPTS, f"the machine is too slow for script {seed}"
                    continue  # What Apache Kafka does not answer as it should in time is left out.
                finally:
                    peer.close()
                played.append(Played(seed, told))
                break

    async with trio.open_nursery() as nursery:
        for _ in range(AT_ONCE):
            nursery.start_soon(work)
    return sorted(played, key=lambda each: each.seed)


@contextmanager
def kohort(folder: Path, *settings: str) -> Iterator[tuple[str, int]]:
    """Give the address of a kohort in a process of its own; later settings win."""
    process = BrokerProcess(folder, *SETTINGS, *settings)
    try:
        process.start()
        yield process.address
    finally:
        process.stop()


@contextmanager
def apache_kafka(folder: Path) -> Iterator[tuple[str, int]]:
    """Give the address of an Apache Kafka in a process of its own. Raises: MissingTool."""
    process = ApacheKafka(folder, *SETTINGS, *IN_ORDER, *OF_KAFKA)
    try:
        process.start()
        yield process.address
    finally:
        process.stop()


def main(arguments: Sequence[str]) -> int:
    """Play the scripts on Apache Kafka, keep its answers, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.recordings")
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], metavar="KIND")
    parser.add_argument("--scripts", type=int, metavar="N")
    chosen = parser.parse_args(arguments)
    for name in chosen.kinds or KINDS:
        began_s, scripts = time.monotonic(), chosen.scripts or KINDS[name].scripts
        with tempfile.TemporaryDirectory() as folder, apache_kafka(Path(folder)) as address:
            played = trio.run(play_all, KINDS[name], address, None, range(scripts + SPARE))[:scripts]
        keep(KINDS[name], played)
        answers = sum(each.told.answers for each in played)
        sys.stdout.write(
            f"{name}: {len(played)} scripts, {answers} answers, {KINDS[name].path.stat().st_size:,} bytes, "
            f"{time.monotonic() - began_s:.0f} s\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
