"""A mistake in a test raises an error that names it: the test does not pass, or fail for another reason."""

import pytest

from kohort.client import Producer
from kohort.testing import Broker, Cluster, ConfigError, Group, Record
from kohort.testing import logs as kept_lines


def test_one_name_is_one_topic() -> None:
    with Broker(topics="orders") as broker:
        assert broker.records("orders") == ()
        with pytest.raises(KeyError):
            broker.records("o")


@pytest.mark.parametrize(
    ("api", "hint"), [("OffsetComit", "OffsetCommit"), ("joingroup", "JoinGroup"), ("?", "")]
)
def test_requests_of_an_api_that_there_is_not_are_an_error(api: str, hint: str) -> None:
    with Broker() as broker, pytest.raises(ValueError, match=f"no API is named .*{hint}"):
        broker.requests.of(api)


def test_records_of_aborted_and_of_open_transactions_are_left_out() -> None:
    with Broker(topics=["t"]) as broker:
        with Producer(bootstrap_servers=broker.bootstrap) as plain:
            plain.send("t", b"plain").result()
        with Producer(bootstrap_servers=broker.bootstrap, transactional_id="tx") as producer:
            for number, outcome in enumerate(("aborted", "committed", "open")):
                producer.begin_transaction()
                producer.send("t", outcome.encode(), headers=[("number", b"%d" % number)]).result()
                if outcome == "aborted":
                    producer.abort_transaction()
                elif outcome == "committed":
                    producer.commit_transaction()
            assert [each.value for each in broker.records("t")] == [b"plain", b"committed"]
            everything = broker.records("t", isolation_level="read_uncommitted")
            assert [each.value for each in everything] == [b"plain", b"aborted", b"committed", b"open"]
        with pytest.raises(ValueError, match="read_committed or read_uncommitted"):
            broker.records("t", isolation_level="committed")


def test_a_cluster_without_httpx_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.testing.cluster.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install \"kohort\[cluster\]\""):
        Cluster()


def test_a_report_has_the_warnings_of_its_own_broker_alone() -> None:
    kept_lines.lines.append((0.0, "warning of a test before"))
    with Broker() as broker:
        assert "of a test before" not in broker.report()


def test_what_a_broker_returns_can_be_named_in_types() -> None:
    assert {each.__module__ for each in (Group, Record)} == {"kohort.testing.groups"}
