"""Producers, their coordinator and logs, under a seed: coordinators die between decision and disk.

What a producer was told is committed is there, in every partition; what was aborted is in none; of what
nobody was told all is there or nothing. In the end no transaction is open. Broken rules have to be seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from kohort.broker.group.decision import Decision, Note, Reply, SetTimer
from kohort.broker.transactions.commands import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    MarkersDue,
    MarkersWritten,
    TimerFired,
)
from kohort.broker.transactions.coordinator import TransactionConfig, TransactionCoordinator
from kohort.broker.transactions.transaction import BUMPING_VERSION, NO_EPOCH, Transaction, TransactionState
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.end_txn import EndTxnRequest
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest
from kohort.protocol.records import ControlType, build_batch, build_transaction_marker, read_header
from kohort.storage import ProducerStateTable

TIMEOUT_MS = 3_000
STEPS = 1_500
SEEDS = 40
RIVALS_ONE_IN = 8
PLACES = (("t", 0), ("t", 1), ("t", 2))


class Violation(AssertionError):
    """A promise was broken."""


class Log:
    """A partition: its appended batches, and the table that decides which appends are allowed."""

    def __init__(self) -> None:
        self.producers = ProducerStateTable()
        self.entries: list[tuple[int, str]] = []

    def append(self, producer_id: int, epoch: int, sequence: int, value: str) -> None:
        batch = build_batch(
            [(1, None, value.encode(), ())],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        header = read_header(batch)
        if self.producers.check(header) is None:
            self.producers.append(header, len(self.entries), batch)
            self.entries.append((producer_id, value))

    def end(self, due: MarkersDue) -> None:
        is_bumped = due.client_version >= BUMPING_VERSION
        self.producers.check_marker(due.producer_id, due.producer_epoch, 0, is_bumped=is_bumped)
        kind = ControlType.COMMIT if due.is_commit else ControlType.ABORT
        marker = build_transaction_marker(
            kind,
            timestamp_ms=1,
            producer_id=due.producer_id,
            producer_epoch=due.producer_epoch,
            coordinator_epoch=0,
        )
        self.producers.append(read_header(marker), len(self.entries), marker)
        self.entries.append((due.producer_id, kind.name))

    def committed(self) -> list[str]:
        """Return what a reader of committed records gets."""
        pending: dict[int, list[str]] = defaultdict(list)
        found: list[str] = []
        for producer_id, value in self.entries:
            if value in (ControlType.COMMIT.name, ControlType.ABORT.name):
                ended = pending.pop(producer_id, [])
                found += ended if value == ControlType.COMMIT.name else []
            else:
                pending[producer_id].append(value)
        return found


class Client:
    """A producer: begins, writes to some partitions, ends; after a refusal, or no answer, it starts again."""

    def __init__(self, world: World, transactional_id: str, name: str, version: int) -> None:
        self._world = world
        self._id = transactional_id
        self._name = name
        self._version = version
        self._number = 0
        self._restart()

    def _restart(self) -> None:
        self._identity: tuple[int, int] | None = None
        self._sequences: dict[tuple[str, int], int] = defaultdict(int)
        self._left: list[tuple[str, int]] = []
        self._is_open = False
        self._waits = False

    def step(self) -> None:
        """Do the next thing, or give up waiting for an answer."""
        world = self._world
        if self._waits:
            if world.dice.random() < 0.02:
                self._restart()
            return
        if self._identity is None:
            self._ask(world.init(self._id), self._initialised)
        elif not self._is_open:
            self._number += 1
            self._value = f"{self._name}{self._number}"
            self._left = world.dice.sample(PLACES, world.dice.randrange(1, 4))
            self._is_open = True
            world.begun[self._value] = frozenset()
            if self._version < 2:
                self._ask(
                    AddPartitions(0, self._id, *self._identity, frozenset(self._left), 0), self._went_on
                )
        elif self._left:
            self._write(self._left[-1])
        else:
            self._end(is_commit=world.dice.random() < 0.7)

    def _ask(self, command: Any, answered: Callable[[Any], None]) -> None:
        self._waits = True
        identity = object()
        self._asked = identity

        def respond(message: Any) -> None:
            if self._asked is identity and self._waits:  # Else it has given up meanwhile.
                self._waits = False
                answered(message)

        self._world.submit(command, respond)

    def _initialised(self, answer: Any) -> None:
        if not answer.error_code:
            self._identity = answer.producer_id, answer.producer_epoch

    def _went_on(self, answer: Any) -> None:
        if answer.error_code:
            self._restart()

    def _write(self, place: tuple[str, int]) -> None:
        assert self._identity is not None
        log = self._world.logs[place]
        if not log.producers.is_open(*self._identity):
            if self._version >= 2 and self._world.dice.random() < 0.5:
                self._ask(AddPartitions(0, self._id, *self._identity, frozenset((place,)), 2), self._went_on)
                return
            if self._world.core.verify(self._id, *self._identity, place) is not None:
                if self._version < 2:
                    self._restart()
                return
        try:
            log.append(*self._identity, self._sequences[place], self._value)
        except ApiError:
            self._restart()
            return
        self._sequences[place] += 1
        self._left.pop()
        self._world.begun[self._value] |= {place}

    def _end(self, *, is_commit: bool) -> None:
        assert self._identity is not None
        value = self._value

        def ended(answer: Any) -> None:
            if answer.error_code:
                self._restart()
                return
            (self._world.told_committed if is_commit else self._world.told_aborted).add(value)
            self._is_open = False
            if self._version >= 2:
                self._identity = answer.producer_id, answer.producer_epoch
                self._sequences.clear()

        self._ask(self._world.end(self._id, self._identity, self._version, is_commit=is_commit), ended)


class World:
    """All of it, moved by one seed."""

    def __init__(self, seed: int, *, flushes_late: bool = True) -> None:
        self.dice = Random(seed)
        self.flushes_late = flushes_late
        self.now_ms = 1_000_000
        self.logs = {place: Log() for place in PLACES}
        self.begun: dict[str, frozenset[tuple[str, int]]] = {}
        self.told_committed: set[str] = set()
        self.told_aborted: set[str] = set()
        self._durable: list[Any] = []
        self._fresh = 10
        self._late: list[tuple[MarkersDue, tuple[str, int]]] = []
        self._load()
        self.clients = [
            Client(self, "a", "a", 1),
            Client(self, "a", "rival", 1),
            Client(self, "b", "b", 2),
            Client(self, "b", "other", 2),
        ]

    # -- the coordinator, which dies now and then

    def _load(self) -> None:
        self.core = TransactionCoordinator(TransactionConfig())
        for record in self._durable:
            self.core.replay(record)
        self._staged: list[Any] = []
        self._owed: list[Callable[[], None]] = []
        self._timers: dict[Any, int] = {}
        self._markers: list[tuple[MarkersDue, set[tuple[str, int]]]] = []
        self._carry_out(self.core.loaded(self.now_ms), lambda message: None)

    def submit(self, command: Any, respond: Callable[[Any], None]) -> None:
        self._carry_out(self.core.handle(command, self.now_ms), respond)

    def _carry_out(self, decision: Decision, respond: Callable[[Any], None]) -> None:
        for record in decision.records:
            self.core.replay(record)
        self._staged += decision.records
        for effect in decision.effects:
            if isinstance(effect, Reply):
                self._owed.append(partial(respond, effect.message))
            elif isinstance(effect, SetTimer):
                self._timers[effect.key] = effect.deadline_ms
            elif isinstance(effect, Note) and isinstance(effect.event, MarkersDue):
                entry = effect.event, set(effect.event.partitions)
                self._owed.append(partial(self._markers.append, entry))
        if not self.flushes_late:
            self._pay()

    def _pay(self) -> None:
        owed, self._owed = self._owed, []
        for each in owed:
            each()

    def flush(self) -> None:
        self._durable += self._staged
        self._staged = []
        self._pay()

    def _write_marker(self) -> None:
        if not self._markers:
            return
        entry = self.dice.choice(self._markers)
        due, missing = entry
        if missing:
            place = self.dice.choice(sorted(missing))
            try:
                self.logs[place].end(due)
            except ApiError as error:
                if error.code is not ErrorCode.INVALID_PRODUCER_EPOCH:  # One that came late, and again.
                    raise
            if due.client_version >= BUMPING_VERSION:  # Of others nobody can tell a late one.
                self._late.append((due, place))
            if self.dice.random() < 0.9:  # Else it is written again.
                missing.discard(place)
        if not missing:
            self._markers.remove(entry)
            written = MarkersWritten(due.transactional_id, due.producer_id, due.producer_epoch)
            self.submit(written, lambda message: None)

    def _write_late_marker(self) -> None:
        """Let a marker arrive once more: its request was given up, and lay in the network."""
        if self._late:
            due, place = self._late.pop(self.dice.randrange(len(self._late)))
            with suppress(ApiError):
                self.logs[place].end(due)

    def _tick(self) -> None:
        self.now_ms += self.dice.randrange(200)
        for key, deadline_ms in sorted(self._timers.items(), key=lambda each: each[1]):
            if deadline_ms <= self.now_ms:
                del self._timers[key]
                self.submit(TimerFired(key), lambda message: None)

    # -- what clients ask

    def fresh(self, transactional_id: str) -> int | None:
        self._fresh += 1
        return self._fresh if self.core.needs_producer_id(transactional_id) else None

    def init(self, transactional_id: str) -> InitProducerId:
        message = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS)
        return InitProducerId(0, message, 5, self.fresh(transactional_id))

    def end(
        self, transactional_id: str, identity: tuple[int, int], version: int, *, is_commit: bool
    ) -> EndTransaction:
        message = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=identity[0],
            producer_epoch=identity[1],
            committed=is_commit,
        )
        return EndTransaction(0, message, 5 if version >= 2 else 4, self.fresh(transactional_id))

    # -- the run

    def run(self) -> None:
        """Run everything, and check the state once all clients are idle."""
        for _ in range(STEPS):
            roll = self.dice.random()
            if roll < 0.60:
                is_rival = not self.dice.randrange(RIVALS_ONE_IN)
                self.dice.choice(self.clients[is_rival::2]).step()
            elif roll < 0.80:
                self.flush()
            elif roll < 0.94:
                self._write_marker()
            elif roll < 0.95:
                self._write_late_marker()
            elif roll < 0.99:
                self._tick()
            else:
                self._load()  # It was killed: what was not flushed is gone, and so are all answers owed.
        self.clients = []
        self._load()
        for _ in range(3):  # Time-outs end what is open.
            self.now_ms += TIMEOUT_MS
            self._tick()
            self.flush()
            for _ in range(200):
                self._write_marker()
                self.flush()
        self.check()

    def check(self) -> None:
        """Raise where a promise is broken."""
        committed = {place: log.committed() for place, log in self.logs.items()}
        for place, log in self.logs.items():
            _require(log.producers.first_open_offset is None, f"{place} has an open transaction for ever")
            _require(len(set(committed[place])) == len(committed[place]), f"{place} has something twice")
        for value, written in self.begun.items():
            there = {place for place in PLACES if value in committed[place]}
            _require(there in (set(), set(written)), f"{value} is in {there} of {written}")
            _require(there == set(written) or value not in self.told_committed, f"{value} is lost")
            _require(not there or value not in self.told_aborted, f"{value} was aborted")
        for transaction in self.core.transactions.values():
            _require(not transaction.state.is_prepared, f"{transaction} never ends")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_transactions_are_atomic(seed: int) -> None:
    World(seed).run()


def test_much_is_committed_and_much_is_aborted() -> None:
    """Else nothing would have been tried."""
    committed = aborted = 0
    for seed in range(SEEDS):
        world = World(seed)
        world.run()
        committed += len(world.told_committed)
        aborted += len(world.told_aborted)
    assert committed > 5 * SEEDS
    assert aborted > 2 * SEEDS


def run_all(*, flushes_late: bool = True) -> None:
    for seed in range(SEEDS):
        World(seed, flushes_late=flushes_late).run()


def without_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransactionCoordinator, "verify", lambda *arguments: None)


def without_markers_after_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransactionCoordinator, "loaded", lambda self, now_ms: Decision())


def without_a_new_epoch_for_the_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    def fence(self: Any, known: Transaction, now_ms: int, replies: Any) -> Decision:
        fenced = replace(known, state=TransactionState.PREPARE_ABORT, last_producer_epoch=NO_EPOCH)
        return self._prepare(fenced, now_ms, replies)  # type: ignore[no-any-return]

    monkeypatch.setattr(TransactionCoordinator, "_fence", fence)


def with_an_end_that_anybody_may_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def ending(self: Any, command: EndTransaction) -> Transaction:
        known = self.transactions.get(command.message.transactional_id)
        if known is None:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return known  # type: ignore[no-any-return]

    monkeypatch.setattr(TransactionCoordinator, "_ending", ending)


def with_partitions_that_replace_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    add = TransactionCoordinator._add_partitions

    def forgetful(self: Any, command: AddPartitions, now_ms: int) -> Decision:
        decision = add(self, command, now_ms)
        return Decision(
            tuple(replace(each, value=_with_partitions(each.value, command)) for each in decision.records),
            decision.effects,
        )

    def _with_partitions(value: Any, command: AddPartitions) -> Any:
        return Transaction(
            "",
            partitions=command.partitions,
            state=TransactionState.ONGOING,
            **{name: getattr(value, name) for name in ("producer_id", "producer_epoch")},
            start_ms=value.transaction_start_timestamp_ms,
            timeout_ms=value.transaction_timeout_ms,
        ).value()

    monkeypatch.setattr(TransactionCoordinator, "_add_partitions", forgetful)


def with_prepared_transactions_that_are_taken_for_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def usable(self: Any, transactional_id: str, producer_id: int, producer_epoch: int) -> Transaction:
        known = self.transactions.get(transactional_id)
        if known is None or (known.producer_id, known.producer_epoch) != (producer_id, producer_epoch):
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        return known  # type: ignore[no-any-return]

    monkeypatch.setattr(TransactionCoordinator, "_usable", usable)


def with_markers_that_end_whatever_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    check = ProducerStateTable.check_marker

    def lenient(self: Any, *arguments: int, is_bumped: bool) -> None:
        check(self, *arguments)

    monkeypatch.setattr(ProducerStateTable, "check_marker", lenient)


@pytest.mark.parametrize(
    "broken",
    [
        without_verification,
        without_markers_after_loading,
        without_a_new_epoch_for_the_fenced,
        with_an_end_that_anybody_may_ask_for,
        with_partitions_that_replace_each_other,
        with_prepared_transactions_that_are_taken_for_ended,
        with_markers_that_end_whatever_is_open,
    ],
)
def test_a_broken_rule_is_seen(
    broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    with pytest.raises(Violation):
        run_all()


def test_an_answer_before_the_flush_is_seen() -> None:
    with pytest.raises(Violation):
        run_all(flushes_late=False)
