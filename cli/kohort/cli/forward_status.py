"""`kohort forward --status`: what a running process says of its destinations."""

import json
import urllib.error
import urllib.request
from typing import Any

import click

from kohort.cli.http_source import TIMEOUT_SECONDS, page_request
from kohort.cli.output import print_encoded, print_line
from kohort.client.errors import NetworkError

_HEAD = (
    "DESTINATION",
    "CIRCUIT",
    "RUNNING",
    "LIMIT",
    "UNFINISHED",
    "DONE",
    "RETRIED",
    "STASHED",
    "SKIPPED",
    "DEAD",
)
_COUNTS = ("done", "retry", "stash", "skip", "dead")


def print_status(http: str, *, as_json: bool) -> None:
    """Print each destination's state. Raises: NetworkError."""
    body = _ask(http)
    if as_json:
        print_encoded(body)
        return
    destinations = json.loads(body)["destinations"]
    rows = [_HEAD, *(_row(each) for each in destinations)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    for row in rows:
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        print_line(f"{row[0]:<{widths[0]}}  {'  '.join(cells)}")
    for each in destinations:
        if each["last_failure"]:
            print_line(f"{each['name']}, the last failure: {each['last_failure']}")


def _ask(http: str) -> bytes:
    try:
        with urllib.request.urlopen(page_request(http, "/api/v1/forward"), timeout=TIMEOUT_SECONDS) as answer:
            body: bytes = answer.read()
            return body
    except urllib.error.HTTPError as error:
        error.close()
        raise click.ClickException(f"{http} answers {error.code} {error.reason}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise NetworkError(f"no kohort forward serves HTTP at {http} ({reason})") from None


def _row(state: dict[str, Any]) -> tuple[str, ...]:
    numbers = (state["running"], state["concurrency_limit"], state["unfinished"])
    counts = (state["counts"].get(each, 0) for each in _COUNTS)
    return (state["name"], state["circuit"], *(f"{number:,}" for number in (*numbers, *counts)))
