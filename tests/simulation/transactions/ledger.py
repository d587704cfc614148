"""What was promised of transactions: who wrote what, how it was to end, and what was told and shown.

The rules are stated here once more, from Kafka's documentation and not from the coordinator's code. What
counts is when the broker answers, whether that arrives or not.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kohort.broker.group.group import AnyGroup
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from kohort.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kohort.protocol.messages.fetch import FetchResponse
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kohort.protocol.messages.produce import ProduceResponse
from kohort.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kohort.protocol.schema import Message
from tests.simulation.books import Books, GroupOf
from tests.simulation.network import Sent

PLAIN = "plain"
NOBODY = -1
END_VERSION_THAT_BUMPS = 5

Place = tuple[str, int]


class Identity(NamedTuple):
    """A producer id and an epoch: a later one is larger."""

    producer_id: int
    epoch: int


NO_IDENTITY = Identity(NOBODY, NOBODY)


class Attempt:
    """One transaction, as its producer means it: the number that it counts, and what it writes where."""

    __slots__ = (
        "commit_is_asked",
        "counter",
        "number",
        "offsets",
        "records",
        "token",
        "told",
        "transactional_id",
    )

    def __init__(self, transactional_id: str, counter: str, number: int, token: str) -> None:
        self.transactional_id = transactional_id
        self.counter = counter
        self.number = number
        self.token = token
        self.records: dict[str, Place] = {}  # Where each record belongs, by its value.
        self.offsets: dict[str, int] = {}  # At which offset it was told to be written.
        self.commit_is_asked = False
        self.told: bool | None = None  # Whether it was told to be committed, or to be aborted.

    @property
    def may_count(self) -> bool:
        """Whether anybody may be shown what it wrote."""
        return self.commit_is_asked and self.told is not False


class Asked(NamedTuple):
    """Who has asked something, as whom, and for which transaction."""

    transactional_id: str
    identity: Identity
    attempt: Attempt | None
    counter: str
    """Whose offset it is about: who counts."""


class Ledger:
    """All transactions of a run."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._asked: dict[Sent, Asked] = {}
        self._floors: dict[Sent, int] = {}
        self._left_out: set[Sent] = set()  # Commits of who is no member, or of an old generation.
        self._attempts: dict[str, Attempt] = {}
        self._serial = 0
        self._newest: dict[str, Identity] = defaultdict(lambda: NO_IDENTITY)
        self._fences: dict[str, Identity] = defaultdict(lambda: NO_IDENTITY)
        self._committed: dict[str, int] = defaultdict(int)  # How far each counter is, as told.
        self._seen: dict[str, int] = defaultdict(int)  # How far, as somebody was shown.
        self._stable: dict[object, int] = defaultdict(int)  # By partition, what readers were told.
        self._offsets: dict[Place, dict[int, str]] = defaultdict(dict)  # What readers saw, where.
        self._places: dict[str, tuple[Place, int]] = {}
        self._checks: dict[type[Message], Callable[..., None]] = {
            InitProducerIdResponse: self._initialised,
            EndTxnResponse: self._ended,
            OffsetFetchResponse: self._offsets_fetched,
        }

    def _expect(self, rule: str, holds: bool, detail: Callable[[], str]) -> None:
        self._books.expect(rule, holds, detail)

    # -- what producers mean --------------------------------------------------------------------------------

    def begin(self, transactional_id: str, number: int, counter: str | None = None) -> Attempt:
        """Return a new transaction that counts `number`, for a counter that several ids may share."""
        self._serial += 1
        token = f"{transactional_id}:{number}:{self._serial}"
        attempt = Attempt(transactional_id, counter or transactional_id, number, token)
        self._attempts[attempt.token] = attempt
        return attempt

    def sends(
        self,
        sent: Sent,
        transactional_id: str,
        identity: Identity,
        attempt: Attempt | None = None,
        counter: str | None = None,
    ) -> None:
        """Note who has just sent a request, as whom."""
        self._asked[sent] = Asked(transactional_id, identity, attempt, counter or transactional_id)
        if attempt is not None and isinstance(sent.message, EndTxnRequest):
            attempt.commit_is_asked |= sent.message.committed

    # -- what the broker is asked and answers ---------------------------------------------------------------

    def asked(self, sent: Sent, groups: GroupOf) -> None:
        """A request reaches its handler: note what its answer may be."""
        asked = self._asked.get(sent)
        if asked is None:
            return
        sent.allowed = asked.identity >= self._fences[asked.transactional_id]
        message = sent.message
        if isinstance(message, OffsetFetchRequest):
            known = self._committed if message.require_stable else self._seen
            self._floors[sent] = known[asked.counter]
        elif isinstance(message, TxnOffsetCommitRequest) and message.member_id:
            group = groups(message.group_id)
            if group is not None and not _is_in(group, message):
                self._left_out.add(sent)

    def loaded(self) -> None:
        """A shard of groups serves again: members and generations may be what they were before."""
        self._left_out.clear()

    def answered(self, sent: Sent, message: Message) -> None:
        """An answer goes out."""
        if isinstance(message, FetchResponse):
            self._fetched(message)
        asked = self._asked.pop(sent, None)
        if asked is None:
            return
        codes = list(codes_of(message))
        rule = "who is fenced changes nothing"
        is_refused = bool(codes) and ErrorCode.NONE not in codes
        if not isinstance(message, InitProducerIdResponse | OffsetFetchResponse):
            self._expect(rule, sent.allowed or is_refused, lambda: f"{asked}: {sent.message} {message}")
        if isinstance(message, TxnOffsetCommitResponse):
            rule, is_left_out = "who is no member commits nothing in a transaction", sent in self._left_out
            self._left_out.discard(sent)
            self._expect(rule, is_refused or not is_left_out, lambda: f"{asked}: {sent.message}")
        check = self._checks.get(type(message))
        if check is not None:
            check(sent, asked, message)

    def _initialised(self, sent: Sent, asked: Asked, message: InitProducerIdResponse) -> None:
        if message.error_code:
            return
        request = sent.message
        assert isinstance(request, InitProducerIdRequest)
        identity = Identity(message.producer_id, message.producer_epoch)
        newest = self._newest[asked.transactional_id]
        is_retry = request.producer_id != NOBODY and identity == newest
        rule = "epochs only grow"
        self._expect(rule, identity > newest or is_retry, lambda: f"{asked}: {identity} after {newest}")
        self._newest[asked.transactional_id] = identity
        self._fences[asked.transactional_id] = identity

    def _ended(self, sent: Sent, asked: Asked, message: EndTxnResponse) -> None:
        request, attempt = sent.message, asked.attempt
        assert isinstance(request, EndTxnRequest)
        if message.error_code:
            return
        if sent.version >= END_VERSION_THAT_BUMPS:
            identity = Identity(message.producer_id, message.producer_epoch)
            newest = self._newest[asked.transactional_id]
            holds = identity > asked.identity and identity >= newest
            self._expect("epochs only grow", holds, lambda: f"{asked}: {identity} after {newest}")
            self._newest[asked.transactional_id] = identity
        if attempt is None:
            return
        rule = "a transaction ends one way"
        holds = attempt.told in (None, request.committed)
        self._expect(rule, holds, lambda: f"{attempt.token}: {request}")
        attempt.told = request.committed
        if request.committed:
            known = self._committed[attempt.counter]
            if attempt.counter == attempt.transactional_id:  # Else it may be told late, when others go on.
                rule = "each number is committed once"
                self._expect(rule, attempt.number >= known - 1, lambda: f"{attempt.token}: {known}")
            self._committed[attempt.counter] = max(known, attempt.number + 1)
        else:
            shown = [each for each in attempt.records if each in self._places]
            self._expect("what is aborted is not shown", not shown, lambda: f"{attempt.token}: {shown}")

    def _offsets_fetched(self, sent: Sent, asked: Asked, message: OffsetFetchResponse) -> None:
        floor = self._floors.pop(sent)
        for group in message.groups:
            for topic in group.topics:
                for each in topic.partitions:
                    if not each.error_code:
                        self._offset_shown(asked, max(0, each.committed_offset), each.metadata or "", floor)

    def _offset_shown(self, asked: Asked, offset: int, token: str, floor: int) -> None:
        attempt = self._attempts.get(token)
        rule = "offsets that are pending are not seen"
        holds = attempt.may_count and attempt.number + 1 == offset if attempt is not None else not token
        self._expect(rule, holds, lambda: f"{asked}: {offset} {token!r}")
        rule = "offsets that are committed are seen"
        self._expect(rule, offset >= floor, lambda: f"{asked}: {offset}, not {floor}")
        self._seen[asked.counter] = max(offset, self._seen[asked.counter])

    # -- what readers are shown -----------------------------------------------------------------------------

    def _fetched(self, message: FetchResponse) -> None:
        for topic in message.responses:
            for each in topic.partitions:
                if not each.error_code:
                    key = topic.topic_id, each.partition_index
                    start = each.log_start_offset
                    self._bounds(key, start, each.last_stable_offset, each.high_watermark)
                    rule = "the last stable offset is not below the log's start"
                    holds = start <= each.last_stable_offset
                    self._expect(rule, holds, lambda k=key, e=each: f"{k}: {e.last_stable_offset}")  # type: ignore[misc]  # bound defaults

    def _bounds(self, key: object, start: int, last_stable_offset: int, high_watermark: int) -> None:
        known = self._stable[key]
        rule = "the last stable offset never goes back"
        self._expect(rule, last_stable_offset >= known, lambda: f"{key}: {last_stable_offset}, was {known}")
        if last_stable_offset > start:  # A start that nobody was told to be kept may go back with a crash.
            self._stable[key] = last_stable_offset
        rule = "nothing is stable that is not committed"
        holds = last_stable_offset <= high_watermark
        self._expect(rule, holds, lambda: f"{key}: {last_stable_offset} of {high_watermark}")

    def shown(self, place: Place, offset: int, value: str) -> None:
        """A reader of committed records is shown one."""
        known = self._offsets[place].setdefault(offset, value)
        rule = "an offset shows one record"
        self._expect(rule, known == value, lambda: f"{place} at {offset}: {value}, was {known}")
        known_at = self._places.setdefault(value, (place, offset))
        rule = "nothing is there twice"
        self._expect(rule, known_at == (place, offset), lambda: f"{value}: {known_at} and {place} {offset}")
        if value.startswith(PLAIN):
            return
        attempt = self._attempts[value.rpartition("/")[0]]
        rule = "a record is where it belongs"
        self._expect(rule, attempt.records.get(value) == place, lambda: f"{value}: {place}")
        rule = "only what is committed is shown"
        self._expect(rule, attempt.may_count, lambda: f"{value} at {place} {offset}: {attempt.told}")

    # -- in the end -----------------------------------------------------------------------------------------

    def check_complete(
        self,
        there: dict[Place, list[str]],
        offsets: dict[str, int],
        is_kept: Callable[[Place, int | None], bool],
    ) -> None:
        """Check what all partitions have in the end, by their values, and how far each counter has come.

        `is_kept` says of which partitions, and offsets where they are known, it has to be there still.
        """
        found = {value for values in there.values() for value in values}
        numbers: dict[str, list[int]] = defaultdict(list)
        for attempt in self._attempts.values():
            kept = [each for each, at in attempt.records.items() if is_kept(at, attempt.offsets.get(each))]
            seen = [value for value in kept if value in found]
            rule = "all of a transaction is there, or nothing"
            self._expect(rule, len(seen) in (0, len(kept)), lambda a=attempt, s=seen: f"{a.token}: {s}")  # type: ignore[misc]  # bound defaults
            rule = "what was told to be committed is there"
            holds = len(seen) == len(kept) or not attempt.told
            self._expect(rule, holds, lambda a=attempt: f"{a.token}: {a.records}")  # type: ignore[misc]  # a bound default
            rule = "what was told to be aborted is not there"
            holds = not seen or attempt.may_count
            self._expect(rule, holds, lambda a=attempt: f"{a.token}: {a.records}")  # type: ignore[misc]  # a bound default
            if seen:
                numbers[attempt.counter].append(attempt.number)
        for counter, offset in offsets.items():
            counted = numbers[counter]
            rule, wanted = "each number is committed once", list(range(len(counted)))
            self._expect(rule, sorted(counted) == wanted, lambda t=counter, c=counted: f"{t}: {c}")  # type: ignore[misc]  # bound defaults
            rule = "offsets go with the records"
            holds = offset == len(counted)
            self._expect(rule, holds, lambda t=counter, c=counted, o=offset: f"{t}: {c} {o}")  # type: ignore[misc]  # bound defaults

    def commits(self) -> dict[str, int]:
        """Return how far each counter is, as producers were told."""
        return dict(self._committed)


def _is_in(group: AnyGroup, message: TxnOffsetCommitRequest) -> bool:
    """Return whether the group has this member, in this generation: it comes back to none that is over."""
    return message.member_id in group.members and message.generation_id_or_member_epoch == group.generation_id


def codes_of(message: Message) -> Iterable[int]:
    """Yield the error codes that an answer has, of whatever it speaks of."""
    if isinstance(message, ProduceResponse):
        for topic in message.responses:
            yield from (each.error_code for each in topic.partition_responses)
    elif isinstance(message, TxnOffsetCommitResponse):
        for offsets in message.topics:
            yield from (each.error_code for each in offsets.partitions)
    elif isinstance(message, AddPartitionsToTxnResponse):
        for added in message.results_by_topic_v3_and_below:
            yield from (each.partition_error_code for each in added.results_by_partition)
    elif not isinstance(message, FetchResponse | OffsetFetchResponse):
        yield message.error_code  # type: ignore[attr-defined]  # every other one has it
