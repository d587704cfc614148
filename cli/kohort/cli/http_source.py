"""What the broker tells over HTTP, for commands that need more than Kafka's protocol says."""

import urllib.error
import urllib.request
from collections.abc import Callable
from typing import ParamSpec, TypeVar
from urllib.parse import quote

import click

from kohort.client.errors import NetworkError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

DEFAULT_HTTP = "127.0.0.1:9644"
TIMEOUT_SECONDS = 15.0
NOT_FOUND = 404


def http_option(
    help_text: str, default: str | None
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Add --http, which the command takes as `http`."""
    return click.option(
        "--http",
        default=default,
        envvar="KOHORT_HTTP",
        show_default=default is not None,
        show_envvar=True,
        metavar="HOST:PORT",
        help=help_text,
    )


def group_json(http: str, group_id: str) -> bytes:
    """Return what `/api/v1/groups/GROUP` answers. Raises: NetworkError; click.ClickException."""
    url = f"http://{http}/api/v1/groups/{quote(group_id, safe='')}"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
            body: bytes = answer.read()
            return body
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == NOT_FOUND:
            raise click.ClickException(f"Group {group_id} not found.") from None
        raise click.ClickException(f"{http} answers {error.code} {error.reason}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise NetworkError(
            f"nothing serves HTTP at {http} ({reason}); kohort serve --http says where"
        ) from None
