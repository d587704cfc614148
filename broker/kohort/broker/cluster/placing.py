"""New partitions go to the live brokers, their replicas to different racks."""

from secrets import randbelow

from kohort.broker.controller import NotEnoughBrokers, UsableBroker, live_brokers, place
from kohort.broker.metadata import Snapshot
from kohort.protocol.errors import ApiError, ErrorCode


def place_by_racks(snapshot: Snapshot, count: int, factor: int, first: int = 0) -> list[tuple[int, ...]]:
    """Return the brokers of `count` partitions, each one's leader first; it does not matter which is `first`.

    Raises: ApiError INVALID_REPLICATION_FACTOR where there are fewer brokers than replicas.
    """
    usable = [
        UsableBroker(each.node_id, each.rack, each.may_be_chosen) for each in live_brokers(snapshot).values()
    ]
    try:
        return place(usable, count, factor, randbelow)
    except NotEnoughBrokers as error:
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, str(error)) from error
