"""Scripts for share groups on a log with transactions: what each isolation level hands out, by seed.

One partition holds records of committed, aborted and open transactions, side by side with others. A member
fetches, says what has become of records, ends its session; the group's isolation level changes meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random
from typing import Any, Literal
from uuid import UUID

import trio

from kohort.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kohort.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsGroup,
    DescribeShareGroupOffsetsRequest,
)
from kohort.protocol.messages.end_txn import EndTxnRequest
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest
from kohort.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from kohort.protocol.messages.share_fetch import ShareFetchRequest
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kohort.protocol.records import build_batch
from kohort.protocol.schema import Message
from tests.differential.share_answers import check_given, is_assigned, partitions_of, told_of
from tests.differential.share_records import ACCEPT, GAP, JOINING, REJECT, RELEASE, Words
from tests.differential.share_requests import (
    INITIAL,
    RESET,
    acknowledged_topics,
    fetch_topics,
    group_configs,
    warm_up,
)
from tests.differential.told import AGAIN_S, Ask, Peer, Told
from tests.differential.wire import Connection, produce

TOPIC = "work"
TOPICS = {TOPIC: 1}
TIMEOUT_MS = 900_000
TRANSACTIONS = 1
"""The kind of coordinator."""
PATIENCE_S = 60.0
LIMIT = 3
WAIT_MS, NO_WAIT_MS = 5_000, 0
FINAL = -1
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
ISOLATION = "share.isolation.level"
Act = Literal["write", "commit", "abort"]
NOBODY = ""
PLAN: tuple[tuple[Act, str, int], ...] = (
    ("write", NOBODY, 3),
    ("write", "a", 4),
    ("write", NOBODY, 2),
    ("commit", "a", 0),
    ("write", "a", 3),
    ("write", "b", 2),
    ("write", NOBODY, 1),
    ("abort", "a", 0),
    ("write", "b", 2),
    ("commit", "b", 0),
    ("write", "a", 5),
    ("abort", "a", 0),
    ("write", NOBODY, 4),
    ("write", "b", 1),
    ("write", "a", 2),
    ("commit", "a", 0),
    ("write", "b", 3),
    ("abort", "b", 0),
    ("write", NOBODY, 3),
    ("write", "c", 3),
    ("write", NOBODY, 5),
)
"""What the log consists of: who writes how many records in a batch, how transactions end. c's stays open."""
MARKER, OPEN = "marker", "open"


def layout() -> list[str]:
    """Return what stands at each offset: who wrote it without a transaction, how that ended, or a marker."""
    found: list[str] = []
    waiting: dict[str, list[int]] = {}
    for act, who, count in PLAN:
        if act == "write":
            if who:
                waiting.setdefault(who, []).extend(range(len(found), len(found) + count))
            found += [OPEN if who else "write"] * count
        else:
            for offset in waiting.pop(who):
                found[offset] = act
            found.append(MARKER)
    return found


LAYOUT = layout()
STABLE = LAYOUT.index(OPEN)


def may_be_read(offset: int, level: str) -> bool:
    """Return whether a group of that level is ever given what stands there."""
    if level == COMMITTED:
        return offset < STABLE and LAYOUT[offset] in ("write", "commit")
    return LAYOUT[offset] != MARKER


# -- the log ----------------------------------------------------------------------------------------------


