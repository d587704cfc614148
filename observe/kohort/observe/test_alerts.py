import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest

from kohort.observe.alerting import Alerting, ClusterAlerts
from kohort.observe.alerts import FLAPPING, STORM, STUCK, Alert, Alerts, Finding, Standing
from kohort.observe.lags import PlaceLag
from kohort.observe.observer import Observer, Target
from kohort.observe.pace import Limits
from kohort.observe.test_day import MINUTE, Day, quiet_day
from kohort.observe.test_records import client_of
from kohort.observe.webhooks import (
    ATTEMPTS_MAX,
    WAITING_MAX,
    Sender,
    WebhookError,
    alertmanager_body,
    slack_body,
    webhook_of,
)
from kohort.protocol.verdict import Verdict

NOW = 1_800_000_000_000
STUCK_FINDING = Finding(STUCK, "billing", "1 partition of billing does not move: t-3", ("t-3: it stands",))


@pytest.fixture
def day(tmp_path: Path) -> Iterator[tuple[Day, ClusterAlerts]]:
    servers = {"bootstrap_servers": "127.0.0.1:1"}
    observer = Observer(Target("prod", servers, servers), tmp_path / "o.db", Limits())  # type: ignore[arg-type]  # They are both.
    day = Day(observer)
    yield day, ClusterAlerts(observer)
    day.store.close()


def names(alerts: list[Alert]) -> list[tuple[str, bool]]:
    return sorted((each.finding.name, each.ended_ms is None) for each in alerts)


def test_a_storm_begins_and_ends_once(day: tuple[Day, ClusterAlerts]) -> None:
    lived, alerts = day
    quiet_day(lived)
    assert alerts.look(lived.log.now_ms) == []
    lived.read(5 * MINUTE)
    begun: list[Alert] = []
    for _ in range(6):
        lived.end(lived.members[0], 0)
        lived.read(5_000)
        lived.start(0)
        lived.read(5_000)
        begun += alerts.look(lived.log.now_ms)
    assert names(begun)[-1] == (STORM, True)
    assert [each.finding.name for each in begun].count(STORM) == 1
    (storm,) = (each for each in alerts.alerts.active if each.finding.name == STORM)
    assert "12 rebalances" in storm.finding.summary
    lived.read(9 * MINUTE)
    assert alerts.look(lived.log.now_ms) == []
    lived.read(2 * MINUTE)
    ended = alerts.look(lived.log.now_ms)
    assert (STORM, False) in names(ended)
    assert alerts.alerts.active == ()
    assert alerts.look(lived.log.now_ms) == []


def flap(day: Day) -> None:
    """Have one process die and come back under the same client id."""
    day.end(day.members[-1], 46_000)
    day.read(20_000)
    day.start(3)
    day.read(4 * MINUTE)


def test_a_member_that_flaps_slowly_is_no_storm_but_is_told(day: tuple[Day, ClusterAlerts]) -> None:
    lived, alerts = day
    quiet_day(lived)
    lived.read(15 * MINUTE)
    flap(lived)
    flap(lived)
    assert alerts.look(lived.log.now_ms) == []
    flap(lived)
    assert names(alerts.look(lived.log.now_ms)) == [(FLAPPING, True)]
    lived.read(11 * MINUTE)
    assert names(alerts.look(lived.log.now_ms)) == [(FLAPPING, False)]


def test_a_deployment_is_no_alert(day: tuple[Day, ClusterAlerts]) -> None:
    lived, alerts = day
    quiet_day(lived)
    lived.read(5 * MINUTE)
    for application in range(4):
        lived.end(next(each for each in lived.members if client_of(each) == f"billing-{application}"), 0)
        lived.read(5_000)
        lived.start(application)
        lived.read(15_000)
    assert alerts.look(lived.log.now_ms) == []


def test_a_process_with_several_members_that_restarts_once_does_not_flap(
    day: tuple[Day, ClusterAlerts],
) -> None:
    lived, alerts = day
    for application in (0, 1, 2, 3, 3, 3, 3):
        lived.start(application)
        lived.read(4_000)
    lived.read(5 * MINUTE)
    for each in [each for each in lived.members if client_of(each) == "billing-3"]:
        lived.end(each, 0)
        lived.read(3_000)
    for _ in range(4):
        lived.start(3)
        lived.read(3_000)
    lived.read(2 * MINUTE)
    assert alerts.look(lived.log.now_ms) == []


