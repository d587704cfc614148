"""`kohort queue stats` and `where`: how a queue stands, and what became of a record."""

import time

import click

from kohort.cli.options import json_option
from kohort.cli.output import print_json, print_line
from kohort.cli.queue_options import client_options, queue_of, queue_options, run_async
from kohort.queues.kmq import LocatedRecord, PartitionStats, QueueStats, State, locate, queue_stats

_HEAD = ("PARTITION", "UNREAD", "OPEN", "OVERDUE", "REDELIVERED", "DEAD")


@click.command()
@queue_options
@json_option
def stats(*, servers: str, as_json: bool, **names: str | int) -> None:
    """Print how many records of TOPIC nobody has taken, are open, and overdue, by partition.

    REDELIVERED and DEAD are what trackers have done so far.
    """
    queue = queue_of(**names)  # type: ignore[arg-type]  # They are queue_options'.
    options = client_options(servers)

    async def main() -> QueueStats:
        return await queue_stats(queue, **options)

    found = run_async(main)
    if as_json:
        print_json(
            {
                "topic": queue.topic,
                "partitions": [_as_json(each) for each in found.partitions],
                "dead_letters": found.dead_letters,
                "missing_topics": found.missing_topics,
                "markers_retention_ms": found.keeping.retention_ms,
                "markers_cleanup_policy": found.keeping.cleanup_policy,
                "longest_ms": found.longest_ms,
                "faults": found.keeping.faults(queue, found.longest_ms),
            }
        )
        return
    rows = [
        _HEAD,
        *(_row(str(each.partition), each) for each in found.partitions),
        _row("all", found.total),
    ]
    for row in rows:
        print_line(" ".join(f"{cell:>11}" for cell in row))
    print_line(f"{found.dead_letters:,} record(s) in {queue.dead_letters_topic}")
    if (kept_ms := found.keeping.retention_ms) is not None:
        print_line("markers are kept for ever" if kept_ms < 0 else f"markers are kept for {kept_ms:,} ms")
    if found.longest_ms:
        print_line(f"the longest time that a record was given is {found.longest_ms:,} ms")
    for fault in found.keeping.faults(queue, found.longest_ms):
        print_line(fault, err=True)
    for topic in found.missing_topics:
        print_line(f"Topic {topic} does not exist: the first worker or tracker creates it.", err=True)


def _row(name: str, each: PartitionStats) -> tuple[str, ...]:
    numbers = (each.unread, each.open, each.overdue, each.counters.redelivered, each.counters.dead)
    return (name, *(f"{number:,}" for number in numbers))


def _as_json(each: PartitionStats) -> dict[str, int]:
    return {
        "partition": each.partition,
        "unread": each.unread,
        "open": each.open,
        "overdue": each.overdue,
        **each.counters._asdict(),
    }


@click.command()
@queue_options
@click.argument("partition", type=click.IntRange(0))
@click.argument("offset", type=click.IntRange(0))
@json_option
def where(*, servers: str, partition: int, offset: int, as_json: bool, **names: str | int) -> None:
    """Tell where the record of TOPIC at PARTITION and OFFSET is now, and how it got there."""
    queue = queue_of(**names)  # type: ignore[arg-type]  # They are queue_options'.
    options = client_options(servers)

    async def main() -> list[LocatedRecord]:
        return await locate(queue, partition, offset, **options)

    way = run_async(main)
    if as_json:
        print_json(
            [
                {
                    "partition": each.partition,
                    "offset": each.offset,
                    "state": each.state.value,
                    "redeliveries": each.redeliveries,
                    "due_ms": each.due_ms,
                    "dead_letter": each.dead_letter,
                }
                for each in way
            ]
        )
        return
    for each in way:
        print_line(
            f"{queue.topic}-{each.partition} at {each.offset}: {_words(each, queue.dead_letters_topic)}"
        )


def _words(place: LocatedRecord, dead_letters_topic: str) -> str:
    times = f" (redelivery {place.redeliveries})" if place.redeliveries else ""
    if place.state is State.DEAD and place.dead_letter is not None:
        partition, offset = place.dead_letter
        return f"a dead letter: {dead_letters_topic}-{partition} at {offset}{times}"
    if place.state is State.TAKEN and place.due_ms is not None:
        seconds = (place.due_ms - time.time() * 1_000) / 1_000
        return f"taken, comes again in {seconds:.1f} s unless it is acknowledged{times}"
    return _TEXTS[place.state] + times


_TEXTS = {
    State.UNREAD: "nobody has taken it yet",
    State.TAKEN: "taken",
    State.OVERDUE: "taken and overdue: a tracker delivers it again",
    State.DONE: "done",
    State.REDELIVERED: "delivered again, as",
    State.DEAD: "a dead letter",
    State.FORGOTTEN: "taken; its markers are gone",
}
