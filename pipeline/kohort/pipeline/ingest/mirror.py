"""Keeps a group at the offsets of Spark's checkpoint, in its own thread: the data never waits for it.

Spark commits a batch a moment after the sink has returned, without a notice: a Python source learns it
when the next batch is planned, which after an availableNow run never happens. So the mirror gets each
batch that has left the sink, waits for Spark's own file to appear, and commits then. While the coordinator is
away it tries again and again; of several batches that were missed, only the last is committed.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from kohort.client import KohortError
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.ingest.checkpoint import Checkpoint, Progress
from kohort.pipeline.ingest.comparison import Comparison
from kohort.pipeline.ingest.group_offsets import GroupOffsets

LOOK_EVERY_S = 0.05
RETRY_FIRST_S, RETRY_MAX_S = 0.2, 5.0


@dataclass(frozen=True, slots=True)
class MirrorState:
    """The state of the mirror: the last committed batch, and the error since."""

    batch_id: int = -1
    error: str | None = None

    @property
    def is_true(self) -> bool:
        """Whether the group had the offsets of the checkpoint at the last look."""
        return self.error is None


class Mirror:
    """Commits to a group what Spark has committed."""

    def __init__(self, checkpoint: Checkpoint, group: GroupOffsets, *, backwards: bool = False) -> None:
        self._checkpoint = checkpoint
        self._group = group
        self._backwards = backwards
        self._expected = -1
        self._closing = threading.Event()
        self._deadline_s = float("inf")
        self._retry_s = RETRY_FIRST_S
        self._state = MirrorState()
        self._thread = threading.Thread(target=self._supervise, name="kohort-spark-mirror", daemon=True)

    @property
    def state(self) -> MirrorState:
        """The state of the group's offsets."""
        return self._state

    def start(self) -> None:
        """Bring the group to the checkpoint, if its coordinator is available, and begin to follow.

        Raises: GroupBusyError, GroupAheadError, CheckpointError; KohortError for what no retry mends.
        """
        try:
            self._begin()
        except KohortError as error:
            if not error.retriable:
                raise
            self._state = MirrorState(error=str(error))
            progress = self._checkpoint.progress()
            self._expected = -1 if progress is None else progress.batch_id
        self._thread.start()

    def expect(self, batch_id: int) -> None:
        """Take notice that a batch has left the sink: Spark commits it next."""
        self._expected = max(self._expected, batch_id)

    def finish(self, within_s: float) -> MirrorState:
        """Bring the group to where the checkpoint is now, and end. Called when the query has ended."""
        self._deadline_s = time.monotonic() + within_s
        self._closing.set()
        self._thread.join()
        return self._state

    def _supervise(self) -> None:
        """Follow the checkpoint; an unexpected end is recorded in the state, so that it is not hidden."""
        try:
            self._run()
        except Exception as error:
            self._state = MirrorState(self._state.batch_id, f"the group is told no more: {error}")
            raise

    def _run(self) -> None:
        pause_s = 0.0
        while not self._closing.wait(pause_s):
            pause_s = LOOK_EVERY_S
            if self._is_behind():
                pause_s = LOOK_EVERY_S if self._attempt() else self._next_retry_s()
        self._retry_s = RETRY_FIRST_S
        while not self._attempt():
            pause_s = self._next_retry_s()
            if time.monotonic() + pause_s > self._deadline_s:
                return
            time.sleep(pause_s)

    def _is_behind(self) -> bool:
        """Return whether Spark has committed more than the group, or that cannot be seen."""
        if self._expected <= self._state.batch_id:
            return False
        try:
            return self._checkpoint.is_committed(self._expected)
        except OSError:
            return True  # The attempt meets the same error and reports it.

    def _next_retry_s(self) -> float:
        pause_s, self._retry_s = self._retry_s, min(2 * self._retry_s, RETRY_MAX_S)
        return pause_s

    def _attempt(self) -> bool:
        """Return whether the group now has the offsets of the checkpoint; if not, the state says why."""
        try:
            self._mirror()
        except (KohortError, PipelineError, OSError) as error:
            self._state = MirrorState(self._state.batch_id, str(error))
            return False
        self._retry_s = RETRY_FIRST_S
        return True

    def _begin(self) -> None:
        """Refuse a group that is in use, then bring it to the checkpoint."""
        progress = self._checkpoint.progress() or Progress(-1, {})
        found = self._group.look(progress.offsets)
        if not self._backwards:
            found.require_not_ahead(self._group.group_id)
        self._commit(progress, found)

    def _mirror(self) -> None:
        """Commit the missing offsets. Raises: GroupAheadError after that, if the group is ahead elsewhere."""
        progress = self._checkpoint.progress()
        if progress is None:
            return
        found = self._group.look(progress.offsets)
        self._commit(progress, found)
        if not self._backwards:
            found.require_not_ahead(self._group.group_id)

    def _commit(self, progress: Progress, found: Comparison) -> None:
        offsets = found.commit(backwards=self._backwards)
        if offsets:
            self._group.commit(offsets, f"spark batch {progress.batch_id}")
        self._state = MirrorState(progress.batch_id)