def lag(verdict: Verdict | None, partition: int = 3) -> PlaceLag:
    return PlaceLag("t", partition, 117, NOW, 517, 400, 60.0, verdict)


def test_a_partition_is_stuck_once_it_has_stood_still_for_a_while() -> None:
    standing = Standing()
    for minute in range(5):
        assert [*standing.findings("g", [lag(Verdict.STALL)], NOW + minute * MINUTE)] == []
    (found,) = standing.findings("g", [lag(Verdict.STALL), lag(Verdict.OK, 1)], NOW + 5 * MINUTE)
    assert found.summary == "1 partition of g does not move: t-3"
    assert "at 117, and 400 records wait" in found.evidence[0]
    assert [*standing.findings("g", [lag(Verdict.OK)], NOW + 6 * MINUTE)] == []
    assert [*standing.findings("g", [lag(Verdict.STOP)], NOW + 7 * MINUTE)] == []
    many = [lag(Verdict.STOP, each) for each in range(100)]
    [*standing.findings("h", many, NOW)]
    (found,) = standing.findings("h", many, NOW + 10 * MINUTE)
    assert found.summary.startswith("100 partitions of h do not move: t-0, t-1")
    assert found.summary.endswith("and 92 more")
    assert len(found.evidence) == 8
    unknown = [lag(None, each) for each in range(100)]
    (found,) = standing.findings("h", unknown, NOW + 11 * MINUTE)
    assert "the end of the log is unknown now" in found.evidence[0]
    (found,) = standing.findings("h", many, NOW + 12 * MINUTE)
    assert found.summary.startswith("100 partitions"), "an outage of the broker ends no alert"
    assert [*standing.findings("new", [lag(None)], NOW)] == []
    assert [*standing.findings("h", [], NOW + 13 * MINUTE)] == []
    assert [*standing.findings("h", many, NOW + 14 * MINUTE)] == [], "its topics were deleted and made anew"
    standing.forget(lambda group_id: group_id == "g")
    assert [*standing.findings("h", many, NOW + 11 * MINUTE)] == []


def test_slack_gets_a_text_and_alertmanager_labels_and_times() -> None:
    begun = Alert("prod", STUCK_FINDING, NOW)
    text = json.loads(slack_body(begun))["text"]
    assert "*prod: billing*: 1 partition of billing does not move" in text
    assert "t-3: it stands" in text
    mention = STUCK_FINDING._replace(group_id="<!channel> & <http://a|b>")
    told = json.loads(slack_body(begun._replace(finding=mention)))["text"]
    assert "*prod: &lt;!channel&gt; &amp; &lt;http://a|b&gt;*" in told
    assert "over" in json.loads(slack_body(begun._replace(ended_ms=NOW + 1)))["text"]
    (told, over) = json.loads(alertmanager_body([begun, begun._replace(ended_ms=NOW + 60_000)], NOW + 60_000))
    assert told["labels"] == {
        "alertname": "KohortObserveGroupPartitionStuck",
        "group_id": "billing",
        "severity": "warning",
        "cluster": "prod",
    }
    assert told["startsAt"] == "2027-01-15T08:00:00.000+00:00"
    assert told["endsAt"] == "2027-01-15T08:06:00.000+00:00"
    assert over["endsAt"] == "2027-01-15T08:01:00.000+00:00"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "slack",
        "http://a/b",
        "teams=http://a",
        "slack=a/b",
        "slack=ftp://a",
        "slack=http://",
        "slack=http://a:b",
        "slack=http://a:0",
    ],
)
def test_what_names_no_endpoint_is_refused(text: str) -> None:
    with pytest.raises(WebhookError):
        webhook_of(text)


def test_an_endpoint_is_logged_without_its_secrets() -> None:
    assert webhook_of("slack=https://user:secret@hooks.example/services/T0/secret").host == "hooks.example"


