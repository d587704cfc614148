"""The reader's side of an incremental fetch session: known values are not sent again. Pure.

    asked = session.ask(wanted, topic_ids)     # goes into the request
    found = session.take_response(response)    # or `session.fail()`, if there was none
    session.last()                             # ends it

The broker keeps the partitions that a session's requests have named, with their values; a
request names the new or changed ones, and those to forget. An answer has the partitions with news.
Source: KIP-227, KIP-516 (topic ids); org.apache.kafka.clients.FetchSessionHandler.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from kohort.client.values import TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.fetch import (
    FetchPartition,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from kohort.protocol.schema import ZERO_UUID

NO_SESSION = 0
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
MAX_EPOCH = 2**31 - 1


class Asked(NamedTuple):
    """The session part of a request."""

    session_id: int
    epoch: int
    topics: tuple[FetchTopic, ...]
    forgotten: tuple[ForgottenTopic, ...]
    uses_topic_ids: bool


class FetchSession:
    """The session with one broker; without one, every request has everything and asks for a session."""

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self._known: dict[TopicPartition, FetchPartition] = {}
        self._topic_ids: dict[str, UUID] = {}
        self._uses_topic_ids = False

    def ask(self, wanted: Mapping[TopicPartition, FetchPartition], topic_ids: Mapping[str, UUID]) -> Asked:
        """Return what to send so that the broker reads exactly `wanted`.

        Topics go by their ids if each has one (absent or zero: it has none). A session that started the
        other way is started again.
        """
        ids = {topic: topic_ids.get(topic, ZERO_UUID) for topic, _ in wanted}
        uses_topic_ids = ZERO_UUID not in ids.values()
        if uses_topic_ids != self._uses_topic_ids:
            self.epoch = INITIAL_EPOCH
        if self.epoch == INITIAL_EPOCH:
            changed, forgotten = dict(wanted), []
        else:
            renewed = {topic for topic, each in ids.items() if self._topic_ids.get(topic, each) != each}
            changed = {
                each: how
                for each, how in wanted.items()
                if self._known.get(each) != how or each.topic in renewed
            }
            forgotten = [each for each in self._known if each not in wanted or each.topic in renewed]
        asked = Asked(
            self.session_id,
            self.epoch,
            _topics(changed, ids),
            _forgotten(forgotten, self._topic_ids),
            uses_topic_ids,
        )
        self._known, self._topic_ids, self._uses_topic_ids = dict(wanted), ids, uses_topic_ids
        return asked

    def take_response(self, response: FetchResponse) -> dict[TopicPartition, PartitionData]:
        """Return each partition's part of the answer, and update the session.

        Nothing is returned if the answer refuses the session, or does not fit the request: the next
        request then has everything again.
        """
        if response.error_code:
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.session_id = NO_SESSION
            self.fail()
            return {}
        found = self._named(response)
        was_full = self.epoch == INITIAL_EPOCH
        fits = found.keys() == self._known.keys() if was_full else found.keys() <= self._known.keys()
        if not fits:
            if was_full:
                self.session_id = NO_SESSION
            self.fail()
            return {}
        self.session_id = response.session_id
        if self.session_id == NO_SESSION:  # The broker has no room for one, or has ended it.
            self.epoch = INITIAL_EPOCH
        else:
            self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1
        return found

    def last(self) -> Asked | None:
        """Return the request that ends the session, None if the broker keeps none.

        A later request starts another.
        """
        if self.session_id == NO_SESSION:
            return None
        asked = Asked(self.session_id, FINAL_EPOCH, (), (), self._uses_topic_ids)
        self.session_id, self.epoch = NO_SESSION, INITIAL_EPOCH
        return asked

    def fail(self) -> None:
        """Start again: the result of the last request is unknown. The broker then ends the old session."""
        self.epoch = INITIAL_EPOCH

    def _named(self, response: FetchResponse) -> dict[TopicPartition, PartitionData]:
        names = {topic_id: topic for topic, topic_id in self._topic_ids.items()}
        found: dict[TopicPartition, PartitionData] = {}
        for topic in response.responses:
            name = names.get(topic.topic_id, "") if self._uses_topic_ids else topic.topic
            for data in topic.partitions:
                found[TopicPartition(name, data.partition_index)] = data
        return found


def _topics(
    partitions: Mapping[TopicPartition, FetchPartition], ids: Mapping[str, UUID]
) -> tuple[FetchTopic, ...]:
    """Return the partitions by topic, both in the given order: the first is served first."""
    made: dict[str, list[FetchPartition]] = {}
    for each, how in partitions.items():
        made.setdefault(each.topic, []).append(how)
    return tuple(
        FetchTopic(topic=topic, topic_id=ids[topic], partitions=tuple(found)) for topic, found in made.items()
    )


def _forgotten(partitions: Iterable[TopicPartition], ids: Mapping[str, UUID]) -> tuple[ForgottenTopic, ...]:
    made: dict[str, list[int]] = {}
    for topic, partition in partitions:
        made.setdefault(topic, []).append(partition)
    return tuple(
        ForgottenTopic(topic=topic, topic_id=ids[topic], partitions=tuple(found))
        for topic, found in made.items()
    )
