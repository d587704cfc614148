"""One life of the broker: its real parts on the virtual disk, in virtual time, without sockets and threads.

Real are the handlers, the coordinators and shards with their cores, the flusher, the journal, the table
of partitions and their logs. Stand-ins are what would wait or decide by the machine: the reactor (rounds
begin in virtual time), trio and the worker threads (`schedule`), the metadata (they never change by
themselves), and where a flush runs, which the flusher decides by measuring.
"""

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from operator import attrgetter
from pathlib import Path
from random import Random
from typing import Protocol, TypeVar, cast
from uuid import UUID

from kohort.broker.config import BrokerConfig
from kohort.broker.config.current import CurrentConfig
from kohort.broker.config.group_bounds import bounds
from kohort.broker.coordination.counters import GroupCounters
from kohort.broker.coordination.group_machine import GroupMachine
from kohort.broker.coordination.group_shards import GroupShard, GroupShards
from kohort.broker.coordination.services import CoordinatorServices
from kohort.broker.coordination.shard import Shard, ShardState
from kohort.broker.group import Decision, Event, GroupCoordinator, coordinator_partition
from kohort.broker.group.config import GroupConfig
from kohort.broker.group.group import AnyGroup
from kohort.broker.group.test_world import CheckedCoordinator
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.handlers.data.family import Data
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.handlers.table import HandlerTable
from kohort.broker.metadata import SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC, MetadataStore, Mutation
from kohort.broker.metadata.leader_epochs import raised_topic
from kohort.broker.partitions import Partition, PartitionTable
from kohort.broker.partitions.cleaner import LogCleaner
from kohort.broker.partitions.counters import PartitionCounters
from kohort.broker.partitions.flusher import WRITERS, Flusher, Job
from kohort.broker.partitions.log_files import LogFiles
from kohort.broker.partitions.retention import LogRetention
from kohort.broker.partitions.sync_timers import SyncTimers
from kohort.broker.runtime.timers import Timers
from kohort.broker.transport.request import Request
from kohort.protocol.schema import Message
from kohort.storage import DataDirectory, PartitionLog, StorageError
from kohort.storage.journal import Journal
from kohort.storage.layout import log_id_of
from kohort.storage.swapping import Replacement
from kohort.testing.simulation.disk import VirtualDisk
from tests.simulation.metadata import NODE_ID, Metadata
from tests.simulation.network import Link, Sent
from tests.simulation.removals import RETENTION_MINUTES
from tests.simulation.schedule import Action, Pause, Schedule, Tasks, VirtualWorkers
from tests.simulation.sharing.parts import SharingParts
from tests.simulation.transactions.parts import TransactionParts

ROOT = Path("/data")
JOURNAL_BYTES = 16 * 1024
INLINE_LOAD_BYTES = 4 * 1024
CHECKPOINT_INTERVAL_MS = 60_000
NOTE_INTERVAL_MS = 1_500  # So that many a crash finds logs that are noted as at rest.
EXPIRY_INTERVAL_MS = 10_000
IDLE_MS_MAX = 20_000  # Of a transactional id.
PRODUCER_IDLE_MS_MAX = 35_000  # Longer than a batch is late, shorter than some transactions are open.
SHARE_LOCK_MS_MIN = 1_000
UPDATES_PER_SNAPSHOT = 5
ROUND_DELAYS_MS = (0, 0, 0, 1, 2)
NEVER_MS = 1 << 62
ROUND_INSIDE_A_WRITE = 0.2
STALL_MS = 1_000

T = TypeVar("T")


class Witness(Protocol):
    """Who keeps the books of what is asked and answered."""

    def asked(self, sent: Sent, groups: Callable[[str], AnyGroup | None]) -> None:
        """A request reaches its handler."""
        ...

    def answered(self, sent: Sent, message: Message) -> None:
        """A request is answered."""
        ...

    def decided(self, shard: GroupShard, command: object, decision: Decision) -> None:
        """A shard's core has decided on a command, and nothing of it is done yet."""
        ...

    def loaded(self, shard: GroupShard) -> None:
        """A shard serves, from what its log held."""
        ...


