"""The etcd client against scripted endpoints: which requests it repeats, and which it must not."""

import ssl
from collections.abc import Callable
from pathlib import Path

import httpx
import msgspec
import pytest

from kohort.broker.etcd.address import Credentials
from kohort.broker.etcd.client import EtcdClient
from kohort.broker.etcd.errors import EtcdError, EtcdLeaseLost, EtcdRejected, EtcdUnavailable
from kohort.broker.etcd.messages import Put, Range, prefix_end

FIRST, SECOND = "http://first:1", "http://second:1"
Answer = Callable[[httpx.Request], httpx.Response]


def ok(**form: object) -> Answer:
    return lambda _: httpx.Response(200, content=msgspec.json.encode({"header": {"revision": "7"}, **form}))


def refusal(status: int, code: int, message: str) -> Answer:
    return lambda _: httpx.Response(status, json={"code": code, "message": message})


def breaks_off(_: httpx.Request) -> httpx.Response:
    raise httpx.ReadError("connection reset by peer")


def refuses(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused")


class Endpoints:
    """Each gives its answers in turn, the last one again and again."""

    def __init__(self, **answers: list[Answer]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        host = request.url.host
        self.asked.append(host)
        answers = self.answers[host]
        return (answers.pop(0) if len(answers) > 1 else answers[0])(request)

    def client(self) -> EtcdClient:
        return EtcdClient([FIRST, SECOND], transport=httpx.MockTransport(self), call_seconds=0.3)


async def test_a_transaction_that_may_have_been_done_is_not_repeated() -> None:
    endpoints = Endpoints(first=[breaks_off], second=[ok(succeeded=True)])
    with pytest.raises(EtcdUnavailable, match="connection reset") as caught:
        await endpoints.client().txn([], [])
    assert caught.value.maybe_done
    assert endpoints.asked == ["first"]


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (499, 1, "context canceled"),
        (500, 2, "etcdserver: unexpected"),
        (504, 4, "context deadline exceeded"),
        (500, 13, "internal"),
        (503, 14, "etcdserver: leader changed"),
        (500, 15, "etcdserver: corrupt cluster"),
    ],
)
async def test_an_error_on_the_way_does_not_prove_that_a_transaction_was_not_done(
    status: int, code: int, message: str
) -> None:
    endpoints = Endpoints(first=[refusal(status, code, message)], second=[ok(succeeded=True)])
    with pytest.raises(EtcdUnavailable, match=message) as caught:
        await endpoints.client().txn([], [])
    assert caught.value.maybe_done
    assert endpoints.asked == ["first"]


async def test_a_transaction_that_was_never_sent_is_tried_on_another_member() -> None:
    endpoints = Endpoints(first=[refuses], second=[ok(succeeded=True)])
    client = endpoints.client()
    assert (await client.txn([], [])).revision == 7
    assert (await client.txn([], [])).succeeded
    assert endpoints.asked == ["first", "second", "second"]  # Who answered last is asked first.


async def test_a_member_without_a_leader_has_done_nothing() -> None:
    no_leader = refusal(503, 14, "etcdserver: no leader")
    endpoints = Endpoints(first=[no_leader], second=[ok(succeeded=True)])
    assert (await endpoints.client().txn([], [])).succeeded


async def test_a_request_that_timed_out_inside_etcd_may_have_been_done() -> None:
    endpoints = Endpoints(first=[refusal(503, 14, "etcdserver: request timed out")], second=[ok()])
    with pytest.raises(EtcdUnavailable) as caught:
        await endpoints.client().txn([], [])
    assert caught.value.maybe_done


@pytest.mark.parametrize("broken", [breaks_off, refuses, refusal(503, 14, "etcdserver: leader changed")])
async def test_an_idempotent_request_is_repeated_on_another_member(broken: Answer) -> None:
    endpoints = Endpoints(first=[broken], second=[ok()])
    client = endpoints.client()
    assert await client.put(Put(b"a", b"")) == 7
    assert endpoints.asked == ["first", "second"]


async def test_a_refusal_is_final() -> None:
    endpoints = Endpoints(first=[refusal(400, 8, "etcdserver: mvcc: database space exceeded")], second=[ok()])
    with pytest.raises(EtcdRejected, match="space exceeded"):
        await endpoints.client().put(Put(b"a", b""))
    assert endpoints.asked == ["first"]


async def test_an_expired_lease_differs_from_one_without_time_left() -> None:
    endpoints = Endpoints(first=[ok(result={"ID": "5"})], second=[ok()])
    with pytest.raises(EtcdLeaseLost):
        await endpoints.client().keep_alive(5)


@pytest.mark.parametrize("content", [b"", b"<html>", b"[1]", b"\xff"])
async def test_an_answer_that_is_no_json_object_is_an_error(content: bytes) -> None:
    endpoints = Endpoints(first=[lambda _: httpx.Response(200, content=content)], second=[refuses])
    with pytest.raises(EtcdError, match="is it etcd"):
        await endpoints.client().txn([], [])


async def test_errors_of_older_gateways_are_read_as_well() -> None:
    old = {"error": {"grpc_code": 11, "message": "etcdserver: mvcc: required revision has been compacted"}}
    endpoints = Endpoints(first=[lambda _: httpx.Response(200, json=old)], second=[refuses])
    with pytest.raises(EtcdRejected, match="compacted"):
        await endpoints.client().range(Range(b"a"))


def test_the_end_of_a_prefix_follows_all_keys_with_the_prefix() -> None:
    assert prefix_end(b"a/") == b"a0"
    assert prefix_end(b"a\xff\xff") == b"b"
    assert prefix_end(b"a/") > b"a/\xff\xff"


@pytest.mark.parametrize(
    ("endpoint", "reads"), [("http://etcd:2379", 0), ("https://etcd:2379", 1), ("HTTPS://etcd:2379", 1)]
)
def test_the_system_s_certificates_are_read_for_tls_alone(
    endpoint: str, reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[ssl.SSLContext] = []
    monkeypatch.setattr(
        ssl.SSLContext, "load_default_certs", lambda context, _purpose=None: read.append(context)
    )
    EtcdClient([endpoint])
    assert len(read) == reads


def test_a_file_that_cannot_be_used_is_named_without_tls_too(tmp_path: Path) -> None:
    with pytest.raises(EtcdError, match=r"absent\.pem can't be used for TLS"):
        EtcdClient(["http://etcd:2379"], Credentials(ca_file=tmp_path / "absent.pem"))
