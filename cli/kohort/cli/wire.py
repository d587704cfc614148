"""`kohort wire`: requests and answers of Kafka's protocol, byte by byte."""

import json
import signal
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from kohort.cli.options import json_option
from kohort.cli.output import print_encoded, print_line
from kohort.cli.wire_frames import FrameReading, Reading, as_json, known_api, lines_of, split_frames
from kohort.cli.wire_input import bytes_of
from kohort.client.addresses import parse_address
from kohort.client.errors import ConfigurationError
from kohort.protocol.registry import BY_NAME, CLIENT_ONLY, Api

DAMAGED = 1
STDIN = "-"
KAFKA_PORT = 9092
ADDRESS, OWN_ADDRESS = "HOST:PORT", "127.0.0.1:0"


@click.command("wire")
@click.argument("hexadecimal", metavar="[HEX...]", nargs=-1)
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Take the bytes from here: hexadecimal, or what xxd, hexdump or od have printed.",
)
@click.option(
    "--answer", "answers", metavar="API", help="The bytes are answers of this API, such as Fetch or 1."
)
@click.option("--api-version", type=int, help="The version of the request, for --answer.")
@click.option(
    "--capture",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Show the frames of a pcap or pcapng file.",
)
@click.option(
    "--port",
    "ports",
    type=int,
    multiple=True,
    default=(KAFKA_PORT,),
    show_default=True,
    help="The brokers' port in --capture; may be repeated.",
)
@click.option("--proxy", metavar=ADDRESS, help="Run a proxy before this broker, and show its traffic.")
@click.option(
    "--listen",
    metavar=ADDRESS,
    default="127.0.0.1:0",
    show_default=True,
    help="The address of the proxy.",
)
@click.option(
    "--rewrite",
    "rewrites",
    is_flag=True,
    help="Replace the brokers' addresses in answers with the proxy's, so that clients use the proxy.",
)
@click.option("--only", metavar="API", multiple=True, help="Show only these APIs; may be repeated.")
@click.option("--summary", is_flag=True, help="Show one line for each frame.")
@click.option("--all-bytes", is_flag=True, help="Show long values completely.")
@click.option("--show-secrets", is_flag=True, help="Show passwords, salts and tokens of SASL as well.")
@json_option
def wire(
    *,
    hexadecimal: tuple[str, ...],
    file: Path | None,
    answers: str | None,
    api_version: int | None,
    capture: Path | None,
    ports: tuple[int, ...],
    proxy: str | None,
    listen: str,
    rewrites: bool,
    only: tuple[str, ...],
    summary: bool,
    all_bytes: bool,
    show_secrets: bool,
    as_json: bool,
) -> None:
    """Show requests and answers of Kafka's protocol byte by byte: offset, bytes, field, meaning.

    HEX is a request, or with --answer an answer; several may follow each other. Without HEX, or with -,
    standard input has it. Record batches are opened down to their records. Damaged bytes are shown up to
    the error, and the exit code is 1.

    \b
    kohort wire 00000011 0012 0000 00000001 0007 6b6f686f7274 00
    kohort wire --answer ApiVersions --api-version 3 --file answer.xxd
    kohort wire --capture kafka.pcapng --only Fetch
    kohort wire --proxy 127.0.0.1:9092 --listen 127.0.0.1:9093 --rewrite
    """
    given = [bool(hexadecimal or file), capture is not None, proxy is not None]
    if sum(given) > 1 or (hexadecimal and file is not None):
        raise click.UsageError("give HEX, --file, --capture or --proxy: one of them")
    if (answers is None) != (api_version is None):
        raise click.UsageError("--answer and --api-version go together: an answer does not say what it is")
    shown = Shown(
        {_api(each).name for each in only}, as_json=as_json, is_summary=summary, all_bytes=all_bytes
    )
    if proxy is not None:
        _show_proxied(proxy, listen, shown, rewrites=rewrites, show_secrets=show_secrets)
    elif capture is not None:
        from kohort.cli.wire_capture import frames_in

        for each in frames_in(capture, frozenset(ports), shows_secrets=show_secrets):
            shown.add(each.seconds, each.source, each.target, each.reading, each.problem)
    else:
        shown.readings(_read(_given_bytes(hexadecimal, file), answers, api_version, show_secrets))
    if shown.has_damage:
        sys.stdout.flush()
        raise click.exceptions.Exit(DAMAGED)


