"""Clients that ask what to send, and send it: Kafka's rules, and what is kept of them."""

import tracemalloc
from uuid import UUID

import pytest

from kohort.broker.config.values import ConfigError
from kohort.broker.telemetry.evidence import WINDOW_MS, ClientPeak, evidence_of
from kohort.broker.telemetry.otlp import FIELDS_MAX, Point, Resource
from kohort.broker.telemetry.reports import (
    CLIENTS_MAX,
    CLIENTS_PER_HOST_MAX,
    KEPT_MS_MIN,
    PEAK_BYTES,
    PEAK_MAX,
    PEAK_MS_MAX,
    SERIES_PER_CLIENT_MAX,
    SIZE_BYTES_MAX,
    SIZE_PER_HOST_BYTES_MAX,
    Peak,
    Report,
    Reports,
)
from kohort.broker.telemetry.subscriptions import EVERY_METRIC, Requester, check_client_metrics
from kohort.broker.telemetry.taking import ClientMetrics, Push
from kohort.broker.telemetry.test_otlp import SUM, metric, metrics_data, point
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records.compression import compress
from kohort.protocol.records.header import Compression

CLIENT = UUID(int=(7 << 32) + 9)
BILLING = Requester(str(CLIENT), "billing-1", "apache-kafka-java", "4.4.0", "10.0.0.1")
SECOND = 1_000
BYTES_MAX = 10_000
NONE = ErrorCode.NONE
DATA = metrics_data(metric("a", point(2), kind=SUM, temporality=1), attributes=[("group_id", "billing")])


class World:
    def __init__(self, **configs: dict[str, str]) -> None:
        self.now_ms = 1_800_000_000_000
        self.metrics = ClientMetrics(lambda: self.now_ms)
        self.metrics.configure(configs or {"one": {"metrics": "a", "interval.ms": "1000"}})

    def ask(self, requester: Requester = BILLING) -> ErrorCode:
        error, self.wanted = self.metrics.ask(CLIENT, requester)
        return error

    def push(self, data: bytes = DATA, **other: object) -> ErrorCode:
        told = {
            "client_instance_id": CLIENT,
            "subscription_id": self.wanted.subscription_id(CLIENT),
            "is_terminating": False,
            "compression_type": 0,
            "metrics": data,
            **other,
        }
        return self.metrics.push(Push(**told), BILLING, BYTES_MAX)  # type: ignore[arg-type]


def test_a_client_asks_and_sends_and_deltas_add_up() -> None:
    world = World()
    assert world.ask() is NONE
    assert (world.wanted.metrics, world.wanted.interval_ms) == (("a",), SECOND)
    assert world.push() is NONE
    world.now_ms += SECOND
    for codec in (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY):
        assert world.push(compress(codec, DATA), compression_type=int(codec)) is NONE
        world.now_ms += SECOND
    (client,) = world.metrics.reports.values(world.now_ms)
    assert client.values == {("a", ()): (10.0, True)}
    assert (client.client_id, client.group_id) == ("billing-1", "billing")


def test_who_asks_or_sends_too_soon_is_told_so() -> None:
    world = World()
    assert world.ask() is NONE
    world.now_ms += SECOND - 1
    assert world.ask() is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert world.push() is NONE  # The first one may follow at any time.
    world.now_ms += SECOND - 1
    assert world.push() is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert world.push(is_terminating=True) is NONE
    assert world.push() is ErrorCode.INVALID_REQUEST
    assert world.metrics.refusals[ErrorCode.THROTTLING_QUOTA_EXCEEDED] == 2


def test_another_subscription_is_learnt_at_once() -> None:
    world = World()
    world.ask()
    world.push()
    world.metrics.configure({"one": {"metrics": "b", "interval.ms": "2000"}})
    assert world.push() is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert world.ask() is NONE
    assert world.wanted.metrics == ("b",)
    assert world.push() is NONE


