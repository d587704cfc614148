"""Kohort's own client says who it is: rightly, wrongly, again and again; and hears what is wrong."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.client import Admin, ClusterConnection, Consumer, Producer, aio, connections
from kohort.client.config import ClientOptions
from kohort.client.connecting import open_connection
from kohort.client.connection import Connection
from kohort.client.errors import AuthenticationError, ConfigurationError, KohortError
from kohort.protocol.errors import ErrorCode
from tests.security.guarded import PASSWORD, PLAIN_USERS, PROTOCOLS, USER, Guarded, guarded

COUNT = 30
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required " + f'user_{USER}="{PASSWORD}";'
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SETTINGS = (
    f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
    f"sasl.jaas.config={PLAIN_USERS}",
    *(
        f"listener.name.{protocol.lower()}.{mechanism.lower()}.sasl.jaas.config={SCRAM}"
        for protocol in PROTOCOLS
        for mechanism in MECHANISMS[1:]
    ),
)
AT = pytest.mark.parametrize("protocol", PROTOCOLS)
BY = pytest.mark.parametrize("mechanism", MECHANISMS)
AGAIN_MS = 4_000  # Of which a twentieth is left to whoever says it late: a busy machine takes some.


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A broker that wants to know who comes."""
    with guarded(tmp_path_factory.mktemp("guarded"), *SETTINGS) as made:
        yield made


def options(
    here: Guarded, protocol: str, mechanism: str, user: str = USER, password: str = PASSWORD
) -> ClientOptions:
    found: ClientOptions = {
        "bootstrap_servers": here.at(protocol),
        "security_protocol": protocol,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
        "default_api_timeout_ms": 5_000,
    }
    if protocol == "SASL_SSL":
        found["ssl_truststore_location"] = str(here.trusted)
    return found


@AT
@BY
def test_an_authenticated_client_writes_and_reads(here: Guarded, protocol: str, mechanism: str) -> None:
    right = options(here, protocol, mechanism)
    topic = f"own-{uuid.uuid4().hex[:8]}"
    with Producer(**right) as producer:
        for number in range(COUNT):
            producer.send(topic, value=b"%d" % number)
    found: list[bytes | None] = []
    with Consumer(**right, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe(topic)
        while len(found) < COUNT:
            records = consumer.poll(timeout_ms=10_000)
            assert records, "nothing came in ten seconds"
            found += [each.value for each in records]
    assert found == [b"%d" % number for number in range(COUNT)]


@BY
@pytest.mark.parametrize("user, password", [(USER, "a guess"), ("eve", PASSWORD)])
def test_a_wrong_name_or_password_is_a_final_error(
    here: Guarded, mechanism: str, user: str, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = options(here, "SASL_PLAINTEXT", mechanism, user, password)
    tried: list[str] = []

    async def counted(host: str, port: int, **more: Any) -> Connection:
        tried.append(host)
        return await open_connection(host, port, **more)

    monkeypatch.setattr(connections, "open_connection", counted)
    words = f"does not let this client in as '{user}': Authentication failed"
    with pytest.raises(AuthenticationError, match=words) as refused, Admin(**wrong) as admin:
        admin.list_topics()
    assert refused.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not refused.value.retriable
    with pytest.raises(AuthenticationError, match=words), Producer(**wrong) as producer:
        producer.send("wrong", value=b"x").result(10)
    with Consumer(**wrong, group_id="wrong") as consumer:
        consumer.subscribe("wrong")
        with pytest.raises(AuthenticationError, match=words):
            consumer.poll(timeout_ms=10_000)
    assert len(tried) == 3, "none of the three clients tries again"


def test_shared_connections_and_asynchronous_clients_authenticate(here: Guarded) -> None:
    right = options(here, "SASL_SSL", "SCRAM-SHA-512")
    with ClusterConnection(**right) as connection, Admin(cluster=connection) as admin:
        assert isinstance(admin.list_topics(), list | set | tuple | dict)

    async def run() -> None:
        async with aio.Producer(**right) as producer:
            await (await producer.send("looped", value=b"x"))

    asyncio.run(run())


def test_a_java_configuration_names_the_user(here: Guarded) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    right: ClientOptions = {
        "bootstrap_servers": here.at("SASL_PLAINTEXT"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_jaas_config": f'{module} required username="{USER}" password="{PASSWORD}";',
    }
    with Admin(**right) as admin:
        admin.list_topics()
    with pytest.raises(ConfigurationError, match="neither sasl_plain_username"):
        Admin(**right, sasl_plain_username="x").open()


def test_mismatched_listeners_and_clients_are_reported(here: Guarded) -> None:
    def asks(wrong: ClientOptions) -> None:
        wrong["default_api_timeout_ms"] = 2_000
        with Admin(**wrong) as admin:
            admin.list_topics()

    plain: ClientOptions = {"bootstrap_servers": here.at("SASL_PLAINTEXT")}
    asked = "if its listener asks who this is: security_protocol="
    with pytest.raises(KohortError, match=f"{asked}'SASL_PLAINTEXT'"):
        asks(plain)
    secure: ClientOptions = {
        "bootstrap_servers": here.at("SASL_SSL"),
        "security_protocol": "SSL",
        "ssl_truststore_location": str(here.trusted),
    }
    with pytest.raises(KohortError, match=f"{asked}'SASL_SSL'"):
        asks(secure)
    in_vain = options(here, "SASL_PLAINTEXT", "PLAIN")
    in_vain["bootstrap_servers"] = here.plain
    with pytest.raises(
        AuthenticationError, match="does not ask who this client is: security_protocol='PLAINTEXT'"
    ):
        asks(in_vain)
    in_vain["bootstrap_servers"] = here.at("SASL_SSL")
    with pytest.raises(KohortError, match="it speaks TLS: security_protocol='SSL', or 'SASL_SSL'"):
        asks(in_vain)
    other = options(here, "SASL_PLAINTEXT", "OAUTHBEARER")
    other["sasl_oauth_token_provider"] = lambda: "token"
    with pytest.raises(AuthenticationError, match="does not take OAUTHBEARER; it takes PLAIN, SCRAM-SHA-256"):
        asks(other)


def test_it_reauthenticates_while_it_writes_and_reads(tmp_path: Path) -> None:
    with guarded(tmp_path, *SETTINGS, f"connections.max.reauth.ms={AGAIN_MS}") as here:
        right = options(here, "SASL_PLAINTEXT", "SCRAM-SHA-256")
        sent = 0
        found: list[bytes | None] = []
        with (
            Producer(**right) as producer,
            Producer(**right, acks=0) as careless,
            Consumer(**right, group_id="g", auto_offset_reset="earliest") as consumer,
        ):
            consumer.subscribe("t")
            until_s = time.monotonic() + 2.5 * AGAIN_MS / 1000
            while time.monotonic() < until_s:
                producer.send("t", value=b"%d" % sent).result(10)
                careless.send("other", value=b"x")
                sent += 1
                found += [each.value for each in consumer.poll(timeout_ms=10)]
            careless.flush()
            while len(found) < sent and time.monotonic() < until_s + 10:
                found += [each.value for each in consumer.poll(timeout_ms=1_000)]
        assert found == [b"%d" % number for number in range(sent)]
        assert here.metric("kohort_sasl_authentications_expired_total") == 0
        accepted = here.metric("kohort_connections_accepted_total")
        assert here.metric("kohort_sasl_authentications_total") >= accepted + 3 * 2
