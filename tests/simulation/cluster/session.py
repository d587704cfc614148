"""A broker's dealings with etcd: its registration under a lease, and what it knows of the metadata."""

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from kohort.broker.controller import LiveBroker, TopicRules
from kohort.broker.metadata.partition_state import PartitionState
from kohort.broker.replication import Authority
from tests.simulation.cluster.disk import Disk
from tests.simulation.cluster.etcd import (
    MEMBERS,
    Compacted,
    Entry,
    Etcd,
    Events,
    Grant,
    KeepAlive,
    Key,
    Loaded,
    Outcome,
    Range,
    Revoke,
    Transaction,
    Watch,
)
from tests.simulation.cluster.links import ETCD, Links, Process
from tests.simulation.schedule import Schedule

TTL_MS = 9_000
RENEWAL_MS = 2_000
TIMEOUT_MS = 1_500
WATCH_TIMEOUT_MS = 4_000
CONTROLLER: Key = ("controller",)


class Registration(NamedTuple):
    """What a broker says of itself; `life` tells its own registration from another's."""

    directory_id: UUID
    rack: str
    life: int
    is_draining: bool = False
    former_ids: tuple[UUID, ...] = ()

    def live(self, node_id: int, broker_epoch: int) -> LiveBroker:
        """Return the broker as decisions look at it."""
        return LiveBroker(
            node_id,
            broker_epoch,
            self.directory_id,
            self.rack,
            self.is_draining,
            former_directories=self.former_ids,
        )


def broker_key(node_id: int) -> Key:
    """Return where a broker registers."""
    return ("broker", node_id)


def partition_key(index: int) -> Key:
    """Return where a partition's state is."""
    return ("partition", index)


def rules_key(index: int) -> Key:
    """Return where the settings of a partition's topic are."""
    return ("rules", index)


def name_of(node_id: int) -> str:
    """Return a broker's name on the links."""
    return f"b{node_id}"


