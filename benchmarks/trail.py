"""How far a request walks: the functions that it enters, their modules, and how often the module changes.

    python benchmarks/trail.py                       # the table, and which modules the changes come from
    python benchmarks/trail.py --trail OffsetCommit  # each function in its order, indented by depth
    python benchmarks/trail.py --only Produce        # these alone
    python benchmarks/trail.py --write               # write docs/architecture.md as well (`make trail`)

The broker is in this process, and each request was asked before, so that nothing happens for the first time.
Noted are the Python functions of kohort that the loop's thread enters (`sys.setprofile`), from the round that
reads the request to the end of the round that sends the answer. Other threads, comprehensions and libraries
are left out. The shortest of some repetitions counts. With three brokers, the leader is followed until it is
quiet again: the fetches of its followers belong to the request.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import NamedTuple
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.parts import conversations as say
from benchmarks.parts import history, raw_client
from benchmarks.parts.in_process import Line, Script, Step, World, decoded, frame, with_world
from benchmarks.parts.raw_client import Connection

from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kohort.protocol.messages.heartbeat import HeartbeatResponse
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.protocol.messages.join_group import JoinGroupResponse
from kohort.protocol.messages.offset_commit import OffsetCommitResponse
from kohort.protocol.messages.produce import ProduceResponse
from kohort.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kohort.testing import Cluster

PAGE = history.ROOT / "docs" / "architecture.md"
OURS = ("kohort.broker.", "kohort.protocol.", "kohort.storage.")
GENERATED = ("<decode ", "<encode ")
CODECS = "kohort.protocol.generated"
"""Decoders and encoders, which the protocol compiler has written: they are in no module."""
TRANSPORT = "kohort.broker.transport.plain"
"""The module that a line in memory replaces."""
COMPREHENSIONS = frozenset(("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"))
WARM_UP = 8
REPEATS = 12
QUIET_SECONDS = 0.1
"""The leader is traced for this long after an answer: longer than a fetch of its followers takes."""
CAUSES_SHOWN = 8
REPLICAS = 3


class Entry(NamedTuple):
    """A function that was entered: how deep in the walk, and the module of the function that called it."""

    depth: int
    module: str
    function: str
    caller: str


Walk = Sequence[Entry]


class Walker:
    """A `Meter` that notes which functions are entered, in the thread that resumes it."""

    def __init__(self) -> None:
        self.walk: list[Entry] = []
        self._is_on = False

    def begin(self) -> None:
        """Start the recording."""
        self.walk, self._is_on = [], True

    def end(self) -> Walk:
        """Stop the recording, and return it."""
        self._is_on = False
        return self.walk

    def resume(self) -> None:
        """Record the round that begins."""
        if self._is_on:
            sys.setprofile(self.note)

    def pause(self) -> None:
        """End a round."""
        sys.setprofile(None)

    def note(self, frame: FrameType, event: str, argument: object) -> None:
        """Note a function where one is entered."""
        if event != "call" or (module := module_of(frame)) is None:
            return
        depth, caller, outer = 0, "", frame.f_back
        while outer is not None:
            if (name := module_of(outer)) is not None:
                depth, caller = depth + 1, caller or name
            outer = outer.f_back
        self.walk.append(Entry(depth, module, frame.f_code.co_qualname, caller))


def module_of(frame: FrameType) -> str | None:
    """Return the module of kohort that a function is in; None where it counts as no function of kohort's."""
    code = frame.f_code
    if code.co_name in COMPREHENSIONS:
        return None
    if code.co_filename.startswith(GENERATED):
        return CODECS
    name: str = frame.f_globals.get("__name__", "")
    if name == Line.__module__ and code.co_qualname.startswith(Line.__name__):
        return TRANSPORT
    return name if name.startswith(OURS) else None


# -- analysis of a walk -----------------------------------------------------------------------------------


def modules(walk: Walk) -> set[str]:
    """Return the modules of the functions."""
    return {each.module for each in walk}


def changes(names: Sequence[str]) -> int:
    """Return how often a name is followed by another one."""
    return sum(one != other for one, other in pairwise(names))


