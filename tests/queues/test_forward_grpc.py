"""Records pushed to a service over gRPC: bytes in, a status out, the action in the trailing metadata."""

from __future__ import annotations

import importlib.util
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

from kohort.client import ConsumerRecord
from kohort.client.aio import Producer
from kohort.client.config import ConsumerOptions
from kohort.client.errors import ConfigurationError
from kohort.queues.forward import Destination, Forwarder, Verdict, open_service
from kohort.queues.forward import push_messages as push_messages_module
from kohort.queues.forward.push_messages import FILE, file_descriptor, push_messages

pytestmark = pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="grpcio is not installed")
METHOD = "/kohort.test.Sink/Take"
WITHIN_S = 30


class Sink:
    """Answers with the status that the value names: `CODE action delay`, of the first push alone."""

    def __init__(self, key: bytes = b"", certificates: bytes = b"", *, is_stream: bool = False) -> None:
        import grpc

        self.times: Counter[str] = Counter()
        self.metadata: list[dict[str, str | bytes]] = []
        self._lock = threading.Lock()
        self._grpc = grpc
        self._server = grpc.server(ThreadPoolExecutor(8))
        self.streams = 0
        handler = self._stream_handler() if is_stream else grpc.unary_unary_rpc_method_handler(self._take)
        service, _, method = METHOD[1:].partition("/")
        methods = grpc.method_handlers_generic_handler(service, {method: handler})
        self._server.add_generic_rpc_handlers((methods,))
        if key:
            tls = grpc.ssl_server_credentials([(key, certificates)])
            self.port: int = self._server.add_secure_port("127.0.0.1:0", tls)
        else:
            self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def _take(self, value: bytes, context: Any) -> bytes:
        with self._lock:
            text = value.decode()
            self.times[text] += 1
            is_first = self.times[text] == 1
            self.metadata.append(dict(context.invocation_metadata()))
        code, *words = text.split()
        if code != "OK" and is_first:
            names = ("kafka-action", "kafka-retry-delay-ms")
            context.set_trailing_metadata(tuple(zip(names, words, strict=False)))
            context.abort(self._grpc.StatusCode[code], "as it was asked to")
        return b""

    def _stream_handler(self) -> Any:
        messages = push_messages()
        return self._grpc.stream_stream_rpc_method_handler(
            self._answer_each, messages.record.FromString, messages.answer.SerializeToString
        )

    def _answer_each(self, records: Iterator[Any], context: Any) -> Iterator[Any]:
        """Answer two records at a time, the later one first; `END CODE` ends the stream at its first push.

        `DEAF` reads no more, so that what comes behind it is not taken from its sender.
        """
        self.streams += 1
        held: list[Any] = []
        for record in records:
            text = record.value.decode()
            with self._lock:
                self.times[text] += 1
                is_first = self.times[text] == 1
                self.metadata.append({**dict(context.invocation_metadata()), **record.metadata})
            code, *words = text.split()
            if code == "END" and is_first:
                if words:
                    context.abort(self._grpc.StatusCode[words[0]], "as it was asked to")
                return
            if code == "SILENT" and is_first:
                continue
            if code == "DEAF":
                ended = threading.Event()
                context.add_callback(ended.set)
                ended.wait()
                return
            answer = push_messages().answer(id=record.id)
            if code not in ("OK", "END", "SILENT") and is_first:
                answer.code, answer.details = code, "as it was asked to"
                answer.metadata.update(zip(("kafka-action", "kafka-retry-delay-ms"), words, strict=False))
            held.append(answer)
            if code != "OK" or len(held) > 1:
                yield from reversed(held)
                held.clear()

    def close(self) -> None:
        self._server.stop(None).wait()


@pytest.fixture
def streaming() -> Iterator[Sink]:
    found = Sink(is_stream=True)
    yield found
    found.close()


@pytest.fixture
def sink() -> Iterator[Sink]:
    found = Sink()
    yield found
    found.close()


