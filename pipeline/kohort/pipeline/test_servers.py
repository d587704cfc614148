"""A cluster's address with its settings: what options say of it, and what of it anybody sees."""

import pytest

from kohort.pipeline.errors import OptionError
from kohort.pipeline.options import read_options, write_options
from kohort.pipeline.servers import Servers, as_servers

SECURE = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "alice's secret",
}


def test_an_address_without_settings_is_a_server() -> None:
    assert as_servers("here:9092") == Servers("here:9092")
    assert as_servers("here:9092").options() == {"bootstrap": "here:9092"}


def test_options_bring_settings_of_the_client_along() -> None:
    servers = Servers("here:9092", {**SECURE, "retry_backoff_ms": 7})
    for found in (
        read_options({**servers.options(), "topics": "t"}).servers,
        write_options({**servers.options(), "topic": "t"}).servers,
    ):
        assert found == servers
        config = found.config(client_id="other", retry_backoff_ms=100)
        assert (config.client_id, config.retry_backoff_ms) == ("other", 7)
        assert (config.bootstrap_servers, config.sasl_mechanism) == ("here:9092", "SCRAM-SHA-512")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"security_protocol": "TLS"}, "security_protocol is 'TLS': give 'PLAINTEXT' or"),
        ({"retry_backoff_ms": "soon"}, "retry_backoff_ms"),
        ({"security_protokol": "SSL"}, "unknown option 'security_protokol'; did you mean 'security"),
        ({"sasl_oauth_token_provider": "x"}, "unknown option 'sasl_oauth_token_provider'"),
        ({"bootstrap": "here:port"}, "bootstrap: "),
    ],
)
def test_a_wrong_setting_is_reported_when_a_query_is_planned(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read_options({"bootstrap": "here:9092", "topics": "t"} | given)


def test_passwords_are_not_printed() -> None:
    options = read_options({"bootstrap": "here:9092", "topics": "t"} | SECURE)
    assert "secret" not in repr(options) + str(options) + repr(options.servers)
