"""A member of a share group as a process: it asks for records, and says something of each, or nothing.

It does what Kafka's clients do: an answer that does not come makes it take another connection, with a session
of its own; what it had before is not its own any more.
"""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple
from uuid import UUID

from kohort.broker.group.share.record import Acknowledgement
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.share_acknowledge import (
    ShareAcknowledgeBatch,
    ShareAcknowledgePartition,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopic,
)
from kohort.protocol.messages.share_fetch import (
    ShareFetchAcknowledgementBatch,
    ShareFetchForgottenTopic,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopic,
)
from kohort.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kohort.protocol.records import Record, iterate_batches, iterate_records, read_header
from tests.simulation.network import Sent
from tests.simulation.transactions.process import Around, Ask, Process, Sleep

Place = tuple[UUID, int]
Words = dict[Place, dict[int, Acknowledgement]]

PATIENCE_MS = 5_000
RETRY_MS = 200
MAX_WAIT_MS = 500
PAUSE_MS_MAX = 400
DAWDLES = 0.05  # How often it takes longer than its locks last.
DAWDLE_MS_MAX = 3_000
FIRST_EPOCH, LAST_EPOCH = 0, -1
JOINING_EPOCH, LEAVING_EPOCH = 0, -1
MAX_BYTES = (100, 1_000, 10_000, 1 << 20)
MAX_RECORDS = (1, 3, 20, 500)
KINDS = (
    (Acknowledgement.ACCEPT, 72),
    (Acknowledgement.RELEASE, 10),
    (Acknowledgement.REJECT, 6),
    (Acknowledgement.RENEW, 4),
    (None, 8),  # Says nothing, and lets the lock end.
)


class Session(NamedTuple):
    """A share session as its member knows it: the partitions in it, and its next request's epoch."""

    epoch: int
    places: frozenset[Place]


