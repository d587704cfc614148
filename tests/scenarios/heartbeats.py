"""What members of groups with epochs say in a scenario, and what they keep of the answers.

the topic t:4 comes           # four partitions; later steps may say another number
ana enters                    # a consumer group; `topics=`, `as=`; of others `kind=share` or `kind=streams`
ana lives                     # a heartbeat that says nothing
ana tells                     # one that says what it has: all that it was told
ana goes [awhile]             # for ever, or as a static member for a while
the share state comes         # the share coordinator keeps what was asked of it
"""

from uuid import UUID

from kohort.broker.group.consumer.commands import ConsumerGroupHeartbeat
from kohort.broker.group.consumer.test_world import Metadata, metadata_of
from kohort.broker.group.share.commands import ShareGroupHeartbeat
from kohort.broker.group.streams.commands import StreamsGroupHeartbeat
from kohort.broker.group.streams.test_world import application, subtopology
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from kohort.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kohort.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatTaskIds,
)
from kohort.protocol.schema import Message

EpochHeartbeat = ConsumerGroupHeartbeat | ShareGroupHeartbeat | StreamsGroupHeartbeat
JOINING, LEAVING, AWAY = 0, -1, -2
REBALANCE_MS = 60_000


class Topics:
    """The topics that there are."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self.metadata: Metadata = metadata_of(1)

    def come(self, name: str, count: int) -> None:
        """Let the topic have so many partitions from now on."""
        self._counts[name] = count
        self.metadata = metadata_of(self.metadata.version + 1, **self._counts)

    def name(self, topic_id: UUID) -> str:
        """Return what the topic is called."""
        return self.metadata.topics_by_id[topic_id].name


class EpochMember:
    """A member of a consumer or a streams group, as its own process sees it."""

    def __init__(self, name: str, fields: dict[str, str]) -> None:
        self.member_id = name
        self.fields = fields
        self._epoch = JOINING
        self._partitions: tuple[ConsumerGroupHeartbeatTopicPartitions, ...] = ()
        self._tasks: tuple[StreamsGroupHeartbeatTaskIds, ...] = ()

    def says(self, request_id: int, topics: Topics, what: str) -> EpochHeartbeat:
        """Return the heartbeat: `enters`, `lives`, `tells`, `goes` or `goes awhile`."""
        epoch = {"enters": JOINING, "goes": LEAVING, "goes awhile": AWAY}.get(what, self._epoch)
        if what == "enters":
            self._partitions = self._tasks = ()
        if self.fields.get("kind") == "streams":
            return StreamsGroupHeartbeat(
                request_id, self._as_streams(epoch, what), 1, self.member_id, "/10.0.0.1", topics.metadata
            )
        if self.fields.get("kind") == "share":
            return ShareGroupHeartbeat(
                request_id, self._as_sharer(epoch, what), self.member_id, "/10.0.0.1", topics.metadata
            )
        message = self._as_consumer(epoch, what)
        return ConsumerGroupHeartbeat(
            request_id,
            message,
            1,
            self.member_id,
            self.member_id,
            "/10.0.0.1",
            topics.metadata,
            lambda topic: True,
        )

    def _as_sharer(self, epoch: int, what: str) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            member_epoch=epoch,
            subscribed_topic_names=self._topic_names if what == "enters" else None,
        )

    def _as_consumer(self, epoch: int, what: str) -> ConsumerGroupHeartbeatRequest:
        enters = what == "enters"
        return ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.fields.get("as"),
            rebalance_timeout_ms=REBALANCE_MS if enters else -1,
            subscribed_topic_names=self._topic_names if enters else None,
            topic_partitions=self._partitions if enters or what == "tells" else None,
        )

    def _as_streams(self, epoch: int, what: str) -> StreamsGroupHeartbeatRequest:
        enters = what == "enters"
        tells = enters or what == "tells"
        return StreamsGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            member_epoch=epoch,
            endpoint_information_epoch=-1,
            instance_id=self.fields.get("as"),
            rebalance_timeout_ms=REBALANCE_MS if enters else -1,
            topology=application(subtopology("0", *self._topic_names)) if enters else None,
            process_id=self.fields.get("process", self.member_id) if enters else None,
            active_tasks=self._tasks if tells else None,
            standby_tasks=() if tells else None,
            warmup_tasks=() if tells else None,
        )

    @property
    def _topic_names(self) -> tuple[str, ...]:
        return tuple(self.fields.get("topics", "t").split(","))

    def hear(self, message: Message) -> None:
        """Keep what the broker says."""
        if isinstance(message, ConsumerGroupHeartbeatResponse) and not message.error_code:
            self._epoch = message.member_epoch
            if message.assignment is not None:
                self._partitions = message.assignment.topic_partitions
        elif isinstance(message, ShareGroupHeartbeatResponse) and not message.error_code:
            self._epoch = message.member_epoch
        elif isinstance(message, StreamsGroupHeartbeatResponse) and not message.error_code:
            self._epoch = message.member_epoch
            if message.active_tasks is not None:
                self._tasks = message.active_tasks
