"""What the broker tells over HTTP, for commands that need more than Kafka's protocol says.

`https://HOST:PORT` where the broker speaks TLS there (SSL_CERT_FILE names who is trusted); KOHORT_HTTP_TOKEN
is the secret that it wants to see.
"""

import os
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
TOKEN_VARIABLE = "KOHORT_HTTP_TOKEN"
_WANTED = {401: f": {TOKEN_VARIABLE} is to say a secret of its kohort.http.credentials.file"}


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


def page_request(http: str, path: str) -> urllib.request.Request:
    """Return what asks for a page, with the secret of the environment. Raises: ValueError."""
    place = http if "://" in http else f"http://{http}"
    if not place.startswith(("http://", "https://")):
        raise ValueError(f"{http} is no HTTP address")
    token = os.environ.get(TOKEN_VARIABLE)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return urllib.request.Request(f"{place.rstrip('/')}{path}", headers=headers)


def group_json(http: str, group_id: str) -> bytes:
    """Return what `/api/v1/groups/GROUP` answers. Raises: NetworkError; click.ClickException."""
    body = _page(http, f"/api/v1/groups/{quote(group_id, safe='')}")
    if body is None:
        raise click.ClickException(f"Group {group_id} not found.")
    return body


def share_group_json(http: str, group_id: str) -> bytes | None:
    """Return what `/api/v1/share-groups/GROUP` answers, None where nothing is known there of such a group.

    Raises: NetworkError; click.ClickException.
    """
    return _page(http, f"/api/v1/share-groups/{quote(group_id, safe='')}")


def _page(http: str, path: str) -> bytes | None:
    """Return a page, None where there is none."""
    try:
        asked = page_request(http, path)
        with urllib.request.urlopen(asked, timeout=TIMEOUT_SECONDS) as answer:
            body: bytes = answer.read()
            return body
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == NOT_FOUND:
            return None
        wanted = _WANTED.get(error.code, "")
        raise click.ClickException(f"{http} answers {error.code} {error.reason}{wanted}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise NetworkError(
            f"nothing serves HTTP at {http} ({reason}); kohort serve --http says where"
        ) from None