class Sharer(Process):
    """One member: its heartbeats, fetches and acknowledgements go over one connection, one after another."""

    def __init__(
        self, world: Around, name: str, random: Random, *, group_id: str, topics: tuple[str, ...]
    ) -> None:
        super().__init__(world, name, random)
        self.group_id = group_id
        self.member_id = str(UUID(int=random.getrandbits(128), version=4))
        self.epoch = JOINING_EPOCH
        self.places: frozenset[Place] = frozenset()
        self._topics = topics
        self._is_calm = False
        self._leaves = False
        self._beats_at_ms = 0
        self._session: Session | None = None
        self._held: dict[Place, list[tuple[int, bool]]] = {}  # Offsets, and whether there is a record.

    def calm(self) -> None:
        """Go on, and accept everything from now on."""
        super().calm()
        self._is_calm = True

    def leave(self) -> None:
        """Close the session and leave the group, and end."""
        self._leaves = True

    async def run(self) -> None:
        """Read on until told to leave."""
        while not self._leaves:
            if self._schedule.time_ms >= self._beats_at_ms:
                await self._beat(self.epoch)
            if self.places:
                await self._read()
            await Sleep(self._pause_ms())
        if self._session is not None:
            await self._acknowledge(self._words(), LAST_EPOCH)
        await self._beat(LEAVING_EPOCH)

    def _pause_ms(self) -> int:
        if self._is_calm or self._random.random() >= DAWDLES:
            return int(self._random.random() * PAUSE_MS_MAX)
        return int(self._random.random() * DAWDLE_MS_MAX)

    def _sent(self, _sent: Sent) -> None:
        """Keep no books: the ledger sees what is asked."""

    # -- the group ------------------------------------------------------------------------------------------

    async def _beat(self, epoch: int) -> None:
        joins = epoch == JOINING_EPOCH
        message = ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            subscribed_topic_names=self._topics if joins else None,
        )
        answer = await Ask("ShareGroupHeartbeat", 1, message, PATIENCE_MS, self._sent)
        if not isinstance(answer, ShareGroupHeartbeatResponse):
            self._session = None  # It ends with its connection.
            return
        self._beats_at_ms = self._schedule.time_ms + (answer.heartbeat_interval_ms or RETRY_MS)
        if answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self.epoch, self._beats_at_ms = JOINING_EPOCH, 0
        elif not answer.error_code:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.places = frozenset(
                    (each.topic_id, index)
                    for each in answer.assignment.topic_partitions
                    for index in each.partitions
                )
        else:
            self._beats_at_ms = self._schedule.time_ms + RETRY_MS

    # -- records --------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Say what is to be said of the records in hand, and ask for more, together or one by one."""
        words = self._words()
        if words and self._session is not None and self._random.random() < 0.5:
            await self._acknowledge(words, self._session.epoch)
            words = {}
        await self._fetch(words)

    def _words(self) -> Words:
        """Return what there is to say by now; a record that is renewed stays in hand."""
        kinds, weights = [kind for kind, _ in KINDS], [weight for _, weight in KINDS]
        said: Words = {}
        for place, held in self._held.items():
            kept: list[tuple[int, bool]] = []
            for offset, is_record in held:
                kind: Acknowledgement | None = Acknowledgement.ACCEPT
                if not self._is_calm:
                    [kind] = self._random.choices(kinds, weights)
                if not is_record:
                    kind = Acknowledgement.GAP
                if kind is Acknowledgement.RENEW:
                    kept.append((offset, is_record))
                if kind is not None:
                    said.setdefault(place, {})[offset] = kind
            self._held[place] = kept
        return said

    async def _acknowledge(self, words: Words, epoch: int) -> None:
        message = ShareAcknowledgeRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=epoch,
            is_renew_ack=_renews(words),
            topics=tuple(
                ShareAcknowledgeTopic(
                    topic_id=topic_id,
                    partitions=(
                        ShareAcknowledgePartition(
                            partition_index=index,
                            acknowledgement_batches=tuple(
                                ShareAcknowledgeBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=kinds
                                )
                                for first, last, kinds in self._runs(told)
                            ),
                        ),
                    ),
                )
                for (topic_id, index), told in words.items()
            ),
        )
        answer = await Ask("ShareAcknowledge", 2, message, PATIENCE_MS, self._sent)
        if not isinstance(answer, ShareAcknowledgeResponse) or answer.error_code:
            self._session = None
        elif self._session is not None:
            self._session = Session(self._session.epoch + 1, self._session.places)

    async def _fetch(self, words: Words) -> None:
        session = self._session
        if session is None:
            words, self._held = {}, {}
            session = Session(FIRST_EPOCH, frozenset())
        places = self.places
        new, gone = places - session.places, session.places - places
        topics: dict[Place, tuple[ShareFetchAcknowledgementBatch, ...]] = dict.fromkeys(sorted(new), ())
        for place, told in words.items():
            topics[place] = tuple(
                ShareFetchAcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=kinds)
                for first, last, kinds in self._runs(told)
            )
        renews = _renews(words)
        message = ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=0 if renews else MAX_WAIT_MS,
            min_bytes=0 if renews else 1,
            max_bytes=0 if renews else self._random.choice(MAX_BYTES),
            max_records=0 if renews else self._random.choice(MAX_RECORDS),
            batch_size=10,
            share_acquire_mode=0 if renews else self._random.randrange(2),
            is_renew_ack=renews,
            topics=tuple(
                ShareFetchTopic(
                    topic_id=topic_id,
                    partitions=(ShareFetchPartition(partition_index=index, acknowledgement_batches=batches),),
                )
                for (topic_id, index), batches in topics.items()
            ),
            forgotten_topics_data=tuple(
                ShareFetchForgottenTopic(topic_id=topic_id, partitions=(index,))
                for topic_id, index in sorted(gone)
            ),
        )
        answer = await Ask("ShareFetch", 2, message, PATIENCE_MS, self._sent)
        if not isinstance(answer, ShareFetchResponse) or answer.error_code:
            self._session = None
            return
        self._session = Session(session.epoch + 1, places)
        for topic in answer.responses:
            for each in topic.partitions:
                records = {record.offset for record in records_in(each.records or b"")}
                held = self._held.setdefault((topic.topic_id, each.partition_index), [])
                for batch in each.acquired_records:
                    of_batch = range(batch.first_offset, batch.last_offset + 1)
                    held.extend((offset, offset in records) for offset in of_batch)

    def _runs(self, told: dict[int, Acknowledgement]) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Yield offsets beside each other as runs, with a type for each, or one where all have the same."""
        offsets = sorted(told)
        while offsets:
            count = 1
            while count < len(offsets) and offsets[count] == offsets[0] + count:
                count += 1
            run, offsets = offsets[:count], offsets[count:]
            kinds = tuple(int(told[each]) for each in run)
            is_short = len(set(kinds)) == 1 and self._random.random() < 0.5
            yield run[0], run[-1], kinds[:1] if is_short else kinds


def _renews(words: Words) -> bool:
    return any(Acknowledgement.RENEW in told.values() for told in words.values())


def records_in(data: bytes) -> Iterator[Record]:
    """Yield the records of batches, without markers."""
    for batch in iterate_batches(data):
        if not read_header(batch).is_control:
            yield from iterate_records(batch)
