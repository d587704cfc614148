"""The producer's background: batches out to the leaders of their partitions, again until they are in."""

import logging
from collections.abc import Iterable
from uuid import UUID

import anyio

from kohort.client.accumulator import Accumulator, Batch
from kohort.client.cluster import Cluster
from kohort.client.config import ProducerConfig
from kohort.client.errors import BrokerError, KohortError, NetworkError, RequestTimeoutError
from kohort.client.offsets import by_topic
from kohort.client.retry import Backoff, monotonic_ms
from kohort.client.signal import Signal
from kohort.client.values import TopicPartition
from kohort.protocol.messages import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.schema import ZERO_UUID

logger = logging.getLogger(__name__)

NAMES_IN_PRODUCE = 12  # The newest version that names topics; later ones have their ids alone.


class Sender:
    """Sends what the accumulator holds. One batch of a partition is under way at a time: order stays."""

    def __init__(self, cluster: Cluster, config: ProducerConfig, accumulator: Accumulator) -> None:
        self._cluster = cluster
        self._config = config
        self._accumulator = accumulator
        self._wake = Signal()
        self._progress = Signal()
        self._under_way: set[Batch] = set()
        self._backoffs: dict[TopicPartition, Backoff] = {}

    def wake(self) -> None:
        """Look again at what is ready."""
        self._wake.set()

    async def wait_for_progress(self) -> None:
        """Return when a batch has been finished: there may be room."""
        await self._progress.wait()

    def unfinished(self) -> list[Batch]:
        """Return every batch whose fate is not known yet."""
        return [*self._under_way, *self._accumulator.unfinished()]

    async def run(self) -> None:
        """Send until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                ready = self._accumulator.take_ready(monotonic_ms())
                self._under_way.update(ready)
                for node_id, batches in self._by_leader(ready).items():
                    for request in self._split(batches):
                        tasks.start_soon(self._send, node_id, request)
                if not ready:
                    await self._wake.wait(self._accumulator.wait_ms(monotonic_ms()))

    def abandon(self) -> None:
        """Fail whatever has not been sent: the producer closes without waiting longer."""
        for batch in self.unfinished():
            batch.finish(RequestTimeoutError(f"records for {batch.partition} were not sent before the close"))

    def _by_leader(self, batches: Iterable[Batch]) -> dict[int, list[Batch]]:
        nodes: dict[int, list[Batch]] = {}
        for batch in batches:
            try:
                nodes.setdefault(self._cluster.leader(batch.partition).leader, []).append(batch)
            except BrokerError as error:
                self._cluster.tasks.start_soon(self._retry, [batch], error)
        return nodes

    def _split(self, batches: list[Batch]) -> list[list[Batch]]:
        """Return the batches in requests of max_request_size."""
        requests: list[list[Batch]] = [[]]
        size_bytes = 0
        for batch in batches:
            if requests[-1] and size_bytes + batch.size_bytes > self._config.max_request_size:
                requests.append([])
                size_bytes = 0
            requests[-1].append(batch)
            size_bytes += batch.size_bytes
        return requests

    async def _send(self, node_id: int, batches: list[Batch]) -> None:
        try:
            connection = await self._cluster.connection(node_id)
            ids = {each.partition.topic: self._topic_id(each.partition.topic) for each in batches}
            highest = NAMES_IN_PRODUCE if ZERO_UUID in ids.values() else None
            request = self._request(batches, ids)
            if self._config.required_acks == 0:
                connection.send(request, highest=highest)
                for batch in batches:
                    self._finish(batch, None)
                return
            response = await connection.request(
                request, ProduceResponse, timeout_ms=self._config.request_timeout_ms, highest=highest
            )
        except KohortError as error:
            await self._retry(batches, error)
            return
        await self._answered(batches, response, {topic_id: topic for topic, topic_id in ids.items()})

    def _topic_id(self, topic: str) -> UUID:
        found = self._cluster.metadata.topics.get(topic)
        return ZERO_UUID if found is None else found.topic_id

    def _request(self, batches: list[Batch], ids: dict[str, UUID]) -> ProduceRequest:
        data = {each.partition: each for each in batches}

        def partition(each: TopicPartition) -> PartitionProduceData:
            return PartitionProduceData(index=each.partition, records=data[each].to_bytes())

        return ProduceRequest(
            acks=self._config.required_acks,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=tuple(
                TopicProduceData(name=topic, topic_id=ids[topic], partition_data=items)
                for topic, items in by_topic(data, partition).items()
            ),
        )

    async def _answered(
        self, batches: list[Batch], response: ProduceResponse, names: dict[UUID, str]
    ) -> None:
        answers = {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), each.index): each
            for topic in response.responses
            for each in topic.partition_responses
        }
        for batch in batches:
            answer = answers.get(batch.partition)
            if answer is None:
                self._finish(batch, NetworkError(f"the broker's answer leaves {batch.partition} out"))
            elif answer.error_code:
                await self._retry([batch], _refusal(batch, answer))
            else:
                batch.base_offset = answer.base_offset
                batch.log_append_ms = answer.log_append_time_ms
                self._backoffs.pop(batch.partition, None)
                self._finish(batch, None)

    async def _retry(self, batches: list[Batch], error: KohortError) -> None:
        """Put the batches back for another attempt, or give them up."""
        if error.retriable:
            logger.debug("producing: %s", error)
            try:
                await self._cluster.refresh_metadata({each.partition.topic for each in batches})
            except KohortError as again:
                logger.debug("producing: %s", again)
        now_ms = monotonic_ms()
        for batch in batches:
            backoff = self._backoffs.setdefault(
                batch.partition, Backoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
            )
            again_ms = now_ms + int(backoff.next_ms())
            if not error.retriable:
                self._finish(batch, error)
            elif again_ms >= batch.created_ms + self._config.delivery_timeout_ms:
                timeout_ms = self._config.delivery_timeout_ms
                expired = RequestTimeoutError(
                    f"{batch.partition} not written in {timeout_ms} ms; last: {error}"
                )
                expired.__cause__ = error
                self._finish(batch, expired)
            else:
                self._under_way.discard(batch)
                self._accumulator.put_back(batch, again_ms)
        self._wake.set()

    def _finish(self, batch: Batch, error: KohortError | None) -> None:
        self._under_way.discard(batch)
        self._accumulator.release(batch)
        batch.finish(error)
        self._progress.set()
        self._wake.set()


def _refusal(batch: Batch, answer: PartitionProduceResponse) -> BrokerError:
    return BrokerError(answer.error_code, answer.error_message or f"partition {batch.partition}")
