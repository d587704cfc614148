"""What `Broker` and `AsyncBroker` share: inspection, faults and the clock. Nothing in here takes long."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar, TypeVar

from kohort.protocol.errors import ErrorCode
from kohort.testing.advancing import advance, finish_rounds
from kohort.testing.clock import BrokerClock
from kohort.testing.core import Core
from kohort.testing.errors import BrokerFailed, NotInTime
from kohort.testing.faults import Fault
from kohort.testing.groups import Group, Record, groups_of, members_of, records_of
from kohort.testing.holds import HeldRequests
from kohort.testing.recorder import Recorder
from kohort.testing.report import report
from kohort.testing.requests import Requests

H = TypeVar("H", bound=HeldRequests)

ISOLATION_LEVELS = ("read_committed", "read_uncommitted")


class BrokerControls:
    """The part that `Broker` and `AsyncBroker` share. Any thread."""

    _on_failure: ClassVar["Callable[[BrokerControls], None] | None"] = None
    """Called when an error ends a broker's `with` block. The broker still runs then."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.clock = BrokerClock(core.clock, self._advance)
        """The broker's time, which a test may advance."""

    @property
    def bootstrap(self) -> str:
        """The address for `bootstrap.servers`. A restart keeps it. Raises: BrokerFailed."""
        if not self._core.was_started:
            raise BrokerFailed("the broker was not started: use it in a with block")
        return str(self._core.kafka)

    @property
    def http(self) -> str:
        """The address of the HTTP pages. Raises: BrokerFailed without `http=True`."""
        if self._core.http is None:
            raise BrokerFailed("this broker serves no HTTP: create it with Broker(http=True)")
        return f"http://{self._core.http}"

    @property
    def schema_registry(self) -> str:
        """The URL of the schema registry. A restart keeps it. Raises: BrokerFailed without one."""
        if self._core.registry is None:
            raise BrokerFailed(
                "this broker has no schema registry: create it with Broker(schema_registry=True)"
            )
        return f"http://{self._core.registry}"

    # -- requests, groups and records ---------------------------------------------------------------------

    @property
    def requests(self) -> Requests:
        """The last 10,000 requests of clients, also from before a restart."""
        return Requests(tuple(self._core.watch.requests))

    @property
    def groups(self) -> dict[str, Group]:
        """Every consumer group by its id, as it is now. Raises: BrokerFailed while the broker is stopped."""
        return self._core.call(groups_of)

    def records(self, topic: str, *, isolation_level: str = "read_committed") -> tuple[Record, ...]:
        """Return a topic's records, partition by partition.

        Only "read_uncommitted" includes records of aborted and of open transactions.

        Raises: KeyError for an unknown topic, BrokerFailed while the broker is stopped, ValueError.
        """
        if isolation_level not in ISOLATION_LEVELS:
            raise ValueError(f"isolation_level is {isolation_level!r}: give {' or '.join(ISOLATION_LEVELS)}")
        committed = isolation_level == "read_committed"
        return self._core.call_async(lambda broker: records_of(broker, topic, committed=committed))

    def record(self, path: str | Path) -> Recorder:
        """Record requests and answers within the `with` block, whose end writes them to a file.

        `Recording.read(path)` reads it. The file has everything that clients send, also passwords.
        """
        return Recorder(path, self._core.watch.recorders)

    def report(self) -> str:
        """Return a readable report: requests by client, errors, groups, topics."""
        return report(self._core)

    def _explain(self, error: BaseException | None) -> None:
        """Add the report to the error that ends a block, unless the error has it already."""
        if not isinstance(error, Exception):
            return
        self._tell_failure()
        if not isinstance(error, NotInTime):
            error.add_note(self.report())

    def _tell_failure(self) -> None:
        on_failure = BrokerControls._on_failure
        if on_failure is not None:
            on_failure(self)

    # -- faults -------------------------------------------------------------------------------------------

    def fail_next(self, api: str, code: ErrorCode, *, times: int = 1, client_id: str | None = None) -> None:
        """Answer the next requests of an API, such as `OffsetCommit`, with an error, and do not execute them.

        Raises: ValueError for an unknown API.
        """
        self._core.watch.faults.order(Fault(api, times, client_id, code=ErrorCode(code)))

    def delay_next(self, api: str, seconds: float, *, times: int = 1, client_id: str | None = None) -> None:
        """Delay the next requests of an API, in the broker's time, before they are executed.

        Raises: ValueError.
        """
        self._core.watch.faults.order(Fault(api, times, client_id, seconds=seconds))

    def drop_next(self, api: str, *, times: int = 1, client_id: str | None = None) -> None:
        """Close the connection at the next requests of an API, without executing them. Raises: ValueError."""
        self._core.watch.faults.order(Fault(api, times, client_id))

    def tear_next(self, api: str, *, times: int = 1, client_id: str | None = None) -> None:
        """Execute the next requests of an API, and close the connection in the middle of the response.

        The client cannot know whether they were executed. Raises: ValueError.
        """
        self._core.watch.faults.order(Fault(api, times, client_id, is_torn=True))

    def _hold(self, kind: type[H], api: str, client: str | None) -> H:
        watch = self._core.watch
        return kind(api, client, watch.pauses, watch.faults, call=self._core.call, report=self.report)

    def rebalance(self, group_id: str) -> None:
        """Start a rebalance: the next heartbeat of the leader returns REBALANCE_IN_PROGRESS.

        Raises: KeyError if the group has no members.
        """
        leader, *_ = self._core.call(lambda broker: members_of(broker, group_id))
        self._order_heartbeat(leader, ErrorCode.REBALANCE_IN_PROGRESS)

    def move_coordinator(self, group_id: str) -> None:
        """Answer the next heartbeat of each member with NOT_COORDINATOR.

        Raises: KeyError if the group has no members.
        """
        for member_id in self._core.call(lambda broker: members_of(broker, group_id)):
            self._order_heartbeat(member_id, ErrorCode.NOT_COORDINATOR)

    def _order_heartbeat(self, member_id: str, code: ErrorCode) -> None:
        self._core.watch.faults.order(Fault("Heartbeat", 1, code=code, member_id=member_id))

    def clear_faults(self) -> None:
        """Remove all pending faults. Holds stay until their blocks end."""
        self._core.watch.faults.clear()

    def drop_connections(self, client_id: str | None = None) -> int:
        """Close all connections, or those of one client. Return their number."""
        return self._core.call(lambda broker: self._core.watch.drop_connections(client_id))

    # -- time ---------------------------------------------------------------------------------------------

    def _advance(self, seconds: float, alive: Iterable[str]) -> None:
        if self._core.is_running:
            names = frozenset(alive)
            self._core.call_async(finish_rounds)  # Current work uses the old time.
            self._core.call(lambda broker: advance(broker, self._core.clock, seconds, names))
            self._core.run.run_due_timers()  # Timers that other timers have set.
            self._core.call_async(finish_rounds)
        else:
            self._core.clock.advance(seconds)
