"""What was promised to share groups: who has which record until when, what was done with, and what was told.

The rules are stated here once more, from Kafka's documentation and not from the core's code. What counts is
when the broker answers, whether that arrives or not.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from kohort.broker.coordination.led_share_partition import LedSharePartition
from kohort.broker.group.share.record import Acknowledgement
from kohort.broker.share_state.state import ShareKey
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kohort.protocol.messages.share_fetch import (
    ShareFetchPartitionResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kohort.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kohort.protocol.records import iterate_batches, read_header
from kohort.protocol.schema import Message
from tests.simulation.books import Books, GroupOf
from tests.simulation.network import Link, Sent
from tests.simulation.server import Server
from tests.simulation.sharing.sharer import records_in
from tests.simulation.transactions.ledger import Ledger

FINAL_EPOCH, INITIAL_EPOCH = -1, 0
ENDS = (Acknowledgement.ACCEPT, Acknowledgement.REJECT, Acknowledgement.GAP)
GONE = (None, ErrorCode.NOT_LEADER_OR_FOLLOWER)
"""How a share partition ends that nobody uses: nothing that members hold may be lost with it."""

Told = dict[tuple[ShareKey, int], tuple[Acknowledgement, "Hold"]]


class Rules(NamedTuple):
    """How a group is configured."""

    delivery_count_limit: int
    lock_ms: int
    is_committed: bool
    """Whether its members see records of committed transactions alone."""
    dead_letters: str
    """The topic for those that are given up; empty where there is none."""


class Hold:
    """One delivery of a record: whose it is, until when, and what could end that before its time."""

    __slots__ = ("count", "leader_epoch", "led", "life", "may_be_free", "member_id", "until_ms")

    def __init__(
        self, member_id: str, until_ms: int, count: int, *, led: LedSharePartition, life: Server
    ) -> None:
        self.member_id = member_id
        self.until_ms = until_ms
        self.count = count
        self.led = led
        self.leader_epoch = led.leader_epoch
        self.life = life
        self.may_be_free = False  # From the moment that its member, or its connection, gives it up.

    def holds(self, life: Server, led: LedSharePartition, now_ms: int) -> bool:
        """Whether nobody else may have the record by now."""
        return (
            not self.may_be_free
            and self.until_ms > now_ms
            and self.life is life
            and self.leader_epoch == led.leader_epoch
            and self.led.partition is led.partition
            and self.led.end_code in GONE
        )


class SharingLedger:
    """Every record that share groups were given."""

    def __init__(self, books: Books, transactions: Ledger, now_ms: Callable[[], int]) -> None:
        self.rules: dict[str, Rules] = {}
        self.deliveries: dict[ShareKey, Counter[int]] = defaultdict(Counter)
        self.accepted: dict[ShareKey, set[int]] = defaultdict(set)
        self.rejected: dict[ShareKey, set[int]] = defaultdict(set)
        self.told: dict[ShareKey, set[int]] = defaultdict(set)
        """What a member has said to be done with, whether that was answered or not."""
        self._books = books
        self._transactions = transactions
        self._now_ms = now_ms
        self._holds: dict[ShareKey, dict[int, Hold]] = defaultdict(dict)
        self._asked: dict[Sent, tuple[int, Told]] = {}
        self._sessions: dict[tuple[str, str], Link] = {}
        self._epochs: dict[tuple[str, str], int] = {}
        self._givers_up: dict[ShareKey, set[int]] = defaultdict(set)
        self._released: dict[ShareKey, Counter[int]] = defaultdict(Counter)
        """Of records that were told to be released: how many deliveries they had by then."""

    def _expect(self, rule: str, holds: bool, detail: Callable[[], str]) -> None:
        self._books.expect(rule, holds, detail)

    def loaded(self) -> None:
        """Know nothing of shards of groups."""

    # -- what members say -----------------------------------------------------------------------------------

    def asked(self, sent: Sent, groups: GroupOf) -> None:
        """Note what a member says of its records: from now on they may be somebody else's."""
        message = sent.message
        if not isinstance(message, ShareFetchRequest | ShareAcknowledgeRequest):
            return
        group_id, member_id = message.group_id or "", message.member_id or ""
        if isinstance(message, ShareFetchRequest) and message.share_session_epoch == INITIAL_EPOCH:
            link = sent.connection
            assert isinstance(link, Link)
            self._sessions[group_id, member_id] = link
            link.on_close.append(partial(self._closed, group_id, member_id, link))
        told: Told = {}
        for topic in message.topics:
            for each in topic.partitions:
                key = ShareKey(group_id, topic.topic_id, each.partition_index)
                for offset, kind in _words(each.acknowledgement_batches):
                    hold = self._holds[key].get(offset)
                    if hold is not None and hold.member_id == member_id:
                        told[key, offset] = kind, hold
                        if kind is not Acknowledgement.RENEW:
                            hold.may_be_free = True
                            self.told[key].add(offset)
        if message.share_session_epoch == FINAL_EPOCH:
            self._gives_up(group_id, member_id)
        self._asked[sent] = self._now_ms(), told

    def _closed(self, group_id: str, member_id: str, link: Link) -> None:
        """Hear that a connection is closed, with the session on it."""
        if self._sessions.get((group_id, member_id)) is link:
            self._gives_up(group_id, member_id)

    def _gives_up(self, group_id: str, member_id: str) -> None:
        for key, holds in self._holds.items():
            if key.group_id == group_id:
                for hold in holds.values():
                    if hold.member_id == member_id:
                        hold.may_be_free = True

    # -- what members are told ------------------------------------------------------------------------------

    def answered(self, sent: Sent, message: Message) -> None:
        """Check an answer, and keep what it promises."""
        if isinstance(message, ShareGroupHeartbeatResponse):
            self._beaten(sent, message)
        elif isinstance(message, ShareAcknowledgeResponse):
            codes = self._codes(sent, message)
            self._take_words(sent, codes)
        elif isinstance(message, ShareFetchResponse):
            self._take_words(sent, self._codes(sent, message))
            self._take_records(sent, message)

    def _beaten(self, sent: Sent, message: ShareGroupHeartbeatResponse) -> None:
        request = sent.message
        assert isinstance(request, ShareGroupHeartbeatRequest)
        if message.error_code or message.member_epoch < 0:
            return
        member = request.group_id, request.member_id
        before = self._epochs.get(member, 0)
        rule = "the epochs of a share group only grow"
        holds = message.member_epoch >= before
        self._expect(rule, holds, lambda: f"{member}: {before}, then {message.member_epoch}")
        self._epochs[member] = message.member_epoch

    @staticmethod
    def _codes(
        sent: Sent, message: ShareAcknowledgeResponse | ShareFetchResponse
    ) -> dict[ShareKey, ErrorCode]:
        """Return what became of a member's words, by partition; nothing where the request failed."""
        group_id = getattr(sent.message, "group_id", "") or ""
        if message.error_code:
            return {}
        return {
            ShareKey(group_id, topic.topic_id, each.partition_index): ErrorCode(
                each.acknowledge_error_code
                if isinstance(each, ShareFetchPartitionResponse)
                else each.error_code
            )
            for topic in message.responses
            for each in topic.partitions
        }

    def _take_words(self, sent: Sent, codes: dict[ShareKey, ErrorCode]) -> None:
        asked_ms, told = self._asked.pop(sent)
        for (key, offset), (kind, hold) in told.items():
            if codes.get(key) is not ErrorCode.NONE:
                continue
            rules = self.rules[key.group_id]
            if kind is Acknowledgement.RENEW:
                hold.until_ms = max(hold.until_ms, asked_ms + rules.lock_ms)
                continue
            if kind in ENDS:
                rule = "what is acknowledged was nobody else's meanwhile"
                is_last = self._holds[key][offset] is hold
                self._expect(rule, is_last, lambda k=key, o=offset: f"{k} {o}")  # type: ignore[misc]  # bound defaults
                (self.rejected if kind is Acknowledgement.REJECT else self.accepted)[key].add(offset)
            elif hold.count >= rules.delivery_count_limit:
                self._givers_up[key].add(offset)
            else:
                self._released[key][offset] = max(self._released[key][offset], hold.count)

    def _take_records(self, sent: Sent, message: ShareFetchResponse) -> None:
        request = sent.message
        assert isinstance(request, ShareFetchRequest)
        life = sent.connection._server  # type: ignore[attr-defined]  # a Link
        for topic in message.responses:
            for each in topic.partitions:
                if each.acquired_records:
                    key = ShareKey(request.group_id or "", topic.topic_id, each.partition_index)
                    self._acquired(life, key, request.member_id or "", each)

    def _acquired(
        self, life: Server, key: ShareKey, member_id: str, answer: ShareFetchPartitionResponse
    ) -> None:
        rules = self.rules[key.group_id]
        led = life.sharing.shares.partitions.peek(key)
        assert led is not None
        read = dict(_values(answer.records or b""))
        covered = set(_offsets(answer.records or b""))
        holds, now_ms = self._holds[key], self._now_ms()
        for batch in answer.acquired_records:
            rule = "no record is delivered more often than its limit"
            in_limit = 1 <= batch.delivery_count <= rules.delivery_count_limit
            self._expect(rule, in_limit, lambda b=batch: f"{key}: {b}")  # type: ignore[misc]  # a bound default
            for offset in range(batch.first_offset, batch.last_offset + 1):
                detail = partial(self._told_of, key, offset, member_id)
                before = holds.get(offset)
                is_free = before is None or not before.holds(life, led, now_ms)
                self._expect("no record is two members' at once", is_free, detail)
                done = offset in self.accepted[key] or offset in self.rejected[key]
                self._expect("what is acknowledged is not handed out again", not done, detail)
                given_up = offset in self._givers_up[key]
                self._expect("what is given up is not handed out again", not given_up, detail)
                if before is not None and before.led is led:
                    counts = batch.delivery_count == before.count + 1
                    self._expect("each delivery counts", counts, detail)
                rule = "what is told to be released keeps its deliveries, whoever leads"
                self._expect(rule, batch.delivery_count > self._released[key][offset], detail)
                self._expect("what is acquired is there to be read", offset in covered, detail)
                holds[offset] = Hold(
                    member_id, now_ms + rules.lock_ms, batch.delivery_count, led=led, life=life
                )
                self.deliveries[key][offset] += 1
                if rules.is_committed and offset in read:
                    place = led.partition.topic, key.partition
                    self._transactions.shown(place, offset, read[offset])

    def _told_of(self, key: ShareKey, offset: int, member_id: str) -> str:
        hold = self._holds[key].get(offset)
        whose = None if hold is None else (hold.member_id, hold.until_ms - self._now_ms(), hold.count)
        return f"{key} at {offset}: {member_id}'s, before {whose}"

    # -- in the end -----------------------------------------------------------------------------------------

    def check_complete(
        self, key: ShareKey, topic: str, offsets: Iterable[int], letters: set[tuple[str, str, int, int]]
    ) -> None:
        """Check what became of the records of a partition: each is done with, and for a reason."""
        rules, deliveries = self.rules[key.group_id], self.deliveries[key]
        for offset in offsets:
            detail = partial(self._told_of, key, offset, "nobody")
            rule = "each record is handed out"
            self._expect(rule, deliveries[offset] > 0, detail)
            done = offset in self.accepted[key] or offset in self.rejected[key]
            hold = self._holds[key].get(offset)
            is_at_limit = offset in self._givers_up[key] or (
                hold is not None and hold.count >= rules.delivery_count_limit
            )
            rule = "no record is lost"
            self._expect(rule, done or is_at_limit or offset in self.told[key], detail)
            if rules.dead_letters:
                has_letter = (key.group_id, topic, key.partition, offset) in letters
                is_accepted = offset in self.accepted[key] or offset in self.told[key]
                rule = "what is given up has its dead letter"
                needs_letter = offset in self.rejected[key] or not is_accepted
                self._expect(rule, has_letter or not needs_letter, detail)
                rule = "what is accepted has no dead letter"
                self._expect(rule, not (has_letter and offset in self.accepted[key]), detail)


def _words(batches: Iterable[object]) -> Iterator[tuple[int, Acknowledgement]]:
    """Yield what a member says of each offset."""
    for batch in batches:
        first, last, kinds = batch.first_offset, batch.last_offset, batch.acknowledge_types  # type: ignore[attr-defined]  # of two requests
        for place, offset in enumerate(range(first, last + 1)):
            yield offset, Acknowledgement(kinds[place] if len(kinds) > 1 else kinds[0])


def _values(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield the offset and the value of each record."""
    for record in records_in(data):
        yield record.offset, bytes(record.value or b"").decode().rstrip("\0")


def _offsets(data: bytes) -> Iterator[int]:
    """Yield each offset that lies in one of the batches."""
    for batch in iterate_batches(data):
        header = read_header(batch)
        yield from range(header.base_offset, header.last_offset + 1)
