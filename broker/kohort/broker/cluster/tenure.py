"""Whether this broker may act, by its lease and the leaderships of an earlier registration."""

from collections.abc import Callable, Iterator

import structlog

from kohort.broker.metadata import PartitionKey, PartitionState, Snapshot
from kohort.broker.replication.authority import Authority

log = structlog.get_logger("kohort.cluster")


class LeasedTenure:
    """Reports the lease to the authority, and changes to listeners. The loop's thread.

    Leaderships of an earlier registration of this node id are in the first snapshot with the new one.
    """

    def __init__(self, node_id: int, session_timeout_ms: int, now_ms: Callable[[], int]) -> None:
        self.authority = Authority(node_id, session_timeout_ms)
        self._now_ms = now_ms
        self._awaited: tuple[int, int] | None = None  # A broker epoch, and when its lease was asked for.
        self._acted = False
        self.snapshot: Callable[[], Snapshot] | None = None
        """Returns the newest metadata, once they are known."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when the broker may act from now on, or may not any more."""

    def may_lead(self, key: PartitionKey, state: PartitionState) -> bool:
        """Return whether this broker may act as the partition's leader just now."""
        return self.authority.may_lead(key, state, self._now_ms())

    def may_follow(self, state: PartitionState) -> bool:
        """Return whether the state is about the folder that this broker has."""
        return self.authority.has_its_folder(state)

    def check(self) -> bool:
        """Return whether the broker may act now; if not any more, a leader resigns first."""
        acts = self.authority.may_act(self._now_ms())
        if acts != self._acted:
            self._acted = acts
            if not acts:
                log.error("the lease was not renewed in time: this broker leads nothing until it is renewed")
            self.on_change()
        return acts

    # -- events of the lease ------------------------------------------------------------------------------

    def registered(self, broker_epoch: int, asked_ms: int) -> None:
        """Note a new registration; its leaderships are known when the watch reports it."""
        self._awaited = broker_epoch, asked_ms
        if self.snapshot is not None:
            self.seen(self.snapshot())  # The watch may have been quicker than the answer.

    def renewed(self, asked_ms: int) -> None:
        """Hear that the renewal asked for at that time was granted."""
        if self._awaited is None:
            self.authority.renewed(asked_ms)
            self.check()
        else:
            self._awaited = self._awaited[0], asked_ms

    def lost(self) -> None:
        """Hear that the registration is gone."""
        self._awaited = None
        self.authority.lost()
        if self._acted:
            self._acted = False
            self.on_change()

    def seen(self, now: Snapshot) -> None:
        """Look whether the snapshot has the registration that is awaited."""
        if self._awaited is None:
            return
        broker_epoch, asked_ms = self._awaited
        broker = now.broker(self.authority.node_id)
        if broker is not None and broker.epoch == broker_epoch:
            self._awaited = None
            self.authority.registered(broker_epoch, asked_ms, _states(now))
            self.check()


def _states(now: Snapshot) -> Iterator[tuple[PartitionKey, PartitionState]]:
    for topic in now.topics.values():
        for state in topic.partitions:
            yield (topic.topic_id, state.index), state
