"""kohort quotas, and the Admin that it uses."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.client import QUOTA_DEFAULT, Admin, BrokerError, QuotaEntity
from kohort.protocol.errors import ErrorCode
from tests.cli import here
from tests.cli.here import Done
from tests.interop.broker_process import BrokerProcess

ALICE, OTHERS = QuotaEntity(user="alice"), QuotaEntity(user=QUOTA_DEFAULT)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    made = BrokerProcess(tmp_path)
    made.start()
    yield made
    made.stop()


def run(broker: BrokerProcess, *arguments: str) -> Done:
    environment = {**os.environ, "KOHORT_BOOTSTRAP_SERVERS": broker.bootstrap}
    return here.kohort("quotas", *arguments, environment=environment)


def test_quotas_are_set_listed_and_removed(broker: BrokerProcess) -> None:
    done = run(broker, "set", "--user", "alice", "producer_byte_rate=1000000", "request_percentage=12.5")
    assert done.stdout.splitlines() == [
        "user alice: producer_byte_rate is 1000000 now",
        "user alice: request_percentage is 12.5 now",
    ]
    run(broker, "set", "--user", "alice", "--client-id", "app", "consumer_byte_rate=77")
    run(broker, "set", "--ip", QUOTA_DEFAULT, "connection_creation_rate=5")
    assert run(broker, "list").stdout.splitlines() == [
        "every other address: connection_creation_rate 5, connections a second, of an address",
        "user alice: producer_byte_rate 1000000, bytes a second into topics",
        "user alice: request_percentage 12.5, percent of the broker's time",
        "user alice, client id app: consumer_byte_rate 77, bytes a second out of topics",
    ]
    assert json.loads(run(broker, "list", "--client-id", "app", "--json").stdout) == [
        {"user": "alice", "client_id": "app", "ip": None, "quotas": {"consumer_byte_rate": 77.0}}
    ]
    assert run(broker, "remove", "--user", "alice", "request_percentage").stdout.splitlines() == [
        "user alice: no request_percentage any more"
    ]
    run(broker, "remove", "--ip", QUOTA_DEFAULT)
    assert len(run(broker, "list").stdout.splitlines()) == 2
    again = run(broker, "remove", "--ip", QUOTA_DEFAULT)
    assert (again.returncode, again.stderr) == (1, "kohort: there is no such quota\n")


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("set", "producer_byte_rate=1"), "give --user"),
        (("set", "--user", "alice", "producer_byte_rate=0"), "a number above 0"),
        (("set", "--user", "alice", "bytes=1"), "is no quota: producer_byte_rate"),
        (("remove", "--user", "alice", "bytes"), "is no quota: producer_byte_rate"),
    ],
)
def test_an_invalid_quota_is_a_usage_error(arguments: tuple[str, ...], words: str) -> None:
    done = here.kohort("quotas", *arguments)
    assert done.returncode == 2
    assert words in done.stderr


def test_the_admin_sets_and_describes_quotas(broker: BrokerProcess) -> None:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_quotas(ALICE, {"producer_byte_rate": 5, "consumer_byte_rate": 6})
        admin.alter_quotas(OTHERS, {"request_percentage": 0.5})
        assert admin.describe_quotas() == {
            ALICE: {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0},
            OTHERS: {"request_percentage": 0.5},
        }
        assert list(admin.describe_quotas(OTHERS)) == [OTHERS]
        admin.alter_quotas(ALICE, {"producer_byte_rate": None})
        assert admin.describe_quotas(ALICE) == {ALICE: {"consumer_byte_rate": 6.0}}
        with pytest.raises(BrokerError, match="Invalid configuration key nope") as refused:
            admin.alter_quotas(ALICE, {"nope": 1})
        assert refused.value.code == ErrorCode.INVALID_REQUEST