def saved_in_caller(walk: Walk) -> Counter[str]:
    """Return by module how many changes fewer there are if its functions move to where they are called."""
    before = changes([each.module for each in walk])
    return Counter(
        {
            name: before - changes([each.caller if each.module == name else each.module for each in walk])
            for name in modules(walk)
        }
    )


def saved_together(walk: Walk) -> Counter[tuple[str, str]]:
    """Return by pairs of modules how many changes fewer there are if the two become one."""
    pairs = pairwise(each.module for each in walk)
    return Counter((min(pair), max(pair)) for pair in pairs if pair[0] != pair[1])


def short(module: str) -> str:
    """Return a module's name without what all of them have in common."""
    return module.removeprefix("kohort.").removeprefix("broker.")


# -- requests to one broker -----------------------------------------------------------------------------

Ask = Callable[[World, Walker], Awaitable[list[Walk]]]
"""Asks some times, and returns each walk."""


def repeated(
    line: Line, request: bytes, check: Callable[[bytes], int], walker: Walker, walks: list[Walk]
) -> Script:
    """Send the same request again and again; the recordings of all but the first ones are kept."""
    for number in range(WARM_UP + REPEATS):
        walker.begin()
        (answer,) = yield Step(((line, request),), (line,))
        if number >= WARM_UP:
            walks.append(walker.end())
        say.expect(check(answer))


async def same_again(
    world: World, walker: Walker, request: bytes, check: Callable[[bytes], int]
) -> list[Walk]:
    """Return the walks of a request that can be asked again."""
    (line,) = await world.lines(1)
    walks: list[Walk] = []
    await world.play([repeated(line, request, check, walker, walks)], walker)
    return walks


async def heartbeat(world: World, walker: Walker) -> list[Walk]:
    """A member of a classic group sends heartbeats."""
    (line,), group_id = await world.lines(1), say.a_group()
    joined: list[JoinGroupResponse] = []
    await world.play([say.kept(say.joined_alone(line, group_id), joined)])
    request = frame(say.heartbeat(group_id, joined[0]))
    return await same_again(world, walker, request, lambda a: decoded(a, HeartbeatResponse).error_code)


async def offset_commit(world: World, walker: Walker) -> list[Walk]:
    """A group without members commits an offset."""
    (line,), group_id = await world.lines(1), say.a_group()
    commit = say.commit(group_id, await say.a_topic(world, line))
    await say.asked(world, line, commit, OffsetCommitResponse, say.committed)
    return await same_again(
        world, walker, frame(commit), lambda a: say.committed(decoded(a, OffsetCommitResponse))
    )


async def produce(world: World, walker: Walker) -> list[Walk]:
    """A record is written."""
    (line,) = await world.lines(1)
    request = frame(say.produce(await say.a_topic(world, line)))
    return await same_again(world, walker, request, lambda a: say.produced(decoded(a, ProduceResponse)))


async def join_group(world: World, walker: Walker) -> list[Walk]:
    """A member with an id joins a group that is new, and leads it."""
    (line,) = await world.lines(1)
    walks: list[Walk] = []

    def join() -> Script:
        for number in range(WARM_UP + REPEATS):
            group_id = say.a_group()
            member_id = yield from say.first_join(line, group_id)
            walker.begin()
            (answer,) = yield Step(((line, frame(say.join(group_id, member_id))),), (line,))
            if number >= WARM_UP:
                walks.append(walker.end())
            say.expect(decoded(answer, JoinGroupResponse).error_code)

    await world.play([join()], walker)
    return walks


