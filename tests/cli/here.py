"""The `kohort` command within the test's own process: no interpreter is started for it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from typing import NamedTuple

from click.testing import CliRunner

from kohort.cli.main import main


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def kohort(*arguments: str, stdin: str = "", environment: Mapping[str, str] | None = None) -> Done:
    """Return what a command printed, and its exit code; `environment` is added to the test's own."""
    at_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        with CliRunner().isolation(input=stdin, env=environment) as (out, err, _):
            code = _code_of(arguments)
            sys.stdout.flush()  # As Python does when it ends.
    finally:
        signal.signal(signal.SIGTERM, at_sigterm)  # Some commands have it raise KeyboardInterrupt.
    return Done(code, out.getvalue().decode(), err.getvalue().decode())


def _code_of(arguments: tuple[str, ...]) -> int:
    try:
        return main(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
