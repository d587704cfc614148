"""Writes the requests of a run and their answers to a file, in the form that `recording` reads."""

import json
from base64 import b64encode
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, cast

from kohort.broker.handlers.prepared import Prepared
from kohort.broker.transport.request import Origin, Request
from kohort.protocol.schema import Message
from kohort.testing.requests import SeenRequest


class _Slice(Protocol):
    def read(self) -> bytes:
        """Return records that are in a file."""
        ...


class Recorder:
    """Records within its `with` block, whose end writes the file. `broker.record` returns it."""

    def __init__(self, path: str | Path, recorders: "list[Recorder]") -> None:
        """Take the file, and the list of the broker's recorders."""
        self._path = Path(path)
        self._recorders = recorders
        self._lines: dict[SeenRequest, dict[str, object]] = {}
        self._connections: dict[Origin, int] = {}
        self._began: float | None = None

    def __enter__(self) -> Self:
        self._recorders.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._recorders.remove(self)
        lines = "".join(f"{json.dumps(each)}\n" for each in list(self._lines.values()))
        self._path.write_text(lines, encoding="utf-8")

    # -- the loop's thread --------------------------------------------------------------------------------

    def asked(self, seen: SeenRequest, request: Request, message: Message) -> None:
        """Keep a request."""
        if self._began is None:
            self._began = seen.time
        connection = self._connections.setdefault(request.connection, len(self._connections) + 1)
        self._lines[seen] = {
            "seconds": round(seen.time - self._began, 3),
            "connection": connection,
            "client": seen.client_id,
            "api": seen.api,
            "version": seen.version,
            "request": b64encode(message.encode(seen.version)).decode(),
            "answer": None,
        }

    def answered(self, seen: SeenRequest, answer: object) -> None:
        """Keep the answer to a request."""
        line = self._lines.get(seen)
        if line is not None:
            assert isinstance(answer, Message | Prepared)
            line["answer"] = b64encode(b"".join(map(_read, answer.encode_parts(seen.version)))).decode()


def _read(piece: object) -> bytes:
    if isinstance(piece, bytes | bytearray | memoryview):
        return bytes(piece)
    return cast(_Slice, piece).read()
