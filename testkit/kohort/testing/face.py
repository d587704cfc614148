"""What a test sees of its broker, whether it waits in threads or in tasks: nothing in here takes long."""

from collections.abc import Iterable

from kohort.protocol.errors import ErrorCode
from kohort.testing.clock import BrokerClock
from kohort.testing.core import Core
from kohort.testing.errors import BrokerFailed, NotInTime
from kohort.testing.faults import Fault
from kohort.testing.groups import Group, Record, groups_of, members_of, records_of
from kohort.testing.passing import advance, finish_rounds
from kohort.testing.report import report
from kohort.testing.requests import Requests

ISOLATION_LEVELS = ("read_committed", "read_uncommitted")


class Face:
    """The part of `Broker` and `AsyncBroker` that both have. Any thread."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.clock = BrokerClock(core.clock, self._advance)
        """The broker's time, which a test may move on."""

    @property
    def bootstrap(self) -> str:
        """The address for `bootstrap.servers`; it stays the same over restarts. Raises: BrokerFailed."""
        if not self._core.was_started:
            raise BrokerFailed("the broker was not started: use it in a with block")
        return str(self._core.kafka)

    @property
    def http(self) -> str:
        """The address of the HTTP pages. Raises: BrokerFailed unless they were asked for."""
        if self._core.http is None:
            raise BrokerFailed("this broker serves no HTTP: make it with Broker(http=True)")
        return f"http://{self._core.http}"

    # -- what happened ------------------------------------------------------------------------------------

    @property
    def requests(self) -> Requests:
        """What clients have asked so far, restarts included: the last 10,000 requests."""
        return Requests(tuple(self._core.watch.requests))

    @property
    def groups(self) -> dict[str, Group]:
        """Every consumer group by its id, as it is now. Raises: BrokerFailed while the broker is away."""
        return self._core.call(groups_of)

    def records(self, topic: str, *, isolation_level: str = "read_committed") -> tuple[Record, ...]:
        """Return what stands in a topic, partition by partition.

        Records of aborted and of open transactions are left out, but for "read_uncommitted".

        Raises: KeyError where there is no such topic, BrokerFailed while the broker is away, ValueError.
        """
        if isolation_level not in ISOLATION_LEVELS:
            raise ValueError(f"isolation_level is {isolation_level!r}: give {' or '.join(ISOLATION_LEVELS)}")
        committed = isolation_level == "read_committed"
        return self._core.call_async(lambda broker: records_of(broker, topic, committed=committed))

    def report(self) -> str:
        """Return what the broker has seen, for a person: requests by client, errors, groups, topics."""
        return report(self._core)

    def _explain(self, error: BaseException | None) -> None:
        """Have the error that ends a block say what the broker has seen, unless it does so already."""
        if isinstance(error, Exception) and not isinstance(error, NotInTime):
            error.add_note(self.report())

    # -- faults on order ----------------------------------------------------------------------------------

    def fail_next(self, api: str, code: ErrorCode, *, times: int = 1, client_id: str | None = None) -> None:
        """Answer the next requests of an API with an error, and do nothing of what they ask.

        Raises: ValueError for an API that there is not; `OffsetCommit` is one.
        """
        self._core.watch.faults.order(Fault(api, times, client_id, code=ErrorCode(code)))

    def delay_next(self, api: str, seconds: float, *, times: int = 1, client_id: str | None = None) -> None:
        """Let the next requests of an API wait, in the broker's time, before they are looked at.

        Raises: ValueError.
        """
        self._core.watch.faults.order(Fault(api, times, client_id, seconds=seconds))

    def drop_next(self, api: str, *, times: int = 1, client_id: str | None = None) -> None:
        """Close the connection instead of answering the next requests of an API. Raises: ValueError."""
        self._core.watch.faults.order(Fault(api, times, client_id))

    def tear_next(self, api: str, *, times: int = 1, client_id: str | None = None) -> None:
        """Do what the next requests of an API ask, and close the connection in the middle of the answer.

        The client cannot know whether it was done. Raises: ValueError.
        """
        self._core.watch.faults.order(Fault(api, times, client_id, is_torn=True))

    def rebalance(self, group_id: str) -> None:
        """Have a group rebalance: its leader is told to join again with its next heartbeat, then the others.

        Raises: KeyError where the group has no members.
        """
        leader, *_ = self._core.call(lambda broker: members_of(broker, group_id))
        self._order_heartbeat(leader, ErrorCode.REBALANCE_IN_PROGRESS)

    def move_coordinator(self, group_id: str) -> None:
        """Have a group's members look for their coordinator: the next heartbeat of each is NOT_COORDINATOR.

        Raises: KeyError where the group has no members.
        """
        for member_id in self._core.call(lambda broker: members_of(broker, group_id)):
            self._order_heartbeat(member_id, ErrorCode.NOT_COORDINATOR)

    def _order_heartbeat(self, member_id: str, code: ErrorCode) -> None:
        self._core.watch.faults.order(Fault("Heartbeat", 1, code=code, member_id=member_id))

    def clear_faults(self) -> None:
        """Take back every order that has not been carried out."""
        self._core.watch.faults.clear()

    def drop_connections(self, client_id: str | None = None) -> int:
        """Close all connections, or those of one client; return how many there were."""
        return self._core.call(lambda broker: self._core.watch.drop_connections(client_id))

    # -- time ---------------------------------------------------------------------------------------------

    def _advance(self, seconds: float, alive: Iterable[str]) -> None:
        if self._core.is_running:
            names = frozenset(alive)
            self._core.call_async(finish_rounds)  # What is under way goes by the time that was.
            self._core.call(lambda broker: advance(broker, self._core.clock, seconds, names))
            self._core.run.run_due_timers()  # Behind those which the first have set.
            self._core.call_async(finish_rounds)
        else:
            self._core.clock.move_on(seconds)
