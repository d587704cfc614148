"""Requests for a running broker: meaningful ones, of every API and version, ruined or grown to the limits.

A `Maker` returns frames as they go on the wire. What it needs to be meaningful (topics and groups that
are there, member ids and topic ids that the broker has given out) it holds in `Known`, which grows with
the answers. Names of the innocent client are never among it.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar
from uuid import UUID

from kohort.protocol.headers import frame_request
from kohort.protocol.records import Compression, compress, encode_records, seal_batch
from kohort.protocol.registry import APIS, Api
from kohort.protocol.schema import Field, Message
from tests.attacks.grown import LONGEST, STRING_BYTES_MAX, array_paths, grown, longest
from tests.fuzz.wire import mutated
from tests.messages import random_message

M = TypeVar("M", bound=Message)

TOPICS = ("fuzz-0", "fuzz-1", "fuzz-2", "fuzz-3")
GROUPS = ("fuzz-a", "fuzz-b", "fuzz-c")
INTERNAL = ("__consumer_offsets", "__group_events")
ONLY_READING = {"Fetch", "ListOffsets", "Metadata", "DescribeConfigs", "DescribeLogDirs", "DescribeProducers"}
SETTINGS = {  # What may be altered of a topic, and of the broker without breaking what others may expect.
    "retention.ms": ("1", "-1", "x", "9" * 30),
    "segment.bytes": ("1048576", "14", "-1"),
    "cleanup.policy": ("compact", "delete", "compact,delete", "", "x"),
    "compression.type": ("gzip", "zstd", "producer", "uncompressed"),
    "flush.messages": ("1", "1000"),
    "log.cleaner.backoff.ms": ("1", "15000"),
    "compression.gzip.level": ("1", "9", "10"),
}
MEANT_OF_TEN = 8
FRAME_BYTES_MAX = 7_500_000
SMALL_COUNTS = (0, 1, 2, 127, 128, 1_000)
LARGE_COUNTS = (5_000, 19_990, 100_000, 300_000)  # Below what is read of a frame, and above.
MAKERS_OF_TOPICS = {"CreateTopics", "Metadata"}  # What they are asked for stays: few, or more than any limit.
PIPELINE_DEPTHS = (2, 20, 200, 2_000)
PIPELINE_BYTES_MAX = 2_000_000
LEARNED_MAX = 50


@dataclass
class Known:
    """What the broker has given out."""

    member_ids: deque[str] = field(default_factory=lambda: deque([""], LEARNED_MAX))
    topic_ids: deque[UUID] = field(default_factory=lambda: deque([UUID(int=0)], LEARNED_MAX))
    session_ids: deque[int] = field(default_factory=lambda: deque([0], LEARNED_MAX))
    producer_ids: deque[int] = field(default_factory=lambda: deque([-1, 7], LEARNED_MAX))

    def learn(self, answer: Message) -> None:
        """Take from an answer what later requests can be meaningful with."""
        for name, pool in (
            ("member_id", self.member_ids),
            ("session_id", self.session_ids),
            ("producer_id", self.producer_ids),
        ):
            value = getattr(answer, name, None)
            if value and value not in pool:
                pool.append(value)
        topics = getattr(answer, "topics", None) or ()
        for topic in topics if isinstance(topics, tuple) else ():
            given = getattr(topic, "topic_id", None)
            if given and getattr(topic, "name", None) in TOPICS and given not in self.topic_ids:
                self.topic_ids.append(given)


@dataclass(frozen=True)
class Case:
    """What goes on the wire at once, and what it was meant as."""

    data: bytes
    title: str
    api: Api
    version: int
    is_whole: bool  # Whether its answer has to be one that can be read.


class Maker:
    """Makes cases, the same ones for the same random numbers and the same knowledge."""

    def __init__(self, random: Random, known: Known) -> None:
        self._random = random
        self._known = known
        self._versions = [
            (api, version)
            for api in APIS.values()
            for version in range(api.versions.lowest, api.versions.highest + 1)
        ]
        self._turn: list[tuple[Api, int]] = []

    def case(self, correlation_id: int) -> Case:
        """Return the next one: every API and version has its turn before any has a second."""
        if not self._turn:
            self._turn = self._random.sample(self._versions, len(self._versions))
        api, version = self._turn.pop()
        kind = self._random.choices(
            ("meant", "ruined", "ruined stream", "long", "crowded", "deep"), (30, 35, 10, 10, 5, 10)
        )[0]
        try:
            data = getattr(self, "_" + kind.replace(" ", "_"))(api, version, correlation_id)
        except ValueError:  # Values that this version cannot carry.
            message = random_message(api.request, version, self._random)
            kind, data = "plain", self._frame(message, version, correlation_id)
        whole = kind in {"meant", "long", "crowded", "plain"}
        return Case(data, f"{kind} {api.name} v{version}", api, version, whole)

    # -- the kinds ------------------------------------------------------------------------------------

    def _meant(self, api: Api, version: int, correlation_id: int) -> bytes:
        return self._frame(self._sensible(api, version), version, correlation_id)

    def _ruined(self, api: Api, version: int, correlation_id: int) -> bytes:
        """Everything behind API key and version may be ruined; the frame's length is right."""
        whole = self._meant(api, version, correlation_id)
        body = whole[4:8] + mutated(whole[8:], self._random)
        return len(body).to_bytes(4, "big") + body

    def _ruined_stream(self, api: Api, version: int, correlation_id: int) -> bytes:
        return mutated(self._meant(api, version, correlation_id), self._random)

    def _long(self, api: Api, version: int, correlation_id: int) -> bytes:
        """Every string, or one in two of them, as long as it may be, or nearly."""
        text = LONGEST[: STRING_BYTES_MAX - self._random.choice((0, 0, 1, 7, 40, 200))]
        message = longest(api.request, version, text)
        if self._random.randrange(2):
            message = self._mixed(message, self._sensible(api, version))
        client_id = text if self._random.randrange(2) else "fuzz"
        return self._frame(message, version, correlation_id, client_id)

    def _crowded(self, api: Api, version: int, correlation_id: int) -> bytes:
        """Arrays of no element, of some, and of as many as a frame takes."""
        paths = array_paths(api.request, version)
        if not paths:
            return self._meant(api, version, correlation_id)
        path = self._random.choice(paths)
        name = self._random.choice(TOPICS + GROUPS)
        count = self._random.choice(SMALL_COUNTS)
        if not self._random.randrange(8):
            sample = len(grown(api.request, version, path, 100, name).encode(version))
            counts = LARGE_COUNTS[2:] if api.name in MAKERS_OF_TOPICS else LARGE_COUNTS
            count = min(self._random.choice(counts), FRAME_BYTES_MAX // (sample // 100 + 3))
        elif api.name in MAKERS_OF_TOPICS:
            count = min(count, 128)
        return self._frame(grown(api.request, version, path, count, name), version, correlation_id)

    def _deep(self, api: Api, version: int, correlation_id: int) -> bytes:
        """The same request again and again."""
        one = self._meant(api, version, correlation_id)
        return one * min(self._random.choice(PIPELINE_DEPTHS), PIPELINE_BYTES_MAX // len(one) + 1)

    # -- what is meaningful -----------------------------------------------------------------------------

    def _frame(self, message: Message, version: int, correlation_id: int, client_id: str = "fuzz") -> bytes:
        return b"".join(frame_request(message, version, correlation_id, client_id))

    def _sensible(self, api: Api, version: int) -> Message:
        return self._meaningful(random_message(api.request, version, self._random), api)

    def _meaningful(self, message: M, api: Api) -> M:
        """Return the message with most of its values such as a client might send."""
        values: dict[str, object] = {}
        for each in type(message).declaration().fields:
            value = getattr(message, each.name)
            if isinstance(value, tuple):
                values[each.name] = tuple(self._element(each, item, message, api) for item in value)
            elif isinstance(value, Message):
                values[each.name] = self._meaningful(value, api)
            else:
                values[each.name] = self._value(each.name, value, message, api)
        return type(message)(**values)

    def _element(self, declared: Field, item: object, message: Message, api: Api) -> object:
        if isinstance(item, Message):
            return self._meaningful(item, api)
        return self._value(declared.name, item, message, api)

    def _mixed(self, one: M, other: M) -> M:
        """Return a message with some fields of the one and some of the other."""
        names = [each.name for each in type(one).declaration().fields]
        return type(one)(**{each: getattr(self._random.choice((one, other)), each) for each in names})

    def _value(self, name: str, value: object, message: Message, api: Api) -> object:
        choose, known = self._random.choice, self._known
        if value is None or self._random.randrange(10) >= MEANT_OF_TEN:
            return self._tame(name, value)
        if name == "records":
            return self._batch()
        if name == "name" and "Config" in type(message).__name__:
            return choose(tuple(SETTINGS))
        if name == "value":
            return choose(SETTINGS[choose(tuple(SETTINGS))])
        if isinstance(value, str):
            topics = TOPICS + INTERNAL if api.name in ONLY_READING else TOPICS
            if name in {"name", "topic", "topic_names", "resource_name"}:
                return choose(topics)
            if name in {"group_id", "groups", "groups_names", "key", "coordinator_keys"}:
                return choose(GROUPS)
            return {"member_id": choose(known.member_ids), "protocol_type": "consumer"}.get(name, value)
        if isinstance(value, UUID):
            return choose(known.topic_ids)
        if isinstance(value, int) and not isinstance(value, bool):
            return self._number(name, value)
        return value

    def _number(self, name: str, value: int) -> int:
        choose, known = self._random.choice, self._known
        if "partition" in name or name == "index":
            return choose((-1, 1, 2, 4)) if name == "num_partitions" else self._random.randrange(5)
        if "offset" in name or "timestamp" in name:
            return choose((-3, -2, -1, 0, 1, 5, value))
        if name in {"session_timeout_ms", "rebalance_timeout_ms"}:
            return choose((100, 1_000, 6_000))
        meanings: dict[str, tuple[int, ...]] = {
            "acks": (-1, 0, 1),
            "count": (1, 2, 3, 5, 8),
            "max_bytes": (0, 1, 1 << 20, 1 << 30),
            "min_bytes": (0, 1),
            "producer_id": tuple(known.producer_ids),
            "replica_id": (-1,),
            "replication_factor": (-1, 1),
            "resource_type": (2, 2, 4, 32),
            "session_id": tuple(known.session_ids),
            "timeout_ms": (0, 10, 1_000),
        }
        if name in meanings:
            return choose(meanings[name])
        if "epoch" in name or name == "generation_id":
            return choose((-1, 0, 1, 2))
        return self._wait(name, value)

    def _tame(self, name: str, value: object) -> object:
        return self._wait(name, value) if isinstance(value, int) else value

    def _wait(self, name: str, value: int) -> int:
        """Return a time to wait that does not hold the connection for as long as the fuzzer runs."""
        return value % 100 if name == "max_wait_ms" else value

    def _batch(self) -> bytes:
        """Return a batch; it may be ruined below a checksum that is right."""
        choose, roll = self._random.choice, self._random.randrange
        now_ms = int(time.time() * 1000)
        headers = tuple(("h" * roll(5), self._random.randbytes(roll(5))) for _ in range(roll(3)))
        records = [
            (now_ms, choose((None, b"key", b"")), choose((None, b"v" * roll(100))), headers)
            for _ in range(choose((1, 1, 2, 30, 1_000)))
        ]
        payload = encode_records(records)
        codec = choose(tuple(Compression))
        if not roll(4):
            payload = mutated(payload, self._random)
        payload = compress(codec, payload)
        if not roll(8):
            payload = mutated(payload, self._random)
        producer_id = choose(tuple(self._known.producer_ids))
        return seal_batch(
            payload,
            record_count=choose((len(records), len(records), 0, -1, 2**31 - 1))
            if not roll(6)
            else len(records),
            base_timestamp_ms=now_ms,
            max_timestamp_ms=now_ms,
            compression=codec,
            producer_id=producer_id,
            producer_epoch=choose((-1, 0, 1)),
            base_sequence=choose((-1, 0, 1, 2**31 - 1)),
            is_transactional=not roll(10),
            is_control=not roll(20),
        )
