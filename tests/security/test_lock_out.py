"""Who guesses passwords is looked at less and less often; nobody else pays for that."""

from __future__ import annotations

import socket
import time
from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.security.guarded import PASSWORD, PLAIN_USERS, USER, Guarded, guarded
from tests.security.test_floods import PATIENCE_S, answer_of
from tests.security.test_sasl_attacks import address, shaken, shown

SETTINGS = (
    "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
    f"sasl.jaas.config={PLAIN_USERS}",
    "kohort.lockout.max.ms=600000",
    "connection.failed.authentication.delay.ms=0",
)
OTHER_ADDRESS = "127.0.0.9"


def login(here: Guarded, user: str, password: str, source: str = "127.0.0.1") -> bytes:
    """Return what is answered to this password, shown from that address."""
    with socket.create_connection(address(here), PATIENCE_S, (source, 0)) as client, suppress(OSError):
        client.sendall(shaken("PLAIN") + shown(f"\0{user}\0{password}".encode()))
        answer_of(client)
        return answer_of(client)[4:]
    return b"closed"


def is_let_in(answer: bytes) -> bool:
    return answer[:2] == b"\0\0"


def is_looked_at(answer: bytes) -> bool:
    return b"too many failures" not in answer


def test_guesses_from_one_address_are_limited_and_others_do_not_wait(tmp_path: Path) -> None:
    with guarded(tmp_path, *SETTINGS) as here:
        assert is_let_in(login(here, "bob", "bob-secret")), "let in before"
        answers = [login(here, USER, f"guess{each}") for each in range(200)]
        assert 5 <= sum(map(is_looked_at, answers)) < 20
        right, wrong = login(here, USER, PASSWORD), login(here, USER, "guess")
        assert not is_let_in(right)
        assert len(right) == len(wrong), "nobody learns then which is right"
        assert is_let_in(login(here, USER, PASSWORD, OTHER_ADDRESS)), "nobody is locked out from elsewhere"
        sprayed = [login(here, f"user{each}", "password") for each in range(200)]
        assert sum(map(is_looked_at, sprayed)) < 80
        assert not is_looked_at(login(here, "nobody", "guess"))
        assert is_let_in(login(here, "bob", "bob-secret")), "who was let in from there still is"
        assert here.metric("kohort_sasl_locked_out_total") > 200


def test_after_the_wait_a_login_is_checked_again(tmp_path: Path) -> None:
    with guarded(tmp_path, *SETTINGS, "kohort.lockout.max.ms=500") as here:
        while is_looked_at(login(here, USER, "guess")):
            pass
        deadline_s = time.monotonic() + PATIENCE_S
        while not is_let_in(login(here, USER, PASSWORD)):
            assert time.monotonic() < deadline_s
            time.sleep(0.1)


def status(here: Guarded, secret: str, name: str = "") -> int:
    shown = f"Basic {b64encode(f'{name}:{secret}'.encode()).decode()}" if name else f"Bearer {secret}"
    request = Request(f"http://{here.broker.http}/metrics", headers={"Authorization": shown})
    try:
        with urlopen(request, timeout=PATIENCE_S) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


def test_secrets_of_pages_are_not_guessed_without_end(tmp_path: Path) -> None:
    secrets = "\n".join(f"user{each}:a secret number {each}" for each in range(2))
    (tmp_path / "credentials").write_text(secrets)
    settings = (*SETTINGS, f"kohort.http.credentials.file={tmp_path}/credentials")
    with guarded(tmp_path, *settings) as here:
        assert status(here, "a secret number 0") == 200
        assert {status(here, f"guess{each}") for each in range(60)} == {401}
        assert status(here, "a secret number 0") == 200, "who was known still is"
        assert status(here, "a secret number 1") == 401, "nothing is learned any more"


def test_guesses_for_a_known_name_are_limited(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text("alice:a long secret\nbob:another secret")
    settings = (*SETTINGS, f"kohort.http.credentials.file={tmp_path}/credentials")
    with guarded(tmp_path, *settings) as here:
        assert status(here, "a long secret", "alice") == status(here, "another secret", "bob") == 200
        assert {status(here, f"guess{each}", "alice") for each in range(12)} == {401}
        assert status(here, "a long secret", "alice") == 401, "nothing is learned any more"
        assert status(here, "another secret", "bob") == 200


def test_the_lock_out_can_be_disabled(tmp_path: Path) -> None:
    with guarded(tmp_path, *SETTINGS, "kohort.lockout.max.ms=0") as here:
        assert all(is_looked_at(login(here, USER, f"guess{each}")) for each in range(100))
        assert is_let_in(login(here, USER, PASSWORD))
