"""The cost of a request, and of a stored thing, as their number grows.

    python benchmarks/growth.py                    # 10,000 groups, topics and connections, 1 GB of log
    python benchmarks/growth.py --log-bytes 10e9   # 10 GB of log
    python benchmarks/growth.py --only groups,log --largest 1000
    python benchmarks/growth.py --write            # and note the run, and write the docs (`make bench`)

A separate broker for each kind of thing, in its own process; after each step of growth the same requests are
sent to it, and it is killed by SIGKILL and started again: with topics or a log, once just after
a write, and once when all logs are at rest, as its checkpoint says (decision 0033).
Groups are read from their logs at each start, at rest or not. The cost of a request is the
broker's CPU time from the scheduler's count (/proc/PID/task/*/schedstat), which depends little on other
work of the machine. These must stay flat: requests, memory for each thing, and the start after a
kill at rest: durable data need not be checked again, but groups, which are kept in memory, are read.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.parts import conversations as say
from benchmarks.parts import history
from benchmarks.parts.charts import panels, short
from benchmarks.parts.in_process import decoded, frame
from benchmarks.parts.measured_broker import NOTE_OFTEN, PATIENCE_SECONDS, MeasuredBroker
from benchmarks.parts.raw_client import Connection

from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.protocol.messages.heartbeat import HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupResponse
from kohort.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kohort.protocol.messages.metadata import MetadataResponse
from kohort.protocol.messages.offset_commit import OffsetCommitResponse
from kohort.protocol.messages.offset_fetch import OffsetFetchResponse
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.messages.sync_group import SyncGroupResponse
from kohort.protocol.records import build_batch

SESSION_MS = 1_800_000  # No member may expire on a slow machine.
SPARE_DESCRIPTORS = 500  # A broker gives connections half of what there is.
TOPICS_AT_ONCE = 100
RECORD = bytes(1_024)
BATCH_RECORDS = 256

Figures = dict[str, dict[int, float]]
"""By the name of a figure, then by how many things there were."""


# -- what grows -----------------------------------------------------------------------------------------


def groups(broker: MeasuredBroker, sizes: Sequence[int], figures: Figures) -> None:
    """Groups of a member each, which has committed an offset."""
    topic = create(broker, ["groups"])[0]
    beats: list[bytes] = []
    commits: list[bytes] = []
    fetches: list[bytes] = []
    list(formed(broker, ["before"]))  # The first of all makes `__consumer_offsets`.
    commit_of_others(broker, topic)
    first_kib = broker.memory_kib()
    for size in sizes:
        cpu, more = broker.cpu_seconds(), range(len(beats), size)
        for place in range(0, len(more), TOPICS_AT_ONCE):
            names = [f"group-{number}" for number in more[place : place + TOPICS_AT_ONCE]]
            beats += [frame(say.heartbeat(*each)) for each in formed(broker, names)]
            commits += [frame(say.commit(name, topic)) for name in names]
            fetches += [frame(say.offset_fetch(name, topic)) for name in names]
        note(figures, "us a group formed", size, (broker.cpu_seconds() - cpu) / len(more) * 1e6)
        note(figures, "us a heartbeat", size, broker.cost_us(beats, heard))
        note(figures, "us a commit of a group without members", size, commit_of_others(broker, topic))
        note(figures, "us an offset fetch", size, broker.cost_us(fetches, fetched_offset))
        note(figures, "KiB a group", size, (broker.memory_kib() - first_kib) / size)
        some = beats[:: max(1, len(beats) // 100)]
        milliseconds, cpu_ms = broker.start_again(lambda some=some: broker.ask(some, heard))
        note(figures, "ms from a kill to the first answers", size, milliseconds)
        note(figures, "ms of CPU for it", size, cpu_ms)


def note_starts(
    broker: MeasuredBroker, names: Sequence[str], ask: Callable[[], object], size: int, figures: Figures
) -> None:
    """Measure the start after a kill: just after a write, and with all topics at rest."""
    milliseconds, cpu_ms = broker.start_again(ask, NOTE_OFTEN)
    note(figures, "ms from a kill after writing to the first answers", size, milliseconds)
    note(figures, "ms of CPU after writing", size, cpu_ms)
    broker.come_to_rest(names)
    milliseconds, cpu_ms = broker.start_again(ask)
    note(figures, "ms from a kill at rest to the first answers", size, milliseconds)
    note(figures, "ms of CPU at rest", size, cpu_ms)


def commit_of_others(broker: MeasuredBroker, topic: str) -> float:
    """Return the cost of a commit, of ten groups that have no members."""
    requests = [frame(say.commit(f"without-members-{number}", topic)) for number in range(10)]
    broker.ask(requests, taken)
    return broker.cost_us(requests, taken)


def formed(broker: MeasuredBroker, names: Sequence[str]) -> Iterator[tuple[str, JoinGroupResponse]]:
    """Yield each group with the answer that its only member got, once all are stable."""
    first = broker.ask([frame(say.join(name, "", session_ms=SESSION_MS)) for name in names], told_an_id)
    ids = [decoded(each, JoinGroupResponse).member_id for each in first]
    asks = [frame(say.join(name, each, session_ms=SESSION_MS)) for name, each in zip(names, ids, strict=True)]
    joined = [decoded(each, JoinGroupResponse) for each in broker.ask(asks, joined_code)]
    syncs = [frame(say.sync(name, each)) for name, each in zip(names, joined, strict=True)]
    broker.ask(syncs, lambda answer: decoded(answer, SyncGroupResponse).error_code)
    yield from zip(names, joined, strict=True)


def topics(broker: MeasuredBroker, sizes: Sequence[int], figures: Figures) -> None:
    """Topics of a partition each, with a record in it."""
    names: list[str] = []
    create(broker, ["before"])
    first_kib = broker.memory_kib()
    for size in sizes:
        more = [f"topic-{number}" for number in range(len(names), size)]
        cpu = broker.cpu_seconds()
        create(broker, more)
        note(figures, "us a topic created", size, (broker.cpu_seconds() - cpu) / len(more) * 1e6)
        broker.ask([record(name) for name in more], produced)
        names += more
        some = names[:: max(1, len(names) // 100)]
        note(figures, "us a Metadata of one topic", size, ask_metadata(broker, some))
        last = [record(names[-1])]
        note(figures, "us a Produce to one topic", size, broker.cost_us(last, produced))
        spread = [record(name) for name in some]
        note(figures, "us a Produce to 100 topics in turn", size, broker.cost_us(spread, produced))
        note(figures, "KiB a topic", size, (broker.memory_kib() - first_kib) / size)
        note_starts(broker, names, partial(broker.ask, last, produced), size, figures)


def ask_metadata(broker: MeasuredBroker, names: Sequence[str]) -> float:
    """Return the cost of a Metadata request for one topic after the other."""
    return broker.cost_us(
        [frame(say.metadata(name)) for name in names],
        lambda answer: decoded(answer, MetadataResponse).topics[0].error_code,
    )


def create(broker: MeasuredBroker, names: Sequence[str]) -> Sequence[str]:
    """Create topics, many with each request; return their names."""
    for place in range(0, len(names), TOPICS_AT_ONCE):
        made = tuple(
            CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
            for name in names[place : place + TOPICS_AT_ONCE]
        )
        request = frame(CreateTopicsRequest(topics=made, timeout_ms=60_000))
        (answer,) = broker.answers([request])
        for each in decoded(answer, CreateTopicsResponse).topics:
            say.expect(each.error_code)
    broker.ask([record(name) for name in names[-1:]], produced)
    return names


def record(topic: str) -> bytes:
    """Return a request to write one, which retention leaves alone."""
    return frame(say.produce(topic, timestamp_ms=int(time.time() * 1_000)))


def log(broker: MeasuredBroker, sizes: Sequence[int], figures: Figures) -> None:
    """A log of batches of 256 records of 1 KiB, synced as it is written."""
    (topic,) = create(broker, ["log"])
    now_ms = int(time.time() * 1_000)
    batch = build_batch([(now_ms, None, RECORD, ()) for _ in range(BATCH_RECORDS)])
    data = TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=0, records=batch),))
    large = frame(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=(data,)))
    small = [record(topic)]
    written = 0
    for size in sizes:
        count = max(1, (size - written) // len(batch))
        cpu = broker.cpu_seconds()
        for _ in range(count):  # One at a time: a connection may use only its share.
            (answer,) = broker.answers([large])
            say.expect(produced(answer))
        written += count * len(batch)
        note(figures, "us a MB produced", size, (broker.cpu_seconds() - cpu) / (count * len(batch)) * 1e12)
        note(figures, "us a Produce of one record", size, broker.cost_us(small, produced))
        (answer,) = broker.ask([offsets_at(topic, -1)], found_offset)
        end = decoded(answer, ListOffsetsResponse).topics[0].partitions[0].offset
        places = [fetch(topic, end * number // 101) for number in range(1, 101)]
        note(figures, "us a Fetch of a batch anywhere", size, broker.cost_us(places, fetched))
        note(figures, "us a Fetch at the end", size, broker.cost_us([fetch(topic, end - 1)], fetched))
        note(
            figures,
            "us a ListOffsets by time",
            size,
            broker.cost_us([offsets_at(topic, now_ms)], found_offset),
        )
        note(figures, "MiB of memory in all", size, broker.memory_kib() / 1024)
        note_starts(broker, [topic], partial(broker.ask, small, produced), size, figures)


def fetch(topic: str, offset: int) -> bytes:
    """Return a request for a few KiB from there."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=4_096)
    topics = (FetchTopic(topic=topic, partitions=(partition,)),)
    return frame(FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=4_096, topics=topics))


