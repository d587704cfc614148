"""Kohort's own client over TLS: it writes and reads, and says what is wrong."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from kohort.client import Admin, Consumer, Producer
from kohort.client.config import ClientOptions
from kohort.client.errors import ConfigurationError, KohortError, SslAuthenticationError
from tests.security.secured import Secured, secured

COUNT = 30
LARGE = b"\0\1\2\3" * 60_000


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker that takes nobody without a certificate."""
    with secured(tmp_path_factory.mktemp("secured"), "ssl.client.auth=required") as made:
        yield made


def options(here: Secured, client: Path | None) -> ClientOptions:
    found: ClientOptions = {
        "bootstrap_servers": here.bootstrap,
        "security_protocol": "SSL",
        "ssl_truststore_location": str(here.trusted),
        "default_api_timeout_ms": 3_000,
    }
    if client is not None:
        found["ssl_keystore_location"] = str(client)
    return found


def test_a_client_with_a_certificate_writes_and_reads(here: Secured) -> None:
    right = options(here, here.client("right"))
    topic = f"own-{uuid.uuid4().hex[:8]}"
    with Producer(**right) as producer:
        for number in range(COUNT):
            producer.send(topic, value=LARGE + b"%d" % number)
    found: list[bytes | None] = []
    with Consumer(**right, group_id="readers", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(topic)
        while len(found) < COUNT:
            records = consumer.poll(timeout_ms=10_000)
            assert records, "nothing came in ten seconds"
            found += [each.value for each in records]
    assert found == [LARGE + b"%d" % number for number in range(COUNT)]


@pytest.mark.parametrize("who", ["nobody", "stranger", "expired"])
def test_a_client_without_a_valid_certificate_is_told(here: Secured, who: str) -> None:
    client = None
    if who != "nobody":
        client = here.client(
            who, expired=who == "expired", authority=trustme.CA() if who == "stranger" else None
        )
    with pytest.raises(KohortError), Admin(**options(here, client)) as admin:
        admin.list_topics()


@pytest.mark.parametrize("call", ["admin", "producer", "consumer"])
def test_an_untrusted_broker_gets_no_request(here: Secured, tmp_path: Path, call: str) -> None:
    (tmp_path / "others.pem").write_bytes(trustme.CA().cert_pem.bytes())
    wrong = options(here, here.client("trusting"))
    wrong["ssl_truststore_location"] = str(tmp_path / "others.pem")
    wrong["default_api_timeout_ms"] = 3_600_000  # It is final: nobody tries again so long.
    with pytest.raises(SslAuthenticationError, match=r"^no TLS with .* its certificate is not trusted"):
        {"admin": with_admin, "producer": with_producer, "consumer": with_consumer}[call](wrong)


def with_admin(given: ClientOptions) -> None:
    with Admin(**given) as admin:
        admin.list_topics()


def with_producer(given: ClientOptions) -> None:
    with Producer(**given, max_block_ms=3_600_000) as producer:
        producer.send("t", b"")


def with_consumer(given: ClientOptions) -> None:
    with Consumer(**given) as consumer:
        consumer.partitions_for("t")


def test_mismatched_tls_and_plaintext_are_reported(here: Secured) -> None:
    plain: ClientOptions = {"bootstrap_servers": here.bootstrap, "default_api_timeout_ms": 3_000}
    with pytest.raises(KohortError, match="it speaks TLS: security_protocol='SSL'"), Admin(**plain) as admin:
        admin.list_topics()
    secure = options(here, None)
    secure["bootstrap_servers"] = here.plain
    with pytest.raises(KohortError, match="is its listener PLAINTEXT"), Admin(**secure) as admin:
        admin.list_topics()


@pytest.mark.parametrize(
    "wrong, right",
    [
        ({"security_protocol": "KERBEROS"}, "give 'PLAINTEXT' or 'SSL' or 'SASL_PLAINTEXT' or 'SASL_SSL'"),
        ({"security_protocol": "SASL_SSL"}, "sasl_mechanism is None: with security_protocol='SASL_SSL' give"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"},
            "PLAIN needs sasl_plain_username and sasl_plain_password",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"},
            "OAUTHBEARER needs a function that returns a token",
        ),
        ({"sasl_mechanism": "PLAIN"}, "then security_protocol has to be 'SASL_SSL'"),
        ({"sasl_username": "alice"}, "did you mean 'sasl_plain_username'"),
        ({"sasl_kerberos_service_name": "kafka"}, "this client's SASL has no such setting"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_jaas_config": "hush"},
            "sasl_jaas_config: it is not of the form",
        ),
        ({"ssl_cafile": "x"}, "did you mean 'ssl_truststore_location'"),
        ({"security_protocol": "SSL", "ssl_truststore_type": "JKS"}, "only PEM is read here"),
        ({"security_protocol": "SSL", "ssl_truststore_location": "/nowhere"}, "No such file"),
        ({"security_protocol": "SSL", "ssl_enabled_protocols": "SSLv3"}, "give TLSv1.2, TLSv1.3 or both"),
    ],
)
def test_wrong_settings_are_reported_when_the_client_is_created(wrong: dict[str, str], right: str) -> None:
    with pytest.raises(ConfigurationError, match=right), Admin(**wrong):  # type: ignore[arg-type]  # Wrong ones.
        pass
