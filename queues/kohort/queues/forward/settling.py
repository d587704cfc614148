"""Carries out the verdict of a service on a record: done, pushed again, or written elsewhere."""

import logging
from collections import Counter

from kohort.client.aio import Producer
from kohort.client.config import ConsumerOptions
from kohort.client.errors import KohortError
from kohort.client.signal import Signal
from kohort.client.workers.windows import Order
from kohort.queues.clock import wall_ms
from kohort.queues.copying import is_too_large, write_copy
from kohort.queues.forward.backlog import Backlog, Job
from kohort.queues.forward.envelope import Envelope, envelope_of, with_envelope
from kohort.queues.forward.settings import Destination
from kohort.queues.forward.verdict import Action, Verdict

logger = logging.getLogger(__name__)

WRITE_AGAIN_MS = 1_000
UNREACHED_MS = 100  # What reached nobody is pushed again so much later.
HELD_UP = Verdict(Action.RETRY, None, "it held the others of its partition up")


class Settling:
    """Carries out the verdicts on a destination's records; sets `changed` when a record waits again."""

    def __init__(
        self,
        destination: Destination,
        backlog: Backlog,
        producer: Producer,
        options: ConsumerOptions,
        *,
        counts: Counter[str],
        changed: Signal,
    ) -> None:
        self._destination = destination
        self._backlog = backlog
        self._producer = producer
        self._options = options
        self._counts = counts
        self._changed = changed

    async def settle(self, job: Job, verdict: Verdict) -> None:
        """Carry out the verdict on a record. A record that is copied is done once its copy is written.

        A retry too many is a dead letter.
        """
        if not self._backlog.is_ours(job):
            return
        if verdict.action is Action.RETRY and job.attempt >= self._destination.attempts_max:
            verdict = verdict._replace(action=Action.DEAD)
        if await self._is_seen_to(job, verdict):
            self._counts[verdict.action.value] += 1
            if verdict.action is Action.DEAD:
                logger.warning("%s is dead after %s push(es): %s", _name(job), job.attempt, verdict.why)
        else:
            self._backlog.see_to_later(job, wall_ms() + WRITE_AGAIN_MS, verdict)
            self._changed.set()

    async def _is_seen_to(self, job: Job, verdict: Verdict) -> bool:
        """Return whether the record is done, or waits; if not, its copy could not be written."""
        action, destination = verdict.action, self._destination
        if action is Action.UNREACHED:
            self._backlog.again(job, wall_ms() + UNREACHED_MS, job.attempt)
        elif action is Action.RETRY:
            topic, delay_ms = destination.retry_topic(job.attempt, verdict.delay_ms)
            due_ms = wall_ms() + delay_ms
            if destination.order is Order.NONE:
                error = await self._write(job, topic, job.attempt, due_ms, verdict.why)
                if error is None or not is_too_large(error):
                    return error is None
            self._backlog.again(job, due_ms, job.attempt + 1)  # It waits in its place.
        elif action is Action.APART:
            topic = destination.route_topics[job.route]
            error = await self._write(job, topic, job.attempt - 1, job.due_ms, verdict.why)
            if error is None or not is_too_large(error):
                return error is None
            job.is_fixed = True
            self._backlog.again(job, job.due_ms, job.attempt)
        elif action in {Action.DEAD, Action.STASH}:
            topic = destination.dead_letters_topic if action is Action.DEAD else destination.stash_topic
            return await self._write(job, topic, job.attempt, 0, verdict.why) is None
        else:
            self._backlog.finish(job)
        return True

    async def move(self, job: Job) -> None:
        """Write a record that waits for its time behind the others of its topic."""
        attempts = job.attempt - 1
        topic = job.record.topic
        if topic not in self._destination.retry_topics:
            topic = self._destination.retry_topics[0]
        if await self._write(job, topic, attempts, job.due_ms, HELD_UP.why) is not None:
            self._backlog.again(job, max(job.due_ms, wall_ms() + WRITE_AGAIN_MS), job.attempt)
            self._changed.set()

    async def _write(self, job: Job, topic: str, attempts: int, due_ms: int, why: str) -> KohortError | None:
        """Return None once the record is kept elsewhere, and done here; or why it is not."""
        record = job.record
        origin = envelope_of(record, self._destination.topic).origin
        headers = with_envelope(record, Envelope(attempts, due_ms, origin), why)
        try:
            await write_copy(self._producer, self._options, topic, record, headers)
        except KohortError as error:
            logger.warning("%s could not be written to %s: %s", _name(job), topic, str(error))
            return error
        self._backlog.finish(job)
        return None


def _name(job: Job) -> str:
    return f"the record of {job.track.partition} at {job.record.offset}"