def offsets_at(topic: str, timestamp: int) -> bytes:
    """Return a question for the first offset of that time, or for the end."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    return frame(
        ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(partition,)),))
    )


def connections(broker: MeasuredBroker, sizes: Sequence[int], figures: Figures) -> None:
    """Connections that have asked for versions, as every client does first."""
    hello = frame(ApiVersionsRequest(client_software_name="growth", client_software_version="1"))
    opened: list[Connection] = []
    (beat,) = [frame(say.heartbeat(*each)) for each in formed(broker, ["connections"])]
    broker.cost_us([beat], heard)
    first_kib = broker.memory_kib()
    try:
        for size in sizes:
            cpu, more = broker.cpu_seconds(), size - len(opened)
            for _ in range(more):
                opened.append(Connection(broker.process.address, PATIENCE_SECONDS))
                opened[-1].send(hello)
                opened[-1].receive()
            note(figures, "us a connection opened", size, (broker.cpu_seconds() - cpu) / more * 1e6)
            note(figures, "us a heartbeat on one of them", size, broker.cost_us([beat], heard))
            cpu = broker.cpu_seconds()
            for each in opened:
                each.send(hello)
            for each in opened:
                each.receive()
            note(figures, "us an ApiVersions on each", size, (broker.cpu_seconds() - cpu) / size * 1e6)
            note(figures, "KiB a connection", size, (broker.memory_kib() - first_kib) / size)
    finally:
        for each in opened:
            each.close()


KINDS: Mapping[str, Callable[[MeasuredBroker, Sequence[int], Figures], None]] = {
    "groups": groups,
    "topics": topics,
    "log": log,
    "connections": connections,
}


def heard(answer: bytes) -> int:
    return decoded(answer, HeartbeatResponse).error_code


def taken(answer: bytes) -> int:
    return say.committed(decoded(answer, OffsetCommitResponse))


def produced(answer: bytes) -> int:
    return say.produced(decoded(answer, ProduceResponse))


def joined_code(answer: bytes) -> int:
    return decoded(answer, JoinGroupResponse).error_code


def told_an_id(answer: bytes) -> int:
    """Return NONE where a new member was given its id, as it has to be."""
    code = decoded(answer, JoinGroupResponse).error_code
    return ErrorCode.NONE if code == ErrorCode.MEMBER_ID_REQUIRED else code


def fetched(answer: bytes) -> int:
    (partition,) = decoded(answer, FetchResponse).responses[0].partitions
    assert partition.records
    return partition.error_code


def fetched_offset(answer: bytes) -> int:
    return decoded(answer, OffsetFetchResponse).groups[0].error_code


def found_offset(answer: bytes) -> int:
    return decoded(answer, ListOffsetsResponse).topics[0].partitions[0].error_code


def note(figures: Figures, name: str, size: int, value: float) -> None:
    """Keep a figure, and print it."""
    figures.setdefault(name, {})[size] = round(value, 2)
    print(f"{short(size):>6}  {name}: {value:,.1f}", flush=True)


# -- output ---------------------------------------------------------------------------------------------


def table(kind: str, figures: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Yield the figures as Markdown: a column for each size, and how the last compares with the first."""
    sizes = sorted({str(size) for each in figures.values() for size in each}, key=float)
    heads = [short(float(each)) + ("B" if kind == "log" else "") for each in sizes]
    yield f"| {kind} | {' | '.join(heads)} | last / first |"
    yield "| --- |" + " ---: |" * (len(sizes) + 1)
    for name, of in figures.items():
        cells = [f"{of[size]:,.1f}" if size in of else "" for size in sizes]
        first, last = of[sizes[0]], of[sizes[-1]]
        yield f"| {name} | {' | '.join(cells)} | {f'{last / first:.2f}' if first > 0 else ''} |"


