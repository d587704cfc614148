"""What the metrics of a group's clients say about its rebalances, in words. Pure.

Names: KIP-714 for what every client may send, and those of Java's consumer (`consumer-metrics`,
`consumer-coordinator-metrics`) for the rest.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from kohort.broker.telemetry.reports import CONSUMER, Report

SECONDS = ".seconds.ago"
WINDOW_MS = 60_000
"""The time that a client's highest value covers: Java keeps two samples of 30 s."""
Words = Callable[[float], str]


class ClientPeak(msgspec.Struct, frozen=True):
    """The highest number of the last ten minutes, when the client sent it, and the time it may be from."""

    text: str
    at_ms: int
    since_ms: int
    until_ms: int


class ClientEvidence(msgspec.Struct, frozen=True):
    """A client of the group, when it sent its metrics last, and what they say."""

    client_id: str
    member_id: str
    client_host: str
    software: str
    at_ms: int
    is_ended: bool
    facts: tuple[str, ...]
    peaks: tuple[ClientPeak, ...] = ()


def evidence_of(reports: Iterable[Report]) -> list[ClientEvidence]:
    """Return what the clients say, by their client ids."""
    found = [
        ClientEvidence(
            each.client_id,
            each.labels.get("group_member_id", ""),
            each.client_host,
            each.software,
            each.at_ms,
            each.is_ended,
            tuple(_facts(each)),
            tuple(_peaks(each)),
        )
        for each in reports
    ]
    return sorted(found, key=lambda each: (each.client_id, each.at_ms))


def _facts(report: Report) -> Iterator[str]:
    for name, words in _WORDS.items():
        value = report.value(CONSUMER + name)
        if value is not None:
            yield words(value)


def _peaks(report: Report) -> Iterator[ClientPeak]:
    for name, words in _WORDS.items():
        peak = report.peaks.get(CONSUMER + name)
        if peak is not None and peak.value > 0:
            took_ms = int(peak.value * (1_000 if name.endswith(SECONDS) else 1))
            since_ms = peak.at_ms - took_ms - report.interval_ms - WINDOW_MS
            yield ClientPeak(words(peak.value), peak.at_ms, since_ms, peak.at_ms + report.interval_ms)


def _milliseconds(value: float) -> str:
    return f"{value:,.0f} ms" if value < 10_000 else f"{value / 1000:,.0f} s"


_WORDS: dict[str, Words] = {
    "time.between.poll.max": lambda value: f"at most {_milliseconds(value)} between two polls",
    "last.poll.seconds.ago": lambda value: f"its last poll was {value:,.0f} s before",
    "poll.idle.ratio.avg": lambda value: f"its application works {100 * (1 - value):.0f} % of the time",
    "coordinator.commit.latency.avg": lambda value: f"a commit takes {_milliseconds(value)} on average",
    "coordinator.commit.latency.max": lambda value: f"a commit took {_milliseconds(value)} at most",
    "coordinator.rebalance.latency.avg": lambda value: f"a rebalance takes {_milliseconds(value)} on average",
    "coordinator.rebalance.latency.max": lambda value: f"a rebalance took {_milliseconds(value)} at most",
    "coordinator.last.rebalance.seconds.ago": lambda value: f"its last rebalance was {value:,.0f} s before",
    "coordinator.failed.rebalance.total": lambda value: f"{value:,.0f} of its rebalances failed",
    "coordinator.heartbeat.response.time.max": lambda value: (
        f"a heartbeat was answered within {_milliseconds(value)} at most"
    ),
}
