"""The other brokers of the cluster, as the pages of this one ask them."""

from collections.abc import Callable
from typing import NamedTuple

import trio

from kohort.broker.group import coordinator_partition
from kohort.broker.metadata import NO_LEADER, OFFSETS_TOPIC, MetadataStore
from kohort.broker.runtime.other_brokers import OtherBrokers, Unreachable
from kohort.protocol.between_brokers import BrokerPageRequest, BrokerPageResponse
from kohort.protocol.errors import ErrorCode

ANSWER_SECONDS = 4.0
SILENT_SECONDS = 5.0
"""So long a broker that did not answer is not asked again: one that hangs would slow every page."""
VERSION = 0


class Silent(Exception):
    """A broker gave no answer; the text says why."""


class Coordinator(NamedTuple):
    """Who coordinates a group."""

    partition: int
    """Of `__consumer_offsets`; -1 before there is any."""
    node_id: int
    """-1 where nobody does now."""


class Brokers:
    """All brokers of the cluster but this one. The loop's thread only."""

    def __init__(
        self, metadata: MetadataStore, others: OtherBrokers, now: Callable[[], float] = trio.current_time
    ) -> None:
        self.node_id = others.node_id
        self._metadata = metadata
        self._others = others
        self._now = now
        self._silent: dict[int, tuple[float, str]] = {}  # Until when, and why.

    def others(self) -> list[int]:
        """Return the ids of the other brokers that live."""
        brokers = self._metadata.snapshot().brokers
        return [each.node_id for each in brokers if each.node_id != self.node_id]

    def coordinator(self, group_id: str) -> Coordinator:
        """Return who coordinates a group."""
        topic = self._metadata.snapshot().topics.get(OFFSETS_TOPIC)
        if topic is None:
            return Coordinator(-1, self.node_id)  # There is no group anywhere.
        index = coordinator_partition(group_id, len(topic.partitions))
        return Coordinator(index, topic.partitions[index].leader)

    def without_coordinator(self) -> list[int]:
        """Return the partitions of `__consumer_offsets` whose groups nobody coordinates now."""
        topic = self._metadata.snapshot().topics.get(OFFSETS_TOPIC)
        states = () if topic is None else topic.partitions
        return [each.index for each in states if each.leader == NO_LEADER]

    def leader(self, topic: str, index: int) -> int:
        """Return which broker leads a partition, -1 where none does or there is no such partition."""
        found = self._metadata.snapshot().topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return NO_LEADER
        return found.partitions[index].leader

    async def ask(self, node_id: int, asked: BrokerPageRequest) -> BrokerPageResponse:
        """Return what another broker alone answers. Raises: Silent."""
        until, why = self._silent.get(node_id, (0.0, ""))
        if self._now() < until:
            raise Silent(why)
        try:
            with trio.fail_after(ANSWER_SECONDS):
                told = await self._others.ask(node_id, asked, BrokerPageResponse, VERSION)
        except Unreachable as error:
            raise self._is_silent(node_id, str(error)) from error
        except trio.TooSlowError as error:
            raise self._is_silent(node_id, f"no answer within {ANSWER_SECONDS:.0f} s") from error
        if told.error_code != ErrorCode.NONE:
            raise self._is_silent(node_id, ErrorCode(told.error_code).name)
        self._silent.pop(node_id, None)
        return told

    def _is_silent(self, node_id: int, why: str) -> Silent:
        self._silent[node_id] = self._now() + SILENT_SECONDS, why
        return Silent(why)
