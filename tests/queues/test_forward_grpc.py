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
from kohort.queues.forward import Destination, Forwarder, open_service

pytestmark = pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="grpcio is not installed")
METHOD = "/kohort.test.Sink/Take"
WITHIN_S = 30


class Sink:
    """Answers with the status that the value names: `CODE action delay`, of the first push alone."""

    def __init__(self, key: bytes = b"", certificates: bytes = b"") -> None:
        import grpc

        self.times: Counter[str] = Counter()
        self.metadata: list[dict[str, str | bytes]] = []
        self._lock = threading.Lock()
        self._grpc = grpc
        self._server = grpc.server(ThreadPoolExecutor(8))
        handler = grpc.unary_unary_rpc_method_handler(self._take)
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

    def close(self) -> None:
        self._server.stop(None).wait()


@pytest.fixture
def sink() -> Iterator[Sink]:
    found = Sink()
    yield found
    found.close()


def test_each_status_decides_what_becomes_of_its_record(
    topic: str, sink: Sink, options: ConsumerOptions
) -> None:
    destination = Destination(
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
    assert (first["kafka-header-x-bin"], first["kafka-header-spaced"]) == (b"bin", "red")


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


def test_a_service_that_is_away_is_unreached(topic: str, options: ConsumerOptions, free_port: int) -> None:
    destination = Destination(name="d", topic=topic, url=f"grpc://127.0.0.1:{free_port}{METHOD}")

    async def main() -> str:
        async with open_service(destination) as service:
            verdict = await service.push(ConsumerRecord(topic, 0, 0, 0, None, b"x"), 1)
        return verdict.action.value

    assert anyio.run(main, backend="asyncio") == "unreached"
