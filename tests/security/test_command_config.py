"""The command line with --command-config: by TLS and by SASL, rightly and wrongly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.security.guarded import PASSWORD, PLAIN_USERS, USER, Guarded, guarded

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A broker that wants to know who comes."""
    settings = ("sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512", f"sasl.jaas.config={PLAIN_USERS}")
    with guarded(tmp_path_factory.mktemp("guarded"), *settings) as made:
        yield made


def kohort(*arguments: str, given: str = "", code: int = 0) -> str:
    """Return what a command says."""
    done = subprocess.run(
        [sys.executable, "-m", "kohort.cli", *arguments],
        input=given, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == code, done
    return done.stdout if code == 0 else done.stderr


@pytest.fixture
def file(here: Guarded, tmp_path: Path) -> Path:
    """What Kafka's tools take as well."""
    path = tmp_path / "client.properties"
    path.write_text(
        "# Who we are.\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nrequest.timeout.ms=20000\n"
        f'sasl.jaas.config={MODULE} required \\\n  username="{USER}" password="{PASSWORD}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={here.trusted}\n"
    )
    return path


def test_commands_authenticate(here: Guarded, file: Path) -> None:
    place = ("-b", here.at("SASL_SSL"), "--command-config", str(file))
    kohort("topics", "create", "said", *place)
    assert "said" in kohort("topics", "list", *place)
    kohort("produce", "said", *place, given="one\ntwo\n")
    read = kohort("consume", "said", *place, "--from-beginning", "--exit-at-end")
    assert sorted(read.split()) == ["one", "two"]
    kohort("groups", "list", *place)


@pytest.mark.parametrize("command", ["topics list", "doctor"])
def test_the_broker_logs_no_failed_handshake_for_a_command(here: Guarded, file: Path, command: str) -> None:
    kohort("topics", "list", "-b", here.at("SASL_SSL"), "--command-config", str(file))
    before = len(here.broker.log_lines())
    done = kohort(*command.split(), "-b", here.at("SASL_SSL"), "--command-config", str(file))
    assert "FAIL" not in done
    kohort("topics", "list", "-b", here.at("SASL_SSL"), "--command-config", str(file))  # It would log by now.
    assert not [line for line in here.broker.log_lines()[before:] if "handshake" in line]


def test_every_command_reports_a_failed_handshake(here: Guarded, file: Path, tmp_path: Path) -> None:
    strange = tmp_path / "strange.properties"
    lines = file.read_text().splitlines()
    strange.write_text("\n".join(line for line in lines if "truststore" not in line))
    place = ("-b", here.at("SASL_SSL"), "--command-config", str(strange))
    words = f"no TLS with {here.at('SASL_SSL')}: its certificate is not trusted"
    assert kohort("topics", "list", *place, code=1).startswith(f"kohort: {words}")
    done = subprocess.run(
        [sys.executable, "-m", "kohort.cli", "doctor", *place],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"FAIL  bootstrap server {here.at('SASL_SSL')}: {words}" in done.stdout
    clear = ("-b", here.at("SASL_PLAINTEXT"), "--command-config", str(file))
    assert "is its listener PLAINTEXT?" in kohort("topics", "list", *clear, code=1)


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_names_are_completed(here: Guarded, file: Path, tmp_path: Path, protocol: str) -> None:
    place = ("-b", here.at(protocol), "--command-config", str(tmp_path / "completed.properties"))
    (tmp_path / "completed.properties").write_text(file.read_text().replace("SASL_SSL", protocol))
    kohort("topics", "create", f"completed-{protocol}", *place)
    words = " ".join(("kohort", "topics", "describe", *place, "completed-"))
    asked = {
        **os.environ,
        "_KOHORT_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    program = "import sys; from kohort.cli.main import main; sys.argv[0] = 'kohort'; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], env=asked, capture_output=True, text=True, check=True
    )
    assert f"plain,completed-{protocol}" in done.stdout.splitlines()


def test_forward_works_with_an_authenticating_broker(here: Guarded, file: Path, tmp_path: Path) -> None:
    pushed: list[bytes] = []

    class Service(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            pushed.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    service = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    Thread(target=service.serve_forever, daemon=True).start()
    place = ("-b", here.at("SASL_SSL"), "--command-config", str(file))
    kohort("topics", "create", "pushed", *place)
    (tmp_path / "forward.toml").write_text(
        f'bootstrap_servers = "{here.at("SASL_SSL")}"\n[[forward]]\nname = "n"\ntopic = "pushed"\n'
        f'url = "http://127.0.0.1:{service.server_address[1]}/"\n'
    )
    forwarding = subprocess.Popen(
        [
            sys.executable, "-m", "kohort.cli", "forward", "--config", str(tmp_path / "forward.toml"),
            "--command-config", str(file),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        deadline_s = time.monotonic() + 30
        while not pushed:
            assert forwarding.poll() is None, forwarding.communicate()[1]
            assert time.monotonic() < deadline_s
            kohort("produce", "pushed", *place, given="one\n")
    finally:
        forwarding.terminate()
        forwarding.communicate(timeout=20)
        service.shutdown()
        service.server_close()
    assert b"one" in pushed[0]


def test_users_are_added_and_removed(here: Guarded, file: Path, tmp_path: Path) -> None:
    place = ("-b", here.at("SASL_SSL"), "--command-config", str(file))
    assert "There are no users" in kohort_stderr("users", "list", *place)
    added = kohort("users", "add", "carol", *place, given="carol's\nnot this\n")
    assert added == "carol has a password now, by SCRAM-SHA-256 and SCRAM-SHA-512.\n"
    assert kohort("users", "list", *place) == "carol  SCRAM-SHA-256, SCRAM-SHA-512\n"
    (shown,) = json.loads(kohort("users", "list", "--json", *place))
    assert shown == {"user": "carol", "iterations": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}}
    hers = tmp_path / "hers.properties"
    module = MODULE.replace("plain.Plain", "scram.Scram")
    hers.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={module} required username="carol" password="carol\'s";\n'
    )
    as_her = ("topics", "list", "-b", here.at("SASL_PLAINTEXT"), "--command-config", str(hers))
    kohort(*as_her)
    (tmp_path / "word").write_text("another\n")
    one = ("--mechanism", "SCRAM-SHA-512")
    kohort("users", "add", "carol", "--password-file", str(tmp_path / "word"), *one, *place)
    assert "does not let this client in as 'carol'" in kohort(*as_her, code=1)
    kohort("users", "remove", "carol", *one, *place)
    assert kohort("users", "list", *place) == "carol  SCRAM-SHA-256\n"
    kohort("users", "remove", "carol", *place)
    assert "does not exist: carol" in kohort("users", "remove", "carol", *place, code=1)
    assert "the password is empty" in kohort("users", "add", "dora", *place, given="\n", code=1)


def kohort_stderr(*arguments: str) -> str:
    """Return what a command that succeeds says besides."""
    done = subprocess.run(
        [sys.executable, "-m", "kohort.cli", *arguments],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return done.stderr


def test_security_mistakes_are_reported_in_one_line(here: Guarded, file: Path, tmp_path: Path) -> None:
    place = ("topics", "list", "-b", here.at("SASL_SSL"))
    assert "speaks TLS: give --command-config FILE" in kohort(*place, code=1)
    wrong = tmp_path / "wrong.properties"
    wrong.write_text(file.read_text().replace(PASSWORD, "a guess"))
    said = kohort(*place, "--command-config", str(wrong), code=1)
    assert f"does not let this client in as '{USER}': Authentication failed" in said
    assert said.count("\n") == 1
    assert "a guess" not in said
    clear = ("topics", "list", "-b", here.at("SASL_PLAINTEXT"))
    assert "if its listener asks who this is: security_protocol='SASL_PLAINTEXT'" in kohort(*clear, code=1)


@pytest.mark.parametrize(
    "text, right",
    [
        ("security.protocol", "security_protocol is ''"),
        ("security.protocol: SASL_SSLL", "security_protocol is 'SASL_SSLL'"),
        ("secure.protocol=SSL", "line 1: unknown setting 'secure.protocol'"),
        ("request.timeout.ms=soon", "request_timeout_ms is 'soon'"),
        ("security.protocol=SASL_SSL", "sasl_mechanism is None"),
    ],
)
def test_an_invalid_file_is_reported(here: Guarded, tmp_path: Path, text: str, right: str) -> None:
    (tmp_path / "client.properties").write_text(text)
    done = subprocess.run(
        [
            sys.executable, "-m", "kohort.cli", "topics", "list", "-b", here.plain,
            "--command-config", str(tmp_path / "client.properties"),
        ],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode != 0
    assert right in done.stderr
