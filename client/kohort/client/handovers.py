"""Handovers of partitions within a poll: the steps before and after the user's listener."""

from collections.abc import Awaitable

import anyio

from kohort.client.consumer_session import ConsumerSession
from kohort.client.listener import Listener
from kohort.client.membership import Assign, Handover, Lose, Revoke
from kohort.client.retry import Deadline, monotonic_ms
from kohort.client.values import TopicPartition


class Handovers:
    """One consumer's handovers, one after another. In the loop's thread, except the listener's calls."""

    def __init__(self, session: ConsumerSession) -> None:
        self._session = session
        self._begun: tuple[Handover, tuple[TopicPartition, ...], int] | None = None
        self._last_commit: tuple[Revoke, anyio.Event] | None = None  # The commit before partitions go.

    async def begin(self, handover: Handover, deadline: Deadline | None) -> tuple[TopicPartition, ...] | None:
        """Do the steps before the listener's call; return its partitions.

        None if that takes too long: it continues, and the next poll starts the same handover.
        """
        if self._begun is None or self._begun[0] is not handover:
            partitions = _flat(handover)
            if isinstance(handover, Assign):
                partitions = self._session.take_over(partitions)
            elif isinstance(handover, Revoke) and not await self._commit_before(handover, deadline):
                return None
            self._begun = (handover, partitions, monotonic_ms())
        return self._begun[1]

    async def _commit_before(self, handover: Revoke, deadline: Deadline | None) -> bool:
        """Return whether the commit before the revocation ended in time; it is started once."""
        if self._last_commit is None or self._last_commit[0] is not handover:
            self._last_commit = (handover, anyio.Event())
            self._session.cluster.tasks.start_soon(self._commit, self._last_commit[1])
        ended = self._last_commit[1]
        with anyio.move_on_after(None if deadline is None else deadline.remaining_ms / 1000):
            await ended.wait()
        return ended.is_set()

    async def _commit(self, ended: anyio.Event) -> None:
        await self._session.commits.auto_now(Deadline(self._session.config.default_api_timeout_ms))
        ended.set()

    def end(self, handover: Handover) -> None:
        """Go on after the listener's call."""
        if self._begun is not None:
            self._session.poll_times.listener_ran(monotonic_ms() - self._begun[2])
            self._begun = None
        self._session.give_up(_flat(handover) if isinstance(handover, Revoke | Lose) else ())


def tell_listener(
    listener: Listener, handover: Handover, partitions: tuple[TopicPartition, ...]
) -> Awaitable[None] | None:
    """Call the user's listener for a handover; await the result if there is one."""
    if isinstance(handover, Assign):
        return listener.on_assigned(partitions)
    if isinstance(handover, Revoke):
        return listener.on_revoked(partitions)
    return listener.on_lost(partitions)


def _flat(handover: Handover) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic, each) for topic, owned in sorted(handover.partitions.items()) for each in owned
    )