class Shown:
    """Prints frames, and knows whether one of them was damaged."""

    def __init__(self, only: set[str], *, as_json: bool, is_summary: bool, all_bytes: bool) -> None:
        self.has_damage = False
        self._only = only
        self._as_json = as_json
        self._is_summary = is_summary
        self._all_bytes = all_bytes

    def readings(self, readings: Iterable[Reading]) -> None:
        """Print frames of which nobody knows who has sent them."""
        for each in readings:
            self._print(each, "")

    def add(
        self,
        seconds: float,
        source: tuple[str, int],
        target: tuple[str, int],
        reading: Reading | None,
        problem: str,
    ) -> None:
        """Print a frame of a connection, or why there are no more of them."""
        way = f"{_clock(seconds)} {source[0]}:{source[1]} -> {target[0]}:{target[1]}"
        if reading is None:
            self.has_damage = True
            print_line(f"kohort: {way}: {problem}", err=True)
        else:
            self._print(reading, way)

    def _print(self, reading: Reading, way: str) -> None:
        if self._only and reading.api not in self._only:
            return
        self.has_damage = self.has_damage or bool(reading.problem)
        if self._as_json:
            print_encoded(json.dumps({"way": way or None, **as_json(reading)}, ensure_ascii=False))
            return
        lines = lines_of(reading, all_bytes=self._all_bytes)
        title = next(lines)
        print_line(f"{way}  {title}" if way else title)
        if self._is_summary:
            if reading.problem:
                print_line(f"  damaged: {reading.problem}")
            return
        for line in lines:
            print_line(line)
        print_line()


def _clock(seconds: float) -> str:
    """Return the time of day; what a damaged capture may say of it is none."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[11:23]
    except (OverflowError, ValueError, OSError):
        return "--:--:--.---"


def _given_bytes(hexadecimal: tuple[str, ...], file: Path | None) -> bytes:
    """Return the bytes that were given. Raises: click.ClickException, click.UsageError."""
    if file is not None:
        raw = file.read_bytes()
    elif hexadecimal and hexadecimal != (STDIN,):
        raw = " ".join(hexadecimal).encode()
    else:
        if sys.stdin.isatty() and not hexadecimal:
            raise click.UsageError("give HEX, --file, --capture or --proxy")
        raw = sys.stdin.buffer.read()
    try:
        data = bytes_of(raw.decode())
    except UnicodeDecodeError:
        raise click.ClickException(
            "the input is not text: give hexadecimal, such as the output of xxd"
        ) from None
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    if not data:
        raise click.ClickException("there are no bytes")
    return data


def _read(data: bytes, answers: str | None, version: int | None, show_secrets: bool) -> Iterator[Reading]:
    """Yield each frame that is in the bytes. Raises: click.UsageError for a version that there is not."""
    api = None if answers is None else _api(answers)
    if api is not None and version not in api.versions:
        raise click.UsageError(f"{api.name} has the versions {api.versions}, not {version}")
    for frame in split_frames(data):
        reading = FrameReading(frame, shows_secrets=show_secrets)
        if api is None or version is None:
            yield reading.request()[0]
        else:
            yield reading.answer(api, version)


def _api(text: str) -> Api:
    """Return the API of that name or key. Raises: click.UsageError."""
    by_name = {api.name.lower(): api for api in (*BY_NAME.values(), *CLIENT_ONLY)}
    found = by_name.get(text.lower()) or (known_api(int(text)) if text.isdecimal() else None)
    if found is None:
        raise click.UsageError(f"there is no API {text!r}")
    return found


def _show_proxied(proxy: str, listen: str, shown: Shown, *, rewrites: bool, show_secrets: bool) -> None:
    """Show what goes through a proxy, until it is interrupted."""
    import time

    import trio

    from kohort.cli.wire_proxy import Proxy

    try:
        broker, own = parse_address(proxy), parse_address(listen)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None

    async def serve() -> None:
        async with trio.open_nursery() as nursery:

            def show(
                source: tuple[str, int], target: tuple[str, int], reading: Reading | None, problem: str
            ) -> None:
                try:
                    shown.add(time.time(), source, target, reading, problem)
                    sys.stdout.flush()
                except BrokenPipeError:  # Whoever has read this has read enough.
                    nursery.cancel_scope.cancel()

            made = Proxy(show, nursery, rewrites=rewrites, shows_secrets=show_secrets)
            port = await made.listen(own, broker)
            words = f"kohort: {own[0]}:{port} passes on to {broker[0]}:{broker[1]}"
            if not rewrites:
                words += "; clients go around it to the addresses that answers name: --rewrite has them stay"
            print_line(words, err=True)
            with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                async for _ in signals:
                    nursery.cancel_scope.cancel()

    try:
        trio.run(serve)
    except BaseExceptionGroup as group:
        failed, others = group.split(OSError)
        if failed is None or others is not None:
            raise
        words = next(str(each) for each in _leaves(failed))
        raise click.ClickException(f"{own[0]}:{own[1]}: {words}") from None


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each
