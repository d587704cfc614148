"""The metrics that clients of a group have pushed (KIP-714), after the explanation of its rebalances."""

from collections.abc import Iterator

import msgspec

from kohort.broker.explain.events import RebalanceReport
from kohort.broker.explain.words import duration
from kohort.broker.telemetry.evidence import ClientEvidence

CLIENTS_TOLD = 4


class _Body(msgspec.Struct):
    clients: tuple[ClientEvidence, ...] = ()


def clients_of_body(body: bytes) -> tuple[ClientEvidence, ...]:
    """Return the metrics of a group's clients from a broker's answer about the group."""
    return msgspec.json.decode(body, type=_Body).clients


def client_lines(clients: tuple[ClientEvidence, ...], now_ms: int) -> Iterator[str]:
    """Yield a line for each client, and one for each of its facts."""
    told = [each for each in clients if each.facts]
    if told:
        yield "What its clients say:"
    for each in told:
        ended = ", as it ended" if each.is_ended else ""
        yield (
            f"  {each.client_id} ({each.software} from {each.client_host}), "
            f"{duration(max(now_ms - each.at_ms, 0))} ago{ended}:"
        )
        yield from (f"    {fact}" for fact in each.facts)


def said_of(report: RebalanceReport, clients: tuple[ClientEvidence, ...]) -> list[str]:
    """Return what the clients that caused a rebalance, or held it up, say themselves about that time.

    A client is known by its member id, or by client id and host where the rebalance has them.
    """
    ended_ms = report.started_ms + report.still_ms
    lines: list[str] = []
    for each in clients:
        peaks = [
            peak for peak in each.peaks if peak.since_ms <= ended_ms and report.started_ms <= peak.until_ms
        ]
        if peaks and _is_concerned(report, each):
            told = "; ".join(peak.text for peak in peaks)
            lines.append(f"{each.client_id} itself says about that time: {told}")
    return lines[:CLIENTS_TOLD]


def _is_concerned(report: RebalanceReport, client: ClientEvidence) -> bool:
    causes = (report.cause, *report.further_causes)
    member_ids = {each.member_id for each in causes} | {each.member_id for each in report.waited_for}
    hosts = {(each.client_id, each.client_host.removeprefix("/")) for each in causes if each.client_host}
    return client.member_id in member_ids - {""} or (client.client_id, client.client_host) in hosts
