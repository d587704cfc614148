"""Clients that show a token: other people's, Java's and our own; keys from a file and by HTTP, changed."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import KafkaException, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider as PythonTokenProvider

from kohort.client import Admin, AuthenticationError
from kohort.client import Producer as OwnProducer
from kohort.client.config import ClientOptions
from tests.interop.conftest import running_tools
from tests.security.guarded import Guarded, guarded

pytest.importorskip("joserfc")

from joserfc import jwt  # Behind the look whether it is there.
from joserfc.jwk import KeySet, RSAKey

ISSUER, AUDIENCE, USER = "https://issuer.example.org", "kafka", "alice"
COUNT = 10
PATIENCE_S = 20.0
AT = "SASL_PLAINTEXT"
BEARER = "OAUTHBEARER"


class Issuer:
    """Signs tokens, and says in a file by which key."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "keys.json"
        self.key = self.new_key("first")
        self.publish(self.key)

    @staticmethod
    def new_key(name: str) -> RSAKey:
        return RSAKey.generate_key(2048, {"kid": name, "use": "sig"})

    def publish(self, *keys: RSAKey) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(KeySet(list(keys)).as_dict(private=False)))
        new.replace(self.file)

    def token(self, *, lives_s: float = 300, key: RSAKey | None = None, **claims: object) -> str:
        signer, now_s = key or self.key, int(time.time())
        said = {"sub": USER, "iss": ISSUER, "aud": AUDIENCE, "iat": now_s, "exp": now_s + lives_s, **claims}
        return jwt.encode({"alg": "RS256", "kid": signer.kid}, said, signer)


def settings(url: str, *more: str) -> tuple[str, ...]:
    return (
        f"sasl.enabled.mechanisms={BEARER}",
        f"sasl.oauthbearer.jwks.endpoint.url={url}",
        f"sasl.oauthbearer.expected.issuer={ISSUER}",
        f"sasl.oauthbearer.expected.audience={AUDIENCE}",
        *more,
    )


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    """Who signs."""
    return Issuer(tmp_path_factory.mktemp("issuer"))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[Guarded]:
    """A broker that takes tokens."""
    with guarded(tmp_path_factory.mktemp("guarded"), *settings(issuer.file.as_uri())) as made:
        yield made


def by_confluent(bootstrap: str, token: str, topic: str) -> None:
    heard: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": AT,
            "sasl.mechanism": BEARER,
            "oauth_cb": lambda _: (token, time.time() + 300),
            "error_cb": lambda error: heard.append(str(error)),
            "log_level": 0,
        }
    )
    deadline_s = time.monotonic() + PATIENCE_S
    for number in range(COUNT):
        producer.produce(topic, b"%d" % number)
    while producer.flush(0.1):
        if any("_AUTHENTICATION" in each for each in heard) or time.monotonic() > deadline_s:
            producer.purge()
            raise KafkaException("; ".join(heard))


class _Python(PythonTokenProvider):  # type: ignore[misc]  # kafka-python has no types.
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token


def by_kafka_python(bootstrap: str, token: str, topic: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        security_protocol=AT,
        sasl_mechanism=BEARER,
        sasl_oauth_token_provider=_Python(token),
        bootstrap_timeout_ms=5_000,
        max_block_ms=5_000,
    )
    for number in range(COUNT):
        producer.send(topic, b"%d" % number).get(PATIENCE_S)
    producer.close()


class _Aio(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types.
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def by_aiokafka(bootstrap: str, token: str, topic: str) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            security_protocol=AT,
            sasl_mechanism=BEARER,
            sasl_oauth_token_provider=_Aio(token),
        )
        try:
            await producer.start()
            for number in range(COUNT):
                await producer.send_and_wait(topic, b"%d" % number)
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


def own_options(bootstrap: str, provider: Callable[[], Any]) -> ClientOptions:
    return {
        "bootstrap_servers": bootstrap,
        "security_protocol": AT,
        "sasl_mechanism": BEARER,
        "sasl_oauth_token_provider": provider,
        "default_api_timeout_ms": 5_000,
    }


def by_ours(bootstrap: str, token: str, topic: str) -> None:
    with OwnProducer(**own_options(bootstrap, lambda: token)) as producer:
        for number in range(COUNT):
            producer.send(topic, value=b"%d" % number).result(PATIENCE_S)


Run = Callable[[str, str, str], None]
CLIENTS = pytest.mark.parametrize("run", [by_confluent, by_kafka_python, by_aiokafka, by_ours])
REFUSED = (KafkaException, KafkaError, AioKafkaError, AuthenticationError)


def written(here: Guarded, topic: str) -> int:
    with Admin(bootstrap_servers=here.plain) as admin:
        if topic not in admin.list_topics():
            return 0
        partitions = admin.describe_topics(topic)[topic].partitions
        return len(partitions)


