"""What one may not do is not done in another way either."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import msgspec
import pytest

from kohort.client import Admin, QuotaEntity
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.fetch import FetchRequest, FetchResponse, ReplicaState
from kohort.protocol.records import build_batch
from tests.attacks.altering import BROKER_RESOURCE, alter
from tests.attacks.producing import create, fetching, now_ms, produce
from tests.attacks.trial import SETTINGS
from tests.attacks.wire import Line
from tests.interop.broker_process import BrokerProcess

MESSAGES = "kohort.http.messages.enable"
AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SECRET = b"nobody else may read this"


def shown(broker: BrokerProcess, topic: str) -> int:
    """Return with which status the page answers who wants to see records."""
    try:
        with urlopen(f"http://{broker.http}/api/v1/live/messages/{topic}?partition=0", timeout=60) as answer:
            assert json.loads(answer.read())
            return int(answer.status)
    except HTTPError as error:
        return error.code


@pytest.fixture
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[BrokerProcess]:
    """A broker with these settings."""
    made = BrokerProcess(tmp_path, *SETTINGS, *request.param)
    made.start()
    yield made
    made.kill()


@pytest.mark.parametrize(
    ("broker", "status"),
    [
        (["kohort.http.messages.enable=false"], 403),
        ([AUTHORIZER, "super.users=User:ANONYMOUS"], 403),
        ([AUTHORIZER, "super.users=User:ANONYMOUS", f"{MESSAGES}=true"], 403),
        ([], 200),
    ],
    indirect=["broker"],
    ids=["hidden", "authorizer", "authorizer, said", "open"],
)
def test_permission_to_alter_settings_does_not_reveal_records(broker: BrokerProcess, status: int) -> None:
    """Access control lists know nothing of the page, so it shows records where an operator wants it to."""
    line = Line(broker.address)
    create(line, "secrets")
    assert produce(line, "secrets", build_batch([(now_ms(), None, SECRET, ())])) == ErrorCode.NONE
    for resource in ("1", ""):
        code = alter(line, BROKER_RESOURCE, resource, kohort_http_messages_enable="true")
        assert code == ErrorCode.INVALID_REQUEST
    assert shown(broker, "secrets") == status
    line.close()


@pytest.mark.parametrize("broker", [[]], indirect=True, ids=[""])
@pytest.mark.parametrize("version", [11, 12, 15])
def test_a_client_that_claims_to_be_a_broker_has_quotas(broker: BrokerProcess, version: int) -> None:
    line = Line(broker.address)
    create(line, "t")
    for _ in range(8):
        assert produce(line, "t", build_batch([(now_ms(), None, b"x" * 100_000, ())])) == ErrorCode.NONE
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_quotas(QuotaEntity(user="ANONYMOUS"), {"consumer_byte_rate": 10_000.0})
    asked = fetching("t")
    throttled = []
    for _ in range(2):
        line = Line(broker.address)
        answer = line.ask(as_of_replica(asked, version, broker, line), FetchResponse, version)
        throttled.append(answer.throttle_time_ms)
    assert any(throttled)


def as_of_replica(asked: FetchRequest, version: int, broker: BrokerProcess, line: Line) -> FetchRequest:
    """Return the request as it would be of a broker with the id 7."""

    if version < 15:
        return msgspec.structs.replace(asked, replica_id=7)
    [topic] = asked.topics
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        topic_id = admin.describe_topics(topic.topic)[topic.topic].topic_id
    return msgspec.structs.replace(
        asked,
        replica_state=ReplicaState(replica_id=7),
        topics=(msgspec.structs.replace(topic, topic_id=topic_id),),
    )
