"""The process that decodes records for the page: what ends it, and what is told then."""

import os
import signal
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest
import trio

from kohort.broker.http.live import decoding
from kohort.broker.http.live.decoding import NO_TIME, Datum, RecordDecoder
from kohort.broker.http.live.test_messages import PATH, a_partition, hold, site
from kohort.broker.http.test_http import FakeLog, Site
from kohort.broker.runtime.supervisor import Part
from kohort.protocol.records import build_batch

__all__ = ["site"]

SERVING = """
import os, sys, time
def received():
    return sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(4)))
def send(content):
    os.write(1, len(content).to_bytes(4) + content)
urls = received()
send(b"")
while data := received():
    if b"end" in data: os.kill(os.getpid(), 11)
    if b"wait" in data: time.sleep(60)
    send(b"\\xa7decoded")
"""
"""A process that answers each request with the text `decoded`, written in msgpack."""

Start = Callable[..., RecordDecoder]


@pytest.fixture
async def start(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    """Return what starts a decoder with the text of its process."""
    made: list[RecordDecoder] = []

    def started(text: str = SERVING) -> RecordDecoder:
        monkeypatch.setattr(decoding, "START", text)
        made.append(RecordDecoder("http://registry"))
        nursery.start_soon(made[-1].run, cast(Part, None))
        return made[-1]

    yield started
    for each in made:
        await each._end()


def datum(words: bytes = b"", schema_id: int = 7) -> Datum:
    return Datum("flights", False, b"\0" + schema_id.to_bytes(4) + words, {})


def pid_of(decoder: RecordDecoder) -> int:
    assert decoder._process is not None
    return decoder._process.pid


async def test_data_with_the_id_of_a_schema_is_decoded_by_one_process(start: Start) -> None:
    others = [Datum("flights", True, each, {}) for each in (b"\0\0\0", b"text!")]
    decoder, found = start(), [datum(), datum(), *others]
    await decoder.decode(found[:1])
    first = pid_of(decoder)
    await decoder.decode(found)
    assert [each.shown for each in found] == [{"decoded": "decoded"}, {"decoded": "decoded"}, {}, {}]
    assert pid_of(decoder) == first


async def test_a_record_that_ends_the_process_is_told_of_and_the_next_one_is_decoded(start: Start) -> None:
    decoder, found = start(), [datum(b"end"), datum()]
    await decoder.decode(found)
    told: Any = found[0].shown["decoded"]
    assert (told["schema_id"], told["text"], "has ended" in told["problem"]) == (7, None, True)
    assert found[1].shown == {"decoded": "decoded"}


async def test_a_record_that_takes_too_long_ends_the_process(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "DATUM_SECONDS_MAX", 0.1)
    decoder, found = start(), [datum(), datum(b"wait"), datum()]
    await decoder.decode(found[:1])
    first = pid_of(decoder)
    await decoder.decode(found)
    assert "took longer" in found[1].shown["decoded"]["problem"]
    assert found[2].shown == {"decoded": "decoded"}
    with pytest.raises(ProcessLookupError):
        os.kill(first, signal.SIGTERM)


async def test_an_answer_has_a_limit_of_time_and_a_start_goes_on_behind_it(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "ANSWER_SECONDS_MAX", 0.0)
    decoder, found = start(), [datum(), datum()]
    await decoder.decode(found)
    assert [each.shown["decoded"]["problem"] for each in found] == [NO_TIME, NO_TIME]
    monkeypatch.setattr(decoding, "ANSWER_SECONDS_MAX", 0.001)
    await decoder.decode(found[:1])
    first = pid_of(decoder)
    monkeypatch.setattr(decoding, "ANSWER_SECONDS_MAX", 10.0)
    await decoder.decode(found)
    assert (found[0].shown, pid_of(decoder)) == ({"decoded": "decoded"}, first)


async def test_larger_data_is_not_decoded(start: Start) -> None:
    decoder, found = start(), [datum(b"x" * decoding.DATA_BYTES_MAX)]
    await decoder.decode(found)
    assert "larger than 262,144 bytes" in found[0].shown["decoded"]["problem"]
    assert decoder._process is None, "nothing was asked"


async def test_a_process_that_cannot_start_is_told_of(start: Start) -> None:
    decoder, found = start("raise SystemExit(3)"), [datum()]
    await decoder.decode(found)
    assert "has ended" in found[0].shown["decoded"]["problem"]


async def test_an_idle_process_is_ended(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "IDLE_SECONDS", 0.04)
    decoder = start()
    await decoder.decode([datum()])
    first = pid_of(decoder)
    with trio.fail_after(10):
        while decoder._process is not None:
            await trio.sleep(0.01)
        async with decoder._lock:  # Held until the process is gone.
            pass
    with pytest.raises(ProcessLookupError):
        os.kill(first, signal.SIGTERM)


async def test_the_page_asks_it_only_where_there_is_a_registry(
    site: Site, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = build_batch([(1, b"key", datum().data, ())], base_offset=0)
    partition = a_partition(0, 1)
    partition.log = FakeLog(0, 1, batches=batch)
    hold(site.view, monkeypatch, partition)
    [record] = (await site.get(PATH)).json["records"]
    assert "decoded" not in record["value"]
    decoder = start()
    monkeypatch.setattr(site.view, "part", lambda name, make: decoder if "decoder" in name else make())
    site.view.registry_urls = "http://registry"
    [record] = (await site.get(PATH)).json["records"]
    assert (record["value"]["decoded"], "decoded" in record["key"]) == ("decoded", False)
    assert record["value"]["hex"] == "0000000007"
