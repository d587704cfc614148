"""SCRAM at the broker: who is taken, and what those hear who are not."""

import pytest

from kohort.broker.config import BrokerConfig
from kohort.broker.transport.sasl.conversation import Mechanism, Refused
from kohort.broker.transport.sasl.mechanisms import UserStore, mechanisms_of
from kohort.broker.transport.sasl.scram import Scram
from kohort.broker.transport.secure_listeners import SASL_PLAINTEXT
from kohort.protocol.scram import (
    MECHANISMS,
    ScramClient,
    ScramCredential,
    ScramError,
    credential_of,
    salted_password,
)

SHA_512 = MECHANISMS["SCRAM-SHA-512"]
SECRET = b"the broker's own"
KEPT = credential_of(SHA_512, salted_password(SHA_512, "secret", b"salt", 4096), b"salt", 4096)


def lookup(user: str) -> ScramCredential | None:
    return KEPT if user == "alice" else None


def conversation() -> Scram:
    return Scram(SHA_512, lookup, "broker", SECRET)


def test_a_correct_password_proves_the_user() -> None:
    client, broker = ScramClient(SHA_512, "alice", "secret", "client"), conversation()
    first = broker.take(client.first)
    assert first.user == ""
    last = broker.take(client.final(first.answer))
    assert last.user == "alice"
    client.check(last.answer)


@pytest.mark.parametrize("user, reason", [("alice", "a wrong proof of alice"), ("eve", "a wrong proof")])
def test_a_wrong_password_and_an_unknown_user_get_the_same_answer(user: str, reason: str) -> None:
    client, broker = ScramClient(SHA_512, user, "guess", "client"), conversation()
    with pytest.raises(Refused) as refused:
        broker.take(client.final(broker.take(client.first).answer))
    assert str(refused.value) == reason
    assert refused.value.told.endswith("invalid credentials with SASL mechanism SCRAM-SHA-512")


def test_a_user_that_there_is_not_has_the_same_salt_each_time() -> None:
    client = ScramClient(SHA_512, "eve", "guess", "client")
    assert conversation().take(client.first) == conversation().take(client.first)
    other = ScramClient(SHA_512, "mallory", "guess", "client")
    assert conversation().take(client.first).answer != conversation().take(other.first).answer


@pytest.mark.parametrize(
    "token, reason",
    [
        (b"", "first SCRAM message"),
        (b"\xff", "not UTF-8"),
        (b"n,,n=alice,r=x,tokenauth=true", "delegation token"),
        (b"n,a=bob,n=alice,r=x", "act for another"),
    ],
)
def test_an_invalid_first_message_is_refused(token: bytes, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        conversation().take(token)


def no_tokens() -> Mechanism:
    raise AssertionError


class Place:
    protocol = SASL_PLAINTEXT
    name = ""


def test_users_in_the_metadata_override_those_in_the_settings() -> None:
    config = BrokerConfig.parsed(
        {
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "kohort.listener.settings": "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config="
            'ScramLoginModule required user_alice="of the settings" user_root="first";',
        }
    )
    users = UserStore(lambda user, _: lookup(user))
    begin = mechanisms_of(Place(), config, users, no_tokens)["SCRAM-SHA-512"]
    for user, password, right in (
        ("alice", "secret", True),
        ("alice", "of the settings", False),
        ("root", "first", True),
    ):
        client, broker = ScramClient(SHA_512, user, password, "client"), begin()
        final = client.final(broker.take(client.first).answer)
        if right:
            assert broker.take(final).user == user
        else:
            with pytest.raises(Refused):
                broker.take(final)
    assert begin().take(client.first).answer != begin().take(client.first).answer, "nonces are new"
    with pytest.raises(ScramError):
        client.check(b"v=")


def told_iterations(user: str, counts: dict[int, int], secret: bytes = SECRET) -> int:
    broker = Scram(SHA_512, lookup, "broker", secret, counts)
    first = broker.take(ScramClient(SHA_512, user, "guess", "client").first).answer
    return int(first.rpartition(b"i=")[2])


def test_an_unknown_user_has_as_many_iterations_as_known_ones() -> None:
    strangers = [f"stranger {number}" for number in range(400)]
    assert {told_iterations(each, {}) for each in strangers} == {4_096}
    assert {told_iterations(each, {15_000: 3}) for each in strangers} == {15_000}
    before = [told_iterations(each, {4_096: 30, 15_000: 10}) for each in strangers]
    assert 60 < before.count(15_000) < 140
    after = [told_iterations(each, {4_096: 31, 15_000: 10}) for each in strangers]
    assert sum(one != other for one, other in zip(before, after, strict=True)) < 20


def test_iterations_of_users_in_the_settings_count_too() -> None:
    config = BrokerConfig.parsed(
        {
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "kohort.listener.settings": "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config="
            'ScramLoginModule required user_root="first";',
        }
    )
    users = UserStore(lambda user, _: None, lambda mechanism: {8_192: 1})
    begin = mechanisms_of(Place(), config, users, no_tokens)["SCRAM-SHA-512"]
    told = set()
    for number in range(50):
        first = begin().take(ScramClient(SHA_512, f"stranger {number}", "guess", "client").first).answer
        told.add(int(first.rpartition(b"i=")[2]))
    assert told == {4_096, 8_192}
