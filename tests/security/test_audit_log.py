"""The audit log: who did what to which resource, and whether it was let; what is secret is not in it."""

from __future__ import annotations

import json
import os
import stat
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from kohort.client import Admin, KohortError, NewTopic, Producer
from tests.attacks.altering import TOPIC_RESOURCE, alter
from tests.attacks.trial import SETTINGS
from tests.attacks.wire import Line
from tests.interop.broker_process import BrokerProcess
from tests.security.guarded import PASSWORD, USER, Guarded, guarded
from tests.security.test_floods import AUTHORIZER, logs_in
from tests.security.test_sasl_attacks import address

USERS = f'PlainLoginModule required user_{USER}="{PASSWORD}" user_bob="bob-secret";'


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def settings(path: Path) -> tuple[str, ...]:
    return (
        f"kohort.audit.log.file={path}",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
        f"sasl.jaas.config={USERS}",
        AUTHORIZER,
        f"super.users=User:{USER}",
    )


def known_as(here: Guarded, user: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": here.at("SASL_PLAINTEXT"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


def test_allowed_and_denied_operations_are_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with guarded(tmp_path, *settings(path)) as here:
        with Admin(**known_as(here, USER, PASSWORD)) as admin:
            admin.create_topics(NewTopic("orders"))
            admin.set_user_password("carol", "carols-password")
        with Producer(**known_as(here, USER, PASSWORD)) as producer:
            for _ in range(50):
                producer.send("orders", b"a record")
        with Admin(**known_as(here, "bob", "bob-secret")) as admin, pytest.raises(KohortError):
            admin.delete_topics("orders")
        assert not logs_in(address(here), "mallory", "guessed-password")
    found = lines_of(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    [created] = [each for each in found if each.get("api") == "CreateTopics" and each["event"] == "change"]
    assert created["principal"] == f"User:{USER}"
    assert created["host"] == "127.0.0.1"
    assert created["allowed"] is True
    assert created["errors"] == []
    assert created["request"]["topics"][0]["name"] == "orders"
    [deleted] = [each for each in found if each.get("api") == "DeleteTopics" and each["event"] == "change"]
    assert (deleted["principal"], deleted["allowed"]) == ("User:bob", False)
    assert "TOPIC_AUTHORIZATION_FAILED" in {each["error"] for each in deleted["errors"]}
    written = [each for each in found if each.get("operation") == "WRITE"]
    assert [(each["principal"], each["resource"], each["allowed"]) for each in written] == [
        (f"User:{USER}", "TOPIC:orders", True)
    ], "once, however often"
    [failed] = [each for each in found if each["event"] == "login"]
    assert (failed["principal"], failed["allowed"], failed["mechanism"]) == ("User:mallory", False, "PLAIN")
    assert {each["principal"] for each in found if each.get("operation") == "LOGIN"} == {
        f"User:{USER}",
        "User:bob",
    }
    text = path.read_text()
    for secret in (PASSWORD, "bob-secret", "carols-password", "guessed-password", "a record"):
        assert secret not in text
    [user] = [each for each in found if each.get("api") == "AlterUserScramCredentials" and "request" in each]
    assert {each["salt"] for each in user["request"]["upsertions"]} == {"[hidden]"}


def test_without_an_authorizer_the_log_is_written_and_nobody_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    broker = BrokerProcess(tmp_path, *SETTINGS, f"kohort.audit.log.file={path}")
    broker.start()
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("orders", b"a record").result()
    line = Line(broker.address)
    alter(line, TOPIC_RESOURCE, "orders", retention_ms="1000", sasl_jaas_config="a secret of somebody")
    line.close()
    assert broker.stop() == 0
    found = lines_of(path)
    assert all(each["allowed"] for each in found if each["event"] == "use")
    assert {"TOPIC:orders"} <= {each["resource"] for each in found if each.get("operation") == "WRITE"}
    [altered] = [each for each in found if each.get("api") == "IncrementalAlterConfigs" and "request" in each]
    values = {each["name"]: each["value"] for each in altered["request"]["resources"][0]["configs"]}
    assert values == {"retention.ms": "1000", "sasl.jaas.config": "[hidden]"}
    assert altered["errors"]


def test_http_reads_of_records_are_logged(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    (tmp_path / "credentials").write_text("grace:a secret of the page\n")
    wanted = (f"kohort.audit.log.file={path}", f"kohort.http.credentials.file={tmp_path}/credentials")
    broker = BrokerProcess(tmp_path, *SETTINGS, *wanted)
    broker.start()
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("orders", b"a record").result()
    basic = b64encode(b"grace:a secret of the page").decode()
    for shown in (f"Basic {basic}", "Bearer a secret of the page"):
        look = f"http://{broker.http}/api/v1/live/messages/orders?partition=0"
        with urlopen(Request(look, headers={"Authorization": shown}), timeout=60) as answer:
            assert answer.status == 200
    assert broker.stop() == 0
    [seen] = [each for each in lines_of(path) if each.get("api") == "http"]
    assert (seen["principal"], seen["host"]) == ("Http:grace", "127.0.0.1")
    assert (seen["operation"], seen["resource"]) == ("READ", "TOPIC:orders")


def test_the_file_is_rotated_and_old_ones_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    sizes = ("kohort.audit.log.max.bytes=20000", "kohort.audit.log.files.max=2")
    broker = BrokerProcess(tmp_path, *SETTINGS, f"kohort.audit.log.file={path}", *sizes)
    broker.start()
    with Admin(bootstrap_servers="{}:{}".format(*broker.address)) as admin:
        admin.create_topics(NewTopic("orders"))
    line = Line(broker.address)
    for number in range(200):
        alter(line, TOPIC_RESOURCE, "orders", retention_ms=f"{1_000 + number}")
    line.close()
    assert broker.stop() == 0
    files = sorted(each.name for each in tmp_path.glob("audit*"))
    assert files == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
    for name in files:
        assert lines_of(tmp_path / name)
        assert (tmp_path / name).stat().st_size <= 20_000
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    [newest] = lines_of(path)[-1]["request"]["resources"][0]["configs"]
    assert newest["value"] == "1199"


def test_a_stalled_disk_blocks_nobody_and_lost_lines_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # Who reads nothing: 64 KiB, and then it stands.
    broker = BrokerProcess(tmp_path, *SETTINGS, f"kohort.audit.log.file={path}")
    broker.start()
    line = Line(broker.address, timeout_s=10)
    for number in range(200):
        alter(
            line, TOPIC_RESOURCE, f"{number}" * 60, **dict.fromkeys([f"n{each}" for each in range(60)], "v")
        )
    assert broker.is_running()
    line.close()
    os.close(reader)
    broker.kill()


def test_a_file_that_cannot_be_opened_stops_the_start(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, f"kohort.audit.log.file={tmp_path}/none/audit")
    with pytest.raises(AssertionError, match="No such file or directory"):
        broker.start()