class Session(Process):
    """The part of a broker's process that talks to etcd; `changed` hears of each key that is another."""

    lives = 0

    def __init__(
        self,
        node_id: int,
        *,
        schedule: Schedule,
        links: Links,
        etcd: Etcd,
        disk: Disk,
        clock_rate: float,
        random: Random,
    ) -> None:
        super().__init__(name_of(node_id), schedule, links)
        self.node_id = node_id
        self.disk = disk
        self.authority = Authority(node_id, TTL_MS, disk.directory_id)
        self.view: dict[Key, Entry] = {}
        self.lease = 0
        self.is_draining = False
        self.life = 0
        self._etcd = etcd
        self._random = random
        self._clock_rate = clock_rate
        self._member = random.randrange(MEMBERS)
        self._revision = 0
        self._attempt = 0  # Callbacks of an earlier registration are of no use.

    @property
    def member(self) -> int:
        """Which member of etcd is asked."""
        return self._member

    def now_ms(self) -> int:
        """Return this machine's time since it was switched on, which drifts."""
        return int(self.schedule.time_ms * self._clock_rate)

    def ask(self, request: object, on_answer: Callable[[Any], None], timeout_ms: int = TIMEOUT_MS) -> None:
        """Ask a member of etcd; after no answer the next one is asked another time."""
        member = self._member

        def heard(answer: Any) -> None:
            if answer is None and member == self._member:
                self._member = (member + 1) % MEMBERS
            on_answer(answer)

        self.call(ETCD, lambda reply: self._etcd.deliver(member, request, reply), heard, timeout_ms)

    # -- registering ------------------------------------------------------------------------------------

    def register(self) -> None:
        """Begin a life; whatever an earlier one was answered does not count any more."""
        self.authority.lost()
        self._attempt += 1
        Session.lives += 1
        self.life = Session.lives
        attempt = self._attempt
        asked_ms = self.now_ms()
        self.ask(Grant(TTL_MS), lambda lease: self._granted(attempt, lease, asked_ms))

    def _register_later(self, attempt: int) -> None:
        self.after(300, lambda: self.register() if attempt == self._attempt else None)

    def _granted(self, attempt: int, lease: int | None, asked_ms: int) -> None:
        if attempt != self._attempt:
            return
        if lease is None:
            self._register_later(attempt)
            return
        self.lease = lease
        self.ask(Range(), lambda loaded: self._looked(attempt, loaded, asked_ms))

    def _looked(self, attempt: int, loaded: Loaded | None, asked_ms: int) -> None:
        """Take an earlier life's place; one with another folder may still be running, and has to expire."""
        key = broker_key(self.node_id)
        if attempt != self._attempt:
            return
        known = None if loaded is None else loaded.entries.get(key)
        own_ids = (self.disk.directory_id, *self.disk.former_ids)
        if loaded is None or (known is not None and known.value.directory_id not in own_ids):
            self._register_later(attempt)
        elif known is None:
            rack = f"rack-{self.node_id % 3}"
            own = Registration(own_ids[0], rack, self.life, former_ids=own_ids[1:])
            put = Transaction(created={key: 0}, puts={key: own}, lease=self.lease)
            self.ask(put, lambda _: self.ask(Range(), lambda found: self._put(attempt, found, asked_ms)))
        else:
            delete = Transaction(created={key: known.create_revision}, deletes=(key,))
            self.ask(
                delete, lambda _: self.ask(Range(), lambda found: self._looked(attempt, found, asked_ms))
            )

    def _put(self, attempt: int, loaded: Loaded | None, asked_ms: int) -> None:
        if attempt != self._attempt:
            return
        known = None if loaded is None else loaded.entries.get(broker_key(self.node_id))
        if loaded is None or known is None or known.value.life != self.life:
            self._register_later(attempt)
            return
        states = [(key, entry.value) for key, entry in loaded.entries.items() if key[0] == "partition"]
        self.authority.registered(known.create_revision, asked_ms, states)
        self._load(loaded)
        self.began()
        self.after(RENEWAL_MS, lambda: self._renew(attempt))
        self._watch(attempt)

    def _renew(self, attempt: int) -> None:
        if attempt != self._attempt:
            return
        asked_ms = self.now_ms()

        def heard(holds: bool | None) -> None:
            if attempt != self._attempt:
                return
            if holds:
                self.authority.renewed(asked_ms)
            elif holds is False:
                self.unregistered()
                self.register()
                return
            self.after(RENEWAL_MS, lambda: self._renew(attempt))

        self.ask(KeepAlive(self.lease, TTL_MS), heard)

    def drain(self) -> None:
        """Ask to be let go."""
        self.is_draining = True
        key = broker_key(self.node_id)
        known = self.view.get(key)
        if known is not None and known.value.life == self.life:
            own = known.value._replace(is_draining=True)
            self.ask(
                Transaction(modified={key: known.mod_revision}, puts={key: own}, lease=self.lease),
                lambda _: None,
            )

    def leave(self) -> None:
        """Answer nobody any more, and give the lease back: the others hear of it at once."""
        self._attempt += 1  # What was asked before counts no more, such as a renewal.
        self.authority.lost()
        self.ask(Revoke(self.lease), lambda _: None)

    # -- what is known of the metadata ------------------------------------------------------------------

    def _watch(self, attempt: int) -> None:
        def heard(answer: Events | Compacted | None) -> None:
            if attempt != self._attempt:
                return
            if isinstance(answer, Compacted):
                self.ask(Range(), lambda loaded: self._reloaded(attempt, loaded))
                return
            if answer is not None:
                for event in answer.events:
                    self._see(event.key, event.entry)
                self.watched(answer)
                self._revision = max(self._revision, answer.revision)
            if answer is None:
                self.after(100, lambda: self._watch(attempt))
            else:
                self._watch(attempt)

        self.ask(Watch(self._revision), heard, WATCH_TIMEOUT_MS)

    def _reloaded(self, attempt: int, loaded: Loaded | None) -> None:
        if attempt == self._attempt:
            if loaded is not None:
                self._load(loaded)
            self._watch(attempt)

    def _load(self, loaded: Loaded) -> None:
        self._revision = loaded.revision
        for key in [each for each in self.view if each not in loaded.entries]:
            self._see(key, None)
        for key, entry in loaded.entries.items():
            self._see(key, entry)
        self.reloaded(loaded)

    def learn(self, outcome: Outcome) -> None:
        """Take over what a transaction's answer said of the keys that it compared."""
        for key, entry in outcome.entries.items():
            self._see(key, entry)

    def _see(self, key: Key, entry: Entry | None) -> None:
        known = self.view.get(key)
        if entry is None:
            if self.view.pop(key, None) is not None:
                self.changed(key)
        elif known is None or entry.mod_revision > known.mod_revision:
            self.view[key] = entry
            self.changed(key)

    def changed(self, key: Key) -> None:
        """Hear that a key is another, or gone."""
        raise NotImplementedError

    def watched(self, answer: Events) -> None:
        """Hear what the watch has told."""
        raise NotImplementedError

    def reloaded(self, loaded: Loaded) -> None:
        """Hear that all was read anew."""
        raise NotImplementedError

    def began(self) -> None:
        """Hear that a new life has begun."""
        raise NotImplementedError

    def unregistered(self) -> None:
        """Hear that the lease is gone: nothing of this life counts any more."""
        raise NotImplementedError

    def state(self, index: int) -> PartitionState | None:
        """Return a partition's state as it is known here."""
        entry = self.view.get(partition_key(index))
        return None if entry is None else entry.value

    def rules(self, index: int) -> TopicRules:
        """Return the settings of a partition's topic as they are known here."""
        found: TopicRules = self.view[rules_key(index)].value
        return found

    def live_brokers(self) -> dict[int, LiveBroker]:
        """Return who lives, as far as is known here."""
        return {
            key[1]: entry.value.live(key[1], entry.create_revision)
            for key, entry in self.view.items()
            if key[0] == "broker"
        }
