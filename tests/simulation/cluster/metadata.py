"""The broker's own store of the metadata, and its own way to change the ISR, over the model of etcd.

What asks and what is made of the answers is the broker's code: `InSyncReplicas`, `EtcdMetadataStore` and its
transactions. In here their questions become the model's, and the model's keys become etcd's.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kohort.broker.cluster.in_sync_replicas import InSyncReplicas
from kohort.broker.etcd.calls import OUT_OF_RANGE, Calls
from kohort.broker.etcd.errors import EtcdCompacted, EtcdUnavailable
from kohort.broker.etcd.messages import (
    Change,
    Compare,
    Found,
    Json,
    KeyValue,
    Operation,
    Put,
    Range,
    Transacted,
    Watched,
)
from kohort.broker.metadata import BrokerState, Snapshot, TopicState
from kohort.broker.metadata.etcd_image import EtcdImage
from kohort.broker.metadata.etcd_layout import (
    ControllerValue,
    Keys,
    broker_value,
    encoded,
    partition_state,
    partition_value,
    topic_value,
)
from kohort.broker.metadata.etcd_store import EtcdMetadataStore
from kohort.broker.metadata.etcd_transactions import Transactions
from kohort.broker.metadata.watchers import Watchers
from kohort.broker.replication import Leadership, Proposal
from tests.simulation.cluster.etcd import Compacted, Entry, Event, KeyAt, Loaded, Outcome, Transaction

if TYPE_CHECKING:
    from kohort.broker.metadata.partition_state import PartitionState
    from tests.simulation.cluster.session import Session

KEYS = Keys("simulated")
TOPIC_ID = UUID(int=1)
"""All partitions are of one topic in here."""
CLUSTER_ID = "simulated"
ATTEMPTS = 2
"""So often is asked what may be done twice."""


class Answer:
    """What a coroutine awaits until somebody gives it."""

    def __init__(self) -> None:
        self._then: Callable[[], None] | None = None
        self._value: Any = None
        self._is_given = False

    def give(self, value: Any) -> None:
        """Let whoever awaits it go on; only the first value counts."""
        if not self._is_given:
            self._value, self._is_given = value, True
            if self._then is not None:
                self._then()

    def then(self, action: Callable[[], None]) -> None:
        """Do this once it is given."""
        self._then = action

    def __await__(self) -> "Generator[Answer, None, Any]":
        if not self._is_given:
            yield self
        return self._value


def start(session: "Session", task: Coroutine[Any, Any, None]) -> None:
    """Run the coroutine as a part of the process: it stands still and dies with it."""

    def step() -> None:
        try:
            awaited = task.send(None)
        except StopIteration:
            return
        awaited.then(lambda: session.run(step))

    step()


# -- keys -------------------------------------------------------------------------------------------------


def _bytes_of(key: tuple[Any, ...]) -> bytes | None:
    """Return the key as etcd has it, None for one that is the model's alone."""
    match key:
        case ("partition", index):
            return KEYS.partition((TOPIC_ID, index))
        case ("broker", node_id):
            return KEYS.broker(node_id)
        case ("controller",):
            return KEYS.controller
        case ("settled", text):
            return KEYS.settled(UUID(text))
        case ("change", node_id, slot):
            return KEYS.change(node_id, slot)
    return None


def _key_of(key: bytes) -> tuple[Any, ...]:
    found = KEYS.parsed(key)
    if isinstance(found, tuple):
        return ("partition", found[1])
    if isinstance(found, int):
        return ("broker", found)
    if found == "settled":
        return ("settled", key.decode().rsplit("/", 1)[1])
    if found == "changes":
        _, node_id, slot = key.decode().rsplit("/", 2)
        return ("change", int(node_id), int(slot))
    assert found == "controller", key
    return ("controller",)


def _value_of(key: tuple[Any, ...], value: Any) -> bytes:
    match key[0]:
        case "partition":
            return partition_value(value)
        case "broker":
            directories = (value.directory_id,)
            state = BrokerState(key[1], "h", 1, directories=directories, former_directories=value.former_ids)
            return broker_value(state)
        case "controller":
            return encoded(ControllerValue(value[0]))
        case "change":
            assert isinstance(value, bytes)
            return value
    return b""


def _item(key: tuple[Any, ...], entry: Entry) -> KeyValue:
    name = _bytes_of(key)
    assert name is not None, key
    return KeyValue(name, _value_of(key, entry.value), entry.create_revision, entry.mod_revision)


def _put(put: Put) -> tuple[tuple[Any, ...], "PartitionState | bytes"]:
    key = _key_of(put.key)
    return key, partition_state(put.key, key[1], put.value) if key[0] == "partition" else put.value


# -- questions --------------------------------------------------------------------------------------------