@CLIENTS
def test_a_client_with_a_valid_token_writes(here: Guarded, issuer: Issuer, run: Run) -> None:
    topic = f"right-{uuid.uuid4().hex[:8]}"
    run(here.at(AT), issuer.token(), topic)
    assert written(here, topic)


@CLIENTS
def test_a_client_with_a_wrong_token_cannot_write(here: Guarded, issuer: Issuer, run: Run) -> None:
    for wrong in (
        issuer.token(iss="https://another"),
        issuer.token(key=issuer.new_key("first")),
        issuer.token(lives_s=-60),
    ):
        topic = f"wrong-{uuid.uuid4().hex[:8]}"
        with pytest.raises(REFUSED):
            run(here.at(AT), wrong, topic)
        assert not written(here, topic)
        assert not any(wrong in line for line in here.broker.log_lines())


@CLIENTS
def test_keys_that_sign_are_changed(tmp_path: Path, run: Run) -> None:
    issuer = Issuer(tmp_path)
    with guarded(tmp_path, *settings(issuer.file.as_uri())) as here:
        run(here.at(AT), issuer.token(), "t")
        second = issuer.new_key("second")
        issuer.publish(second)
        within(lambda: run(here.at(AT), issuer.token(key=second), "t"))
        with pytest.raises(REFUSED):
            run(here.at(AT), issuer.token(), "t")


def test_kafkas_own_tools_show_a_token(
    here: Guarded, issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = f"file://{tmp_path}/right.jwt,file://{tmp_path}/wrong.jwt"
    monkeypatch.setenv(
        "JAVA_TOOL_OPTIONS",
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={allowed}"
        f" -Dorg.apache.kafka.sasl.oauthbearer.allowed.files={tmp_path}/right.jwt,{tmp_path}/wrong.jwt",
    )

    def properties(name: str, token: str) -> str:
        (tmp_path / f"{name}.jwt").write_text(token)
        path = tmp_path / f"{name}.properties"
        path.write_text(
            f"security.protocol={AT}\nsasl.mechanism={BEARER}\n"
            "sasl.login.callback.handler.class="
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n"
            "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;\n"
            f"sasl.oauthbearer.token.endpoint.url=file://{tmp_path}/{name}.jwt\n"
            "sasl.oauthbearer.jwt.retriever.class="
            "org.apache.kafka.common.security.oauthbearer.FileJwtRetriever\n"
        )
        return str(path)

    with running_tools() as tools:
        options = ("--bootstrap-server", here.at(AT), "--command-config")
        topic = f"by-java-{uuid.uuid4().hex[:8]}"
        made = tools.run(
            "kafka-topics", *options, properties("right", issuer.token()), "--create", "--topic", topic
        )
        assert f"Created topic {topic}." in made.out, made
        refused = tools.run(
            "kafka-topics", *options, properties("wrong", issuer.token(aud="another")), "--list"
        )
        assert "invalid_token" in refused.out + refused.err, refused


def test_a_token_ends_a_connection_unless_another_is_shown(tmp_path: Path, issuer: Issuer) -> None:
    shown: list[str] = []

    def fresh() -> str:
        shown.append(issuer.token(lives_s=5))
        return shown[-1]

    more = ("sasl.oauthbearer.clock.skew.seconds=0",)
    with guarded(tmp_path, *settings(issuer.file.as_uri(), *more)) as here:
        with OwnProducer(**own_options(here.at(AT), fresh)) as producer:
            until_s = time.monotonic() + 11
            while time.monotonic() < until_s:
                producer.send("t", value=b"x").result(PATIENCE_S)
                time.sleep(0.05)
        assert here.metric("kohort_sasl_authentications_expired_total") == 0
    assert len(shown) >= 3


def test_a_failing_token_provider_is_reported(here: Guarded) -> None:
    def fails() -> str:
        raise ZeroDivisionError("no token today")

    with (
        pytest.raises(AuthenticationError, match="sasl_oauth_token_provider failed: ZeroDivisionError"),
        Admin(**own_options(here.at(AT), fails)) as admin,
    ):
        admin.list_topics()


def test_keys_are_fetched_over_http_and_renewed(tmp_path: Path) -> None:
    issuer = Issuer(tmp_path)

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(issuer.file.read_bytes())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}/keys"
        with guarded(tmp_path, *settings(url)) as here:
            within(lambda: by_ours(here.at(AT), issuer.token(), "t"))
            second = issuer.new_key("second")
            issuer.publish(issuer.key, second)
            with pytest.raises(AuthenticationError, match="invalid_token"):
                by_ours(here.at(AT), issuer.token(key=second), "t")
            within(lambda: by_ours(here.at(AT), issuer.token(key=second), "t"))
    finally:
        server.shutdown()
        server.server_close()


def within(attempt: Callable[[], None], seconds: float = PATIENCE_S) -> None:
    """Return once it goes well: keys are read behind the scenes."""
    deadline_s = time.monotonic() + seconds
    while True:
        try:
            attempt()
        except REFUSED:
            assert time.monotonic() < deadline_s
            time.sleep(0.2)
        else:
            return
