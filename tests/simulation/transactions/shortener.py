"""Somebody who has the oldest records deleted, of open transactions as well."""

from collections.abc import Sequence
from random import Random

from kohort.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tests.simulation.network import Sent
from tests.simulation.transactions.ledger import Place
from tests.simulation.transactions.process import Around, Ask, Process, Sleep

VERSION = 2
PAUSE_MS_MAX = 20_000
PATIENCE_MS = 8_000
AHEAD_MAX = 60
TO_THE_HIGH_WATERMARK = -1


class Shortener(Process):
    """Asks for one partition after another to begin later."""

    def __init__(self, world: Around, name: str, random: Random, *, places: Sequence[Place]) -> None:
        super().__init__(world, name, random)
        self._places = places
        self._starts = dict.fromkeys(places, 0)

    async def run(self) -> None:
        """Ask on; what lies beyond the high watermark is refused."""
        while True:
            await Sleep(int(self._random.random() * PAUSE_MS_MAX))
            place = self._random.choice(self._places)
            offset = self._starts[place] + self._random.randrange(AHEAD_MAX)
            if self._random.random() < 0.3:
                offset = TO_THE_HIGH_WATERMARK
            asked = DeleteRecordsPartition(partition_index=place[1], offset=offset)
            message = DeleteRecordsRequest(
                topics=(DeleteRecordsTopic(name=place[0], partitions=(asked,)),), timeout_ms=PATIENCE_MS
            )
            answer = await Ask("DeleteRecords", VERSION, message, PATIENCE_MS, self._sent)
            if isinstance(answer, DeleteRecordsResponse):
                [result] = answer.topics[0].partitions
                if not result.error_code:
                    self._starts[place] = result.low_watermark

    def _sent(self, _sent: Sent) -> None:
        """Keep no books of it: readers see where logs begin."""
