"""Every page of a broker that knows secrets: none of them stands on any."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from kohort.client import Admin, Consumer, Producer
from tests.cli import here as command_line
from tests.security.guarded import PASSWORD, PLAIN_USERS, USER, Guarded, guarded

SECRET = "a secret for pages"
SECRETS = (PASSWORD, "bob-secret", SECRET, "PRIVATE KEY", "pages:")
PATHS = (
    "/",
    "/metrics",
    "/health/live",
    "/health/ready",
    "/api/v1/groups",
    "/api/v1/groups/readers",
    "/api/v1/live/groups",
    "/api/v1/live/group?id=readers",
    "/api/v1/live/topics",
    "/api/v1/live/topic?name=seen",
    "/api/v1/live/health",
    "/api/v1/live/messages/seen?partition=0&offset=0",
    "/api/v1/live/nothing",
    "/nowhere",
)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A broker with users, certificates and secrets, whose pages are closed."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "credentials").write_text(f"pages:{SECRET}\n")
    settings = (
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
        f"sasl.jaas.config={PLAIN_USERS}",
        "ssl.key.password=never used",
        "kohort.http.security.protocol=SSL",
        f"kohort.http.credentials.file={folder}/credentials",
    )
    with guarded(folder, *settings) as made:
        with Admin(bootstrap_servers=made.plain) as admin:
            admin.set_user_password(USER, PASSWORD)
        with Producer(bootstrap_servers=made.plain) as producer:
            producer.send("seen", b"a record")
        with Consumer(
            "seen", bootstrap_servers=made.plain, group_id="readers", auto_offset_reset="earliest"
        ) as one:
            assert one.poll(timeout_ms=10_000)
            one.commit()
        yield made


def page(here: Guarded, path: str, secret: str | None = SECRET) -> tuple[int, str]:
    context = ssl.create_default_context(cafile=str(here.trusted))
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    try:
        asked = Request(f"https://{here.broker.http}{path}", headers=headers)
        with urlopen(asked, timeout=10, context=context) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, f"{error.headers}\n{error.read().decode()}"


@pytest.mark.parametrize("path", PATHS)
def test_no_page_contains_a_secret(here: Guarded, path: str) -> None:
    status, text = page(here, path)
    assert status in (200, 404)
    assert not any(each in text for each in (*SECRETS, "never used"))


@pytest.mark.parametrize("path", PATHS)
def test_without_the_right_secret_no_page_is_shown(here: Guarded, path: str) -> None:
    for secret in (None, "a wrong one"):
        status, text = page(here, path, secret)
        if secret is None and path.startswith("/health/"):
            assert (status, json.loads(text)) == (200, {"status": path.rpartition("/")[2]})
        else:
            assert status == 401
            assert "seen" not in text
            assert "readers" not in text


def test_the_log_has_none(here: Guarded) -> None:
    page(here, "/metrics", "a wrong one")
    lines = here.broker.log_lines()
    assert any("authentication failed" in line and "http" in line for line in lines)
    assert not any(each in line for line in lines for each in (*SECRETS, "never used", "a wrong one"))


def test_commands_show_the_secret(here: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(here.trusted))
    asked = (
        "groups",
        "describe",
        "readers",
        "--lag",
        "--http",
        f"https://{here.broker.http}",
        "-b",
        here.plain,
    )
    refused = command_line.kohort(*asked)
    assert refused.returncode == 1
    assert "KOHORT_HTTP_TOKEN" in refused.stderr
    monkeypatch.setenv("KOHORT_HTTP_TOKEN", SECRET)
    assert "seen" in command_line.kohort(*asked).stdout
