"""Problems that no call reports: logged through `logging`, and repeated at growing intervals."""

import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from kohort.client.retry import monotonic_ms

logger = logging.getLogger("kohort.client")

GAP_MS, GAP_MOST_MS = 10_000, 300_000
SUBJECTS_MAX = 1_000


@dataclass(slots=True)
class _Trouble:
    """Something that goes wrong again and again."""

    since_ms: int
    seen_ms: int
    due_ms: int
    gap_ms: int = GAP_MS


class Warnings:
    """The warnings of one client: the first at once, of the same subject after a gap that doubles."""

    def __init__(self, now_ms: Callable[[], int] = monotonic_ms) -> None:
        self._now_ms = now_ms
        self._troubles: dict[Hashable, _Trouble] = {}

    def say(self, subject: Hashable, message: object, *, after_ms: int = 0) -> None:
        """Log the message, unless one about the subject was logged a short while ago.

        A problem that ends within `after_ms` is not logged. After a quiet interval
        the next message counts as the first again.
        """
        now_ms = self._now_ms()
        found = self._troubles.get(subject)
        if found is None or now_ms - found.seen_ms >= found.gap_ms:
            if len(self._troubles) >= SUBJECTS_MAX:
                self._troubles.clear()
            found = self._troubles[subject] = _Trouble(now_ms, now_ms, now_ms + after_ms)
        found.seen_ms = now_ms
        if now_ms < found.due_ms:
            return
        lasting_s = (now_ms - found.since_ms) // 1_000
        # As text: an error that somebody's handler keeps would keep its frames, and their sockets open.
        logger.warning("%s%s", str(message), f" (for {lasting_s} s now)" if lasting_s > 1 else "")
        found.due_ms = now_ms + found.gap_ms
        found.gap_ms = min(2 * found.gap_ms, GAP_MOST_MS)

    def is_over(self, subject: Hashable) -> None:
        """Forget a problem without a message: it ended in time."""
        found = self._troubles.get(subject)
        if found is not None and found.gap_ms == GAP_MS:
            del self._troubles[subject]