def picture(run: Mapping[str, Any]) -> str:
    """Return the costs of requests, and the starts after a kill, as plots."""
    plots: dict[str, tuple[str, str, dict[str, list[tuple[float, float]]]]] = {}
    starts: dict[str, list[tuple[float, float]]] = {}
    for kind, figures in run["figures"].items():
        lines: dict[str, list[tuple[float, float]]] = {}
        for name, of in figures.items():
            points = [(float(size), value) for size, value in of.items()]
            if name.startswith("us ") and len(lines) < 3:
                lines[" ".join(name.split()[2:5])] = points
            if name.startswith("ms of CPU"):  # The last one: at rest.
                starts[kind] = points
        plots[kind] = ("bytes" if kind == "log" else kind, "us of CPU a request", lines)
    if "log" in starts:
        starts["log, in 100 kB"] = [(size / 1e5, value) for size, value in starts.pop("log")]
    plots["start after a kill"] = ("groups, topics, 100 kB of log", "ms of CPU", starts)
    return panels(plots)


def page(run: Mapping[str, Any]) -> Iterator[str]:
    """Yield the part of docs/performance.md."""
    yield f"{history.described(dict(run))}, version `{run['version']}`."
    yield f"The load before it was {run['load']:.1f}."
    for kind, figures in run["figures"].items():
        yield ""
        yield from table(kind, figures)
    yield ""
    yield "![Costs over sizes](pictures/growth.svg)"


