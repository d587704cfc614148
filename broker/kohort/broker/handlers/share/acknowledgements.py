"""Acknowledgements of records: read from a request, checked, and passed to their share partitions."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from kohort.broker.coordination.share_partitions import TopicIdPartition
from kohort.broker.coordination.shares import Shares
from kohort.broker.group.share.partition import Words
from kohort.broker.group.share.record import Acknowledgement
from kohort.broker.handlers.share.family import ShareServices
from kohort.broker.share_state.state import ShareKey
from kohort.protocol.errors import ApiError, ErrorCode

_KINDS = tuple(Acknowledgement)
RECORDS_MAX = 100_000
"""No member has acquired more offsets than this; one type in a request may be for any number."""


class AcknowledgementBatch(Protocol):
    """A range of offsets, with one type for all of them or one for each."""

    @property
    def first_offset(self) -> int:
        """The first of them."""
        ...

    @property
    def last_offset(self) -> int:
        """The last of them."""
        ...

    @property
    def acknowledge_types(self) -> tuple[int, ...]:
        """The type of acknowledgement of all offsets, or one of each."""
        ...


def read_acknowledgements(batches: Sequence[AcknowledgementBatch], *, may_renew: bool) -> Words:
    """Return the acknowledgements in the batches. Raises: ApiError INVALID_REQUEST, INVALID_RECORD_STATE."""
    words = []
    end = -1
    for batch in batches:
        count = batch.last_offset - batch.first_offset + 1
        types = batch.acknowledge_types
        if batch.first_offset <= end or count < 1 or len(types) not in (1, count):
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if min(types) < 0 or max(types) > (Acknowledgement.RENEW if may_renew else Acknowledgement.REJECT):
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if count > RECORDS_MAX:
            raise ApiError(ErrorCode.INVALID_RECORD_STATE)
        end = batch.last_offset
        words.append((batch.first_offset, batch.last_offset, [_KINDS[each] for each in types]))
    return words


class PendingAcknowledgements:
    """The acknowledgements of one request; `finish` is called once each is durable or refused."""

    def __init__(self, finish: Callable[[], None]) -> None:
        self.codes: dict[TopicIdPartition, ErrorCode] = {}
        self._missing = 1  # One for `submit` itself.
        self._finish = finish

    def submit(
        self,
        sharing: ShareServices,
        shares: Shares,
        group_id: str,
        member_id: str,
        told: Sequence[tuple[TopicIdPartition, Sequence[AcknowledgementBatch]]],
        *,
        may_renew: bool,
    ) -> None:
        """Pass each to its share partition."""
        for place, batches in told:
            self._missing += 1
            led = shares.partitions.peek(ShareKey(group_id, *place))
            try:
                if led is None or led.partition.error_code is not None:
                    _check_place(sharing, place)
                words = read_acknowledgements(batches, may_renew=may_renew)
                if led is None:  # It has no session.
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)  # noqa: TRY301  # Answered as the others.
                led.acknowledge(member_id, words, partial(self._answered, place))
            except ApiError as error:
                self._answered(place, error.code)
        self._answered(None, ErrorCode.NONE)

    def _answered(self, place: TopicIdPartition | None, code: ErrorCode) -> None:
        if place is not None:
            self.codes[place] = code
        self._missing -= 1
        if not self._missing:
            self._finish()


def _check_place(sharing: ShareServices, place: TopicIdPartition) -> None:
    """Raise the error of a partition that this broker does not serve. Raises: ApiError."""
    table = sharing.data.partitions
    partition = table.get_by_id(*place)
    if partition is None:
        raise ApiError(table.why_missing(*place))
    if partition.error_code is not None:
        raise ApiError(partition.error_code)