class VirtualFlusher(Flusher):
    """The real flusher; the seed says whether a round's flush is written in the loop or by a worker."""

    def __init__(self, server: "Server", journal: Journal) -> None:
        super().__init__(server, PartitionCounters(), journal, server.workers.writers("flush", WRITERS))
        self._server = server
        self._virtual_journal = journal
        self.handed_over: list[Job] = []
        self.stalled: Partition | None = None
        """Whose next write takes long."""

    def _is_stalled(self, job: Job) -> bool:
        return any(flush.partition is self.stalled for flush in job.flushes)

    def _fits_inline(self, job: Job) -> bool:
        server = self._server
        if server.dies_inside_flush is not None or self._is_stalled(job):
            return False
        return server.disk.latency_ms <= 1 and server.random.random() < 0.5

    def _contain(self, what: str) -> None:
        error = sys.exception()
        assert error is not None
        raise error  # What the books say of it is not for the broker to survive.

    def _hand_over(self, job: Job) -> None:
        self.handed_over.append(job)
        delay_ms = self._server.work_ms()
        if self._is_stalled(job):
            delay_ms, self.stalled = STALL_MS, None
        self._server.when_alive(delay_ms, partial(self._write, job))

    def _write(self, job: Job) -> None:
        """Do what a worker does; the loop has rounds of its own meanwhile, between any two operations."""
        server = self._server
        before = server.disk.operations
        if server.dies_inside_flush is None:
            server.disk.file_system.interrupt = self._let_the_loop_on
        try:
            job.run(self._virtual_journal)
        finally:
            server.disk.file_system.interrupt = None
        self.handed_over.remove(job)
        if server.dies_inside_flush is not None:
            server.dies_inside_flush(before)
            return
        delay_ms = server.work_ms() - 1
        server.when_alive(delay_ms, lambda: server.post(partial(self._finish, job)))

    def _let_the_loop_on(self) -> None:
        if self._server.random.random() > ROUND_INSIDE_A_WRITE or self._virtual_journal.is_appending:
            return  # The loop would wait for the journal.
        self._server.disk.file_system.interrupt = None  # Once in a write: each makes more to be written.
        self._server.round_meanwhile()

    def close(self) -> None:
        """Write what was handed over, as the worker threads would before they end."""
        for job in self.handed_over:
            job.run(self._virtual_journal)


class WitnessedShard(Shard[GroupCoordinator]):
    """The real shard; each decision is told before anything of it is done."""

    witness: Witness

    def _carry_out(self, command: object, decision: Decision) -> None:
        if decision.records:
            self.witness.decided(self, command, decision)
        super()._carry_out(command, decision)


class WitnessedGroupShards(GroupShards):
    """The real coordinators; each load is told."""

    witness: Witness

    shard_type = WitnessedShard

    def _new_shard(self, index: int) -> GroupShard:
        shard = super()._new_shard(index)
        assert isinstance(shard, WitnessedShard)
        shard.witness = self.witness
        return shard

    def _loaded(self, shard: GroupShard, seconds: float) -> None:
        super()._loaded(shard, seconds)
        self.witness.loaded(shard)


class VirtualCleaner(LogCleaner):
    """The real cleaner, whose process may die while it swaps segments; nobody waits for a lock here."""

    server: "Server"

    def _throttler(self, _bytes_per_second: float, check: Action) -> Callable[[int], None]:
        return lambda _bytes: check()

    def _put_in_place(self, cleaned: PartitionLog, replacement: Replacement, now_ms: int) -> bool:
        return self.server.working(partial(super()._put_in_place, cleaned, replacement, now_ms))


