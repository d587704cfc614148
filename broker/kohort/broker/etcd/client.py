"""Etcd over its JSON gateway: keys, transactions and leases, at any endpoint that answers.

    client = EtcdClient(address.endpoints, Credentials(user="kohort", password="..."))
    done = await client.txn([not_there(b"a")], [Put(b"a", b"1")])

A call goes to the endpoint that answered last, and in turn to the others until one does or its time is
over. A request that may have been executed is not repeated, unless a repetition is harmless. One task or
many.
"""

import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import httpx
import msgspec
import trio

from kohort.broker.etcd.address import Credentials
from kohort.broker.etcd.calls import PERMISSION_DENIED, Calls, rejection
from kohort.broker.etcd.errors import (
    EtcdError,
    EtcdRejected,
    EtcdSilent,
    EtcdUnauthorized,
    EtcdUnavailable,
)
from kohort.broker.etcd.messages import Json

CALL_SECONDS = 5.0
TURN_SECONDS = 0.1  # Between two turns around endpoints that all refuse.
KEEPALIVE_IDLE_SECONDS = 5

NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class EtcdClient(Calls):
    """The endpoints of one etcd, with credentials. Close it, or use it as a block."""

    def __init__(
        self,
        endpoints: Sequence[str],
        credentials: Credentials | None = None,
        *,
        call_seconds: float = CALL_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """`transport` replaces the network in tests. Raises: EtcdError for files that TLS can't use."""
        assert endpoints
        self._endpoints = list(endpoints)
        self._at = 0
        self._credentials = credentials or Credentials()
        self._call_seconds = call_seconds
        self._token: str | None = None
        self._http = httpx.AsyncClient(
            transport=transport or _transport(endpoints, self._credentials),
            headers={"Grpc-Metadata-hasleader": "true"},  # A member without a quorum ends its watches.
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    # -- asking -----------------------------------------------------------------------------------------

    async def call(
        self, path: str, form: object, *, seconds: float | None = None, again: bool = False
    ) -> Json:
        """Return the answer; `again` says that the call may be made twice. Raises: EtcdError."""
        content = msgspec.json.encode(form)
        deadline = trio.current_time() + (self._call_seconds if seconds is None else seconds)
        failures: dict[str, str] = {}
        maybe_done = False
        while True:
            for _ in self._endpoints:
                left = deadline - trio.current_time()
                if left <= 0:
                    raise EtcdUnavailable("; ".join(failures.values()), maybe_done=maybe_done)
                at, endpoint = self._at, self._endpoints[self._at]
                try:
                    return await self._authorized(endpoint, path, content, left)
                except EtcdUnavailable as error:
                    failures[endpoint] = str(error)
                    maybe_done |= error.maybe_done
                    if maybe_done and not again:
                        raise
                    self.avoid(at)
            with trio.move_on_at(deadline):
                await trio.sleep(TURN_SECONDS)

    def avoid(self, at: int) -> None:
        """Use the next endpoint from now on, unless another call has left this one already."""
        if at == self._at:
            self._at = (at + 1) % len(self._endpoints)

    @property
    def at(self) -> int:
        """Which endpoint is asked."""
        return self._at

    async def _authorized(self, endpoint: str, path: str, content: bytes, seconds: float) -> Json:
        """Return the answer, asked for again under a new token where the old one has expired."""
        token = await self._token_for(endpoint, seconds)
        try:
            return await self._post(endpoint, path, content, seconds, token)
        except EtcdUnauthorized as error:
            if token is None or error.code == PERMISSION_DENIED:
                raise
            self._forget(token)
            return await self._post(
                endpoint, path, content, seconds, await self._token_for(endpoint, seconds)
            )

    async def _token_for(self, endpoint: str, seconds: float) -> str | None:
        """Return the token of our user, None without a user. Raises: EtcdError."""
        if self._credentials.user is None:
            return None
        if self._token is None:
            form = {"name": self._credentials.user, "password": self._credentials.password}
            try:
                answer = await self._post(
                    endpoint, "auth/authenticate", msgspec.json.encode(form), seconds, None
                )
            except EtcdRejected as error:
                raise EtcdUnauthorized(error.code, f"user {self._credentials.user}: {error}") from error
            self._token = str(answer["token"])
        return self._token

    def _forget(self, token: str | None) -> None:
        if token == self._token:
            self._token = None

    async def _post(
        self, endpoint: str, path: str, content: bytes, seconds: float, token: str | None
    ) -> Json:
        """Return the answer of one endpoint. Raises: EtcdError."""
        # With others to try, a hanging one may not use all the time.
        attempt_seconds = seconds if len(self._endpoints) == 1 else max(seconds / 2, min(seconds, 0.5))
        try:
            with trio.fail_after(attempt_seconds):
                response = await self._http.post(
                    f"{endpoint}/v3/{path}",
                    content=content,
                    headers=_authorization(token),
                    timeout=attempt_seconds,
                )
        except NOT_SENT as error:
            raise EtcdUnavailable(f"{endpoint}: {_words(error)}", maybe_done=False) from error
        except (httpx.HTTPError, trio.TooSlowError) as error:
            raise EtcdUnavailable(f"{endpoint}: {_words(error)}", maybe_done=True) from error
        return _decoded(endpoint, response.status_code, response.content)

    @asynccontextmanager
    async def stream(
        self, path: str, form: object, *, idle_seconds: float
    ) -> AsyncIterator[AsyncIterator[Json]]:
        """Give the messages of a stream from the endpoint of now; one attempt. Raises: EtcdError.

        A stream that is silent for this long counts as broken.
        """
        endpoint = self._endpoints[self._at]
        token = await self._token_for(endpoint, self._call_seconds)
        timeout = httpx.Timeout(self._call_seconds, read=idle_seconds)
        try:
            async with self._http.stream(
                "POST",
                f"{endpoint}/v3/{path}",
                content=msgspec.json.encode(form),
                headers=_authorization(token),
                timeout=timeout,
            ) as response:
                if response.status_code != httpx.codes.OK:
                    _decoded(endpoint, response.status_code, await response.aread())
                yield _lines(endpoint, response)
        except httpx.ReadTimeout as error:
            raise EtcdSilent(f"{endpoint}: nothing for {idle_seconds} s", maybe_done=False) from error
        except httpx.HTTPError as error:
            raise EtcdUnavailable(f"{endpoint}: {_words(error)}", maybe_done=False) from error
        except EtcdUnauthorized:
            self._forget(token)
            raise


def _transport(endpoints: Sequence[str], credentials: Credentials) -> httpx.AsyncHTTPTransport:
    """Return the network, which notices within a quarter of a minute that the other side is gone."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
    if hasattr(socket, "TCP_KEEPIDLE"):
        options.append((socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_SECONDS))
        options.append((socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_IDLE_SECONDS))
        options.append((socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2))
    is_encrypted = any(urlsplit(each).scheme == "https" for each in endpoints)
    context = _tls(credentials, is_encrypted=is_encrypted)
    return httpx.AsyncHTTPTransport(verify=context, socket_options=options, trust_env=False)


def _tls(credentials: Credentials, *, is_encrypted: bool) -> ssl.SSLContext:
    """Return what certificates are checked and shown with. Raises: EtcdError that names the file."""
    file = credentials.ca_file
    if not is_encrypted and file is None and credentials.certificate_file is None:
        # Nobody needs the system's certificates, which take 10 ms.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context = ssl.create_default_context(cafile=file)
        if credentials.certificate_file is not None:
            file = credentials.certificate_file
            context.load_cert_chain(file, credentials.key_file)
    except (OSError, ssl.SSLError) as error:
        raise EtcdError(f"{file} can't be used for TLS to etcd: {error}") from error
    return context


def _authorization(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": token}


async def _lines(endpoint: str, response: httpx.Response) -> AsyncIterator[Json]:
    """Yield the messages, a line each. Raises: EtcdError."""
    rest = b""
    async for chunk in response.aiter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                message = _json(endpoint, line)
                if "error" in message:
                    raise rejection(endpoint, message["error"])
                yield message["result"]


def _decoded(endpoint: str, status: int, content: bytes) -> Json:
    """Return the content of a complete answer. Raises: EtcdError."""
    answer = _json(endpoint, content)
    if status != httpx.codes.OK:
        raise rejection(endpoint, answer)
    if "error" in answer:  # The one message of a stream, such as keepalive's.
        raise rejection(endpoint, answer["error"])
    return answer


def _json(endpoint: str, content: bytes) -> Json:
    try:
        answer = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EtcdUnavailable(f"{endpoint} answers what is not JSON: is it etcd?", maybe_done=True) from error
    if not isinstance(answer, dict):
        raise EtcdUnavailable(f"{endpoint} answers what etcd would not: is it etcd?", maybe_done=True)
    return answer


def _words(error: Exception) -> str:
    """Return what happened to a request in words: where an error has none, those of its cause."""
    if isinstance(error, (httpx.TimeoutException, trio.TooSlowError)):
        return "no answer in time"
    cause: BaseException | None = error
    while cause is not None and not str(cause):
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__ if cause is None else str(cause)
