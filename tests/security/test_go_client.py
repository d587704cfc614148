"""franz-go at listeners that want to know who comes: each mechanism, TLS, right and wrong, keys rotated."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.client import Admin
from tests.repetitions import NIGHTLY
from tests.security.go_client import NoGo, Refused, program, written_and_read
from tests.security.guarded import PASSWORD, PLAIN_USERS, PROTOCOLS, USER, Guarded, guarded
from tests.security.secured import Secured, secured

COUNT = 20
PATIENCE_S = 30.0
RECORDS = [b"%d" % number for number in range(COUNT)]
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """Build the program, or skip."""
    if NIGHTLY not in os.environ:
        pytest.skip(f"{NIGHTLY}=1 runs it: it builds a program in Go")
    try:
        program()
    except NoGo as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A broker that wants to know who comes."""
    settings = (f"sasl.enabled.mechanisms={','.join(MECHANISMS)}", f"sasl.jaas.config={PLAIN_USERS}")
    with guarded(tmp_path_factory.mktemp("guarded"), *settings) as made:
        with Admin(bootstrap_servers=made.plain) as admin:
            admin.set_user_password(USER, PASSWORD)
        yield made


def by_sasl(here: Guarded, protocol: str, mechanism: str, user: str, password: str) -> list[bytes]:
    options: dict[str, Any] = {"Mechanism": mechanism, "User": user, "Password": password}
    if protocol == "SASL_SSL":
        options["Trusted"] = str(here.trusted)
    return written_and_read(here.at(protocol), new_topic(), COUNT, **options)


def new_topic() -> str:
    return f"by-go-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_an_authenticated_client_writes_and_reads(here: Guarded, protocol: str, mechanism: str) -> None:
    assert by_sasl(here, protocol, mechanism, USER, PASSWORD) == RECORDS


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user, password", [(USER, "a guess"), ("eve", PASSWORD)])
def test_a_wrong_name_or_password_gets_nothing(
    here: Guarded, mechanism: str, user: str, password: str
) -> None:
    with pytest.raises(Refused, match=r"SASL_AUTHENTICATION_FAILED|invalid"):
        by_sasl(here, "SASL_PLAINTEXT", mechanism, user, password)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker that takes nobody without a certificate."""
    with secured(tmp_path_factory.mktemp("secured"), "ssl.client.auth=required") as made:
        yield made


def by_tls(here: Secured, client: Path) -> list[bytes]:
    return written_and_read(here.bootstrap, new_topic(), COUNT, Trusted=str(here.trusted), Client=str(client))


def test_valid_certificates_are_accepted_and_expired_ones_refused(sealed: Secured) -> None:
    assert by_tls(sealed, sealed.client("right")) == RECORDS
    with pytest.raises(Refused, match="expired certificate"):
        by_tls(sealed, sealed.client("expired", expired=True))


def test_a_broker_with_an_expired_certificate_is_refused_until_it_has_another(sealed: Secured) -> None:
    client = sealed.client("right")
    sealed.certify("old", expired=True)
    refusal = next(each for each in outcomes(sealed, client) if isinstance(each, Refused))
    assert "expired" in str(refusal)
    sealed.certify("new")
    assert next(each for each in outcomes(sealed, client) if isinstance(each, list)) == RECORDS


def outcomes(here: Secured, client: Path) -> Iterator[list[bytes] | Refused]:
    """Yield what becomes of one attempt after the other, while the broker has time to see a new file."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        try:
            yield by_tls(here, client)
        except Refused as refused:
            yield refused


def test_tokens_are_accepted_and_those_of_a_revoked_key_refused(tmp_path: Path) -> None:
    bearer = pytest.importorskip("tests.security.test_bearer_clients", reason="it needs joserfc")
    issuer = bearer.Issuer(tmp_path)
    with guarded(tmp_path, *bearer.settings(issuer.file.as_uri())) as here:

        def by_token(token: str) -> list[bytes]:
            at = here.at("SASL_PLAINTEXT")
            return written_and_read(at, new_topic(), COUNT, Mechanism="OAUTHBEARER", Token=token)

        old = issuer.token()
        assert by_token(old) == RECORDS
        with pytest.raises(Refused, match="SASL_AUTHENTICATION_FAILED"):
            by_token(issuer.token(lives_s=-600))
        issuer.key = issuer.new_key("second")
        issuer.publish(issuer.key)
        deadline_s = time.monotonic() + PATIENCE_S
        while (refused := refusal_of(by_token, old)) is None:
            assert time.monotonic() < deadline_s, "the old key is still good"
        assert "SASL_AUTHENTICATION_FAILED" in str(refused)
        assert by_token(issuer.token()) == RECORDS


def refusal_of(attempt: Callable[[str], list[bytes]], token: str) -> Refused | None:
    """Return why an attempt fails, None where it does not."""
    try:
        attempt(token)
    except Refused as refused:
        return refused
    return None
