"""Readers of committed records: each reads one partition on and on, and begins anew now and then."""

import os
from collections.abc import Callable, Iterator
from random import Random
from uuid import UUID

from kohort.broker.transport.file_range import FileRange
from kohort.client.batches import Aborted, hidden_batches
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.protocol.records import HEADER_BYTES, BatchHeader, iterate_records, read_header
from tests.simulation.network import Sent
from tests.simulation.transactions.ledger import Ledger, Place
from tests.simulation.transactions.process import Around, Ask, Process, Sleep

VERSION = 13
READ_COMMITTED = 1
PATIENCE_MS = 5_000
RETRY_MS = 100
PAUSE_MS_MAX = 400
PAUSE_MS_MAX_HURRIED = 20
MAX_WAIT_MS = 500
MAX_BYTES = (200, 1_000, 6_000, 16_000, 40_000)
ANEW = 0.004


class Reader(Process):
    """A consumer with read_committed, which tells the ledger of each record that it is shown."""

    def __init__(
        self,
        world: Around,
        name: str,
        random: Random,
        *,
        ledger: Ledger,
        place: Place,
        topic_id: UUID,
        start: Callable[[], int | None] | None = None,
    ) -> None:
        """`start` says where the log begins by now, if it is there, where records of it are deleted."""
        super().__init__(world, name, random)
        self.place = place
        self.position = 0
        self.high_watermark = self.last_stable_offset = -1  # As it was told last.
        self.values: list[str] = []  # What it was shown since it has begun anew.
        self._ledger = ledger
        self._topic_id = topic_id
        self._start = start
        self._is_hurried = False

    def hurry(self) -> None:
        """Read from the first record on, and do nothing else any more."""
        self._is_hurried = True
        self.begin_anew()

    def begin_anew(self) -> None:
        """Read from the first record on."""
        self.position = 0
        self.high_watermark = self.last_stable_offset = -1
        self.values = []

    async def run(self) -> None:
        """Read on."""
        while True:
            if self._random.random() < ANEW and not self._is_hurried:
                self.begin_anew()
            position = self.position
            answer = await Ask("Fetch", VERSION, self._message(position), PATIENCE_MS, self._sent)
            if isinstance(answer, FetchResponse) and position == self.position:
                self._take(answer)
            await Sleep(
                int(self._random.random() * (PAUSE_MS_MAX_HURRIED if self._is_hurried else PAUSE_MS_MAX))
            )

    def _sent(self, _sent: Sent) -> None:
        """Keep no books of who asks: what is answered counts."""

    def _message(self, position: int) -> FetchRequest:
        max_bytes = self._random.choice(MAX_BYTES)
        asked = FetchPartition(partition=self.place[1], fetch_offset=position, partition_max_bytes=max_bytes)
        return FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=READ_COMMITTED,
            topics=(FetchTopic(topic_id=self._topic_id, partitions=(asked,)),),
            forgotten_topics_data=(),
        )

    def _take(self, answer: FetchResponse) -> None:
        for topic in answer.responses:
            for each in topic.partitions:
                if each.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    start = 0 if self._start is None else self._start()
                    if start is None:
                        continue  # The broker has died since.
                    if start <= self.position:
                        raise AssertionError(f"{self.place} ends before {self.position}, which was read")
                    self.position = start
                if each.error_code:
                    continue
                self.high_watermark = each.high_watermark
                self.last_stable_offset = each.last_stable_offset
                self._read(_bytes(each.records), each.aborted_transactions or ())

    def _read(self, data: bytes, aborted: Aborted) -> None:
        view = memoryview(data)
        found = list(_whole_batches(view))
        hidden = hidden_batches(view, [place for place, _ in found], aborted)
        for (place, header), is_hidden in zip(found, hidden, strict=True):
            if not is_hidden and not header.is_control:
                for record in iterate_records(view[place : place + header.size_bytes]):
                    if record.offset >= self.position:
                        value = bytes(record.value or b"").decode().rstrip("\0")
                        self._ledger.shown(self.place, record.offset, value)
                        self.values.append(value)
            self.position = max(self.position, header.next_offset)


def _whole_batches(view: memoryview) -> Iterator[tuple[int, BatchHeader]]:
    """Yield where each batch lies that is not cut, and its header."""
    place = 0
    while place + HEADER_BYTES <= len(view):
        header = read_header(view, place)
        if place + header.size_bytes > len(view):
            return
        yield place, header
        place += header.size_bytes


def _bytes(records: object) -> bytes:
    """Return what an answer sends, read from its file where it was not copied."""
    if isinstance(records, FileRange):
        return os.pread(records.file_descriptor, records.size_bytes, records.position)
    assert isinstance(records, bytes)
    return records
