"""A script and whoever answers it: Apache Kafka, whose answers are kept, or a kohort that has to equal them.

A script is a coroutine that asks through a `Told`. It always hears what Apache Kafka has said, so that
the same seed asks the same of both, however much later the other one is asked.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

import msgspec
import trio

from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.records import read_header
from kohort.protocol.schema import Message
from tests.differential.wire import Connection

Rendered = Any
"""An answer in plain values, as JSON gives it back."""

GROUP = "<group>"
SETTLED_S, PATIENCE_S, AGAIN_S = 0.6, 20.0, 0.05
LOG_OVERHEAD_BYTES, BATCH_HEADER_BYTES = 12, 61
OWN_WORDS = frozenset(("error_message", "acknowledge_error_message"))
"""What both say in words of their own; codes are compared, and whether there is an answer at all."""
SORTED = frozenset(("subscribed_topic_names", "partitions"))
UNORDERED = {
    "members": "member_id",
    "topics": "name",
    "groups": "group_id",
    "results": "group_id",
    "topic_partitions": "topic_id",
    "responses": "topic_id",
}


class Peer:
    """One broker as one script sees it: a connection, its topics' ids, and what it has given to members."""

    def __init__(self, address: tuple[str, int], topic_ids: dict[str, UUID], group_id: str) -> None:
        self.group_id = group_id
        self.given: dict[str, dict[str, tuple[int, ...]]] = {}
        """The partitions that each member was given last, by topic."""
        self._address = address
        self._topic_ids = topic_ids
        self._names = {topic_id: name for name, topic_id in topic_ids.items()}
        self._connections: dict[str, Connection] = {}

    def topic_id(self, name: str) -> UUID:
        """Return this broker's id of the topic; one that nobody has, for another name."""
        return self._topic_ids.get(name, UUID(int=0xDEAD))

    async def ask(self, name: str, version: int, message: Message, client_id: str) -> Message:
        """Return the answer; each client has a connection of its own."""
        connection = self._connections.get(client_id)
        if connection is None:
            connection = self._connections[client_id] = Connection(self._address)
            await connection.ask("ApiVersions", 0, ApiVersionsRequest())
        return await connection.ask(name, version, message, client_id)

    def hang_up(self, client_id: str) -> None:
        """Close the connection of a client."""
        connection = self._connections.pop(client_id, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close all connections."""
        for each in tuple(self._connections):
            self.hang_up(each)

    def plain(self, value: object, name: str = "") -> Rendered:
        """Return an answer in plain values: names for ids, nothing that differs from run to run."""
        if isinstance(value, msgspec.Struct):
            return {
                each: self.plain(getattr(value, each), each)
                for each in value.__struct_fields__
                if each != "throttle_time_ms" and each not in OWN_WORDS
            }
        if isinstance(value, tuple | list):
            items = [self.plain(each) for each in value]
            if name in SORTED and all(isinstance(each, int | str) for each in items):
                return sorted(items)
            if name == "groups":  # A list of all groups holds those of other scripts.
                items = [each for each in items if each["group_id"].startswith((GROUP, "nobody"))]
            if name == "acquired_records":
                return _joined(items)
            key = UNORDERED.get(name)
            return items if key is None else sorted(items, key=lambda each: (str(_of(each, key)), str(each)))
        if isinstance(value, str):
            return value.replace(self.group_id, GROUP)
        if isinstance(value, UUID):
            return self._names.get(value, str(value))
        if name == "port":
            return "its own" if value == self._address[1] else value
        return _batches(bytes(value)) if isinstance(value, bytes | memoryview) else value


def _joined(acquired: list[Rendered]) -> list[Rendered]:
    """Return acquired records with what lies beside each other joined: how they are cut up says nothing."""
    found: list[Rendered] = []
    for each in sorted(acquired, key=lambda each: int(each["first_offset"])):
        last = found[-1] if found else None
        if (
            last
            and last["last_offset"] + 1 == each["first_offset"]
            and last["delivery_count"] == each["delivery_count"]
        ):
            found[-1] = last | {"last_offset": each["last_offset"]}
        else:
            found.append(each)
    return found


def _of(item: object, key: str) -> object:
    if not isinstance(item, dict):
        return item
    return item.get(key, item.get("topic_name"))


def _batches(data: bytes) -> list[list[int]]:
    """Return the first and the last offset of each batch."""
    found, position = [], 0
    while position + BATCH_HEADER_BYTES <= len(data):
        header = read_header(data, position)
        found.append([header.base_offset, header.base_offset + header.last_offset_delta])
        position += header.batch_length + LOG_OVERHEAD_BYTES
    return found


@dataclass
class Ask:
    """One request. `build` writes it down for one broker; `learn` hears what that one has answered."""

    name: str
    version: int
    build: Callable[[Peer], Message]
    text: str
    client_id: str = "control"
    learn: Callable[[Peer, Message], None] = lambda _peer, _answer: None
    mask: Callable[[Rendered], Rendered] = lambda answer: answer
    until: Callable[[Rendered], bool] = lambda _answer: True
    """What has to hold of an answer that has settled."""
    settles: bool = False
    """Whether it is asked until its answer stays: what comes by itself has to have come."""


@dataclass
class Difference:
    """What the two said of the same thing."""

    step: int
    ask: Ask
    ours: Rendered
    theirs: Rendered


class Known(Protocol):
    """A difference that stays."""

    @property
    def name(self) -> str:
        """When it is met."""
        ...

    @property
    def ends(self) -> bool:
        """Whether the two stand differently from there on."""
        ...


class Differs(Exception):
    """The script ends here: from there on the two stand differently."""


class TooSlow(Exception):
    """Time has passed that the script can't do without; it has to be played anew."""


@dataclass
class Told:
    """Where a script asks. With `theirs`, what is answered has to equal them; without, it is kept there."""

    peer: Peer
    theirs: list[Rendered] = field(default_factory=list)
    is_recording: bool = True
    transcript: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    allowed: Callable[[Ask, Rendered, Rendered], Known | None] = lambda _ask, _ours, _theirs: None
    met: list[Known] = field(default_factory=list)
    """The differences that were met and may be."""
    _step: int = 0

    async def ask(self, ask: Ask) -> Rendered:
        """Return what Apache Kafka answers, or has answered. Raises: Differs."""
        step, self._step = self._step, self._step + 1
        self.transcript.append(f"{step:3} {ask.text}")
        if self.is_recording:
            answer = await (self._settled(ask) if ask.settles else self._once(ask))
            self.theirs.append(answer)
            self.transcript.append(f"      {answer}")
            return answer
        theirs = self.theirs[step]
        ours = await self._until(ask, theirs) if ask.settles else await self._once(ask)
        self.transcript.append(f"      {theirs}")
        if ours != theirs:
            known = self.allowed(ask, ours, theirs)
            if known is None:
                self.differences.append(Difference(step, ask, ours, theirs))
                raise Differs
            self.met.append(known)
            if known.ends:
                raise Differs
        return theirs

    @property
    def answers(self) -> int:
        """How many answers there were by now."""
        return self._step

    async def _once(self, ask: Ask) -> Rendered:
        answer = await self.peer.ask(ask.name, ask.version, ask.build(self.peer), ask.client_id)
        ask.learn(self.peer, answer)
        return json.loads(json.dumps(ask.mask(self.peer.plain(answer))))

    async def _settled(self, ask: Ask) -> Rendered:
        """Return the answer that has stayed the same for a while."""
        answer, since_s = await self._once(ask), time.monotonic()
        until_s = since_s + PATIENCE_S
        while time.monotonic() - since_s < SETTLED_S or not ask.until(answer):
            assert time.monotonic() < until_s, f"{ask.text}: {answer}"
            await trio.sleep(AGAIN_S)
            before, answer = answer, await self._once(ask)
            if answer != before:
                since_s = time.monotonic()
        return answer

    async def _until(self, ask: Ask, theirs: Rendered) -> Rendered:
        """Return the answer once it is the expected one, or the last one when patience is at its end."""
        until_s = time.monotonic() + PATIENCE_S
        while True:
            ours = await self._once(ask)
            known = None if ours == theirs else self.allowed(ask, ours, theirs)
            stays = known is not None and not known.ends
            if ours == theirs or stays or time.monotonic() > until_s:
                return ours
            await trio.sleep(AGAIN_S)


def story(name: str, seed: int, told: Told, shown: int = 40) -> str:
    """Return how a script came to its difference, and how to see it again."""
    lines = [f"{name} {seed}:", *told.transcript[-shown:]]
    for each in told.differences:
        lines += [f"  answer {each.step}: {each.ask.name} {each.ask.version}"]
        lines += [f"    kohort {each.ours}", f"    Kafka  {each.theirs}"]
        lines += [f"    {where}: {ours!r} is {theirs!r}" for where, ours, theirs in _apart(each)]
    return "\n".join(lines) + "\n"


def _apart(difference: Difference) -> Iterator[tuple[str, Rendered, Rendered]]:
    """Give the places where the two differ."""
    stack: list[tuple[str, Rendered, Rendered]] = [("", difference.ours, difference.theirs)]
    while stack:
        where, ours, theirs = stack.pop()
        if isinstance(ours, dict) and isinstance(theirs, dict):
            stack += [(f"{where}.{each}", ours.get(each), theirs.get(each)) for each in {**ours, **theirs}]
        elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
            stack += [(f"{where}[{n}]", *pair) for n, pair in enumerate(zip(ours, theirs, strict=True))]
        elif ours != theirs:
            yield where, ours, theirs
