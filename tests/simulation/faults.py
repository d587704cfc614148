"""What goes wrong, when, and to whom: drawn from the seed."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Protocol

from kohort.testing.simulation.disk import VirtualDisk
from tests.simulation.administrator import Administrator
from tests.simulation.member import Member
from tests.simulation.schedule import Schedule
from tests.simulation.server import Server

MEAN_INTERVAL_MS = 6_000
SESSION_MS = 45_000
BAD_DISK = 8  # How much oftener the disk and the broker fail where that is looked for.
OF_THE_DISK = ("broker", "power", "sync", "disk", "shard")
KILL_AFTER_MS = 1_000
COMMIT_DELAY_MS_MAX = 18_000

Fault = Callable[[], bool]


class Stage(Protocol):
    """What faults befall."""

    schedule: Schedule
    random: Random
    disk: VirtualDisk
    members: list[Member]
    administrator: Administrator
    server: Server | None

    def begin_member(self, plan_of: Member | None = None, instance: str | None = None) -> Member:
        """Start a consumer process."""
        ...

    def kill_broker(self, operations: int | None = None) -> None:
        """Let the broker's process die."""
        ...

    def cut_power(self, operations: int | None = None) -> None:
        """Let the broker's machine die."""
        ...

    def restart_broker(self) -> None:
        """Stop the broker cleanly, and start it again."""
        ...

    def cut_power_while_stopping(self) -> None:
        """Let the broker's machine die while the broker stops."""
        ...

    def grow_topic(self) -> None:
        """Give a topic more partitions."""
        ...

    def note(self, text: str) -> None:
        """Write a line into the trace."""
        ...


