"""SCRAM by the example of RFC 7677, and by our two sides against each other."""

import random
import re
from base64 import b64decode

import pytest

from kohort.protocol.scram import (
    MECHANISMS,
    ScramClient,
    ScramCredential,
    ScramError,
    ScramServer,
    client_first,
    credential_of,
    salt_of,
    salted_password,
)

SHA_256 = MECHANISMS["SCRAM-SHA-256"]
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
NONCE = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FINAL = b"c=biws,r=" + NONCE + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def credential(mechanism: str, password: str, salt: bytes = b"some salt") -> ScramCredential:
    found = MECHANISMS[mechanism]
    return credential_of(found, salted_password(found, password, salt, 4096), salt, 4096)


def test_both_sides_send_the_messages_of_the_rfc() -> None:
    known = credential("SCRAM-SHA-256", "pencil", b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    server = ScramServer(SHA_256, client_first(FIRST), known, SERVER_NONCE)
    client = ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert client.first == FIRST
    assert server.first == SERVER_FIRST
    assert client.final(SERVER_FIRST) == FINAL
    assert server.final(FINAL) == SERVER_FINAL
    client.check(SERVER_FINAL)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", ["alice", "a=b,c", "Käse"])
def test_names_and_passwords_can_have_any_characters(mechanism: str, name: str) -> None:
    found = MECHANISMS[mechanism]
    for password in ("secret", "geheim ß", "=,="):
        client = ScramClient(found, name, password, "clients")
        first = client_first(client.first)
        assert first.name == name
        right = ScramServer(found, first, credential(mechanism, password), "brokers")
        client.check(right.final(client.final(right.first)))
        wrong = ScramServer(found, first, credential(mechanism, "another"), "brokers")
        with pytest.raises(ScramError, match="a wrong proof"):
            wrong.final(client.final(wrong.first))


def test_a_broker_without_the_password_is_detected() -> None:
    client = ScramClient(SHA_256, "user", "pencil", "nonce")
    with pytest.raises(ScramError):
        client.check(b"v=AAAA")
    server = ScramServer(SHA_256, client_first(client.first), credential("SCRAM-SHA-256", "pen"), "x")
    client.final(server.first)
    for message in (b"v=AAAA", b"v=", b"e=other-error", b"v=\xff", b""):
        with pytest.raises(ScramError):
            client.check(message)


@pytest.mark.parametrize(
    "message",
    [
        b"r=nonce,s=AAAA,i=4096",
        b"r=other,s=AAAA,i=4096",
        b"r=nonce1,s=AAAA,i=4095",
        b"r=nonce1,s=A,i=4096",
        b"r=nonce1,s=AAAA",
        b"",
    ],
)
def test_a_client_refuses_an_invalid_first_message(message: bytes) -> None:
    with pytest.raises(ScramError):
        ScramClient(SHA_256, "user", "pencil", "nonce").final(message)


def test_tokens_and_other_names_are_seen() -> None:
    first = client_first(b"n,a=bob,n=alice,r=x,tokenauth=true")
    assert (first.name, first.authorization_id, first.has_token) == ("alice", "bob", True)
    assert client_first(b"y,,n=alice,r=x").header == "y,,"


@pytest.mark.parametrize(
    "message",
    [b"", b"p=tls-unique,,n=a,r=x", b"n,,n=,r=x", b"n,,n=a", b"n,,n=a,r=", b"n,,n=a=b,r=x", b"\xff"],
)
def test_a_broker_refuses_an_invalid_first_message(message: bytes) -> None:
    with pytest.raises(ScramError):
        client_first(message)


def test_damaged_messages_are_refused_without_other_errors() -> None:
    chance, taken = random.Random(19), 0
    known = credential("SCRAM-SHA-256", "pencil", b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    for _ in range(3_000):
        ruined = bytearray(FINAL if chance.random() < 0.5 else FIRST)
        for _ in range(chance.randrange(1, 4)):
            ruined[chance.randrange(len(ruined))] = chance.randrange(256)
        try:
            client_first(bytes(ruined))
            taken += 1
        except ScramError:
            pass
        server = ScramServer(SHA_256, client_first(FIRST), known, SERVER_NONCE)
        if bytes(ruined) != FINAL:
            with pytest.raises(ScramError):
                server.final(bytes(ruined))
    assert taken


def test_a_salt_has_the_form_of_kafkas() -> None:
    chance = random.Random(7)
    salts = [salt_of(chance.randbytes(32)) for _ in range(1_000)]
    assert all(re.fullmatch(rb"[1-9a-z][0-9a-z]{19,25}", each) for each in salts)
    assert {len(each) for each in salts} >= {25, 26}
    assert len(set(salts)) == len(salts)
    assert int(salt_of(b"\xff" * 32), 36) == 2**130 - 1
