"""A continuous watch: after an error it continues at its revision, at another endpoint if one does not
answer."""

from collections.abc import Callable

import structlog
import trio

from kohort.broker.etcd.calls import OUT_OF_RANGE, Calls
from kohort.broker.etcd.errors import EtcdCompacted, EtcdSilent, EtcdUnauthorized, EtcdUnavailable
from kohort.broker.etcd.messages import Json, Range, Watched, watch_json, watched_of

IDLE_SECONDS = 15.0  # A dead connection is silent, and so is a quiet cluster: a new request is cheap.
RETRY_SECONDS = 0.2

log = structlog.get_logger("kohort.etcd")


class Watch:
    """The keys from `key` on and below `end`, from `revision` on."""

    def __init__(
        self, client: Calls, key: bytes, end: bytes, revision: int, *, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._client = client
        self._key = key
        self._end = end
        self._idle_seconds = idle_seconds
        self._broken = False
        self.revision = revision
        """The next revision to report."""

    async def run(self, deliver: Callable[[Watched], None]) -> None:
        """Deliver each change once and in order, until cancelled; the changes of a revision come together.

        Raises: EtcdCompacted if the next revision was compacted: read everything again, and
        watch from there; EtcdRejected.
        """
        while True:
            at = self._client.at
            try:
                await self._once(deliver)
            except EtcdSilent:
                continue
            except (EtcdUnavailable, EtcdUnauthorized) as error:
                if isinstance(error, EtcdUnauthorized) and self._broken:
                    raise  # Not the token that had expired: it is new.
                self._complain(error)
                self._client.avoid(at)
                await trio.sleep(RETRY_SECONDS)

    async def _once(self, deliver: Callable[[Watched], None]) -> None:
        """Report the events of one stream until it is idle. Raises: EtcdError, also if it just ends."""
        form = watch_json(Range(self._key, self._end, revision=self.revision))
        async with self._client.stream("watch", form, idle_seconds=self._idle_seconds) as messages:
            async for message in messages:
                self._take(message, deliver)
        raise EtcdUnavailable("etcd has ended the watch", maybe_done=False)

    def _take(self, message: Json, deliver: Callable[[Watched], None]) -> None:
        if message.get("canceled"):
            compacted = int(message.get("compact_revision", 0))
            if compacted:
                raise EtcdCompacted(OUT_OF_RANGE, "the watch is behind a compaction", compacted)
            raise EtcdUnavailable(str(message.get("cancel_reason") or "watch cancelled"), maybe_done=False)
        if self._broken:
            self._broken = False
            log.info("etcd is watched again", revision=self.revision)
        if message.get("events"):
            watched = watched_of(message)
            self.revision = watched.revision + 1
            deliver(watched)

    def _complain(self, error: Exception) -> None:
        """Say once that the watch is broken."""
        if not self._broken:
            self._broken = True
            log.warning("the watch of etcd broke and goes on from its revision", error=str(error))