class Faults:
    """One fault after another, until told to stop."""

    def __init__(self, stage: Stage, *, has_bad_disk: bool) -> None:
        self.injected: Counter[str] = Counter()
        self._stage = stage
        self._random = stage.random
        self._stopped = False
        self._strays: list[Member] = []  # Whose instance ids others have claimed since.
        self._kinds: list[tuple[str, int, Fault]] = [
            ("member starts", 6, self._start),
            ("member closes", 5, self._close),
            ("member is killed", 5, self._kill),
            ("member restarts", 5, self._restart),
            ("member stands still", 8, self._rest),
            ("member works too long", 4, self._work),
            ("member subscribes anew", 3, self._subscribe),
            ("second claimant of an instance id", 3, self._claim),
            ("network delays a host", 8, self._hold),
            ("network delays a commit", 8, self._delay_commit),
            ("network loses connections", 8, self._lose),
            ("network partition", 3, self._partition),
            ("topic grows", 1, self._grow),
            ("admin deletes a group", 3, self._stage.administrator.delete_group),
            ("admin deletes offsets", 3, self._stage.administrator.delete_offsets),
            ("admin removes members", 2, self._stage.administrator.remove_members),
            ("admin removes all members and the group", 1, self._stage.administrator.empty_and_delete),
            ("broker is killed", 2, self._kill_broker),
            ("broker is killed inside a flush", 2, self._kill_inside_flush),
            ("power fails", 2, self._cut_power),
            ("power fails inside a flush", 2, self._cut_inside_flush),
            ("broker is killed while a thread writes", 1, self._kill_inside_work),
            ("power fails while a thread writes", 2, self._cut_inside_work),
            ("broker restarts cleanly", 1, self._restart_broker),
            ("power fails while the broker stops", 1, self._cut_while_stopping),
            ("sync fails and loses data", 3, self._fail_sync),
            ("sync fails and broker is killed", 2, self._fail_sync_and_kill),
            ("shard is dropped and loaded again", 3, self._drop_shard),
            ("disk is full", 2, self._fill_disk),
            ("disk is slow", 3, self._slow_disk),
        ]
        worse = BAD_DISK if has_bad_disk else 1
        self._weights = [
            weight * (worse if name.startswith(OF_THE_DISK) else 1) for name, weight, _ in self._kinds
        ]
        self._next()

    def stop(self) -> None:
        """Let nothing more go wrong, and heal what does not heal by itself."""
        self._stopped = True
        self._stage.disk.heal()
        for stray in self._strays:
            stray.kill()
        if self._stage.server is not None:
            self._stage.server.dies_inside_flush = None
            self._stage.server.dies_inside_work = None

    def _next(self) -> None:
        delay_ms = 1 + int(self._random.expovariate(1 / MEAN_INTERVAL_MS))
        self._stage.schedule.after(delay_ms, self._inject)

    def _inject(self) -> None:
        if self._stopped:
            return
        [(name, _, fault)] = self._random.choices(self._kinds, self._weights)
        if fault():
            self.injected[name] += 1
            self._stage.note(f"fault: {name}")
        self._next()

    def _member(self) -> Member:
        return self._random.choice(self._stage.members)

    def _span_ms(self, longest_ms: int) -> int:
        """Return a duration: short ones are as likely as long ones."""
        return int(longest_ms ** self._random.uniform(0.6, 1.0))

    # -- members ----------------------------------------------------------------------------------------

    def _start(self) -> bool:
        self._stage.begin_member()
        return True

    def _close(self) -> bool:
        self._remove(self._member(), lambda member: member.close("the consumer is being closed"))
        return True

    def _kill(self) -> bool:
        self._remove(self._member(), lambda member: member.kill())
        return True

    def _remove(self, member: Member, action: Callable[[Member], None]) -> None:
        action(member)
        self._stage.members.remove(member)
        self._stage.begin_member()  # Somewhere else, so that there are always as many.

    def _restart(self) -> bool:
        member = self._member()
        member.kill()
        self._stage.members.remove(member)
        self._stage.begin_member(member, member.membership.settings.group_instance_id)
        return True

    def _rest(self) -> bool:
        self._member().rest(self._span_ms(2 * SESSION_MS))
        return True

    def _work(self) -> bool:
        member = self._member()
        member.work(self._span_ms(2 * member.plan.max_poll_interval_ms))
        return True

    def _subscribe(self) -> bool:
        member = self._member()
        topics = [each for each in member.plan.topics if self._random.random() < 0.7]
        member.subscribe(tuple(topics or member.plan.topics))
        return True

    def _claim(self) -> bool:
        static = [each for each in self._stage.members if each.membership.settings.group_instance_id]
        if not static:
            return False
        member = self._random.choice(static)
        self._stage.members.remove(member)  # It lives on, until it is told that it is fenced.
        self._strays.append(member)
        self._stage.begin_member(member, member.membership.settings.group_instance_id)
        return True

    # -- network ----------------------------------------------------------------------------------------

    def _hold(self) -> bool:
        self._cut(self._member(), self._span_ms(SESSION_MS))
        return True

    def _delay_commit(self) -> bool:
        self._member().delay_commit(self._span_ms(COMMIT_DELAY_MS_MAX))
        return True

    def _lose(self) -> bool:
        self._member().lose_connections()
        return True

    def _partition(self) -> bool:
        duration_ms = self._span_ms(2 * SESSION_MS)
        dies = self._random.random() < 0.5
        for member in self._stage.members:
            if self._random.random() < 0.3:
                self._cut(member, duration_ms)
                if dies:
                    member.lose_connections()
        return True

    def _cut(self, member: Member, duration_ms: int) -> None:
        until_ms = self._stage.schedule.time_ms + duration_ms
        member.host.cut_until_ms = max(member.host.cut_until_ms, until_ms)

    def _grow(self) -> bool:
        self._stage.grow_topic()
        return True

    # -- the broker -------------------------------------------------------------------------------------

    def _kill_broker(self) -> bool:
        if self._stage.server is None:
            return False
        self._stage.kill_broker()
        return True

    def _cut_power(self) -> bool:
        if self._stage.server is None:
            return False
        self._stage.cut_power()
        return True

    def _restart_broker(self) -> bool:
        if self._stage.server is None or not self._stage.server.serving:
            return False
        self._stage.restart_broker()
        return True

    def _cut_while_stopping(self) -> bool:
        if self._stage.server is None or not self._stage.server.serving:
            return False
        self._stage.cut_power_while_stopping()
        return True

    def _kill_inside_flush(self) -> bool:
        return self._inside_flush(self._stage.kill_broker)

    def _cut_inside_flush(self) -> bool:
        return self._inside_flush(self._stage.cut_power)

    def _inside_flush(self, end: Callable[[int], None]) -> bool:
        """Let the broker die behind some operation of the next flush: what it wrote is not acknowledged."""
        server = self._stage.server
        if server is None or server.dies_inside_flush is not None:
            return False
        server.dies_inside_flush = lambda before: end(
            self._random.randint(before, self._stage.disk.operations)
        )
        return True

    def _kill_inside_work(self) -> bool:
        return self._inside_work(self._stage.kill_broker)

    def _cut_inside_work(self) -> bool:
        return self._inside_work(self._stage.cut_power)

    def _inside_work(self, end: Callable[[int], None]) -> bool:
        """Let the broker die inside its next compaction, checkpoint, opening or removal of files."""
        server = self._stage.server
        if server is None or server.dies_inside_work is not None:
            return False
        server.dies_inside_work = lambda before: end(
            self._random.randint(before, self._stage.disk.operations)
        )
        return True

    def _drop_shard(self) -> bool:
        """Let a shard drop its state, as a bug would make it, perhaps while a worker writes in vain."""
        server = self._stage.server
        if server is None or not server.serving:
            return False
        if self._random.random() < 0.5:
            self._stage.disk.fail_sync(self._random.randrange(2), times=3)  # The journal's, and the logs'.
            self._stage.disk.latency_ms = KILL_AFTER_MS
            self._stage.schedule.after(2 * KILL_AFTER_MS, self._stage.disk.heal)
        place = self._random.random()
        self._stage.schedule.after(self._span_ms(KILL_AFTER_MS), lambda: _drop(server, place))
        return True

    # -- the disk ---------------------------------------------------------------------------------------

    def _fail_sync(self) -> bool:
        self._stage.disk.fail_sync(self._random.randrange(4))
        return True

    def _fail_sync_and_kill(self) -> bool:
        """Let the broker die before it can cut off what the disk has lost."""
        server = self._stage.server
        if server is None:
            return False
        self._stage.disk.fail_sync(self._random.randrange(3))
        self._stage.disk.latency_ms = KILL_AFTER_MS  # A worker writes, and the loop has not heard of it.
        self._stage.schedule.after(KILL_AFTER_MS, lambda: self._kill_life(server))
        return True

    def _kill_life(self, server: Server) -> None:
        self._stage.disk.heal()
        if self._stage.server is server:
            self._stage.kill_broker()

    def _fill_disk(self) -> bool:
        self._stage.disk.fill(self._random.randrange(2_000))
        self._stage.schedule.after(self._span_ms(20_000), self._stage.disk.heal)
        return True

    def _slow_disk(self) -> bool:
        self._stage.disk.latency_ms = self._random.choice((5, 50, 500))
        self._stage.schedule.after(self._span_ms(20_000), self._stage.disk.heal)
        return True


def _drop(server: Server, place: float) -> None:
    """Let the shard at that place of the row fail, if any serves."""
    shards = server.shards() if server.alive else []
    if shards:
        shards[int(place * len(shards))]._fail()
