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


def place_on_one(snapshot: Snapshot, count: int, factor: int, first: int = 0) -> list[tuple[int, ...]]:
    """Return the brokers of one host that get `count` partitions: each is on one of them.

    Raises: ApiError INVALID_REPLICATION_FACTOR where more are asked for: a second copy on the same disk
    would outlive nothing.
    """
    if factor > 1:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"a replication factor of {factor} needs {factor} hosts, and the workers of one host are one",
        )
    return place_by_racks(snapshot, count, factor, first)
