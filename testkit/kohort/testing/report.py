"""A readable report of a broker, for failed tests."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence

from kohort.broker.broker import Broker
from kohort.testing import logs
from kohort.testing.core import Core
from kohort.testing.errors import BrokerFailed
from kohort.testing.groups import Group, groups_of
from kohort.testing.requests import SeenRequest, by_client

REBALANCES_SHOWN = 5
LINES_SHOWN = 20
UNANSWERED = "unanswered"


def report(core: Core) -> str:
    """Return requests by client with errors, groups with rebalances, topics, the log's last lines."""
    seconds = time.monotonic() - core.began
    requests = tuple(core.watch.requests)
    lines = [f"what the broker at {core.kafka} has seen in {seconds:.1f} s:"]
    if not requests:
        lines.append("  no request at all: do the clients know its address?")
    for client_id, asked in by_client(requests).items():
        lines.append(f"  client {client_id!r}: {', '.join(_counts(asked))}")
    try:
        groups, topics = core.call(lambda broker: (groups_of(broker), _topics(broker)))
    except BrokerFailed as error:
        lines.append(f"  {error}" + (f": {error.__cause__!r}" if error.__cause__ else ""))
    else:
        for each in groups.values():
            lines += _group(each)
        lines += [f"  topic {name!r}: {count} records" for name, count in topics.items()]
    logged = [line for logged_s, line in list(logs.lines) if logged_s >= core.began][-LINES_SHOWN:]
    if logged:
        lines += ["  brokers of this process have logged:", *(f"    {line}" for line in logged)]
    return "\n".join(lines)


def outcome_of(request: SeenRequest) -> str:
    """Return a request's fault or errors, or that it has no response yet."""
    if request.fault:
        return request.fault
    if request.errors:
        return "answered " + " and ".join(code.name for code in request.errors)
    return "" if request.is_answered or request.api == "Produce" else UNANSWERED


def _counts(asked: Sequence[SeenRequest]) -> Iterator[str]:
    for api, count in Counter(each.api for each in asked).items():
        same = [each for each in asked if each.api == api]
        notes = [
            f"{times} {name}" for name, times in Counter(outcome_of(each) for each in same).items() if name
        ]
        yield f"{api} x{count}" + (f" ({', '.join(notes)})" if notes else "")


def _group(group: Group) -> Iterator[str]:
    count = len(group.members)
    yield f"  group {group.group_id!r}: {group.state}, generation {group.generation}, {count} members"
    for each in group.members:
        waits = f", waits for the answer to {each.waits_for}" if each.waits_for else ""
        owned = ", ".join(f"{topic}-{index}" for topic, index in each.partitions) or "nothing"
        yield f"    {each.client_id} reads {owned}{waits}"
    for past in group.rebalances[-REBALANCES_SHOWN:]:
        causes = "; ".join((past.cause, *past.further_causes))
        yield f"    rebalance to generation {past.generation}, {past.outcome}: {causes}"


def _topics(broker: Broker) -> dict[str, int]:
    """Return the number of records of each topic."""
    found: Counter[str] = Counter()
    for each in broker.partitions:
        log = each.serving_log
        found[each.topic] += 0 if log is None else each.high_watermark - log.log_start_offset
    return dict(found)