class _Producer:
    """One who writes transactions, as a producer of old does: partitions are added before."""

    def __init__(self, control: Connection, name: str) -> None:
        self._control = control
        self._name = f"writer-{name}"
        self._sequence = 0
        self._is_open = False
        self._id, self._epoch = -1, -1

    async def _until_done(self, name: str, version: int, message: Message) -> Any:
        """Return the answer that has no error: while a transaction ends, there is one."""
        while True:
            answer: Any = await self._control.ask(name, version, message)
            if hasattr(answer, "error_code"):
                code = answer.error_code
            else:
                [topic] = answer.results_by_topic_v3_and_below
                code = topic.results_by_partition[0].partition_error_code
            if not code:
                return answer
            await trio.sleep(AGAIN_S)

    async def begin(self) -> None:
        """Be the only one of its name; return when what it did before has ended, with its markers."""
        find = FindCoordinatorRequest(key_type=TRANSACTIONS, coordinator_keys=(self._name,))
        await self._control.ask("FindCoordinator", 4, find)  # Kafka makes the topic at the first of these.
        request = InitProducerIdRequest(transactional_id=self._name, transaction_timeout_ms=TIMEOUT_MS)
        answer = await self._until_done("InitProducerId", 2, request)
        self._id, self._epoch, self._sequence = answer.producer_id, answer.producer_epoch, 0

    async def write(self, count: int) -> None:
        """Add a batch of so many records to its transaction."""
        if not self._is_open:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._name,
                v3_and_below_producer_id=self._id,
                v3_and_below_producer_epoch=self._epoch,
                v3_and_below_topics=(AddPartitionsToTxnTopic(name=TOPIC, partitions=(0,)),),
            )
            await self._until_done("AddPartitionsToTxn", 3, request)
            self._is_open = True
        data = build_batch(
            records(count),
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
            is_transactional=True,
        )
        self._sequence += count
        await produce(self._control, TOPIC, data, self._name)

    async def end(self, *, is_commit: bool) -> None:
        """End its transaction; return when its marker is in the log."""
        request = EndTxnRequest(
            transactional_id=self._name,
            producer_id=self._id,
            producer_epoch=self._epoch,
            committed=is_commit,
        )
        await self._until_done("EndTxn", 3, request)
        self._is_open = False
        await self.begin()


def records(count: int) -> list[tuple[int, None, bytes, tuple[()]]]:
    """Return records as old as the markers: else these, which are of now, would begin segments."""
    now_ms = time.time_ns() // 1_000_000
    return [(now_ms, None, b"%d" % number, ()) for number in range(count)]


async def write_log(control: Connection, topic_ids: dict[str, UUID]) -> None:
    """Write the log, and return once share groups can read it."""
    producers = {who: _Producer(control, who) for _, who, _ in PLAN if who}
    with trio.fail_after(PATIENCE_S):
        for producer in producers.values():
            await producer.begin()
        for act, who, count in PLAN:
            if not who:
                await produce(control, TOPIC, build_batch(records(count)))
            elif act == "write":
                await producers[who].write(count)
            else:
                await producers[who].end(is_commit=act == "commit")
        await warm_up(control, topic_ids)


# -- the scripts ------------------------------------------------------------------------------------------


