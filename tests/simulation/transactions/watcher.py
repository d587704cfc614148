"""Somebody who asks how far groups are, whatever their producers are about."""

from collections.abc import Sequence
from functools import partial
from random import Random

from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.simulation.network import Sent
from tests.simulation.transactions.ledger import NO_IDENTITY, Ledger, Place
from tests.simulation.transactions.process import Around, Ask, Process, Sleep

PAUSE_MS_MAX = 60
PATIENCE_MS = 4_000


class Watcher(Process):
    """Asks for one counter's offset after another, often while its transaction is being ended."""

    def __init__(
        self,
        world: Around,
        name: str,
        random: Random,
        *,
        ledger: Ledger,
        anchors: Sequence[tuple[str, str, Place]],
    ) -> None:
        """`anchors` are the counters, their groups, and where each writes every number."""
        super().__init__(world, name, random)
        self._ledger = ledger
        self._anchors = anchors

    async def run(self) -> None:
        """Ask on."""
        while True:
            counter, group_id, (topic, index) = self._random.choice(self._anchors)
            wanted = (OffsetFetchRequestTopics(name=topic, partition_indexes=(index,)),)
            group = OffsetFetchRequestGroup(group_id=group_id, topics=wanted)
            message = OffsetFetchRequest(groups=(group,), require_stable=self._random.random() < 0.7)
            on_sent = partial(self._sent, counter)
            await Ask("OffsetFetch", 9, message, PATIENCE_MS, on_sent)
            await Sleep(int(self._random.random() * PAUSE_MS_MAX))

    def _sent(self, counter: str, sent: Sent) -> None:
        self._ledger.sends(sent, counter, NO_IDENTITY)
