"""What the broker tells over HTTP, for commands that need more than Kafka's protocol says.

`https://HOST:PORT` where the broker speaks TLS there (SSL_CERT_FILE names who is trusted); KOHORT_HTTP_TOKEN
is the secret that it wants to see.
"""

import http.client as http_client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar
from urllib.parse import quote

import click
import msgspec

from kohort.client.errors import NetworkError
from kohort.protocol.config_providers import resolve

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

DEFAULT_HTTP = "127.0.0.1:9644"
TIMEOUT_SECONDS = 15.0
NOT_FOUND = 404
REASON_BYTES_MAX = 65_536
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
    token = resolve(os.environ.get(TOKEN_VARIABLE, ""))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return urllib.request.Request(f"{place.rstrip('/')}{path}", headers=headers)


def group_json(http: str, group_id: str, query: str = "") -> bytes:
    """Return what `/api/v1/groups/GROUP` answers at the first of these addresses that has it.

    Commas part the addresses. One is enough: it answers for its cluster. Raises: NetworkError;
    click.ClickException.
    """
    for body in _pages(http, f"/api/v1/groups/{quote(group_id, safe='')}{query}"):
        return body
    raise click.ClickException(f"Group {group_id} not found.")


def share_group_jsons(http: str, group_id: str) -> list[bytes]:
    """Return what `/api/v1/share-groups/GROUP` answers at these addresses, where such a group is known.

    Raises: NetworkError; click.ClickException.
    """
    return list(_pages(http, f"/api/v1/share-groups/{quote(group_id, safe='')}"))


def _pages(http: str, path: str) -> Iterator[bytes]:
    """Yield the page of each address that has it. Raises: the first problem, where none has answered."""
    problems: list[NetworkError | click.ClickException] = []
    places = [each.strip() for each in http.split(",") if each.strip()]
    for each in places:
        try:
            body = _page(each, path)
        except (NetworkError, click.ClickException) as problem:
            problems.append(problem)
        else:
            if body is not None:
                yield body
    if problems and len(problems) == len(places):
        raise problems[0]


def _page(http: str, path: str) -> bytes | None:
    """Return a page, None where there is none."""
    try:
        asked = page_request(http, path)
        with urllib.request.urlopen(asked, timeout=TIMEOUT_SECONDS) as answer:
            body: bytes = answer.read()
            return body
    except urllib.error.HTTPError as error:
        with error:
            if error.code == NOT_FOUND:
                return None
            why = _reason(error)
        wanted = _WANTED.get(error.code, "")
        raise click.ClickException(f"{http} answers {error.code}: {why}{wanted}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise NetworkError(
            f"nothing serves HTTP at {http} ({reason}); kohort serve --http says where"
        ) from None


class _Refusal(msgspec.Struct):
    error: str


def _reason(refused: urllib.error.HTTPError) -> str:
    """Return why a broker has not answered, in its own words."""
    try:
        return msgspec.json.decode(refused.read(REASON_BYTES_MAX), type=_Refusal).error
    except (msgspec.DecodeError, OSError):
        return http_client.responses.get(refused.code, "no reason is given")
