"""Reads HTTP/1.1 answers to POST requests from bytes, as they come: pure.

Of an answer its status and headers count; its body is read to find its end, and dropped. Source: RFC 9112.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

ANSWER_BYTES_MAX = 65_536
HEAD_BYTES_MAX = 100 * 1024
LINE_BYTES_MAX = 4 * 1024  # Of a chunk's own line, and of all trailers.
_HEAD_END = re.compile(rb"\n\r?\n")
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n\0]*)?\r?\n")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*?)[ \t]*\r?\n")
_FOLD = re.compile(rb"\r?\n[ \t]+")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\r\n]*)?\r?\n")
_LINE_END = re.compile(rb"\r?\n")
_DIGITS_MAX = 18
KNOWN_BYTES_MAX = 1_024


class BrokenAnswerError(Exception):
    """Somebody was there, and there is no whole answer."""


class Answer(NamedTuple):
    """A status, and headers whose names are in small letters."""

    status: int
    headers: Mapping[str, str]


class Head(NamedTuple):
    """An answer, and how the end of its body is told: by chunks, by a length, or by the connection's end."""

    answer: Answer
    is_chunked: bool
    length: int | None
    keeps_connection: bool


class AnswerReader:
    """Reads the answers on one connection, one after the other."""

    def __init__(self) -> None:
        self._unread = b""
        self._searched = 0  # So much of it has no end of a head.
        self._answer: Answer | None = None
        self._is_chunked = False
        self._left: int | None = 0  # Bytes of the body or chunk that are missing; None up to the end.
        self._body_bytes = 0
        self._keeps_connection = False
        self._is_whole = True

    @property
    def is_reusable(self) -> bool:
        """Whether the answer has ended, nothing came behind it, and another request may follow."""
        return self._is_whole and self._keeps_connection and not self._unread

    def expect(self) -> None:
        """A request goes out: what comes now is its answer."""
        self._answer, self._is_whole, self._body_bytes = None, False, 0

    def receive(self, data: bytes) -> Answer | None:
        """Return the answer once it is whole, or so long that the rest is of no interest.

        Raises: BrokenAnswerError for what is no answer.
        """
        self._unread = self._unread + data if self._unread else data
        while self._answer is None:
            if not self._read_head():
                return None
        if self._is_chunked:
            self._read_chunks()
        else:
            self._read_body()
        return self._answer if self._is_whole or self._body_bytes > ANSWER_BYTES_MAX else None

    def end(self) -> Answer:
        """Return the answer where the connection has ended.

        Raises: BrokenAnswerError if some of it is missing.
        """
        if self._answer is None or (not self._is_whole and (self._is_chunked or self._left is not None)):
            raise BrokenAnswerError("the connection was closed before the end of an answer")
        return self._answer

    def _read_head(self) -> bool:
        """Return whether a head was read; that of an interim answer is dropped."""
        found = _HEAD_END.search(self._unread, self._searched)
        if (len(self._unread) if found is None else found.end()) > HEAD_BYTES_MAX:
            raise BrokenAnswerError("the answer's head is too long")
        if found is None:
            self._searched = max(0, len(self._unread) - 2)
            return False
        self._searched = 0
        text, self._unread = self._unread[: found.end()], self._unread[found.end() :]
        head = _known_head(text) if len(text) <= KNOWN_BYTES_MAX else read_head(text)
        if head is not None:
            self._answer, self._is_chunked, self._left, self._keeps_connection = head
        return True

    def _read_body(self) -> None:
        if self._left is None:
            self._body_bytes += len(self._unread)
            self._unread = b""
            return
        self._skip()
        self._is_whole = not self._left

    def _read_chunks(self) -> None:
        while self._body_bytes <= ANSWER_BYTES_MAX:
            if self._left:
                self._skip()
                if self._left:
                    return
                self._left = None  # The line's end behind the chunk is missing.
            line = _CHUNK if self._left == 0 else _LINE_END
            end = self._unread.find(b"\n") + 1
            if not end:
                if len(self._unread) > LINE_BYTES_MAX:
                    raise BrokenAnswerError("illegal chunk: a line is too long")
                return
            found = line.fullmatch(self._unread, 0, end)
            if found is None:
                raise BrokenAnswerError(f"illegal chunk: {self._unread[:40]!r}")
            if self._left is None:
                self._left, self._unread = 0, self._unread[end:]
            elif int(found[1], 16):
                self._left, self._unread = int(found[1], 16), self._unread[end:]
                self._body_bytes += end
            else:
                self._read_trailers(end)
                return

    def _read_trailers(self, begin: int) -> None:
        """Drop what stands behind the last chunk, up to a blank line: `begin` is where it begins."""
        found = _HEAD_END.search(self._unread, begin - 1)
        if found is not None:
            self._is_whole, self._unread = True, self._unread[found.end() :]
        elif len(self._unread) > LINE_BYTES_MAX:
            raise BrokenAnswerError("the answer's trailers are too long")

    def _skip(self) -> None:
        assert self._left is not None
        skipped = min(self._left, len(self._unread))
        self._left -= skipped
        self._body_bytes += skipped
        self._unread = self._unread[skipped:]


def read_head(text: bytes) -> Head | None:
    """Return a head up to its blank line, None for that of an interim answer. Raises: BrokenAnswerError."""
    status = _STATUS.match(text)
    if status is None:
        raise BrokenAnswerError(f"illegal status line: {text[:40]!r}")
    code = int(status[2])
    if code == 101:
        raise BrokenAnswerError("status 101: another protocol was not asked for")
    if code < 200:
        return None
    headers = _headers(text, status.end())
    words = {each.strip() for each in headers.get("connection", "").lower().split(",")}
    encoding, length = headers.get("transfer-encoding"), _length(headers)
    keeps_connection = status[1] == b"1" and "close" not in words
    if code in {204, 304}:
        return Head(Answer(code, headers), False, 0, keeps_connection)
    if encoding is None:
        return Head(Answer(code, headers), False, length, keeps_connection and length is not None)
    if encoding.lower() != "chunked":
        raise BrokenAnswerError(f"unknown transfer-encoding {encoding[:40]!r}")
    return Head(Answer(code, headers), True, 0, keeps_connection and length is None)


_known_head = lru_cache(256)(read_head)  # A service's heads are much alike.


def _headers(head: bytes, begin: int) -> dict[str, str]:
    """Return the headers of a head that ends with a blank line. Raises: BrokenAnswerError."""
    if b"\n " in head or b"\n\t" in head:  # Lines that go on: obsolete, and legal.
        head = head[:begin] + _FOLD.sub(b" ", head[begin:])
    headers: dict[str, str] = {}
    while head[begin] not in b"\r\n":
        found = _HEADER.match(head, begin)
        if found is None:
            raise BrokenAnswerError(f"illegal header: {head[begin : begin + 40]!r}")
        name, value = found[1].decode().lower(), found[2].decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
        begin = found.end()
    return headers


def _length(headers: dict[str, str]) -> int | None:
    """Return the length of the body, None where the connection's end is its end.

    Raises: BrokenAnswerError.
    """
    text = headers.get("content-length")
    if text is None:
        return None
    lengths = {each.strip() for each in text.split(",")}
    length = lengths.pop()
    if lengths or not length.isascii() or not length.isdecimal() or len(length) > _DIGITS_MAX:
        raise BrokenAnswerError(f"illegal content-length {text[:40]!r}")
    return int(length)
