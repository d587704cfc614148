"""Dead letters of share groups: records that a group gives up, written to its dead letter topic (KIP-1191).

The group's state has the record as ARCHIVING before its dead letter is written, and as archived
afterwards. So the next leader of the partition continues where the last one died; at worst it writes
a letter twice. Transient errors are retried without limit; after others there is no letter.
Source: Kafka's ShareGroupDLQStateManager.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import structlog

from kohort.broker.config import TopicConfig, topic_config
from kohort.broker.config.group_settings import GroupSettings
from kohort.broker.coordination.counters import GroupCounters
from kohort.broker.coordination.dead_letter_records import Letters, Origin, build_letters, read_records
from kohort.broker.coordination.services import CoordinatorServices
from kohort.broker.group.share.record import DeadRecords
from kohort.broker.metadata import NO_LEADER, TopicState
from kohort.broker.metadata.topic_plans import NewTopic
from kohort.broker.partitions import Partition
from kohort.broker.partitions.produced import prepare
from kohort.broker.runtime.other_brokers import Unreachable
from kohort.broker.runtime.throttled_log import ThrottledLog
from kohort.broker.share_state.state import ShareKey
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.records import Record, read_header
from kohort.protocol.records.work_budget import WorkBudget
from kohort.storage import StorageError

READ_BYTES = 1024 * 1024
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 30.0
PRODUCE_VERSION = 9
PRODUCE_TIMEOUT_MS = 30_000
ALL_REPLICAS = -1
RESERVED = "__"
FINAL = frozenset(
    (
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_REPLICATION_FACTOR,
    )
)
"""Errors that another try does not mend."""


class Unwritable(Exception):
    """No dead letter can be written; the text says why."""


class DeadLetterRequest(NamedTuple):
    """Records of one share partition that wait for their dead letters.

    `done` gets whether they have been written; otherwise they never will be.
    """

    source: Partition
    dead: DeadRecords
    is_wanted: Callable[[], bool]
    """Whether this broker still leads the partition."""
    done: Callable[[bool], None]


class DeadLetters:
    """Writes dead letters, those of a share partition in their order. The loop's thread only."""

    def __init__(
        self,
        services: CoordinatorServices,
        settings_of: Callable[[str], GroupSettings],
        *,
        ensure: Callable[[NewTopic], Awaitable[TopicState]],
        counters: GroupCounters,
    ) -> None:
        """`ensure` makes a topic unless it is there; it raises ApiError where it can't be made."""
        self._metadata = services.metadata
        self._current = services.current
        self._settings_of = settings_of
        self._ensure = ensure
        self._partitions = services.partitions
        self._flusher = services.flusher
        self._clock = services.clock
        self._workers = services.workers
        self._others = services.others
        self._log = ThrottledLog(structlog.get_logger("kohort.share"), services.clock)
        self._queues: dict[ShareKey, list[DeadLetterRequest]] = {}  # Present while something is written.
        self._counters = counters

    def write(self, key: ShareKey, requests: Sequence[DeadLetterRequest]) -> None:
        """Write dead letters for these records, after those that are under way."""
        queue = self._queues.get(key)
        if queue is not None:
            queue += requests
        elif requests:
            self._queues[key] = list(requests)
            self._workers.spawn(self._run, key)

    async def _run(self, key: ShareKey) -> None:
        queue = self._queues[key]
        try:
            while queue:
                await self._write_one(key, queue.pop(0))
        finally:
            del self._queues[key]

    async def _write_one(self, key: ShareKey, request: DeadLetterRequest) -> None:
        dead, is_written = request.dead, False
        try:
            await self._write_all(key, request)
            is_written = True
        except Unwritable as error:
            self._counters.dead_letters_missing += dead.last_offset + 1 - dead.first_offset
            self._log.warning(
                "records are given up without a dead letter",
                group_id=key.group_id,
                topic=request.source.topic,
                partition=key.partition,
                first_offset=dead.first_offset,
                last_offset=dead.last_offset,
                error=str(error),
            )
        except Exception:  # noqa: BLE001  # A supervisor: one must not delay the others.
            self._log.exception("a dead letter could not be written", group_id=key.group_id)
        if request.is_wanted():
            request.done(is_written)

    async def _write_all(self, key: ShareKey, request: DeadLetterRequest) -> None:
        """Return once every record has its letter. Raises: Unwritable."""
        offset, pause_s, with_records = request.dead.first_offset, FIRST_PAUSE_S, True
        while offset <= request.dead.last_offset and request.is_wanted():
            try:
                topic = await self._topic(key.group_id)
                letters = await self._letters(key, request, offset, topic, with_records=with_records)
                await self._append(topic, key.partition % len(topic.partitions), letters.batch)
            except (ApiError, StorageError, Unreachable) as error:
                if isinstance(error, ApiError) and error.code in FINAL:
                    if not with_records:
                        raise Unwritable(str(error)) from error
                    with_records = False  # It may be the record that the topic does not take.
                    continue
                self._log.warning(
                    "a dead letter is delayed",
                    group_id=key.group_id,
                    topic=request.source.topic,
                    partition=key.partition,
                    offset=offset,
                    error=str(error),
                )
                await self._workers.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            else:
                self._counters.dead_letters += letters.next_offset - offset
                offset, pause_s, with_records = letters.next_offset, FIRST_PAUSE_S, True

    async def _topic(self, group_id: str) -> TopicState:
        """Return the group's dead letter topic, made where that may be. Raises: Unwritable, ApiError."""
        name = self._settings_of(group_id).errors_deadletterqueue_topic_name
        own = self._current.config
        prefix = own.errors_deadletterqueue_topic_name_prefix
        if not name:
            raise Unwritable("the group names no topic for dead letters any more")
        if name.startswith(RESERVED):
            raise Unwritable(f"the topic {name} is the broker's own")
        if not name.startswith(prefix):
            raise Unwritable(f"the topic {name} does not begin with {prefix}")
        topic = self._metadata.snapshot().topics.get(name)
        if topic is None:
            if not own.errors_deadletterqueue_auto_create_topics_enable:
                raise Unwritable(f"there is no topic {name}, and it may not be made by itself")
            enabled = {"errors.deadletterqueue.group.enable": "true", "message.timestamp.type": "CreateTime"}
            topic = await self._ensure(NewTopic(name, configs=enabled))
        config = self._config_of(topic)
        if not config.errors_deadletterqueue_group_enable:
            raise Unwritable(f"errors.deadletterqueue.group.enable of the topic {name} is not true")
        return topic

    def _config_of(self, topic: TopicState) -> TopicConfig:
        return topic_config(self._current.config, topic.configs)

    async def _letters(
        self, key: ShareKey, request: DeadLetterRequest, offset: int, topic: TopicState, *, with_records: bool
    ) -> Letters:
        """Return letters from that offset on, with the records where that is wanted. Raises: StorageError."""
        dead, source = request.dead, request.source
        end, data = dead.last_offset + 1, b""
        config = self._config_of(topic)
        copies = with_records and self._settings_of(key.group_id).errors_deadletterqueue_copy_record_enable
        if copies and source.error_code is None and offset >= source.log.log_start_offset:
            data = source.log.read(offset, READ_BYTES, source.high_watermark, at_least_one_batch=True).read()
        origin = Origin(key.group_id, source.topic, key.partition)
        now_ms = self._clock.wall_ms()

        def build() -> Letters:
            records: dict[int, Record] = {}
            until = end
            if data:
                asked = DeadRecords(offset, dead.last_offset, dead.delivery_count, dead.cause)
                records, read_until = read_records(data, asked, config.max_message_bytes)
                until = min(end, max(read_until, offset + 1))
            return build_letters(
                origin,
                dead,
                range(offset, until),
                records,
                batch_bytes_max=config.max_message_bytes,
                now_ms=now_ms,
            )

        return await self._workers.in_thread(build)

    async def _append(self, topic: TopicState, index: int, batch: bytes) -> None:
        """Return when all counting replicas have the batch. Raises: ApiError, StorageError, Unreachable."""
        if self._partitions.leads(topic.name, index):
            await self._append_here(topic, index, batch)
            return
        leader = topic.partitions[index].leader
        if self._others is None or leader in (NO_LEADER, self._others.node_id):
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
        data = TopicProduceData(
            name=topic.name, partition_data=(PartitionProduceData(index=index, records=batch),)
        )
        request = ProduceRequest(acks=ALL_REPLICAS, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=(data,))
        answer = await self._others.ask(leader, request, ProduceResponse, PRODUCE_VERSION)
        for each in answer.responses[0].partition_responses:
            if each.error_code != ErrorCode.NONE:
                raise ApiError(ErrorCode(each.error_code), each.error_message)

    async def _append_here(self, topic: TopicState, index: int, batch: bytes) -> None:
        partition = await self._partitions.opened(topic.name, index)
        if partition.leadership is not None and not partition.leadership.has_enough_replicas:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
        now_ms = self._clock.wall_ms()
        produced = prepare(partition.config, batch, read_header(batch), now_ms, WorkBudget.full())
        partition.append(produced, now_ms)
        written, failed = self._workers.event(), list[StorageError]()

        def committed(error: StorageError | None) -> None:
            if error is not None:
                failed.append(error)
            written.set()

        self._flusher.request_commit(partition, committed)
        await written.wait()
        if failed:
            raise failed[0]
        if partition.resigned:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
