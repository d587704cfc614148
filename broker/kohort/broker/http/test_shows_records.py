"""Whether the live page shows records: what was altered while a broker ran shows none."""

from types import SimpleNamespace
from typing import cast

import pytest

from kohort.broker.config import BrokerConfig
from kohort.broker.http.broker_view import MESSAGES_ENABLE, BrokerView, shows_records

AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
CREDENTIALS = {"kohort.http.credentials.file": "/etc/kohort/http-credentials"}
ON, OFF = {MESSAGES_ENABLE: "true"}, {MESSAGES_ENABLE: "false"}


@pytest.mark.parametrize(
    ("said", "altered", "is_shown"),
    [
        ({}, {}, True),
        (ON, {}, True),
        (OFF, {}, False),
        (OFF, ON, False),  # Earlier versions let it be altered, and kept that.
        (ON, OFF, False),
        ({}, OFF, False),
        (AUTHORIZER, {}, False),
        (AUTHORIZER, ON, False),
        (AUTHORIZER | ON, {}, False),
        (AUTHORIZER | CREDENTIALS, {}, False),
        (AUTHORIZER | CREDENTIALS, ON, False),
        (AUTHORIZER | CREDENTIALS | ON, {}, True),
    ],
)
def test_who_decides(said: dict[str, str], altered: dict[str, str], *, is_shown: bool) -> None:
    assert shows_records(BrokerConfig.parsed(said).with_dynamic({}, dict(altered))) is is_shown


def test_access_control_entries_are_shown_to_nobody_who_may_not_see_records() -> None:
    view = SimpleNamespace(shows_messages=lambda: False, _metadata=None)
    assert not list(BrokerView.acl_bindings(cast(BrokerView, view)))