class Server:
    """A broker from its start to its end, whichever way it ends."""

    def __init__(
        self,
        *,
        schedule: Schedule,
        random: Random,
        disk: VirtualDisk,
        metadata: Metadata,
        witness: Witness,
        retention_minutes: int = RETENTION_MINUTES,
    ) -> None:
        """Open the data folder. Raises: StorageError."""
        self.schedule = schedule
        self.random = random
        self.disk = disk
        self.metadata = metadata
        self.alive = True
        self.serving = False
        self.dies_inside_flush: Callable[[int], None] | None = None
        self.dies_inside_work: Callable[[int], None] | None = None
        self.meanwhile: Action = lambda: None  # What clients ask for while a worker writes.
        self.links: dict[Link, None] = {}
        self.witness = witness
        self._inbox: list[Sent] = []
        self._posted: list[Action] = []
        self.is_in_round = False
        self._round_due = False
        self._requests = 0
        self._woken_at_ms = NEVER_MS
        self._indexes: dict[str, int] = {}  # The shard by group id.
        self._ids = Random(random.getrandbits(64))
        self.tasks = Tasks(schedule)
        self.workers = VirtualWorkers(self, self.tasks)
        current = CurrentConfig(
            BrokerConfig(
                offsets_topic_num_partitions=4,
                offsets_retention_minutes=retention_minutes,
                offsets_retention_check_interval_ms=EXPIRY_INTERVAL_MS,
                transactional_id_expiration_ms=IDLE_MS_MAX,
                transaction_remove_expired_transaction_cleanup_interval_ms=EXPIRY_INTERVAL_MS,
                producer_id_expiration_ms=PRODUCER_IDLE_MS_MAX,
                producer_id_expiration_check_interval_ms=EXPIRY_INTERVAL_MS,
                group_share_min_record_lock_duration_ms=SHARE_LOCK_MS_MIN,
                share_coordinator_state_topic_prune_interval_ms=EXPIRY_INTERVAL_MS,
                share_coordinator_snapshot_update_records_per_snapshot=UPDATES_PER_SNAPSHOT,
            )
        )
        store = cast(MetadataStore, metadata)
        self.timers = Timers(self._timer_set)
        self.data = DataDirectory.open(ROOT, disk.file_system)
        self.journal = Journal(disk.file_system, ROOT, JOURNAL_BYTES)
        self.files = LogFiles(self.data, self.journal)
        self.flusher = VirtualFlusher(self, self.journal)
        self.flusher.on_unsynced = SyncTimers(self.timers, schedule, self.flusher.request).written
        self.partitions = PartitionTable(
            store,
            current,
            NODE_ID,
            files=self.files,
            flusher=self.flusher,
            timers=self.timers,
            clock=schedule,
            loop=self,
            workers=self.workers,
            on_lost_tail=self._raise_leader_epoch,
        )
        self.partitions.opening.reports_lost_tails = True
        self.coordinator_services = CoordinatorServices(
            store, current, self.partitions, self.flusher, self.timers, schedule, self.workers
        )
        self.group_shards = WitnessedGroupShards(
            GroupMachine(GroupConfig.of(current.config, bounds(current.config)), CheckedCoordinator),
            self.coordinator_services,
            ensure_topic=self._offsets_topic_is_there,
            counters=GroupCounters(),
            note=self._unheard,
        )
        self.group_shards.witness = witness
        self.group_shards.inline_load_bytes = INLINE_LOAD_BYTES
        self._look_after(current)
        groups = GroupServices(
            self.group_shards,
            store,
            NODE_ID,
            GroupCounters(),
            self._offsets_topic_is_there,
            fresh_id=self.fresh_id,
        )
        self._transactions: TransactionParts | None = None  # Where nobody asks for any.
        if TRANSACTIONS_TOPIC in metadata.snapshot().topics:
            self._transactions = TransactionParts(self, groups, current)
        parts = self._transactions
        self._sharing: SharingParts | None = None
        if parts is not None and SHARE_STATE_TOPIC in metadata.snapshot().topics:
            self._sharing = SharingParts(self, groups, parts.data, current)
        self._handlers = HandlerTable(
            groups,
            cast(Data, None if parts is None else parts.data),
            cast(Administration, None),
            transactions=None if parts is None else parts.transactions,
            sharing=None if self._sharing is None else self._sharing.use,
        )
        self.tasks.start_soon(self._boot)

    def _look_after(self, current: CurrentConfig) -> None:
        cleaning = PartitionCounters().cleaning
        self.cleaner = VirtualCleaner(
            self.partitions,
            self.data,
            current,
            clock=self.schedule,
            counters=cleaning,
            workers=self.workers,
        )
        self.cleaner.server = self
        self.retention = LogRetention(
            self.partitions, current, clock=self.schedule, counters=cleaning, workers=self.workers
        )

    def _raise_leader_epoch(self, partition: Partition) -> None:
        """Change the metadata, which takes a while, as `Broker` has it done."""
        place = partition.topic_id, partition.index

        def change() -> None:
            topic = self.metadata.snapshot().topics_by_id.get(partition.topic_id)
            raised = None if topic is None else raised_topic(topic, NODE_ID, lambda *each: each == place)
            if raised is not None:
                self.metadata.apply(Mutation(put=(raised,)))

        self.when_alive(self.work_ms(), change)

    def _unheard(self, event: Event) -> None:
        """Stand for `__group_events`: nothing that a group decides depends on that topic."""

    async def _offsets_topic_is_there(self) -> None:
        """Stand for making `__consumer_offsets`."""

    def fresh_id(self) -> str:
        """Return a UUID from the seed."""
        return str(UUID(int=self._ids.getrandbits(128), version=4))

    # -- its life -----------------------------------------------------------------------------------------

    async def _boot(self) -> None:
        """Do what `Broker.start` does."""
        for partition in self.partitions:
            if not self.files.is_sound(partition):
                await Pause(self.work_ms())
                partition.open()
        offline = {
            log_id_of(each.topic_id, each.index) for each in self.partitions if each.offline is not None
        }
        self.journal.forget(but=offline)
        self.group_shards.start()
        if self._transactions is not None:
            self._transactions.shards.refresh()
        self.tasks.start_soon(self.cleaner.run)
        self.tasks.start_soon(self.retention.remove_files_regularly)
        if self._transactions is not None:
            self.tasks.start_soon(self.retention.expire_producers_regularly)
        self.tasks.start_soon(self._note_resting_logs)
        self.serving = True
        while True:
            await Pause(CHECKPOINT_INTERVAL_MS)
            try:
                await self.partitions.folder.save_log_starts()
            except StorageError:
                continue  # As the broker does: it says so, and tries again.

    async def _note_resting_logs(self) -> None:
        """Do often what `Broker` does with its checkpoints."""
        while True:
            await Pause(NOTE_INTERVAL_MS)
            try:
                await self.partitions.folder.note_resting_logs()
            except StorageError:
                continue

    def die(self) -> None:
        """Stop in the middle of whatever is under way."""
        self.alive = self.serving = self.tasks.alive = False
        self.metadata.forget_watchers()

    def stop(self) -> None:
        """Do what `Broker.close` does. Raises: StorageError."""
        if self._sharing is not None:
            self._sharing.shares.close()
        if self._transactions is not None:
            self._transactions.shards.close()
        self.group_shards.close()
        for link in list(self.links):
            link.close()
        self.die()
        self.flusher.close()
        self.partitions.close()
        self.data.close(when_sound=self.journal.close)

    # -- what its parts ask of the machine ------------------------------------------------------------------

    def work_ms(self) -> int:
        """Return how long the disk keeps a worker busy."""
        return 1 + int(self.random.random() * self.disk.latency_ms)

    def working(self, function: Callable[[], T]) -> T:
        """Return what the function does; where it was ordered, life ends behind some write of it."""
        before = self.disk.operations
        try:
            return function()
        finally:
            if self.alive and self.disk.operations > before:
                self._may_die(before)

    def _may_die(self, before: int) -> None:
        """Die in this step or a later one: what comes behind another would else never have its turn."""
        if self.dies_inside_work is not None and self.random.random() < 0.4:
            self.dies_inside_work(before)

    def when_alive(self, delay_ms: int, action: Action) -> None:
        """Run `action` later, unless this life is over by then."""

        def act() -> None:
            if self.alive:
                action()

        self.schedule.after(delay_ms, act)

    def post(self, action: Action) -> None:
        """Let `action` run in the next round."""
        self._posted.append(action)
        self.wake()

    def wake(self) -> None:
        """Begin a round soon."""
        if not self.is_in_round and not self._round_due:
            self._round_due = True
            delay_ms = ROUND_DELAYS_MS[int(self.random.random() * len(ROUND_DELAYS_MS))]
            self.schedule.after(delay_ms, self._round)

    def _timer_set(self) -> None:
        deadline_ms = self.timers.next_deadline_ms()
        if deadline_ms is not None and deadline_ms < self._woken_at_ms:
            self._woken_at_ms = deadline_ms
            self.schedule.at(deadline_ms, self._timer_due)

    def _timer_due(self) -> None:
        if self.alive and self.schedule.time_ms >= self._woken_at_ms:
            self._woken_at_ms = NEVER_MS
            self.wake()

    # -- rounds -------------------------------------------------------------------------------------------

    def next_request_number(self) -> int:
        """Return a number that no other request to this life has."""
        self._requests += 1
        return self._requests

    def receive(self, sent: Sent) -> None:
        """Take a request that has arrived."""
        self._inbox.append(sent)
        self.wake()

    def _round(self) -> None:
        """Do what the reactor does in a round."""
        self._round_due = False
        if not self.alive:
            return
        self.is_in_round = True
        inbox, self._inbox = self._inbox, []
        for sent in inbox:
            self._serve(sent)
        while self._posted:
            self._posted.pop(0)()
        self.timers.run_due(self.schedule.time_ms)
        self.flusher.start_round()
        self.is_in_round = False
        self._timer_set()

    def round_meanwhile(self) -> None:
        """Have a round while a worker is in the middle of its work."""
        if self.alive and not self.is_in_round:
            self.meanwhile()
            self._round()

    def _serve(self, sent: Sent) -> None:
        self.witness.asked(sent, self._group)
        answer = self._handlers.handler_of(sent.api.api_key)(sent.message, sent)
        if isinstance(answer, Message):
            sent.connection.complete(sent, answer)
        elif answer is not None:
            self.tasks.start_soon(self._answer_later, sent, answer)

    async def _answer_later(self, sent: Sent, answer: Awaitable[Message | None]) -> None:
        """Do what the reactor does with a handler that waits."""
        message = await answer
        if message is not None:
            sent.respond(message)

    def _group(self, group_id: str) -> AnyGroup | None:
        """Return a group that is loaded; as `GroupShards.group`, which walks over the id each time."""
        index = self._indexes.get(group_id)
        if index is None:
            index = self._indexes[group_id] = coordinator_partition(group_id, self.group_shards.partitions)
        shard = self.group_shards._shards.get(index)
        return None if shard is None else shard.core.groups.get(group_id)

    def answered(self, request: Request, message: Message) -> None:
        """Tell the books."""
        assert isinstance(request, Sent)
        self.witness.answered(request, message)

    # -- what the simulation looks at -----------------------------------------------------------------------

    @property
    def transactions(self) -> TransactionParts:
        """What there is where the metadata have transactions."""
        assert self._transactions is not None
        return self._transactions

    @property
    def sharing(self) -> SharingParts:
        """What there is where the metadata have share state."""
        assert self._sharing is not None
        return self._sharing

    def shards(self) -> list[GroupShard]:
        """Return the shards of groups that serve."""
        serving = [shard for shard in self.group_shards if shard.state is ShardState.ACTIVE]
        return sorted(serving, key=attrgetter("index"))
