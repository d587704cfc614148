"""Sends alerts by HTTP, in a thread of its own: what an endpoint does never holds up the observer."""

import json
import logging
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from enum import Enum
from http.client import HTTPException
from threading import Condition, Event, Thread
from typing import NamedTuple
from urllib.parse import urlsplit

from kohort.observe.alerts import STORM, Alert

log = logging.getLogger(__name__)

WAITING_MAX, WAITING_BYTES_MAX = 256, 16 << 20
"""More waiting deliveries are not kept: the oldest are dropped. Alertmanager gets all that stands again."""
ATTEMPTS_MAX = 5
FIRST_PAUSE_SECONDS, PAUSE_SECONDS_MAX = 1.0, 30.0
TIMEOUT_SECONDS = 5.0
ALERTMANAGER_PATH = "/api/v2/alerts"
STANDS_SECONDS = 300
"""Alertmanager takes an alert as over if it is not sent again within this time."""
EVIDENCE_TOLD = 6


class WebhookKind(Enum):
    """What an endpoint expects."""

    SLACK = "slack"
    ALERTMANAGER = "alertmanager"


class Webhook(NamedTuple):
    """An endpoint; its URL may be a secret, so that only its host is logged."""

    kind: WebhookKind
    url: str

    @property
    def host(self) -> str:
        """The host of the endpoint."""
        return urlsplit(self.url).netloc.rpartition("@")[2]


class WebhookError(ValueError):
    """The text is not KIND=URL."""


def webhook_of(text: str) -> Webhook:
    """Return the endpoint of KIND=URL. Raises: WebhookError."""
    kind, equals, url = text.partition("=")
    kinds = [each.value for each in WebhookKind]
    if not equals or kind not in kinds:
        raise WebhookError(f"it is KIND=URL, with one of {', '.join(kinds)} as KIND")
    parts = urlsplit(url)
    try:
        is_whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # Its port is no number.
        is_whole = False
    if not is_whole:
        raise WebhookError(f"the URL of {kind} is not http://HOST or https://HOST")
    return Webhook(WebhookKind(kind), url)


def slack_body(alert: Alert) -> bytes:
    """Return a message in Slack's form, which others take as well."""
    finding = alert.finding
    where = f"{alert.cluster}: " if alert.cluster else ""
    word = ":white_check_mark: over" if alert.ended_ms is not None else ":rotating_light:"
    lines = [f"{word} *{where}{finding.group_id}*: {finding.summary}"]
    if alert.ended_ms is None:
        lines += [f"• {each}" for each in finding.evidence[:EVIDENCE_TOLD]]
    return json.dumps({"text": _plain("\n".join(lines))}).encode()


def _plain(text: str) -> str:
    """Return a text in which Slack obeys no mention or link: a client may be named `<!channel>`."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def alertmanager_body(alerts: Iterable[Alert], now_ms: int) -> bytes:
    """Return alerts in the form of Alertmanager's API, version 2."""
    return json.dumps([_alertmanager_alert(each, now_ms) for each in alerts]).encode()


def _alertmanager_alert(alert: Alert, now_ms: int) -> dict[str, object]:
    finding = alert.finding
    ends_ms = now_ms + STANDS_SECONDS * 1_000 if alert.ended_ms is None else alert.ended_ms
    labels = {
        "alertname": f"KohortObserve{finding.name}",
        "group_id": finding.group_id,
        "severity": "critical" if finding.name == STORM else "warning",
    }
    if alert.cluster:
        labels["cluster"] = alert.cluster
    return {
        "labels": labels,
        "annotations": {
            "summary": f"{finding.group_id}: {finding.summary}",
            "description": "\n".join(finding.evidence[:EVIDENCE_TOLD]),
        },
        "startsAt": _time(alert.started_ms),
        "endsAt": _time(ends_ms),
    }


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(timespec="milliseconds")


class Sender:
    """Sends to one endpoint, one delivery after the other, each a bounded number of times."""

    def __init__(self, webhook: Webhook, pause: Callable[[float], object] | None = None) -> None:
        self.webhook = webhook
        self.sent = 0
        self.failed = 0
        self.dropped = 0
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._news = Condition()
        self._stopping = Event()
        self._pause = pause or self._stopping.wait
        self._thread = Thread(target=self._run, name=f"kohort-webhook-{webhook.kind.value}", daemon=True)
        self._thread.start()

    def send(self, alerts: Sequence[Alert], standing: Sequence[Alert], now_ms: int) -> None:
        """Send the alerts that begin or end. Alertmanager also gets the standing alerts, each time."""
        if self.webhook.kind is WebhookKind.SLACK:
            for each in alerts:
                self._put(slack_body(each))
        elif alerts or standing:
            ended = [each for each in alerts if each.ended_ms is not None]
            self._put(alertmanager_body([*standing, *ended], now_ms))

    def close(self) -> None:
        """Stop. What still waits is not sent."""
        self._stopping.set()
        with self._news:
            self._news.notify()
        self._thread.join(TIMEOUT_SECONDS)

    def _put(self, body: bytes) -> None:
        with self._news:
            self._waiting.append(body)
            self._waiting_bytes += len(body)
            while len(self._waiting) > 1 and (
                len(self._waiting) > WAITING_MAX or self._waiting_bytes > WAITING_BYTES_MAX
            ):
                self._waiting_bytes -= len(self._waiting.popleft())
                self.dropped += 1
            self._news.notify()

    def _run(self) -> None:
        while True:
            with self._news:
                while not self._waiting and not self._stopping.is_set():
                    self._news.wait()
                if self._stopping.is_set():
                    return
                body = self._waiting.popleft()
                self._waiting_bytes -= len(body)
            self._deliver(body)

    def _deliver(self, body: bytes) -> None:
        pause = FIRST_PAUSE_SECONDS
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                self._pause(pause)
                pause = min(2 * pause, PAUSE_SECONDS_MAX)
            if self._stopping.is_set():
                return
            problem = self._post(body)
            if not problem:
                self.sent += 1
                return
            if problem is _REFUSED:
                break
        self.failed += 1
        log.warning("%s did not take an alert", self.webhook.host)

    def _post(self, body: bytes) -> str:
        """Return what went wrong, empty for nothing."""
        url = self.webhook.url
        if self.webhook.kind is WebhookKind.ALERTMANAGER and not urlsplit(url).path.rstrip("/").endswith(
            "alerts"
        ):
            url = url.rstrip("/") + ALERTMANAGER_PATH
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
        try:
            with _OPENER.open(request, timeout=TIMEOUT_SECONDS):
                return ""
        except urllib.error.HTTPError as error:
            with error:
                log.warning("%s answers %s to an alert", self.webhook.host, error.code)
                return _REFUSED if 300 <= error.code < 500 and error.code != 429 else "refused for now"
        except (OSError, ValueError, HTTPException) as error:
            log.warning("%s: %s", self.webhook.host, getattr(error, "reason", error))
            return "no answer"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the alert would get lost, since urllib makes a GET without a body of it."""

    def redirect_request(  # noqa: PLR0917  # The library calls it so.
        self, req: object, fp: object, code: int, msg: str, headers: object, newurl: str
    ) -> None:
        """Return None: the redirect is an error."""


_OPENER = urllib.request.build_opener(_NoRedirects)
_REFUSED = "refused"