@pytest.mark.parametrize("is_stream", [False, True], ids=["unary", "stream"])
def test_each_status_decides_what_becomes_of_its_record(
    topic: str, options: ConsumerOptions, request: pytest.FixtureRequest, is_stream: bool
) -> None:
    sink: Sink = request.getfixturevalue("streaming" if is_stream else "sink")
    destination = Destination(
        stream=is_stream,
        name=f"d-{uuid.uuid4().hex[:6]}",
        topic=topic,
        url=f"grpc://127.0.0.1:{sink.port}{METHOD}",
        retry_delays_ms=(50,),
    )
    values = [
        "OK",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "FAILED_PRECONDITION Retry 10",
        "FAILED_PRECONDITION Stash",
        "FAILED_PRECONDITION Skip",
    ]

    async def main() -> Counter[str]:
        async with Producer(bootstrap_servers=options["bootstrap_servers"]) as producer:
            for value in values:
                headers = [("x-bin", b"bin"), ("spaced", b" red ")]
                await producer.send(topic, value.encode(), key=b"k", partition=0, headers=headers)
        async with open_service(destination) as service, anyio.create_task_group() as tasks:
            forwarder = Forwarder(destination, service, **options)
            tasks.start_soon(forwarder.run)
            with anyio.fail_after(WITHIN_S):
                while forwarder.counts.total() < 8:
                    await anyio.sleep(0.02)
            forwarder.stop()
        return forwarder.counts

    assert anyio.run(main, backend="asyncio") == {"done": 3, "retry": 2, "dead": 1, "stash": 1, "skip": 1}
    assert [sink.times[each] for each in values] == [1, 2, 1, 2, 1, 1]
    first = next(each for each in sink.metadata if each["kafka-offset"] == "0")
    assert (first["kafka-topic"], first["kafka-attempt"], first["kafka-key"]) == (topic, "1", "aw==")
    assert first["kafka-header-x-bin"] == ("bin" if is_stream else b"bin")
    assert first["kafka-header-spaced"] == "red"


@pytest.mark.parametrize("is_known", [True, False])
def test_a_service_is_known_by_its_certificate_before_it_is_told_anything(
    tmp_path: Path, is_known: bool
) -> None:
    import trustme

    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    sink = Sink(
        certificate.private_key_pem.bytes(), b"".join(each.bytes() for each in certificate.cert_chain_pems)
    )
    (authority if is_known else trustme.CA()).cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "token").write_text("secret\n")
    destination = Destination(
        name="d",
        topic="t",
        url=f"grpcs://127.0.0.1:{sink.port}{METHOD}",
        ca_file=str(tmp_path / "ca.pem"),
        token_file=str(tmp_path / "token"),
        timeout_ms=5_000,
    )

    async def main() -> str:
        async with open_service(destination) as service:
            verdict = await service.push(ConsumerRecord("t", 0, 0, 0, None, b"OK"), 1)
        return verdict.action.value

    try:
        assert anyio.run(main, backend="asyncio") == ("done" if is_known else "unreached")
        assert [each["authorization"] for each in sink.metadata] == ["Bearer secret"] * is_known
    finally:
        sink.close()


@pytest.mark.parametrize("is_stream", [False, True], ids=["unary", "stream"])
def test_a_service_that_is_away_is_unreached(
    topic: str, options: ConsumerOptions, free_port: int, is_stream: bool
) -> None:
    url = f"grpc://127.0.0.1:{free_port}{METHOD}"
    destination = Destination(name="d", topic=topic, url=url, stream=is_stream)

    async def main() -> str:
        async with open_service(destination) as service:
            verdict = await service.push(ConsumerRecord(topic, 0, 0, 0, None, b"x"), 1)
        return verdict.action.value

    assert anyio.run(main, backend="asyncio") == "unreached"


def pushed(port: int, *values: str, timeout_ms: int = 20_000) -> list[Verdict]:
    """Return what becomes of records that are pushed at once, through one stream."""
    url = f"grpc://127.0.0.1:{port}{METHOD}"
    destination = Destination(name="d", topic="t", url=url, stream=True, timeout_ms=timeout_ms)
    verdicts: dict[int, Verdict] = {}

    async def main() -> None:
        async with open_service(destination) as service, anyio.create_task_group() as tasks:

            async def push(offset: int, value: str) -> None:
                record = ConsumerRecord("t", 0, offset, 0, None, value.encode())
                verdicts[offset] = await service.push(record, 1)

            for offset, value in enumerate(values):
                tasks.start_soon(push, offset, value)

    anyio.run(main, backend="asyncio")
    return [verdicts[offset] for offset in range(len(values))]


def test_answers_on_a_stream_come_in_any_order(streaming: Sink) -> None:
    values = [f"OK {number}" for number in range(400)]
    assert [each.action.value for each in pushed(streaming.port, *values)] == ["done"] * 400
    assert (streaming.streams, streaming.times.total()) == (1, 400)


