"""Answers in any pieces: read as h11 reads them, and nothing else is taken for one."""

import random

import h11
import pytest

from kohort.queues.forward.answers import ANSWER_BYTES_MAX, HEAD_BYTES_MAX, AnswerReader, BrokenAnswerError

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def answer_of(*pieces: bytes, at_end: bool = False) -> tuple[int, dict[str, str], bool] | None:
    """Return status, headers, and whether the connection may be used again; None while some is missing."""
    reader = AnswerReader()
    reader.expect()
    answer = None
    for each in pieces:
        answer = reader.receive(each)
        if answer is not None:
            break
    if answer is None and at_end:
        answer = reader.end()
    if answer is None:
        return None
    headers = dict(answer.headers)
    if "transfer-encoding" in headers:
        headers["transfer-encoding"] = headers["transfer-encoding"].lower()  # As h11 does.
    return answer.status, headers, reader.is_reusable and not at_end


def h11_of(data: bytes, *, at_end: bool) -> tuple[int, dict[str, str], bool] | None:
    """Return the same, as h11 has it. Raises: h11.RemoteProtocolError."""
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
    http.send(h11.Request(method="POST", target="/", headers=[("host", "h"), ("content-length", "0")]))
    http.send(h11.EndOfMessage())
    if data:  # Without any it is the end.
        http.receive_data(data)
    is_at_end, found = False, None
    while True:
        event = http.next_event()
        if isinstance(event, h11.Response):
            headers: dict[str, str] = {}
            for name, value in event.headers:
                known, text = name.decode(), value.decode("latin-1")
                headers[known] = f"{headers[known]}, {text}" if known in headers else text
            found = (event.status_code, headers)
        elif isinstance(event, h11.EndOfMessage):
            assert found is not None
            reusable = http.their_state is h11.DONE and http.trailing_data == (b"", False)
            return (*found, reusable and not at_end)
        elif event is h11.NEED_DATA and at_end and not is_at_end:
            is_at_end = True
            http.receive_data(b"")
        elif event is h11.NEED_DATA or isinstance(event, h11.ConnectionClosed):
            return None


def random_answer(draw: random.Random) -> bytes:
    """Return an answer of which most are legal."""
    end = draw.choice([b"\r\n", b"\r\n", b"\r\n", b"\n"])
    status = draw.choice([200, 200, 201, 204, 304, 404, 429, 503])
    reason = draw.choice([b" OK", b"", b" "])
    lines = [b"HTTP/1." + draw.choice([b"1", b"1", b"1", b"0"]) + b" %d" % status + reason]
    body = draw.randbytes(draw.choice([0, 1, 20, 300]))
    framing = draw.choice(["length", "length", "chunked", "end"])
    if framing == "length":
        lines.append(
            draw.choice([b"Content-Length: %d", b"content-length:%d", b"CONTENT-LENGTH:\t %d "]) % len(body)
        )
    elif framing == "chunked":
        lines.append(b"Transfer-Encoding: " + draw.choice([b"chunked", b"Chunked"]))
        pieces, left = [], body
        while left:
            size = draw.randint(1, len(left))
            pieces.append(b"%x%s\r\n%s\r\n" % (size, draw.choice([b"", b";a=b"]), left[:size]))
            left = left[size:]
        body = b"".join(pieces) + b"0\r\n" + draw.choice([b"", b"trailer: 1\r\n"]) + b"\r\n"
    lines += draw.sample(
        [
            b"kafka-action: Retry",
            b"Retry-After: 3",
            b"Connection: keep-alive",
            b"x: a",
            b"x: b",
            b"folded: a\r\n  b",
        ],
        draw.randint(0, 4),
    )
    if draw.random() < 0.1:
        lines.append(b"Connection: close")
    if draw.random() < 0.1:
        lines.append(draw.choice([b"no colon", b"bad name: 1", b"Content-Length: 1, 2", b"nul: a\0b"]))
    interim = draw.choice([b"", b"", b"HTTP/1.1 100 Continue\r\n\r\n"])
    behind = OK if draw.random() < 0.05 else b""
    return interim + end.join(lines) + end + end + (b"" if status in {204, 304} else body) + behind


@pytest.mark.parametrize("seed", range(400))
def test_any_answer_in_any_pieces_is_read_as_h11_reads_it(seed: int) -> None:
    draw = random.Random(seed)
    data = random_answer(draw)
    whole = draw.random() < 0.8
    data = data if whole else data[: draw.randint(0, len(data))]
    cuts = sorted(draw.randint(0, len(data)) for _ in range(draw.choice([0, 1, 3, 6, 30])))
    cuts = [] if data.endswith(OK) else cuts  # What comes behind an answer in another piece is not read.
    pieces = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    for at_end in (False, True):
        try:
            wanted = h11_of(data, at_end=at_end)
        except h11.RemoteProtocolError:
            with pytest.raises(BrokenAnswerError):
                answer_of(*pieces, at_end=at_end)
            continue
        assert answer_of(*pieces, at_end=at_end) == wanted, (seed, data)


@pytest.mark.parametrize(
    "data, words",
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", "illegal status line"),
        (b"HTTP/2 200\r\n\r\n", "illegal status line"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "another protocol"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", "content-length"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", "content-length"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: " + b"9" * 30 + b"\r\n\r\n", "content-length"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n", "transfer-encoding"),
        (b"HTTP/1.1 200 OK\r\na b: 1\r\n\r\n", "illegal header"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * HEAD_BYTES_MAX, "head is too long"),
        (CHUNKED + b"z\r\n", "illegal chunk"),
        (CHUNKED + b"1\r\nxx\r\n", "illegal chunk"),
        (CHUNKED + b"1;" + b"x" * 5_000, "illegal chunk"),
        (CHUNKED + b"0\r\n" + b"trailer: 1\r\n" * 1_000, "trailers are too long"),
    ],
)
def test_what_is_no_answer_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(BrokenAnswerError, match=words):
        answer_of(data)


@pytest.mark.parametrize(
    "begin, more",
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n", bytes(1_000)),
        (b"HTTP/1.1 200 OK\r\n\r\n", bytes(1_000)),
        (CHUNKED, b"1;%s\r\nx\r\n" % (b"e" * 1_000)),
    ],
)
def test_no_more_is_read_of_a_body_than_its_limit(begin: bytes, more: bytes) -> None:
    reader = AnswerReader()
    reader.expect()
    assert reader.receive(begin) is None
    pieces = 1
    while (answer := reader.receive(more)) is None:
        pieces += 1
    assert answer.status == 200
    assert pieces <= ANSWER_BYTES_MAX // 1_000 + 1
    assert not reader.is_reusable


def test_what_comes_behind_an_answer_is_not_taken_for_the_next_one() -> None:
    assert answer_of(OK) == (200, {"content-length": "0"}, True)
    assert answer_of(OK + OK) == (200, {"content-length": "0"}, False)
