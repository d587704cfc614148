"""Recorded traffic: the requests of a run and their answers in a file, to assert on and to send again.

The file has a line of JSON for each request, in the order of arrival: `seconds` since the recording began,
the number of the `connection`, `client`, `api`, `version`, and `request` and `answer` as the protocol encodes
them without their headers, in base64. The answer is null if the broker has sent none.
"""

import json
import socket
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import overload

from kohort.protocol.errors import ErrorCode
from kohort.protocol.framing import LENGTH_BYTES
from kohort.protocol.headers import frame_request, response_body, response_header_version
from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import Message
from kohort.testing.errors import BrokerFailed
from kohort.testing.requests import check_api, errors_of

REPLAY_SECONDS_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer."""

    seconds: float
    """When the request arrived, in the broker's seconds since the recording began."""
    connection: int
    client_id: str
    api: str
    version: int
    request: Message
    answer: Message | None

    @property
    def errors(self) -> tuple[ErrorCode, ...]:
        """The different errors in the answer, at the top and in its parts."""
        return () if self.answer is None else tuple(dict.fromkeys(errors_of(self.answer)))


@dataclass(frozen=True, slots=True)
class Recording(Sequence[Exchange]):
    """The exchanges of a run, in order of arrival."""

    _exchanges: tuple[Exchange, ...] = field(repr=False)

    @classmethod
    def read(cls, path: str | Path) -> "Recording":
        """Read a file that `broker.record` has written. Raises: OSError, ValueError, WireError."""
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        return cls(tuple(map(_exchange, lines)))

    def of(self, api: str | None = None, *, client: str | None = None) -> "Recording":
        """Return the exchanges of one API, of one client id, or both. Raises: ValueError for no such API."""
        if api is not None:
            check_api(api)
        return Recording(
            tuple(each for each in self if api in (None, each.api) and client in (None, each.client_id))
        )

    @property
    def apis(self) -> list[str]:
        """The API of each request, in order."""
        return [each.api for each in self]

    def replay(self, bootstrap: str) -> "Recording":
        """Send the requests to a broker again, one after the other, and return them with its answers.

        Each recorded connection is a connection of its own. A request without a recorded answer is not waited
        for. No request is retried. Ids that the recorded broker has given, such as those of members and
        topics, are sent as they were recorded.

        Raises: BrokerFailed if the broker closes a connection or does not answer within 30 s, OSError.
        """
        host, _, port = bootstrap.partition(",")[0].rpartition(":")
        answered: list[Exchange] = []
        connections: dict[int, socket.socket] = {}
        with ExitStack() as open_sockets:
            for each in self:
                if each.connection not in connections:
                    sock = socket.create_connection((host, int(port)), timeout=REPLAY_SECONDS_MAX)
                    connections[each.connection] = open_sockets.enter_context(sock)
                answered.append(_sent_again(each, connections[each.connection]))
        return Recording(tuple(answered))

    @overload
    def __getitem__(self, index: int) -> Exchange: ...
    @overload
    def __getitem__(self, index: slice) -> "Recording": ...
    def __getitem__(self, index: int | slice) -> "Exchange | Recording":
        return Recording(self._exchanges[index]) if isinstance(index, slice) else self._exchanges[index]

    def __len__(self) -> int:
        return len(self._exchanges)

    def __iter__(self) -> Iterator[Exchange]:
        return iter(self._exchanges)

    def __repr__(self) -> str:
        return f"<recording of {len(self)} requests: {', '.join(self.apis[-10:])}>"


def _exchange(line: str) -> Exchange:
    found = json.loads(line)
    api, version = BY_NAME[found["api"]], found["version"]
    answer = found["answer"]
    return Exchange(
        found["seconds"],
        found["connection"],
        found["client"],
        api.name,
        version,
        api.request.decode(b64decode(found["request"]), version),
        None if answer is None else api.response.decode(b64decode(answer), version),
    )


def _sent_again(exchange: Exchange, sock: socket.socket) -> Exchange:
    api, version = BY_NAME[exchange.api], exchange.version
    sock.sendall(b"".join(frame_request(exchange.request, version, 1, exchange.client_id)))
    if exchange.answer is None:
        return exchange
    size = int.from_bytes(_received(sock, LENGTH_BYTES, exchange), "big")
    frame = _received(sock, size, exchange)
    is_flexible = api.flexible_from is not None and version >= api.flexible_from
    body = response_body(frame, response_header_version(api.api_key, is_flexible=is_flexible))
    return replace(exchange, answer=api.response.decode(body, version))


def _received(sock: socket.socket, size: int, exchange: Exchange) -> bytes:
    data = bytearray()
    while len(data) < size:
        try:
            more = sock.recv(size - len(data))
        except TimeoutError:
            seconds = f"{REPLAY_SECONDS_MAX:.0f} s"
            raise BrokerFailed(f"no answer to {exchange.api} v{exchange.version} within {seconds}") from None
        if not more:
            raise BrokerFailed(f"the broker closed the connection at {exchange.api} v{exchange.version}")
        data += more
    return bytes(data)