class ModelCalls(Calls):
    """Asks the model what is asked of etcd. A question without an answer may be carried out later."""

    def __init__(self, session: "Session") -> None:
        self._session = session

    async def txn(
        self,
        compares: Sequence[Compare],
        success: Sequence[Operation],
        failure: Sequence[Operation] = (),
        *,
        seconds: float | None = None,
        again: bool = False,
    ) -> Transacted:
        """Return how it ended. Raises: EtcdUnavailable."""
        asked = Transaction(
            created={_key_of(each.key): each.revision for each in compares if each.target == "CREATE"},
            modified={_key_of(each.key): each.revision for each in compares if each.target == "MOD"},
            puts=dict(_put(each) for each in success if isinstance(each, Put)),
            otherwise=dict(_put(each) for each in failure if isinstance(each, Put)),
        )
        outcome: Outcome = await self._ask(asked, ATTEMPTS if again else 1)
        done = success if outcome.succeeded else failure
        found = tuple(
            _found(outcome.before, outcome.revision, each.key) for each in done if isinstance(each, Range)
        )
        return Transacted(outcome.succeeded, outcome.revision, found)

    async def range(self, asked: Range, *, seconds: float | None = None) -> Found:
        """Return a key as it was at a revision. Raises: EtcdUnavailable, EtcdCompacted."""
        key = _key_of(asked.key)
        answer = await self._ask(KeyAt(key, asked.revision), ATTEMPTS)
        if isinstance(answer, Compacted):
            raise EtcdCompacted(OUT_OF_RANGE, "required revision has been compacted")
        return Found(asked.revision, () if answer.entry is None else (_item(key, answer.entry),))

    async def _ask(self, request: object, attempts: int) -> Any:
        for _ in range(attempts):
            answer = Answer()
            self._session.ask(request, answer.give)
            found = await answer
            if found is not None:
                return found
        raise EtcdUnavailable("no answer in time", maybe_done=True)

    async def call(
        self, path: str, form: object, *, seconds: float | None = None, again: bool = False
    ) -> Json:
        raise AssertionError(path)

    def stream(
        self, path: str, form: object, *, idle_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[Json]]:
        raise AssertionError(path)

    @property
    def at(self) -> int:
        return 0

    def avoid(self, at: int) -> None:
        """Do nothing: the session itself goes on to the next member."""


def _found(entries: Mapping[tuple[Any, ...], Entry], revision: int, name: bytes) -> Found:
    key = _key_of(name)
    entry = entries.get(key)
    return Found(revision, () if entry is None else (_item(key, entry),))


# -- the store --------------------------------------------------------------------------------------------


class StrictWatchers(Watchers):
    """Lets an error of a watcher end the run."""

    def changed(self, before: Snapshot, after: Snapshot) -> None:
        """Call all of them."""
        for watcher in tuple(self._watchers):
            watcher(before, after)


class ModelStore(EtcdMetadataStore):
    """The broker's store; the session tells it what the watch tells, and whose registration it has."""

    def __init__(self, session: "Session", partitions: int, new_id: Callable[[], UUID]) -> None:
        calls = ModelCalls(session)
        self._topic = TopicState("t", TOPIC_ID, (None,) * partitions)  # type: ignore[arg-type]  # only counted
        super().__init__(calls, KEYS, EtcdImage(KEYS, self._constant(), 1))
        self._watchers = StrictWatchers()
        self._watchers.add(lambda _before, after: self.membership.seen(after))
        self._transactions = Transactions(calls, KEYS, self.membership, new_id)
        self._waiting: list[Answer] = []

    def _constant(self) -> list[KeyValue]:
        topic = KeyValue(KEYS.topic("t"), topic_value(self._topic), 1, 1)
        return [topic, KeyValue(KEYS.cluster_id, CLUSTER_ID.encode(), 1, 1)]

    def registered(self, node_id: int, broker_epoch: int, lease: int) -> None:
        """Act under this registration from now on."""
        self.membership._broker = BrokerState(node_id, "h", 1)
        self.membership.epoch, self.membership.lease_id = broker_epoch, lease

    def watched(self, revision: int, events: Iterable[Event]) -> None:
        """Hear what the watch tells of some revisions."""
        changes = []
        for each in events:
            name = _bytes_of(each.key)
            if name is not None and each.entry is None:
                changes.append(Change(KeyValue(name, b"", 0, each.revision), deleted=True))
            elif name is not None and each.entry is not None:
                changes.append(Change(_item(each.key, each.entry)))
        if revision > self.snapshot().version:
            self._take_watched(Watched(revision, tuple(changes)))

    def reloaded(self, loaded: Loaded) -> None:
        """Hear all that there is."""
        items = [_item(key, each) for key, each in loaded.entries.items() if _bytes_of(key) is not None]
        self._image = EtcdImage(KEYS, [*self._constant(), *items], loaded.revision)
        self._become(self._image.succeed(self._snapshot))

    def _become(self, after: Snapshot) -> None:
        super()._become(after)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.give(None)

    async def until(self, holds: Callable[[Snapshot], bool]) -> Snapshot:
        """Return the first snapshot for which that holds, however long that takes."""
        while not holds(self._snapshot):
            answer = Answer()
            self._waiting.append(answer)
            await answer
        return self._snapshot


class ModelInSyncReplicas(InSyncReplicas):
    """The broker's own changes of the ISR; when to look at which partition the simulation says."""

    def __init__(self, store: EtcdMetadataStore) -> None:
        self._store = store
        self._asking: set[int] = set()

    async def ask_for(self, index: int, leadership: Leadership, proposal: Proposal) -> None:
        """Ask for the ISR once, unless that is under way: the broker looks again once it has ended."""
        if index not in self._asking:
            self._asking.add(index)
            await self._change((TOPIC_ID, index), leadership, proposal)
            self._asking.discard(index)