class Producer:
    """A transactional producer that commits a group's offset in each of its transactions."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._group_id = say.a_group()
        self._transactional_id = str(uuid4())
        self._topic = ""
        self._identity = (-1, -1)

    async def begin(self, world: World) -> None:
        """Create a topic, a group that has committed, and an id."""
        self._topic = await say.a_topic(world, self._line)
        commit = say.commit(self._group_id, self._topic)
        await say.asked(world, self._line, commit, OffsetCommitResponse, say.committed)
        init = InitProducerIdRequest(
            transactional_id=self._transactional_id, transaction_timeout_ms=say.SESSION_MS
        )
        found = await say.asked(world, self._line, init, InitProducerIdResponse, lambda each: each.error_code)
        self._identity = (found.producer_id, found.producer_epoch)

    def commit(self) -> bytes:
        """Return the request to commit an offset within the transaction."""
        producer_id, epoch = self._identity
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self._transactional_id,
            group_id=self._group_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=(TxnOffsetCommitRequestTopic(name=self._topic, partitions=(partition,)),),
        )
        return frame(request)

    def transact(self, walker: Walker, walks: list[Walk]) -> Script:
        """Run one transaction after another; the first request of each is recorded."""
        while len(walks) < WARM_UP + REPEATS:
            walker.begin()
            (answer,) = yield Step(((self._line, self.commit()),), (self._line,))
            walk, code = walker.end(), in_transaction(answer)
            if code == ErrorCode.CONCURRENT_TRANSACTIONS:  # Of the transaction before.
                continue
            say.expect(code)
            walks.append(walk)
            producer_id, epoch = self._identity
            end = EndTxnRequest(
                transactional_id=self._transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                committed=True,
            )
            ended = yield from say.ask(self._line, end, EndTxnResponse, lambda found: found.error_code)
            self._identity = (ended.producer_id, ended.producer_epoch)


def in_transaction(answer: bytes) -> int:
    """Return the code of an offset that was committed in a transaction."""
    return decoded(answer, TxnOffsetCommitResponse).topics[0].partitions[0].error_code


async def txn_offset_commit(world: World, walker: Walker) -> list[Walk]:
    """A producer commits a group's offset, in a transaction that has the group already."""
    (line,) = await world.lines(1)
    producer = Producer(line)
    await producer.begin(world)
    return await same_again(world, walker, producer.commit(), in_transaction)


async def first_txn_offset_commit(world: World, walker: Walker) -> list[Walk]:
    """A producer commits a group's offset, and the group is added to the transaction (KIP-890)."""
    (line,), walks = await world.lines(1), []
    producer = Producer(line)
    await producer.begin(world)
    await world.play([producer.transact(walker, walks)], walker)
    return walks[WARM_UP:]


async def share_acknowledge(world: World, walker: Walker) -> list[Walk]:
    """A member of a share group accepts a record."""
    (line,) = await world.lines(1)
    topic = await say.a_topic(world, line)
    member = say.ShareMember(line, await say.topic_id_of(world, line, topic))
    await member.enter(world, topic)
    written = frame(say.produce(topic))
    stock = WARM_UP + REPEATS
    stored = say.repeated(line, written, stock, lambda a: say.produced(decoded(a, ProduceResponse)))
    await world.play([stored])
    walks: list[Walk] = []

    def work() -> Script:
        asking = member.worked(stock)
        fetch = next(asking)
        for number in range(stock):
            acknowledge = asking.send((yield fetch))
            walker.begin()
            answers = yield acknowledge
            walk = walker.end()
            if number >= WARM_UP:
                walks.append(walk)
            try:
                fetch = asking.send(answers)
            except StopIteration:
                return

    await world.play([work()], walker)
    return walks


ALONE: dict[str, Ask] = {
    "Heartbeat": heartbeat,
    "OffsetCommit": offset_commit,
    "Produce": produce,
    "JoinGroup": join_group,
    "TxnOffsetCommit": txn_offset_commit,
    "first TxnOffsetCommit": first_txn_offset_commit,
    "ShareAcknowledge": share_acknowledge,
}
REPLICATED = "Produce acks=all"
DESCRIBED = {
    "Heartbeat": "a member of a classic group lives",
    "OffsetCommit": "of a group without members",
    "Produce": "one record, one broker",
    "JoinGroup": "the first member of a new group, which has its id",
    "TxnOffsetCommit": "version 5, of a group that the transaction has already",
    "first TxnOffsetCommit": "version 5, which adds the group to the transaction",
    "ShareAcknowledge": "one record is accepted",
    REPLICATED: "one record, on the leader of three replicas, with the fetches of both followers",
}


