"""How old what a group has yet to read is, and whether it keeps up: what the broker alone can tell."""

from dataclasses import replace

import msgspec

from kohort.cli.group_tables import OffsetRow
from kohort.cli.http_source import group_json
from kohort.client import TopicPartition


class PartitionLag(msgspec.Struct, frozen=True):
    """One partition of a group, as `/api/v1/groups/GROUP` has it."""

    topic: str
    partition: int
    lag_seconds: float | None
    verdict: str | None


class GroupLag(msgspec.Struct, frozen=True):
    """The part of the answer that is of interest here."""

    offsets: tuple[PartitionLag, ...]


def with_lag(rows: list[OffsetRow], http: str, group_id: str) -> list[OffsetRow]:
    """Return the rows with time lag and verdict. Raises: NetworkError, click.ClickException."""
    answer = msgspec.json.decode(group_json(http, group_id), type=GroupLag)
    found = {TopicPartition(each.topic, each.partition): each for each in answer.offsets}
    told: list[OffsetRow] = []
    for row in rows:
        lag = found.get(row.partition)
        told.append(row if lag is None else replace(row, lag_seconds=lag.lag_seconds, verdict=lag.verdict))
    return told
