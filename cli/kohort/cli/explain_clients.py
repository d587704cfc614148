"""The metrics that clients of a group have pushed (KIP-714), after the explanation of its rebalances."""

from collections.abc import Iterator

import msgspec

from kohort.broker.explain.words import duration
from kohort.broker.telemetry.evidence import ClientEvidence


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
