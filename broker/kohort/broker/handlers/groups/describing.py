"""Several groups, each described by its shard: the common part of descriptions of every kind of group."""

from collections.abc import Callable, Iterable
from typing import Any

from kohort.broker.coordination.group_shards import GroupShards
from kohort.broker.handlers.gather import Gather
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.schema import Message


def describe_each(
    shards: GroupShards,
    group_ids: Iterable[str],
    request: Request,
    *,
    command: Callable[[int, str], object],
    refused: Callable[[str, ErrorCode], Message],
    finish: Callable[[tuple[Any, ...]], None],
) -> None:
    """Submit a command to every group's shard; finish when all have answered. There is at least one group."""
    wanted = tuple(dict.fromkeys(group_ids))  # A large group named a thousand times is answered once.
    gather = Gather(len(wanted), finish)
    for position, group_id in enumerate(wanted):
        try:
            shard = shards.shard_of(group_id)
        except ApiError as error:
            gather.put(position, refused(group_id, error.code))
            continue
        shard.submit(command(shard.ask(request, gather.place(position)), group_id))