# -- a request to the leader of three -------------------------------------------------------------------


def replicated_walks() -> list[Walk]:
    """Return the work of a partition leader for a record that its two followers fetch."""
    walks: list[Walk] = []
    with Cluster(topics={say.TOPIC: 1}) as cluster:
        cluster.until(lambda: len(cluster.in_sync(say.TOPIC)) == REPLICAS)
        leader = cluster.leader(say.TOPIC)
        host, _, port = leader.bootstrap.rpartition(":")
        connection = Connection((host, int(port)))
        request = raw_client.produce_frame(say.TOPIC, 0, 1, say.RECORD_BYTES)
        for number in range(WARM_UP + REPEATS):
            walker = Walker()
            leader._core.call(lambda _, note=walker.note: sys.setprofile(note))
            connection.send(request)
            assert raw_client.is_produced(connection.receive())
            time.sleep(QUIET_SECONDS)  # The followers' next fetches belong to the walk.
            leader._core.call(lambda _: sys.setprofile(None))
            if number >= WARM_UP:
                walks.append(of_requests(walker.walk))
        connection.close()
    return walks


def of_requests(walk: Walk) -> Walk:
    """Return a walk without the parts of the rounds that started and stopped the recording."""
    rounds = [place for place, each in enumerate(walk) if each.function == "Reactor._round"]
    served = next(place for place, each in enumerate(walk) if each.function == "Reactor._serve")
    return walk[max(place for place in rounds if place < served) : rounds[-1]]


def measured(names: Sequence[str]) -> dict[str, Walk]:
    """Return the shortest walk of each request."""
    walks: dict[str, list[Walk]] = {}
    if REPLICATED in names:
        walks[REPLICATED] = replicated_walks()

    async def play(world: World) -> None:
        for name in names:
            if name != REPLICATED:
                walks[name] = await ALONE[name](world, Walker())

    if set(names) != {REPLICATED}:
        with_world(play)
    return {name: min(walks[name], key=len) for name in names}


# -- output -----------------------------------------------------------------------------------------------


def table(walks: dict[str, Walk]) -> Iterator[str]:
    """Yield the figures as Markdown."""
    yield "| request | | functions | modules | changes of module |"
    yield "| --- | --- | ---: | ---: | ---: |"
    for name, walk in walks.items():
        figures = (len(walk), len(modules(walk)), changes([each.module for each in walk]))
        yield f"| {name} | {DESCRIBED[name]} | {' | '.join(map(str, figures))} |"


def causes(name: str, walk: Walk) -> Iterator[str]:
    """Yield the modules that cause most changes of module."""
    yield f"{name}: changes fewer"
    yield "  if a module's functions move into the modules that call them"
    entered = Counter(each.module for each in walk)
    for module, saved in saved_in_caller(walk).most_common(CAUSES_SHOWN):
        yield f"    {saved:>3}  {short(module)} ({entered[module]} entered)"
    yield "  if two modules become one"
    for pair, saved in saved_together(walk).most_common(CAUSES_SHOWN):
        yield f"    {saved:>3}  {short(pair[0])} + {short(pair[1])}"


def told(walk: Walk) -> Iterator[str]:
    """Yield each function, indented by its depth."""
    least = min(each.depth for each in walk)
    for each in walk:
        yield f"{'  ' * (each.depth - least)}{short(each.module)}.{each.function}"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="WORD", default="", help="requests with this in their name")
    parser.add_argument("--trail", metavar="NAME", choices=tuple(DESCRIBED), help="print this walk itself")
    parser.add_argument("--write", action="store_true", help="write the table into docs/architecture.md")
    options = parser.parse_args(argv)
    if options.trail is not None:
        print("\n".join(told(measured([options.trail])[options.trail])))
        return 0
    names = [each for each in DESCRIBED if options.only in each]
    if not names or (options.write and options.only):
        parser.error("--write takes all requests" if names else f"there is no request {options.only!r}")
    walks = measured(names)
    print("\n".join(table(walks)))
    for name, walk in walks.items():
        print("", *causes(name, walk), sep="\n")
    if options.write:
        history.write_part("trail", table(walks), PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
