"""`kohort cluster up`: brokers, and an etcd if none is named, on this machine until Ctrl-C."""

import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from urllib.request import urlopen

import click

from kohort.cli.output import print_json, print_line

DEFAULT_DATA = "kohort-cluster"
DEFAULT_PORT = 9092
DEFAULT_HTTP_PORT = 9644
START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 15.0
LOOK_SECONDS = 0.1
REPLICAS_MAX = 3
HOST = "127.0.0.1"


@click.command()
@click.argument("brokers", metavar="N", type=click.IntRange(1), default=3)
@click.option(
    "--etcd", metavar="etcd://HOST:PORT,.../NAME", help="A running etcd. Without it one is started."
)
@click.option("--etcd-program", metavar="PATH", help="What to start as etcd; without it the one on PATH.")
@click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False), default=DEFAULT_DATA, show_default=True,
    help="The folder for all data. A later start uses it again.",
)  # fmt: skip
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=DEFAULT_PORT, show_default=True,
    help="The first broker's port; the others have the next ones. 0: free ports.",
)  # fmt: skip
@click.option(
    "--http-port", type=click.IntRange(0, 65_535), default=DEFAULT_HTTP_PORT, show_default=True,
    help="The port of the first broker's metrics and page. 0: free ports.",
)  # fmt: skip
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="A setting of all brokers.")
@click.option("--json", "as_json", is_flag=True, help="Print where the cluster is as JSON, for scripts.")
def up(
    *,
    brokers: int,
    etcd: str | None,
    etcd_program: str | None,
    data: Path,
    port: int,
    http_port: int,
    settings: tuple[str, ...],
    as_json: bool,
) -> int:
    """Run N brokers (3 without a number), each in a rack of its own, until Ctrl-C or SIGTERM.

    Topics have three replicas unless they say otherwise. Each broker's log is in its data folder.
    """
    data.mkdir(parents=True, exist_ok=True)
    with _signals() as stops, ExitStack() as running:
        if etcd is None:
            etcd = running.enter_context(_etcd(_etcd_program(etcd_program), data))
        factor = min(brokers, REPLICAS_MAX)
        common = [
            f"default.replication.factor={factor}",
            f"offsets.topic.replication.factor={factor}",
            f"min.insync.replicas={max(1, factor - 1)}",
            *settings,
        ]
        started = []
        for number in range(1, brokers + 1):
            places = _place(port, number), _place(http_port, number)
            started.append(_Broker(number, etcd, data / f"broker-{number}", places, common))
        running.enter_context(_ended_together(started))
        for each in started:
            each.wait_until_ready(stops)
        bootstrap = ",".join(each.kafka for each in started)
        if as_json:
            print_json({"bootstrap": bootstrap, "http": [each.http for each in started], "cluster": etcd})
        else:
            for each in started:
                print_line(f"broker {each.number}: kafka={each.kafka} http={each.http} log={each.log}")
            print_line(f"kohort cluster ready bootstrap={bootstrap} cluster={etcd}")
        _until_stopped(started, stops)
    return 0


def _place(port: int, number: int) -> str:
    return f"{HOST}:{port and port + number - 1}"


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Give the list in which signals to stop are noted; nothing else is done about them within the block."""
    heard: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        heard.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _until_stopped(brokers: Sequence["_Broker"], stops: list[int]) -> None:
    """Return at a signal, or when no broker runs any more; say of each that ends by itself."""
    left = list(brokers)
    while left and not stops:
        time.sleep(LOOK_SECONDS)
        for each in [each for each in left if each.process.poll() is not None]:
            left.remove(each)
            ended = f"broker {each.number} has ended with status {each.process.returncode}"
            again = f". To start it again: {each.command}" if left else ""
            print_line(f"{ended}{again}", err=True)


@contextmanager
def _ended_together(brokers: Sequence["_Broker"]) -> Iterator[None]:
    """Stop all of them behind the block, at the same time: none waits for another then."""
    try:
        yield
    finally:
        for each in brokers:
            each.process.terminate()
        for each in brokers:
            _wait(each.process)


def _wait(process: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> None:
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class _Broker:
    """A broker in a process of its own, which the terminal's Ctrl-C does not reach."""

    def __init__(
        self, number: int, cluster: str, folder: Path, places: tuple[str, str], settings: Sequence[str]
    ) -> None:
        self.number = number
        self.kafka = self.http = ""
        folder.mkdir(exist_ok=True)
        self.log = folder / "broker.log"
        kafka, http = places
        self._options = [
            "--node-id", str(number), "--cluster", cluster, "--rack", f"rack-{number}",
            "--data", str(folder.resolve() / "data"),
        ]  # fmt: skip
        self._settings = settings
        command = [sys.executable, "-m", "kohort.broker", "--listen", kafka, "--http", http, *self._options]
        for setting in settings:
            command += ["--set", setting]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )

    @property
    def command(self) -> str:
        """What starts it at the same addresses, once it serves; secrets are hidden in it."""
        from kohort.broker.config.serve import shown_setting  # Few brokers end.

        options = [*self._options]
        for setting in self._settings:
            options += ["--set", shown_setting(setting)]
        return shlex.join(["kohort", "serve", "--listen", self.kafka, "--http", self.http, *options])

    def wait_until_ready(self, stops: list[int]) -> None:
        """Return once it serves. Raises: click.ClickException with its last words if it does not."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if stops:
            raise click.Abort
        found = dict(each.partition("=")[::2] for each in line.split())
        if "kafka" not in found:
            words = self.log.read_text(errors="replace").splitlines()[-1:] or ["it said nothing"]
            raise click.ClickException(f"broker {self.number} did not start: {words[0]}")
        self.kafka, self.http = found["kafka"], found["http"]


# -- etcd ---------------------------------------------------------------------------------------------------


def _etcd_program(given: str | None) -> str:
    found = given or shutil.which("etcd")
    if found is None:
        raise click.ClickException(
            "there is no etcd on PATH: install one (Debian: etcd-server), or name one that runs with "
            "--etcd etcd://HOST:PORT/NAME"
        )
    return found


@contextmanager
def _etcd(program: str, data: Path) -> Iterator[str]:
    """Run one member of etcd within the block, and give the address of a cluster in it."""
    client, peer, metrics = (f"http://{HOST}:{_free_port()}" for _ in range(3))
    command = [
        program, "--name", "etcd", "--data-dir", str(data / "etcd"), "--log-level", "warn",
        "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
        "--initial-cluster", f"etcd={peer}",
        "--listen-metrics-urls", metrics, "--auto-compaction-mode", "revision",
        "--auto-compaction-retention", "10000",
    ]  # fmt: skip
    with (data / "etcd.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        _until_healthy(process, lambda: _is_healthy(metrics), data / "etcd.log")
        yield f"{client.replace('http', 'etcd', 1)}/up"
    finally:
        process.terminate()
        _wait(process)


def _until_healthy(process: "subprocess.Popen[bytes]", is_healthy: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while not is_healthy():
        if process.poll() is not None or time.monotonic() > deadline:
            raise click.ClickException(f"etcd did not start; {log} says why")
        time.sleep(LOOK_SECONDS)


def _is_healthy(metrics: str) -> bool:
    try:
        with urlopen(f"{metrics}/health", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