@pytest.mark.parametrize(
    ("code", "action", "words"),
    [
        ("", "retry", "the stream ended: OK"),
        ("INTERNAL", "retry", "INTERNAL as it was asked to"),
        ("RESOURCE_EXHAUSTED", "retry", "RESOURCE_EXHAUSTED"),
        ("UNAUTHENTICATED", "unreached", "UNAUTHENTICATED"),
        ("UNIMPLEMENTED", "unreached", "UNIMPLEMENTED"),
    ],
)
def test_a_stream_that_ends_says_nothing_of_the_record(
    streaming: Sink, code: str, action: str, words: str
) -> None:
    url = f"grpc://127.0.0.1:{streaming.port}{METHOD}"
    destination = Destination(name="d", topic="t", url=url, stream=True)
    record = ConsumerRecord("t", 0, 0, 0, None, f"END {code}".strip().encode())

    async def main() -> list[Verdict]:
        async with open_service(destination) as service:
            return [await service.push(record, attempt) for attempt in (1, 2)]

    first, second = anyio.run(main, backend="asyncio")
    assert (first.action.value, first.is_failure) == (action, True)
    assert words in first.why
    assert (second.action.value, streaming.streams) == ("done", 2)


def test_a_stream_that_stands_still_is_replaced(streaming: Sink) -> None:
    url = f"grpc://127.0.0.1:{streaming.port}{METHOD}"
    destination = Destination(name="d", topic="t", url=url, stream=True, timeout_ms=300)
    record = ConsumerRecord("t", 0, 0, 0, None, b"SILENT")

    async def main() -> list[Verdict]:
        async with open_service(destination) as service:
            return [await service.push(record, attempt) for attempt in (1, 2)]

    first, second = anyio.run(main, backend="asyncio")
    assert (first.action.value, first.why) == ("retry", "no answer within 300 ms")
    assert (second.action.value, streaming.streams) == ("done", 2)


def test_a_stream_that_is_cancelled_cancels_nobody_who_writes_to_it(streaming: Sink) -> None:
    url = f"grpc://127.0.0.1:{streaming.port}{METHOD}"
    destination = Destination(name="d", topic="t", url=url, stream=True, timeout_ms=600)
    verdicts: list[Verdict] = []

    async def main() -> bool:
        async with open_service(destination) as service, anyio.create_task_group() as tasks:

            async def push(offset: int, value: bytes) -> None:
                verdicts.append(await service.push(ConsumerRecord("t", 0, offset, 0, None, value), 1))

            tasks.start_soon(push, 0, b"DEAF")
            await anyio.sleep(0.3)  # Its time limit passes this long before that of the others.
            for offset in (1, 2, 3):
                tasks.start_soon(push, offset, b"OK" + bytes(3_000_000))
        return tasks.cancel_scope.cancel_called

    assert not anyio.run(main, backend="asyncio")
    assert [each.action.value for each in verdicts] == ["retry"] * 4
    assert verdicts[0].why == "no answer within 600 ms"
    assert {each.why for each in verdicts[1:]} == {"the stream ended: CANCELLED"}


def test_a_push_that_is_cancelled_leaves_the_stream_to_the_others(streaming: Sink) -> None:
    url = f"grpc://127.0.0.1:{streaming.port}{METHOD}"
    destination = Destination(name="d", topic="t", url=url, stream=True)

    async def main() -> list[str]:
        async with open_service(destination) as service:
            with anyio.move_on_after(0.2) as scope:  # The service holds the first of two answers.
                await service.push(ConsumerRecord("t", 0, 0, 0, None, b"OK 0"), 1)
            assert scope.cancelled_caught
            others = [ConsumerRecord("t", 0, offset, 0, None, b"OK %d" % offset) for offset in (1, 2, 3)]
            found = []

            async def push(record: ConsumerRecord) -> None:
                found.append((await service.push(record, 1)).action.value)

            async with anyio.create_task_group() as tasks:
                for each in others:
                    tasks.start_soon(push, each)
            return found

    assert anyio.run(main, backend="asyncio") == ["done"] * 3
    assert streaming.streams == 1


def test_the_messages_are_those_of_the_file() -> None:
    descriptors = pytest.importorskip("google.protobuf.descriptor_pb2")
    pytest.importorskip("proto_schema_parser", reason="it reads the file")
    from google.protobuf.descriptor_pool import DescriptorPool

    from kohort.registry.protobuf.building import descriptor_of

    written = descriptor_of(Path(push_messages_module.__file__).with_name("push.proto").read_text())
    written.name = FILE
    written.ClearField("service")
    whole = []
    for each in (written, file_descriptor(descriptors)):
        pool, found = DescriptorPool(), descriptors.FileDescriptorProto()
        pool.AddSerializedFile(each.SerializeToString())
        pool.FindFileByName(FILE).CopyToProto(found)
        for message in found.message_type:
            for field in message.field:
                field.ClearField("json_name")
        whole.append(found)
    assert whole[0] == whole[1]


def test_a_stream_needs_an_address_of_grpc() -> None:
    with pytest.raises(ConfigurationError, match="needs an address grpc://"):
        Destination(name="d", topic="t", url="http://127.0.0.1:1/x", stream=True)
