"""A registry that is closed to strangers: secrets by Basic or as Bearer, and TLS."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest
import trustme

from kohort.client import ConfigurationError, NetworkError, SchemaRegistry, SchemaRegistryError
from kohort.testing import Broker
from tests.registry.asking import ask
from tests.registry.test_beside import served
from tests.registry.test_command import running

SECRET = "correct horse"
ENCRYPTED = "".join(
    f"-----BEGIN {each}-----\nAAAA\n-----END {each}-----\n"
    for each in ("ENCRYPTED PRIVATE KEY", "CERTIFICATE")
)
"""A key that needs a password."""


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    file = tmp_path / "credentials"
    file.write_text(f"# Who may ask.\nalice:{SECRET}\n")
    return file


def basic(name: str, secret: str) -> dict[str, str]:
    return {"authorization": f"Basic {b64encode(f'{name}:{secret}'.encode()).decode()}"}


def check_closed(url: str) -> None:
    """Ask with and without the secret."""
    for headers in ({}, basic("alice", "wrong"), basic("bob", SECRET), {"authorization": "Bearer no"}):
        for method, path in (("GET", "/subjects"), ("GET", "/"), ("GET", "/schemas/ids/1"), ("GET", "/none")):
            told = ask(url, method, path, headers=headers)
            assert (told.status, told.content["error_code"]) == (401, 401)
        told = ask(url, "POST", "/subjects/s/versions", {"schema": '"int"'}, headers=headers)
        assert told.status == 401
    for headers in (basic("alice", SECRET), {"authorization": f"Bearer {SECRET}"}):
        assert ask(url, "GET", "/subjects", headers=headers).content == []


def test_who_shows_no_secret_is_refused(broker: Broker, credentials: Path) -> None:
    with running(broker, "--credentials", str(credentials), "--topic", "_closed") as (url, _):
        check_closed(url)
        with pytest.raises(SchemaRegistryError, match="401"):
            SchemaRegistry(url).register("s", '"int"')
        user = url.replace("http://", f"http://alice:{SECRET.replace(' ', '%20')}@")
        assert SchemaRegistry(user).register("s", '"int"') == 1


def test_basic_auth_user_info_of_confluents_client_is_right(broker: Broker, credentials: Path) -> None:
    pytest.importorskip("confluent_kafka.schema_registry", reason="the group `registry` has what it needs")
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    from confluent_kafka.schema_registry.error import SchemaRegistryError as Refused

    with running(broker, "--credentials", str(credentials), "--topic", "_closed_to_confluent") as (url, _):
        client = SchemaRegistryClient({"url": url, "basic.auth.user.info": f"alice:{SECRET}"})
        assert client.register_schema("s", Schema('"int"', "AVRO")) == 1
        assert client.get_subjects() == ["s"]
        with pytest.raises(Refused) as refused:
            SchemaRegistryClient({"url": url, "basic.auth.user.info": "alice:wrong"}).get_subjects()
        assert refused.value.http_status_code == 401


def test_a_registry_serves_by_tls(broker: Broker, credentials: Path, tmp_path: Path) -> None:
    authority = trustme.CA()
    keys, ca = tmp_path / "server.pem", tmp_path / "ca.pem"
    keys.write_bytes(authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.bytes())
    authority.cert_pem.write_to_path(str(ca))
    arguments = ("--certificate", str(keys), "--credentials", str(credentials), "--topic", "_encrypted")
    with running(broker, *arguments) as (url, _):
        assert url.startswith("https://")
        user = url.replace("https://", f"https://alice:{SECRET.replace(' ', '%20')}@")
        registry = SchemaRegistry(user, ssl_cafile=str(ca))
        assert registry.register("s", '"int"') == 1
        assert registry.schema(1).text == '"int"'
        with pytest.raises(SchemaRegistryError, match="401"):
            SchemaRegistry(url, ssl_cafile=str(ca)).schema(1)
        with pytest.raises(NetworkError):
            SchemaRegistry(user).schema(1)
        with pytest.raises(NetworkError):
            SchemaRegistry(url.replace("https", "http")).schema(1)
    with pytest.raises(ConfigurationError, match="ssl_cafile"):
        SchemaRegistry(url, ssl_cafile=str(tmp_path / "none"))


def test_a_registry_beside_a_broker_is_as_closed_as_its_pages(tmp_path: Path, credentials: Path) -> None:
    arguments = ("--data", str(tmp_path / "data"), "--schema-registry", "127.0.0.1:0")
    with served(*arguments, "--set", f"kohort.http.credentials.file={credentials}") as (_, url):
        check_closed(url)


@pytest.mark.parametrize(
    ("option", "content", "problem"),
    [
        ("--credentials", "", "it names nobody"),
        ("--certificate", "", "there is nothing in PEM"),
        ("--certificate", ENCRYPTED, "the key is encrypted: give one without a password"),
    ],
)
def test_a_file_without_use_is_a_usage_error_that_names_the_option(
    broker: Broker, tmp_path: Path, option: str, content: str, problem: str
) -> None:
    file = tmp_path / "file"
    file.write_text(content)
    with running(broker, option, str(file)) as (_, process):
        assert process.stderr is not None
        words = process.stderr.read()
        assert process.wait() == 2
        assert f"{option} {file}: {problem}" in words
        assert "Traceback" not in words
