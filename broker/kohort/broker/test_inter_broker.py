"""By which of its listeners a broker is reached by others."""

import pytest

from kohort.broker.cluster.secure_dialing import SecureDial
from kohort.broker.composition.listeners import inter_broker_listener
from kohort.broker.config import BrokerConfig, ConfigError
from kohort.broker.transport.addresses import Address

PLACES = (
    Address("h", 1, "SSL", "OUTSIDE"),
    Address("h", 2),
    Address("h", 3, "SASL_SSL", "INSIDE"),
    Address("h", 4, "SSL"),
)


@pytest.mark.parametrize(
    "settings, number",
    [
        ({}, 1),
        ({"security.inter.broker.protocol": "SSL"}, 0),
        ({"security.inter.broker.protocol": "SASL_SSL"}, 2),
        ({"inter.broker.listener.name": "inside"}, 2),
        ({"inter.broker.listener.name": "SSL"}, 3),
        ({"inter.broker.listener.name": "OUTSIDE", "security.inter.broker.protocol": "SASL_SSL"}, 0),
    ],
)
def test_settings_select_the_inter_broker_listener(settings: dict[str, str | None], number: int) -> None:
    assert inter_broker_listener(PLACES, BrokerConfig.parsed(settings)) == number


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"inter.broker.listener.name": "other"}, "give one of OUTSIDE, PLAINTEXT, INSIDE, SSL"),
        ({"security.inter.broker.protocol": "SASL_PLAINTEXT"}, "brokers speak SASL_PLAINTEXT to each other"),
    ],
)
def test_a_missing_listener_is_reported(settings: dict[str, str | None], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        inter_broker_listener(PLACES, BrokerConfig.parsed(settings))


@pytest.mark.parametrize(
    "settings, words",
    [
        ({}, "sasl.mechanism.inter.broker.protocol=: give one of PLAIN, SCRAM-SHA-256"),
        ({"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "GSSAPI: give one of"),
        (
            {"sasl.mechanism.inter.broker.protocol": "PLAIN"},
            "listener.name.inside.plain.sasl.jaas.config: it is not of the form",
        ),
        (
            {
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.jaas.config": 'PlainLoginModule required user_a="secret";',
            },
            "sasl.jaas.config: inter-broker authentication needs username and password",
        ),
    ],
)
def test_brokers_need_a_name_of_their_own(settings: dict[str, str | None], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        SecureDial(BrokerConfig.parsed(settings), 1, protocol="SASL_PLAINTEXT", listener="INSIDE")
    assert "secret" not in str(refused.value)


def test_tls_between_brokers_needs_trusted_certificates() -> None:
    with pytest.raises(ConfigError, match="needs trusted certificates"):
        SecureDial(BrokerConfig(), 1, protocol="SSL", listener="SSL")