class TransactionsScript:
    """One script; `play` asks all of it."""

    def __init__(self, seed: int, told: Told) -> None:
        self._random = random = Random(f"share group on transactions {seed}")
        self._told = told
        self._level = random.choice((COMMITTED, COMMITTED, UNCOMMITTED))
        self._changes = random.random() < 0.3
        self._steps = random.randint(20, 45)
        self._epoch = JOINING
        self._session = INITIAL
        self._free = set(range(len(LAYOUT)))
        self._held: dict[int, int] = {}
        """How often each was delivered that the member holds."""

    async def play(self) -> None:
        """Ask everything. Raises: Differs, TooSlow."""
        await self._configure({RESET: "earliest", "share.delivery.count.limit": str(LIMIT)})
        await self._configure({ISOLATION: self._level})
        await self._heartbeat(settles=False)
        await self._heartbeat(settles=True)
        for _ in range(self._steps):
            await self._step()
        await self._offsets()

    async def _step(self) -> None:
        chance = self._random.random()
        if chance < 0.5:
            await self._fetch()
        elif chance < 0.85:
            await self._acknowledge()
        elif chance < 0.9:
            await self._close()
        elif chance < 0.95:
            await self._offsets()
        elif self._changes and not self._held:
            self._level = UNCOMMITTED if self._level == COMMITTED else COMMITTED
            await self._configure({ISOLATION: self._level})

    async def _configure(self, settings: dict[str, str]) -> None:
        def build(peer: Peer) -> Message:
            return group_configs(peer.group_id, settings)

        await self._told.ask(Ask("IncrementalAlterConfigs", 1, build, f"configure {settings}"))

    async def _heartbeat(self, *, settles: bool) -> None:
        heard: dict[Peer, int] = {}

        def build(peer: Peer) -> Message:
            return ShareGroupHeartbeatRequest(
                group_id=peer.group_id,
                member_id="member",
                member_epoch=heard.get(peer, self._epoch),
                subscribed_topic_names=(TOPIC,),
            )

        def learn(peer: Peer, answer: Message) -> None:
            if not answer.error_code:  # type: ignore[attr-defined]
                heard[peer] = answer.member_epoch  # type: ignore[attr-defined]

        text = f"heartbeat in {self._epoch}"
        ask = Ask("ShareGroupHeartbeat", 1, build, text, "client", learn, settles=settles)
        if settles:
            ask.until = is_assigned
        answer = await self._told.ask(ask)
        if not answer["error_code"]:
            self._epoch = answer["member_epoch"]

    def _is_there(self) -> bool:
        return any(may_be_read(offset, self._level) for offset in self._free)

    async def _fetch(self) -> None:
        random = self._random
        max_records = random.choice((1, 2, 3, 5, 10, 100, 100))
        batch_size = random.choice((max_records, 1, 500))
        mode = random.randint(0, 1)
        wait_ms = WAIT_MS if self._is_there() else NO_WAIT_MS
        session = self._session

        def build(peer: Peer) -> Message:
            return ShareFetchRequest(
                group_id=peer.group_id,
                member_id="member",
                share_session_epoch=session,
                max_wait_ms=wait_ms,
                min_bytes=1,
                max_bytes=1_000_000,
                max_records=max_records,
                batch_size=batch_size,
                share_acquire_mode=mode,
                topics=fetch_topics(peer, [TOPIC] if session == INITIAL else [], ()),
                forgotten_topics_data=(),
            )

        text = f"fetch {self._level} max={max_records} batch={batch_size} mode={mode} wait={wait_ms}"
        answer = await self._told.ask(
            Ask("ShareFetch", 2, build, text, "client", mask=lambda each: told_of(each, ()))
        )
        if answer["error_code"]:
            return
        self._session += 1
        if wait_ms and self._told.is_recording:
            check_given(answer)
        for _, partition in partitions_of(answer):
            for each in partition["acquired_records"]:
                for offset in range(each["first_offset"], each["last_offset"] + 1):
                    self._free.discard(offset)
                    self._held[offset] = each["delivery_count"]

    def _runs(self) -> Iterator[Words]:
        """Yield what is said of some of what the member holds: of a marker that there is no record."""
        held = sorted(self._held)
        first = self._random.randrange(len(held))
        chosen = held[first : first + self._random.randint(1, 12)]
        kinds = (ACCEPT, ACCEPT, RELEASE, REJECT)
        for offset in chosen:
            kind = GAP if LAYOUT[offset] == MARKER else self._random.choice(kinds)
            yield Words(TOPIC, offset, offset, (kind,))

    async def _acknowledge(self) -> None:
        if not self._held or self._session == INITIAL:
            return
        await self._say(list(self._runs()), self._session)

    async def _say(self, said: list[Words], session: int) -> None:
        def build(peer: Peer) -> Message:
            return ShareAcknowledgeRequest(
                group_id=peer.group_id,
                member_id="member",
                share_session_epoch=session,
                topics=acknowledged_topics(peer, said),
            )

        text = f"says in {session} {[(each.first, *each.kinds) for each in said]}"
        answer = await self._told.ask(Ask("ShareAcknowledge", 2, build, text, "client"))
        if answer["error_code"]:
            return
        self._session += 1
        if all(not partition["error_code"] for _, partition in partitions_of(answer)):
            for each in said:
                if self._held.pop(each.first) < LIMIT and each.kinds == (RELEASE,):
                    self._free.add(each.first)

    async def _close(self) -> None:
        """End the session: what the member holds comes back."""
        if self._session == INITIAL:
            return
        await self._say([], FINAL)
        self._session = INITIAL
        self._free.update(offset for offset, count in self._held.items() if count < LIMIT)
        self._held.clear()

    async def _offsets(self) -> None:
        """Have it said how far the group has read; what nobody waited for is written by and by."""

        def build(peer: Peer) -> Message:
            group = DescribeShareGroupOffsetsGroup(group_id=peer.group_id, topics=None)
            return DescribeShareGroupOffsetsRequest(groups=(group,))

        await self._told.ask(Ask("DescribeShareGroupOffsets", 1, build, "describe offsets", settles=True))
