"""Tokens: who is taken by one, and who is not; keys that come and go."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio

from kohort.broker.config import BrokerConfig, ConfigError
from kohort.broker.runtime.workers import TrioWorkers
from kohort.broker.transport.sasl.conversation import Refused, Step

joserfc = pytest.importorskip("joserfc")

from joserfc import jwt  # noqa: E402  # Behind the look whether it is there.
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey  # noqa: E402

from kohort.broker.transport.sasl.bearer import Bearer, Keys, rules_of  # noqa: E402
from kohort.broker.transport.sasl.keys import KeySource, check, read_keys  # noqa: E402
from tests.costs import times_as_costly  # noqa: E402

NOW_S = 1_800_000_000
KEY = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})
OTHER = RSAKey.generate_key(2048, {"kid": "other", "use": "sig"})
CURVE = ECKey.generate_key("P-256", {"kid": "curve"})
GOOD = {"sub": "alice", "iss": "https://issuer", "aud": ["kafka", "x"], "exp": NOW_S + 300, "iat": NOW_S}


def config(**more: object) -> BrokerConfig:
    settings: dict[str, object] = {
        "sasl_oauthbearer_expected_issuer": "https://issuer",
        "sasl_oauthbearer_expected_audience": ("kafka",),
        **more,
    }
    return BrokerConfig(**settings)  # type: ignore[arg-type]


def published(*keys: RSAKey | ECKey) -> str:
    return json.dumps(KeySet(list(keys)).as_dict(private=False))


def signed(
    claims: Mapping[str, object], key: object = KEY, algorithm: str = "RS256", kid: str = "first"
) -> bytes:
    token = jwt.encode({"alg": algorithm, "kid": kid}, dict(claims), key, algorithms=[algorithm])  # type: ignore[arg-type]
    return f"n,,\1auth=Bearer {token}\1\1".encode()


def take(message: bytes, **more: object) -> Step:
    keys = Keys()
    keys.found = KeySet([KEY, CURVE])
    return Bearer(keys, rules_of(config(**more)), lambda: NOW_S * 1000).take(message)


def test_a_message_with_many_pairs_is_cheap() -> None:
    """It comes before anybody knows from whom, and may have 64 KiB."""

    def refuse(pairs: int) -> None:
        for end in (b"", b"\1", b"\1\1", b"?\1\1"):
            with pytest.raises(Refused):
                take(b"n,,\1" + b"\1".join([b"auth=Bearer x"] * pairs) + end)

    # Ten times as many cost ten times as much, and not a hundred times.
    assert times_as_costly(lambda: refuse(4_300), lambda: refuse(430)) < 30


def test_pairs_beside_the_token_are_ignored() -> None:
    token = signed(GOOD).removeprefix(b"n,,\1")
    for message in (b"n,,\1host=x\1port=\1" + token, b"N,a=alice,\1" + token[:-1] + b"traceparent=00\1\1"):
        assert take(message).user == "alice"
    for message in (
        b"n,\1" + token,
        b"n,,\1host\1" + token,
        b"n,,\1\1" + token,
        b"n,,\1" + token + b"\1",
        token,
    ):
        with pytest.raises(Refused):
            take(message)


def test_a_token_names_the_user_and_its_expiry() -> None:
    assert take(signed(GOOD)) == Step(b"", "alice", (NOW_S + 330) * 1000)
    assert take(signed({**GOOD, "aud": "kafka"}, CURVE, "ES256", "curve")).user == "alice"
    assert take(signed({**GOOD, "name": "bob"}), sasl_oauthbearer_sub_claim_name="name").user == "bob"
    assert take(signed({**GOOD, "exp": NOW_S - 29})).expires_ms == (NOW_S + 1) * 1000, "clocks may differ"


def test_extensions_and_an_authorization_id_are_accepted() -> None:
    token = signed(GOOD).split(b"Bearer ")[1].rstrip(b"\1")
    for message in (
        b"n,a=alice,\1auth=Bearer " + token + b"\1\1",
        b"n,,\1traceId=x y\1auth=bearer " + token + b"\1other=z\1\1",
    ):
        assert take(message).user == "alice"


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"sub": None}, "without the claim sub"),
        ({"sub": ""}, "without the claim sub"),
        ({"sub": 5}, "without the claim sub"),
        ({"exp": None}, "without an expiry"),
        ({"exp": "soon"}, "without an expiry"),
        ({"exp": 1e300}, "without an expiry"),
        ({"exp": True}, "without an expiry"),
        ({"exp": NOW_S - 30}, "has expired"),
        ({"nbf": NOW_S + 31}, "not valid yet"),
        ({"nbf": "x"}, "not valid yet"),
        ({"iss": "https://another"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": "other"}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"aud": [["kafka"]]}, "another audience"),
    ],
)
def test_a_claim_that_is_wrong_is_the_end(change: Mapping[str, object], reason: str) -> None:
    claims = {name: value for name, value in {**GOOD, **change}.items() if value is not None}
    with pytest.raises(Refused, match=reason) as refused:
        take(signed(claims))
    assert refused.value.told == '{"status":"invalid_token"}'


def test_a_signature_needs_a_published_key() -> None:
    for message in (
        signed(GOOD, OTHER),
        signed(GOOD, OTHER, kid="other"),
        signed(GOOD, OctKey.import_key("guessable secret of 32 characters"), "HS256"),
        b"n,,\1auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9.\1\1",
    ):
        with pytest.raises(Refused):
            take(message)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\1",
        b"n,,\1\1",
        b"n,,\1auth=Basic x\1\1",
        b"n,a=bob,\1auth=Bearer a.b.c\1\1",
        b"y,,\1auth=Bearer x\1\1",
        b"\xff",
    ],
)
def test_an_invalid_message_is_refused(message: bytes) -> None:
    with pytest.raises(Refused):
        take(message)


def test_acting_for_another_user_is_refused() -> None:
    with pytest.raises(Refused, match="act for another"):
        take(signed(GOOD).replace(b"n,,", b"n,a=bob,"))


def test_settings_name_the_issuer_and_the_audience(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"needs sasl.oauthbearer.expected.issuer"):
        rules_of(BrokerConfig())
    with pytest.raises(ConfigError, match=r"needs sasl.oauthbearer.expected.audience"):
        rules_of(BrokerConfig(sasl_oauthbearer_expected_issuer="x"))
    assert (
        rules_of(
            BrokerConfig(
                sasl_oauthbearer_allow_unverified_issuer=True, sasl_oauthbearer_allow_unverified_audience=True
            )
        ).issuer
        is None
    )
    with pytest.raises(ConfigError, match="give the https"):
        check(config())
    file = tmp_path / "keys.json"
    for text, words in (
        ("", "no JSON Web Key Set"),
        ("{}", "no JSON Web Key Set"),
        ('{"keys":[]}', "no public key"),
        ('{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}', "no public key"),
        ('{"keys":[{"kty":"RSA"}]}', "no JSON Web Key Set"),
        ('{"keys":[5]}', "no JSON Web Key Set"),
        ("[" * 2_000_000, "more than"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=words):
            check(config(sasl_oauthbearer_jwks_endpoint_url=file.as_uri()))
    with pytest.raises(ConfigError, match="No such file"):
        read_keys((tmp_path / "nowhere").as_uri())


async def test_new_keys_are_read_and_ruined_ones_change_nothing(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(published(KEY))
    async with trio.open_nursery() as nursery:
        source = KeySource(config(sasl_oauthbearer_jwks_endpoint_url=file.as_uri()), TrioWorkers(nursery))
        bearer = Bearer(source.keys, rules_of(config()), lambda: NOW_S * 1000)
        assert bearer.take(signed(GOOD)).user == "alice"
        with pytest.raises(Refused, match="by a key that is not known"):
            bearer.take(signed(GOOD, OTHER, kid="other"))
        assert source._wanted.is_set()
        file.write_text(published(OTHER))
        assert await source.reload()
        assert bearer.take(signed(GOOD, OTHER, kid="other")).user == "alice"
        with pytest.raises(Refused):
            bearer.take(signed(GOOD))
        file.write_text("half a")
        assert not await source.reload()
        assert bearer.take(signed(GOOD, OTHER, kid="other")).user == "alice"