def newest(noted: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the last run, with the figures of the last run that has them for each kind of thing."""
    figures: dict[str, Any] = {}
    for run in noted:
        figures.update(run["figures"])
    return {**noted[-1], "figures": {kind: figures[kind] for kind in KINDS if kind in figures}}


def render() -> None:
    """Write the last measurement into the docs."""
    noted = history.runs("growth")
    if not noted:
        sys.exit("there is no run in benchmarks/history/growth.jsonl")
    run = newest(noted)
    history.write_part("growth", page(run))
    (history.PICTURES / "growth.svg").write_text(picture(run), encoding="utf-8")


def by_text(figures: Figures) -> dict[str, dict[str, float]]:
    """Return figures as they are read from a file, where sizes are names."""
    return {name: {str(size): value for size, value in of.items()} for name, of in figures.items()}


def decades(first: int, last: int) -> list[int]:
    """Return the powers of ten from the first, and the last."""
    sizes = []
    while first < last:
        sizes.append(first)
        first *= 10
    return [*sizes, last]


def main() -> int:
    """Measure, and print or write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="KIND,KIND", default=",".join(KINDS), help="what is to grow")
    parser.add_argument("--largest", type=int, default=10_000, help="groups, topics, connections (10,000)")
    parser.add_argument("--log-bytes", type=float, default=1e9, help="of the log (1e9)")
    parser.add_argument("--write", action="store_true", help="note the run, and write the docs")
    parser.add_argument("--render", action="store_true", help="write the docs from the last run, and end")
    options = parser.parse_args()
    if options.render:
        render()
        return 0
    load, began = history.load_average(), time.monotonic()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    figures: dict[str, Figures] = {}
    for kind in options.only.split(","):
        first, last = {
            "log": (1_000_000, int(options.log_bytes)),
            "topics": (1, options.largest),
            "connections": (10, min(options.largest, hard // 2 - SPARE_DESCRIPTORS)),
        }.get(kind, (10, options.largest))
        figures[kind] = {}
        print(f"== {kind}")
        with tempfile.TemporaryDirectory(prefix="kohort-growth-") as folder:
            broker = MeasuredBroker(Path(folder))
            try:
                KINDS[kind](broker, decades(first, last), figures[kind])
            finally:
                broker.close()
    run = {
        "version": history.revision(),
        "load": load,
        "took_s": round(time.monotonic() - began),
        "figures": {kind: by_text(found) for kind, found in figures.items()},
    }
    if options.write:
        history.append("growth", run)
        render()
    for kind, found in figures.items():
        print("\n" + "\n".join(table(kind, by_text(found))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
