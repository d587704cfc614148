"""Passwords that stand in files or in the environment, of the broker, of clients and of commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kohort.client import Admin, ConfigurationError
from tests.security.guarded import Guarded

NAME, PASSWORD, OTHER = "alice", "a password of the file", "one of the environment"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BOBS_PASSWORD", OTHER)
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    (tmp_path / "secrets.properties").write_text(f"alice={PASSWORD}\n")
    return tmp_path


def started(folder: Path, *settings: str) -> Guarded:
    made = Guarded(folder, "sasl.enabled.mechanisms=PLAIN", *settings)
    made.broker.start()
    return made


def users(alice: str) -> str:
    return f'PlainLoginModule required user_alice="{alice}" user_bob="${{env:BOBS_PASSWORD}}";'


def topics(here: Guarded, name: str, password: str) -> None:
    with Admin(
        bootstrap_servers=here.at("SASL_PLAINTEXT"),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username=name,
        sasl_plain_password=password,
    ) as admin:
        admin.list_topics()


@pytest.mark.parametrize(
    "alice",
    ["${file:HERE/password}", "${file:HERE/secrets.properties:alice}", "${directory:HERE:password}"],
)
def test_the_brokers_settings_refer_to_them(folder: Path, alice: str) -> None:
    here = started(folder, f"sasl.jaas.config={users(alice.replace('HERE', str(folder)))}")
    try:
        topics(here, "alice", PASSWORD)
        topics(here, "alice", f"${{file:{folder}/password}}")
        topics(here, "bob", "${env:BOBS_PASSWORD}")
        assert not any(PASSWORD in line or OTHER in line for line in here.broker.log_lines())
    finally:
        here.broker.stop()


@pytest.mark.parametrize("name", ["server.properties", "server.toml"])
def test_a_file_of_settings_refers_to_them_by_kafkas_names(folder: Path, name: str) -> None:
    provider = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
    jaas = users(f"${{vault:{folder}:password}}")
    lines = {
        "config.providers": "vault",
        "config.providers.vault.class": provider,
        "sasl.jaas.config": jaas,
    }
    text = "".join(
        f"{key}={value}\n" if name.endswith("properties") else f"'{key}' = '{value}'\n"
        for key, value in lines.items()
    )
    (folder / name).write_text(text)
    made = Guarded(folder, "sasl.enabled.mechanisms=PLAIN")
    made.broker.options = (*made.broker.options, "--config", str(folder / name))
    made.broker.start()
    try:
        topics(made, "alice", PASSWORD)
        topics(made, "bob", OTHER)
    finally:
        made.broker.stop()


def test_a_command_refers_to_them(folder: Path) -> None:
    here = started(folder, f"sasl.jaas.config={users(PASSWORD)}")
    config = folder / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=PlainLoginModule required username=alice "
        f'password="${{file:{folder}/password}}";\n'
    )
    try:
        command = [sys.executable, "-m", "kohort.cli", "topics", "list"]
        where = ["--bootstrap-server", here.at("SASL_PLAINTEXT"), "--command-config", str(config)]
        ended = subprocess.run([*command, *where], capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 0, ended.stderr
    finally:
        here.broker.stop()


def test_a_missing_secret_is_named(folder: Path) -> None:
    with pytest.raises(AssertionError, match=r"sasl\.jaas\.config: \$\{file:.*No such file"):
        started(folder, f"sasl.jaas.config={users(f'${{file:{folder}/none}}')}")
    with pytest.raises(ConfigurationError, match="the environment variable NOBODYS is not set"):
        Admin(bootstrap_servers="127.0.0.1:1", sasl_plain_password="${env:NOBODYS}")
