"""Java's producer and consumer, unmodified: each mechanism, right and wrong, expired and changed keys."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # Their home says otherwise.
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.interop.kafka_tools import MissingTool
from tests.interop.waiting import wait_until
from tests.security.guarded import PASSWORD, PLAIN_USERS, PROTOCOLS, USER, Guarded, guarded
from tests.security.java_client import VALUES, JavaClient, Refused, java_client
from tests.security.secured import Secured, secured

pytest.importorskip("joserfc")

from tests.security.test_bearer_clients import (
    BEARER,
    Issuer,
    settings,
)  # Behind the look whether it is there.

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MODULES = "org.apache.kafka.common.security"
PATIENCE_S = 20.0


@pytest.fixture(scope="module")
def java() -> Iterator[JavaClient]:
    """One JVM for all."""
    try:
        with java_client() as made:
            yield made
    except MissingTool as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    """Who signs tokens."""
    return Issuer(tmp_path_factory.mktemp("issuer"))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[Guarded]:
    """A broker that wants to know who comes, by whichever mechanism."""
    name, *bearer = settings(issuer.file.as_uri())
    given = (f"{name},{','.join(MECHANISMS)}", f"sasl.jaas.config={PLAIN_USERS}")
    with guarded(tmp_path_factory.mktemp("guarded"), *given, *bearer) as made:
        admin = AdminClient({"bootstrap.servers": made.plain})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            upsertion = UserScramCredentialUpsertion(
                USER, ScramCredentialInfo(mechanism, 4_096), PASSWORD.encode()
            )
            for done in admin.alter_user_scram_credentials([upsertion]).values():
                done.result(PATIENCE_S)
        yield made


def by_password(
    here: Guarded, protocol: str, mechanism: str, user: str = USER, password: str = PASSWORD
) -> dict[str, object]:
    """Return the settings of a client with a name and a password."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return {
        "bootstrap.servers": here.at(protocol),
        "security.protocol": protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": here.trusted,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{MODULES}.{module} required username="{user}" password="{password}";',
    }


def by_token(here: Guarded, token: str) -> dict[str, object]:
    """Return the settings of a client that shows a token."""
    return {
        "bootstrap.servers": here.at("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": BEARER,
        "sasl.login.callback.handler.class": "GuardedClient$Login",
        "sasl.jaas.config": f'{MODULES}.oauthbearer.OAuthBearerLoginModule required token="{token}";',
    }


def new_topic() -> str:
    return f"java-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_an_authenticated_client_writes_and_reads(
    java: JavaClient, here: Guarded, protocol: str, mechanism: str
) -> None:
    assert java.written_and_read(new_topic(), by_password(here, protocol, mechanism)) == VALUES


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [(USER, "a guess"), ("eve", PASSWORD)])
def test_a_wrong_name_or_password_gets_nothing(
    java: JavaClient, here: Guarded, mechanism: str, user: str, password: str
) -> None:
    topic = new_topic()
    with pytest.raises(Refused, match="SaslAuthenticationException"):
        java.written_and_read(topic, by_password(here, "SASL_SSL", mechanism, user, password))
    assert topic not in AdminClient({"bootstrap.servers": here.plain}).list_topics(timeout=5).topics


def test_a_token_is_checked_by_issuer_expiry_and_key(java: JavaClient, here: Guarded, issuer: Issuer) -> None:
    assert java.written_and_read(new_topic(), by_token(here, issuer.token())) == VALUES
    for wrong in (
        issuer.token(iss="https://another"),
        issuer.token(key=issuer.new_key("first")),
        issuer.token(lives_s=-60),
    ):
        with pytest.raises(Refused, match="SaslAuthenticationException"):
            java.written_and_read(new_topic(), by_token(here, wrong))


def test_keys_that_sign_tokens_are_changed(java: JavaClient, tmp_path: Path) -> None:
    issuer = Issuer(tmp_path)
    with guarded(tmp_path, *settings(issuer.file.as_uri())) as here:
        assert java.written_and_read(new_topic(), by_token(here, issuer.token())) == VALUES
        second = issuer.new_key("second")
        issuer.publish(second)
        token = issuer.token(key=second)

        def is_taken() -> bool:
            try:
                return java.written_and_read(new_topic(), by_token(here, token)) == VALUES
            except Refused:
                return False

        wait_until(is_taken, "the new key counts")
        with pytest.raises(Refused, match="SaslAuthenticationException"):
            java.written_and_read(new_topic(), by_token(here, issuer.token()))


def by_certificate(here: Secured, client: Path | None) -> dict[str, object]:
    """Return the settings of a client that shows a certificate, or none."""
    given: dict[str, object] = {
        "bootstrap.servers": here.bootstrap,
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": here.trusted,
    }
    return given if client is None else {**given, "ssl.keystore.type": "PEM", "ssl.keystore.location": client}


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker that takes nobody without a certificate."""
    with secured(tmp_path_factory.mktemp("strict"), "ssl.client.auth=required") as made:
        yield made


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_client_with_its_certificate_writes_and_reads(
    java: JavaClient, strict: Secured, version: str
) -> None:
    given = by_certificate(strict, strict.client("right"))
    assert java.written_and_read(new_topic(), {**given, "ssl.enabled.protocols": version}) == VALUES


@pytest.mark.parametrize("who", ["nobody", "stranger", "expired"])
def test_a_client_without_a_valid_certificate_gets_nothing(
    java: JavaClient, strict: Secured, who: str
) -> None:
    client = {  # type: ignore[no-untyped-call]  # trustme's constructor has no types.
        "nobody": lambda: None,
        "stranger": lambda: strict.client("stranger", authority=trustme.CA()),
        "expired": lambda: strict.client("expired", expired=True),
    }[who]()
    with pytest.raises(Refused):
        java.written_and_read(new_topic(), by_certificate(strict, client))
    words = {"nobody": "shown no certificate", "stranger": "is refused: ", "expired": "has expired"}[who]
    assert any("a TLS handshake failed" in line and words in line for line in strict.broker.log_lines())


def test_a_brokers_certificate_is_renewed_and_an_expired_one_is_refused(
    java: JavaClient, tmp_path: Path
) -> None:
    with secured(tmp_path) as here:
        for name in ("first", "second"):
            if name != here.shown():
                here.certify(name)
                wait_until(lambda name=name: here.shown() == name, "the certificate is shown")  # type: ignore[misc]
            assert java.written_and_read(new_topic(), by_certificate(here, None)) == VALUES
        before = here.reloads()
        here.certify("third", expired=True)
        wait_until(lambda: here.reloads() > before, "the certificate is there")
        with pytest.raises(Refused, match="SslAuthenticationException"):
            java.written_and_read(new_topic(), by_certificate(here, None))
