"""What a broker tells of itself over HTTP: its health, its clock, its disk and its descriptors."""

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

from kohort.cli.diagnosis import Finding, Level
from kohort.cli.http_source import TIMEOUT_SECONDS, page_request
from kohort.client.addresses import parse_address

HTTP_PORT = 9644
CLOCK_SECONDS_MAX = 5.0
FREE_SHARE_MIN = 0.1
DESCRIPTORS_SHARE_MAX = 0.8
REASONS_TOLD = 5


def look_at_http(servers: str, http: str | None) -> Iterator[Finding]:
    """Yield what the broker says; where nobody said that it serves HTTP, its silence is no fault."""
    place = http or _guess(servers)
    try:
        ready, date = _get(place, "/health/ready")
        metrics, _ = _get(place, "/metrics")
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        level = Level.WARN if http is None else Level.FAIL
        text = f"nothing serves HTTP there ({getattr(reason, 'strerror', None) or reason})"
        yield Finding(f"http {place}", level, text, "Health, disk and clock stay unseen; --http says where.")
        return
    yield _health(place, ready)
    if date is not None:
        yield _clock(date)
    yield from _resources(metrics)


def _guess(servers: str) -> str:
    host, _ = parse_address(servers.split(",", maxsplit=1)[0].strip())
    return f"[{host}]:{HTTP_PORT}" if ":" in host else f"{host}:{HTTP_PORT}"


def _get(place: str, path: str) -> tuple[str, str | None]:
    """Return an answer, also one that is an error, and its date. Raises: OSError, ValueError."""
    try:
        with urllib.request.urlopen(page_request(place, path), timeout=TIMEOUT_SECONDS) as answer:
            return answer.read().decode(), answer.headers["date"]
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode(), error.headers["date"]


def _health(place: str, text: str) -> Finding:
    subject = f"http {place}"
    try:
        told = json.loads(text)
        not_told = [] if told["status"] == "ready" else ["KOHORT_HTTP_TOKEN would have it say why"]
        reasons = [str(each) for each in told.get("reasons", not_told)]
    except (ValueError, KeyError, TypeError):
        return Finding(subject, Level.FAIL, "what answers there is no kohort broker")
    if not reasons:
        return Finding(subject, Level.OK, "the broker is ready")
    more = f" and {len(reasons) - REASONS_TOLD} more" if len(reasons) > REASONS_TOLD else ""
    return Finding(subject, Level.FAIL, f"the broker is not ready: {'; '.join(reasons[:REASONS_TOLD])}{more}")


def _clock(date: str) -> Finding:
    """Return how far the broker's clock is from ours; HTTP tells it to the second."""
    try:
        apart = parsedate_to_datetime(date).timestamp() - time.time()
    except ValueError:
        return Finding("clock", Level.WARN, f"the broker's date is unreadable: {date!r}")
    if abs(apart) <= CLOCK_SECONDS_MAX:
        return Finding("clock", Level.OK, "the broker's is this machine's, to the second")
    which = "ahead of" if apart > 0 else "behind"
    text = f"the broker's is {abs(apart):.0f} s {which} this machine's"
    return Finding("clock", Level.WARN, text, "Times of records and retention go by it: look at NTP on both.")


def _resources(metrics: str) -> Iterator[Finding]:
    free, total = _metric(metrics, "kohort_disk_free_bytes"), _metric(metrics, "kohort_disk_total_bytes")
    if free is not None and total:
        level = Level.WARN if free / total < FREE_SHARE_MIN else Level.OK
        yield Finding("broker's disk", level, f"{free / 1e9:,.1f} of {total / 1e9:,.1f} GB are free")
    used, most = _metric(metrics, "process_open_fds"), _metric(metrics, "process_max_fds")
    if used is not None and most:
        level = Level.WARN if used / most > DESCRIPTORS_SHARE_MAX else Level.OK
        advice = "Raise its `ulimit -n`, or LimitNOFILE of its unit." if level is Level.WARN else ""
        yield Finding("broker's descriptors", level, f"{used:,.0f} of {most:,.0f} are in use", advice)


def _metric(page: str, name: str) -> float | None:
    found = re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE)
    return None if found is None else float(found[1])