@contextmanager
def endpoint(answer: Callable[[str, bytes], int]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(answer(self.path, body))
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Endpoint:
    """Answers with these codes, the last one for good, and notes what it was sent."""

    def __init__(self, *codes: int, wanted: int) -> None:
        self.codes = [*codes]
        self.bodies: list[tuple[str, bytes]] = []
        self.has_all = Event()
        self._wanted = wanted

    def __call__(self, path: str, body: bytes) -> int:
        self.bodies.append((path, body))
        code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        if len(self.bodies) == self._wanted:
            self.has_all.set()
        return code


@pytest.mark.parametrize(
    ("codes", "attempts"),
    [((503, 500, 200), 3), ((400,), 1), ((429, 200), 2), ((503,), ATTEMPTS_MAX), ((302,), 1)],
)
def test_a_delivery_is_tried_again_a_bounded_number_of_times(codes: tuple[int, ...], attempts: int) -> None:
    pauses: list[float] = []
    answers = (
        Endpoint(*codes, 200, wanted=attempts + 1)
        if codes[-1] != 200
        else Endpoint(*codes, wanted=attempts + 1)
    )
    if codes == (503,):
        answers.codes = [503] * ATTEMPTS_MAX + [200]
    with endpoint(answers) as url:
        sender = Sender(webhook_of(f"alertmanager={url}"), pauses.append)
        for text in ("first", "second"):
            finding = STUCK_FINDING._replace(summary=text)
            sender.send([], [Alert("", finding, NOW)], NOW)
        assert answers.has_all.wait(30)
        sender.close()
    summaries = [json.loads(body)[0]["annotations"]["summary"] for _, body in answers.bodies]
    assert summaries == ["billing: first"] * attempts + ["billing: second"]
    assert {path for path, _ in answers.bodies} == {"/api/v2/alerts"}
    assert len(pauses) == attempts - 1
    assert pauses == sorted(pauses)


def test_an_endpoint_that_speaks_no_http_ends_no_sender() -> None:
    def answer_once(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"no HTTP at all\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threads = [Thread(target=answer_once, args=(server,)) for _ in range(1)]
        for each in threads:
            each.start()
        sender = Sender(webhook_of(f"slack=http://127.0.0.1:{server.getsockname()[1]}"), lambda _: None)
        assert sender._post(b"{}") == "no answer"
        threads[0].join()
        sender.close()


def test_an_endpoint_that_hangs_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    alert = Alert("", STUCK_FINDING, NOW)
    release, began = Event(), Event()

    def hang(_path: str, _body: bytes) -> int:
        began.set()
        release.wait(30)
        return 200

    with endpoint(hang) as url:
        sender = Sender(webhook_of(f"slack={url}"))
        sender.send([alert], [], NOW)
        assert began.wait(30)
        for _ in range(WAITING_MAX + 50):
            sender.send([alert], [], NOW)
        assert sender.dropped == 50
        monkeypatch.setattr("kohort.observe.webhooks.WAITING_BYTES_MAX", 10 * len(slack_body(alert)))
        sender.send([alert], [], NOW)
        assert sender.dropped == 50 + WAITING_MAX - 9, "ten have room"
        monkeypatch.setattr("kohort.observe.webhooks.WAITING_BYTES_MAX", 1)
        sender.send([alert], [], NOW)
        assert sender.dropped == 50 + WAITING_MAX + 1, "the newest stays"
        release.set()
        sender.close()


def test_alerts_of_two_groups_stand_beside_each_other() -> None:
    alerts = Alerts("")
    other = STUCK_FINDING._replace(group_id="audit")
    assert len(alerts.update([STUCK_FINDING, other], NOW)) == 2
    assert alerts.update([STUCK_FINDING._replace(summary="2 partitions"), other], NOW + 1) == []
    assert {each.finding.summary for each in alerts.active} >= {"2 partitions"}
    (over,) = alerts.update([other], NOW + 2)
    assert (over.finding.group_id, over.started_ms, over.ended_ms) == ("billing", NOW, NOW + 2)


def test_alerting_sends_what_it_finds(day: tuple[Day, ClusterAlerts]) -> None:
    lived, alerts = day
    quiet_day(lived)
    lived.read(15 * MINUTE)
    for _ in range(3):
        flap(lived)
    answers = Endpoint(200, wanted=1)
    with endpoint(answers) as url:
        alerting = Alerting(
            [alerts._observer], [webhook_of(f"slack={url}")], lambda: lived.log.now_ms, look_seconds=0.01
        )
        alerting.start()
        assert answers.has_all.wait(30)
        alerting.stop()
    assert "prod: g" in json.loads(answers.bodies[0][1])["text"]
    assert len(answers.bodies) == 1