@pytest.mark.parametrize(
    "other, error",
    [
        ({"client_instance_id": UUID(int=0)}, ErrorCode.INVALID_REQUEST),
        ({"client_instance_id": UUID(int=1)}, ErrorCode.INVALID_REQUEST),
        ({"subscription_id": 5}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        ({"compression_type": 9}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"data": b"x" * (BYTES_MAX + 1)}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({"data": b"\x0b"}, ErrorCode.INVALID_RECORD),
        ({"data": b"no zstd", "compression_type": 4}, ErrorCode.INVALID_RECORD),
        ({"data": compress(Compression.GZIP, bytes(20_000_000), 1)[:BYTES_MAX]}, ErrorCode.INVALID_RECORD),
    ],
)
def test_what_is_wrong_with_a_push(other: dict[str, object], error: ErrorCode) -> None:
    world = World()
    world.ask()
    assert world.push(**other) is error  # type: ignore[arg-type]
    assert len(world.metrics.reports) == 0
    assert world.metrics.refusals == {error: 1}


def test_a_bomb_is_not_inflated() -> None:
    world = World()
    world.ask()
    bomb = compress(Compression.ZSTD, bytes(64_000_000))
    assert len(bomb) < BYTES_MAX
    assert world.push(bomb, compression_type=4) is ErrorCode.TELEMETRY_TOO_LARGE
    world.now_ms += SECOND
    larger = metrics_data(metric("a", *(point(each) for each in range(1_000))))
    assert len(larger) > BYTES_MAX > len(compress(Compression.ZSTD, larger))
    assert world.push(compress(Compression.ZSTD, larger), compression_type=4) is ErrorCode.TELEMETRY_TOO_LARGE
    assert len(world.metrics.reports) == 0


def test_a_push_of_very_many_fields_is_too_large() -> None:
    world = World()
    world.ask()
    data = compress(Compression.ZSTD, b"\x0a\x00" * FIELDS_MAX + b"\x0a\x00")
    told = Push(CLIENT, world.wanted.subscription_id(CLIENT), False, int(Compression.ZSTD), data)
    assert world.metrics.push(told, BILLING, 1_048_576) is ErrorCode.TELEMETRY_TOO_LARGE


def test_who_has_not_asked_is_told_to_ask_first() -> None:
    world = World()
    stranger = UUID(int=77)
    world.ask()
    right = world.wanted.subscription_id(stranger)
    for is_terminating in (False, True):
        refused = world.push(
            client_instance_id=stranger, subscription_id=right, is_terminating=is_terminating
        )
        assert refused is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert len(world.metrics.reports) == 0
    assert world.metrics.ask(stranger, BILLING)[0] is NONE
    assert world.push(client_instance_id=stranger, subscription_id=right) is NONE
    world.metrics.configure({"one": {"metrics": "a", "interval.ms": "1000"}, "two": {}})
    assert world.push(client_instance_id=stranger, subscription_id=right) is NONE  # It need not ask again.


@pytest.mark.parametrize(
    "metrics, kept",
    [
        ("a", ["a", "a.b", "ab"]),
        ("a.,b", ["a.b", "b"]),
        ("*", ["a", "a.b", "ab", "b", "up"]),
        ("c", []),
        ("", []),
    ],
)
def test_only_what_was_asked_for_is_kept(metrics: str, kept: list[str]) -> None:
    world = World(one={"metrics": metrics, "interval.ms": "1000"})
    world.ask()
    assert (
        world.push(metrics_data(*(metric(each, point(1)) for each in ("a", "a.b", "ab", "b", "up")))) is NONE
    )
    found = [name for each in world.metrics.reports.values(world.now_ms) for name, _ in each.values]
    assert found == kept


@pytest.mark.parametrize(
    "match, is_asked",
    [
        ("", True),
        ("client_id=billing-.*", True),
        ("client_id=billing", False),
        ("client_id=billing-.*,client_software_name=apache-kafka-java", True),
        ("client_id=billing-.*,client_software_name=librdkafka", False),
        ("client_software_version=4\\..*,client_source_address=10\\.0\\..*", True),
        (f"client_instance_id={CLIENT}", True),
    ],
)
def test_only_matching_clients_are_asked(match: str, is_asked: bool) -> None:
    world = World(one={"metrics": "a", "interval.ms": "1000", "match": match})
    assert world.ask() is NONE
    assert world.wanted.metrics == (("a",) if is_asked else ())
    assert world.wanted.interval_ms == (SECOND if is_asked else 300_000)


def test_several_subscriptions_are_asked_together() -> None:
    world = World(
        one={"metrics": "b,a", "interval.ms": "5000"}, two={"metrics": "c,a", "interval.ms": "9000"}
    )
    world.ask()
    assert (world.wanted.metrics, world.wanted.interval_ms) == (("a", "b", "c"), 5_000)
    world.metrics.configure({"one": {"metrics": "a"}, "two": {"metrics": "*"}})
    world.ask()
    assert world.wanted.metrics == (EVERY_METRIC,)


@pytest.mark.parametrize(
    "configs",
    [
        {"interval.ms": "99"},
        {"interval.ms": "3600001"},
        {"interval.ms": "soon"},
        {"match": "client_id"},
        {"match": "who=x"},
        {"match": "client_id=("},
        {"match": "client_source_port=9"},
        {"matches": "x"},
    ],
)
def test_settings_that_mean_nothing_are_refused(configs: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        check_client_metrics(configs)


def report(
    reports: Reports, number: int, *points: Point, now_ms: int = 0, group_id: str = "g", host: str = ""
) -> None:
    about = Report(f"client-{number}", host or f"10.0.0.{number}", "librdkafka 2.16")
    reports.take(UUID(int=number), about, [Resource((("group_id", group_id),), points)], now_ms, 1_000)


def clients(reports: Reports) -> list[str]:
    return sorted(each.client_id for each in reports.of_group("g", 0))


def test_what_clients_send_is_bounded() -> None:
    reports = Reports()
    names = [Point(f"metric-{each}", 1.0) for each in range(SERIES_PER_CLIENT_MAX + 5)]
    report(reports, 1, *names)
    assert (reports.series, reports.left_out) == (SERIES_PER_CLIENT_MAX, 5)
    for number in range(2, CLIENTS_MAX + 3):
        report(reports, number, Point("a", 1.0))
    assert len(reports) == CLIENTS_MAX
    assert reports.left_out == 5 + SERIES_PER_CLIENT_MAX + 1  # Those that sent longest ago made room.
    big = Reports()
    for number in range(200):
        report(big, number, *(Point(f"{'m' * 200}{each}", 1.0) for each in range(400)))
    assert SIZE_BYTES_MAX - 400_000 < big.size_bytes <= SIZE_BYTES_MAX
    assert big.left_out


@pytest.mark.parametrize("wide", ["m", "\N{GRINNING FACE}"])
def test_all_that_is_kept_counts(wide: str) -> None:
    reports = Reports()
    tracemalloc.start()
    try:
        for number in range(1_000):
            attributes = tuple((f"{each}{wide * 200}{number}", wide * 240) for each in range(16))
            about = Report(f"{number}{wide * 32_000}", f"10.0.0.{number}", wide * 32_000)
            points = (Point(f"{wide * 240}{number}", 1.0, attributes),)
            reports.take(UUID(int=number), about, [Resource(attributes, points)], 0, 1_000)
        del attributes, about, points
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reports.left_out
    assert kept_bytes < 1.2 * SIZE_BYTES_MAX
    for number in range(1_000):  # What clients say of themselves later takes less, and then nothing.
        reports.end(UUID(int=number))
    reports.forget_old(KEPT_MS_MIN + 1)
    assert reports.size_bytes == 0


def test_clients_of_one_host_make_room_for_each_other() -> None:
    reports = Reports()
    report(reports, 1, Point("a", 1.0))
    for number in range(1_000, 1_000 + 2 * CLIENTS_MAX):
        report(reports, number, Point("a", 1.0), host="10.9.9.9")
    assert len(reports) == CLIENTS_PER_HOST_MAX + 1
    assert "client-1" in clients(reports)
    for number in range(10_000, 10_100):
        report(reports, number, *(Point(f"{'m' * 200}{each}", 1.0) for each in range(400)), host="10.9.9.9")
    assert "client-1" in clients(reports)
    assert reports.size_bytes <= SIZE_PER_HOST_BYTES_MAX + 10_000


def test_one_client_that_takes_all_of_its_hosts_share_is_cut_and_others_come_in() -> None:
    reports = Reports()
    attributes = tuple((f"{each}{'x' * 240}", "\N{GRINNING FACE}" * 240) for each in range(16))
    huge = [Point(f"m{each}", 1.0, attributes) for each in range(SERIES_PER_CLIENT_MAX)]
    report(reports, 1, *huge)
    assert 0 < reports.series < SERIES_PER_CLIENT_MAX
    assert reports.left_out == SERIES_PER_CLIENT_MAX - reports.series
    report(reports, 2, *huge[:2], host="10.0.0.1")
    assert clients(reports) == ["client-2"]


def test_clients_that_have_ended_make_room_first_then_the_oldest() -> None:
    reports = Reports()
    for number in range(CLIENTS_MAX):
        report(reports, number, Point("a", 1.0))
    reports.end(UUID(int=700))
    report(reports, 0, Point("a", 2.0))  # It is no longer the oldest.
    report(reports, 5_000, Point("a", 1.0))
    gone = {f"client-{each}" for each in range(CLIENTS_MAX)} - set(clients(reports))
    assert gone == {"client-700"}
    assert reports.left_out == 0
    report(reports, 5_001, Point("a", 1.0))
    gone = {f"client-{each}" for each in range(CLIENTS_MAX)} - set(clients(reports))
    assert gone == {"client-700", "client-1"}
    assert reports.left_out == 1


def test_what_a_client_says_of_itself_is_the_newest() -> None:
    reports = Reports()
    report(reports, 1, group_id="another")
    before_bytes = reports.size_bytes
    report(reports, 1, group_id="g")
    assert clients(reports) == ["client-1"]
    assert reports.size_bytes == before_bytes - len("another") + len("g")
    reports.take(UUID(int=1), Report("", "", ""), [Resource((), ())], 0, 1_000)
    assert clients(reports) == ["client-1"]


def test_clients_that_send_no_more_are_forgotten_and_make_room() -> None:
    reports = Reports()
    report(reports, 1, Point("a", 1.0), now_ms=0)
    report(reports, 2, Point("a", 1.0), now_ms=KEPT_MS_MIN)
    reports.end(UUID(int=2))
    assert [each.client_id for each in reports.of_group("g", KEPT_MS_MIN + 1)] == ["client-2"]
    assert reports.values(KEPT_MS_MIN + 1) == []  # One that has ended has no series, but still says why.
    assert reports.of_group("g", 2 * KEPT_MS_MIN + 1) == []
    assert (len(reports), reports.size_bytes) == (0, 0)


def test_what_clients_say_is_told_in_words() -> None:
    reports = Reports()
    prefix = "org.apache.kafka.consumer."
    report(
        reports,
        1,
        Point(f"{prefix}time.between.poll.max", 21_000.0),
        Point(f"{prefix}coordinator.commit.latency.avg", 3.0),
        Point(f"{prefix}coordinator.rebalance.latency.max", 1_250.0),
        Point(f"{prefix}poll.idle.ratio.avg", 0.25),
        Point("other", 3.0),
    )
    report(reports, 2, Point(f"{prefix}poll.idle.ratio.avg", 0.5), group_id="another")
    (evidence,) = evidence_of(reports.of_group("g", 1))
    assert evidence.client_id == "client-1"
    assert evidence.facts == (
        "at most 21 s between two polls",
        "its application works 75 % of the time",
        "a commit takes 3 ms on average",
        "a rebalance took 1,250 ms at most",
    )


LONG_POLL, LAST_POLL = (
    f"org.apache.kafka.consumer.{each}" for each in ("time.between.poll.max", "last.poll.seconds.ago")
)


def test_the_highest_number_of_ten_minutes_is_kept_with_its_time() -> None:
    """Java says for a minute that its application worked for 21 seconds; the user asks later."""
    reports = Reports()
    for minute, value in enumerate((200.0, 21_000.0, 300.0, 250.0)):
        report(reports, 1, Point(LONG_POLL, value), now_ms=minute * 60_000)
    (client,) = reports.of_group("g", 1)
    assert client.value(LONG_POLL) == 250.0
    assert client.peaks[LONG_POLL] == Peak(21_000.0, 60_000)
    report(reports, 1, Point(LONG_POLL, 280.0), now_ms=60_001 + PEAK_MS_MAX)
    assert client.peaks[LONG_POLL] == Peak(280.0, 60_001 + PEAK_MS_MAX)


def test_a_highest_number_says_of_which_time_it_may_be() -> None:
    reports = Reports()
    report(
        reports, 1, Point(LONG_POLL, 21_000.0), Point(LAST_POLL, 15.0), Point("other", 7.0), now_ms=100_000
    )
    (evidence,) = evidence_of(reports.of_group("g", 1))
    assert evidence.peaks == (
        ClientPeak("at most 21 s between two polls", 100_000, 100_000 - 21_000 - 1_000 - WINDOW_MS, 101_000),
        ClientPeak("its last poll was 15 s before", 100_000, 100_000 - 15_000 - 1_000 - WINDOW_MS, 101_000),
    )


@pytest.mark.parametrize("is_delta", [False, True])
@pytest.mark.parametrize("value", [1.7e308, float(PEAK_MAX + 1)])
def test_a_number_that_is_no_duration_is_not_taken_for_one(value: float, is_delta: bool) -> None:
    """A client may send any finite number, and deltas of which the sum is none."""
    reports = Reports()
    for _ in range(2):
        report(reports, 1, Point(LAST_POLL, value, is_sum=is_delta, is_delta=is_delta), now_ms=100_000)
    (client,) = reports.of_group("g", 1)
    assert client.peaks[LAST_POLL] == Peak(PEAK_MAX, 100_000)
    (evidence,) = evidence_of([client])
    (peak,) = evidence.peaks
    assert peak.text == "its last poll was 31,536,000,000 s before"
    assert peak.since_ms == 100_000 - 1_000 * PEAK_MAX - 1_000 - WINDOW_MS
    assert "inf" not in evidence.facts[0]


def test_what_is_kept_of_highest_numbers_counts() -> None:
    reports = Reports()
    report(reports, 1, Point("other", 1.0))
    before = reports.size_bytes
    report(reports, 1, Point(LONG_POLL, 1.0))
    report(reports, 1, Point(LONG_POLL, 2.0))
    with_peak = reports.size_bytes - before
    report(reports, 1, Point("x" * len(LONG_POLL), 2.0))
    assert 2 * with_peak - (reports.size_bytes - before) == PEAK_BYTES
    reports.forget_old(10**15)
    assert reports.size_bytes == 0
