"""What etcd answers, exactly: the same from etcd itself, the etcd of simulations and the test kit's server.

Each test is a conversation. Revisions in it count from the beginning of the test, and the header of an answer
is its revision alone: clusters and members have numbers of their own.
"""

from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest
import trio

from kohort.testing.metadata_server import MetadataServer
from kohort.testing.simulation.etcd import SimulatedEtcd
from kohort.testing.simulation.kernel import Kernel
from kohort.testing.simulation.network import Network
from kohort.testing.simulation.patches import simulated
from kohort.testing.simulation.trio_process import TrioProcess
from kohort.testing.simulation.trio_sockets import put_on_network
from tests.cluster.etcd_process import EtcdProcess

EVERYTHING = {"key": "AA==", "range_end": "AA=="}
VIRTUAL_SECONDS_MAX = 600
PATIENCE_SECONDS = 20
SILENCE_SECONDS = 0.3
REVISIONS = ("revision", "create_revision", "mod_revision", "compact_revision")

Answer = Any
Conversation = Callable[["Gateway"], Coroutine[Any, Any, None]]


def text(data: bytes) -> str:
    return b64encode(data).decode()


KEY, OTHER, THIRD = text(b"a"), text(b"b"), text(b"c")
ONE, TWO = text(b"1"), text(b"2")


class Gateway:
    """An etcd, asked for its JSON."""

    def __init__(self, url: str, client: httpx.AsyncClient) -> None:
        self._url = url
        self._client = client
        self._first = 0

    async def begin(self) -> None:
        """Remove what there is, and count revisions from here on."""
        for lease in (await self.ask("lease/leases")).get("leases", ()):
            await self.ask("lease/revoke", ID=lease["ID"])
        await self.ask("kv/deleterange", **EVERYTHING)
        self._first = (await self.ask("kv/range", **EVERYTHING))["header"]

    def at(self, revision: int) -> str:
        """Return a revision of this test as etcd counts it."""
        return str(self._first + revision)

    async def ask(self, path: str, /, **form: object) -> Answer:
        """Return the answer; of one that is refused the status with it."""
        response = await self._client.post(f"{self._url}/v3/{path}", content=msgspec.json.encode(form))
        answer = self._plain(response.json())
        return answer if response.status_code == httpx.codes.OK else (response.status_code, answer)

    @asynccontextmanager
    async def watch(self, **form: object) -> AsyncIterator[AsyncIterator[Answer]]:
        """Give the messages of a watch."""
        content = msgspec.json.encode({"create_request": form})
        async with self._client.stream("POST", f"{self._url}/v3/watch", content=content) as response:
            assert response.status_code == httpx.codes.OK
            yield self._messages(response)

    async def _messages(self, response: httpx.Response) -> AsyncIterator[Answer]:
        async for line in response.aiter_lines():
            yield self._plain(msgspec.json.decode(line)["result"])

    def _plain(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._plain(each) for each in value]
        if not isinstance(value, dict):
            return value
        plain = {name: self._plain(each) for name, each in value.items()}
        for name in REVISIONS:
            if name in plain:
                plain[name] = int(plain[name]) - self._first
        if "header" in plain:
            plain["header"] = plain["header"].get("revision")
        return plain

    async def key(self) -> Answer:
        """Return what there is of the first key."""
        found = await self.ask("kv/range", key=KEY)
        return found.get("kvs", [None])[0]


async def hear(messages: AsyncIterator[Answer], count: int) -> list[Answer]:
    """Return the next events of a watch, in however many messages they come."""
    events: list[Answer] = []
    with trio.fail_after(PATIENCE_SECONDS):
        while len(events) < count:
            events += (await anext(messages))["events"]
    return events


async def hear_nothing(messages: AsyncIterator[Answer]) -> None:
    with trio.move_on_after(SILENCE_SECONDS):
        pytest.fail(f"a message that nobody waits for: {await anext(messages)}")


# -- who is asked -----------------------------------------------------------------------------------------


async def _converse(test: Conversation, url: str) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_SECONDS) as client:
        gateway = Gateway(url, client)
        await gateway.begin()
        await test(gateway)


def with_etcd(test: Conversation, request: pytest.FixtureRequest) -> None:
    etcd: EtcdProcess = request.getfixturevalue("shared_etcd")
    trio.run(_converse, test, etcd.url)


def with_simulated(test: Conversation, request: pytest.FixtureRequest) -> None:
    kernel = Kernel(seed=1)
    network = Network(kernel)
    with simulated(kernel):
        try:
            etcd = SimulatedEtcd(kernel, network, members=1)
            process = TrioProcess(kernel, "client", _converse, test, f"http://{etcd.addresses}")
            put_on_network(process, network, network.host("client"))
            kernel.run(lambda: process.outcome is not None, VIRTUAL_SECONDS_MAX)
            assert process.outcome is not None
            process.outcome.unwrap()
        finally:
            kernel.close()


def with_server(test: Conversation, request: pytest.FixtureRequest) -> None:
    server = MetadataServer()
    try:
        trio.run(_converse, test, server.url)
    finally:
        server.close()


def conversation(test: Conversation) -> Callable[..., None]:
    """Have a test talk to each of them."""

    @pytest.mark.parametrize("run", [with_etcd, with_simulated, with_server])
    def converse(run: Callable[..., None], request: pytest.FixtureRequest) -> None:
        run(test, request)

    converse.__name__ = test.__name__
    parametrized: Callable[..., None] = converse
    return parametrized


# -- keys -------------------------------------------------------------------------------------------------


@conversation
async def test_a_key_has_its_revisions_and_its_version(etcd: Gateway) -> None:
    assert await etcd.ask("kv/range", key=KEY) == {"header": 0}
    assert await etcd.ask("kv/put", key=KEY, value=ONE) == {"header": 1}
    assert await etcd.ask("kv/put", key=OTHER) == {"header": 2}
    assert await etcd.ask("kv/put", key=KEY, value=TWO) == {"header": 3}
    first = {"key": KEY, "create_revision": 1, "mod_revision": 3, "version": "2", "value": TWO}
    second = {"key": OTHER, "create_revision": 2, "mod_revision": 2, "version": "1"}
    assert await etcd.ask("kv/range", key=KEY) == {"header": 3, "kvs": [first], "count": "1"}
    assert await etcd.ask("kv/range", **EVERYTHING) == {"header": 3, "kvs": [first, second], "count": "2"}
    assert await etcd.ask("kv/deleterange", key=KEY) == {"header": 4, "deleted": "1"}
    assert await etcd.ask("kv/deleterange", key=KEY) == {"header": 4}
    await etcd.ask("kv/put", key=KEY)
    assert await etcd.key() == {"key": KEY, "create_revision": 5, "mod_revision": 5, "version": "1"}


async def _put_three(etcd: Gateway) -> None:
    """Put three keys at revisions 1 to 4. The newest is the first."""
    for key in (KEY, THIRD, OTHER, KEY):
        await etcd.ask("kv/put", key=key, value=ONE)


def keys_of(answer: Answer) -> str:
    names = {KEY: "a", OTHER: "b", THIRD: "c"}
    return "".join(names[each["key"]] for each in answer.get("kvs", ()))


@conversation
async def test_a_range_can_be_limited_counted_and_sorted(etcd: Gateway) -> None:
    await _put_three(etcd)
    every = {"key": KEY, "range_end": text(b"z")}
    limited = await etcd.ask("kv/range", **every, limit="2")
    assert (keys_of(limited), limited["count"], limited["more"]) == ("ab", "3", True)
    assert "more" not in await etcd.ask("kv/range", **every, limit="3")
    assert await etcd.ask("kv/range", **every, count_only=True) == {"header": 4, "count": "3"}
    assert await etcd.ask("kv/range", **every, limit="1", count_only=True) == {"header": 4, "count": "3"}
    assert "value" not in (await etcd.ask("kv/range", **every, keys_only=True))["kvs"][0]
    for order, target, found in (
        ("DESCEND", "KEY", "cba"),
        ("ASCEND", "MOD", "cba"),
        ("DESCEND", "CREATE", "bca"),
        ("ASCEND", "VERSION", "bca"),
    ):
        assert keys_of(await etcd.ask("kv/range", **every, sort_order=order, sort_target=target)) == found
    newest = await etcd.ask("kv/range", **every, sort_order="DESCEND", sort_target="MOD", limit="1")
    assert (keys_of(newest), newest["count"], newest["more"]) == ("a", "3", True)


@conversation
async def test_a_range_has_a_beginning_and_an_end(etcd: Gateway) -> None:
    await _put_three(etcd)
    for end, found in ((OTHER, "a"), (THIRD, "ab"), ("AA==", "abc"), (KEY, ""), ("", "a")):
        assert keys_of(await etcd.ask("kv/range", key=KEY, range_end=end)) == found
    assert await etcd.ask("kv/deleterange", key=OTHER, range_end="AA==") == {"header": 5, "deleted": "2"}
    assert keys_of(await etcd.ask("kv/range", **EVERYTHING)) == "a"


@conversation
async def test_keys_are_read_as_of_a_revision(etcd: Gateway) -> None:
    await _put_three(etcd)
    every = {"key": KEY, "range_end": text(b"z")}
    for serializable in (False, True):
        past = await etcd.ask("kv/range", **every, revision=etcd.at(2), serializable=serializable)
        assert (past["header"], keys_of(past), past["kvs"][0]["mod_revision"]) == (4, "ac", 1)
    future = (400, {"code": 11, "message": "etcdserver: mvcc: required revision is a future revision"})
    assert await etcd.ask("kv/range", key=KEY, revision=etcd.at(5)) == future
    compacted = (400, {"code": 11, "message": "etcdserver: mvcc: required revision has been compacted"})
    assert await etcd.ask("kv/compaction", revision=etcd.at(5)) == future
    assert await etcd.ask("kv/compaction", revision=etcd.at(2)) == {"header": 4}
    assert await etcd.ask("kv/compaction", revision=etcd.at(2)) == compacted
    assert await etcd.ask("kv/compaction", revision=etcd.at(1)) == compacted
    assert await etcd.ask("kv/range", key=KEY, revision=etcd.at(1)) == compacted
    assert keys_of(await etcd.ask("kv/range", **every, revision=etcd.at(2))) == "ac"
    assert keys_of(await etcd.ask("kv/range", **every)) == "abc"


@conversation
async def test_keys_deleted_before_a_compaction_are_gone_after_it(etcd: Gateway) -> None:
    await _put_three(etcd)
    await etcd.ask("kv/deleterange", key=OTHER)
    await etcd.ask("kv/compaction", revision=etcd.at(5))
    assert keys_of(await etcd.ask("kv/range", **EVERYTHING, revision=etcd.at(5))) == "ac"
    await etcd.ask("kv/put", key=OTHER)
    assert keys_of(await etcd.ask("kv/range", **EVERYTHING, revision=etcd.at(5))) == "ac"
    assert keys_of(await etcd.ask("kv/range", **EVERYTHING)) == "abc"


@conversation
async def test_a_request_without_a_key_is_refused(etcd: Gateway) -> None:
    refused = (400, {"code": 3, "message": "etcdserver: key is not provided"})
    assert await etcd.ask("kv/range") == refused
    assert await etcd.ask("kv/put", value=ONE) == refused
    assert await etcd.ask("kv/deleterange") == refused
    assert await etcd.ask("kv/txn", compare=[{"target": "MOD", "mod_revision": "0"}]) == refused
    assert await etcd.ask("kv/txn", success=[{"request_put": {"value": ONE}}]) == refused


@conversation
async def test_an_unknown_call_is_not_found(etcd: Gateway) -> None:
    assert await etcd.ask("kv/nothing") == (404, {"code": 5, "message": "Not Found"})


# -- transactions -----------------------------------------------------------------------------------------


@conversation
async def test_a_transaction_answers_each_of_its_operations(etcd: Gateway) -> None:
    await etcd.ask("kv/put", key=KEY, value=ONE)
    look = {"request_range": {"key": KEY}}
    done = await etcd.ask(
        "kv/txn",
        compare=[{"key": KEY, "target": "CREATE", "result": "EQUAL", "create_revision": etcd.at(1)}],
        success=[
            look,
            {"request_put": {"key": KEY, "value": TWO}},
            look,
            {"request_put": {"key": OTHER}},
            {"request_delete_range": {"key": THIRD}},
        ],
        failure=[],
    )
    old = {"key": KEY, "create_revision": 1, "mod_revision": 1, "version": "1", "value": ONE}
    new = {"key": KEY, "create_revision": 1, "mod_revision": 2, "version": "2", "value": TWO}
    assert done == {
        "header": 2,
        "succeeded": True,
        "responses": [
            {"response_range": {"header": 1, "kvs": [old], "count": "1"}},
            {"response_put": {"header": 2}},
            {"response_range": {"header": 2, "kvs": [new], "count": "1"}},
            {"response_put": {"header": 2}},
            {"response_delete_range": {"header": 2}},
        ],
    }
    gone = await etcd.ask("kv/txn", success=[{"request_delete_range": EVERYTHING}, look])
    assert gone["responses"] == [
        {"response_delete_range": {"header": 3, "deleted": "2"}},
        {"response_range": {"header": 3}},
    ]
    assert await etcd.ask("kv/txn") == {"header": 3, "succeeded": True}


@conversation
async def test_a_failed_comparison_runs_the_other_operations(etcd: Gateway) -> None:
    done = await etcd.ask(
        "kv/txn",
        compare=[{"key": KEY, "target": "MOD", "result": "EQUAL", "mod_revision": "7"}],
        success=[{"request_put": {"key": KEY, "value": ONE, "lease": "9"}}],
        failure=[{"request_put": {"key": OTHER}}, {"request_range": {"key": KEY}}],
    )
    assert done == {
        "header": 1,
        "responses": [{"response_put": {"header": 1}}, {"response_range": {"header": 1}}],
    }


@conversation
async def test_each_comparison_is_true_for_matching_keys_only(etcd: Gateway) -> None:
    for value in (ONE, TWO):
        await etcd.ask("kv/put", key=KEY, value=value)
    made, changed, future = etcd.at(1), etcd.at(2), etcd.at(3)
    for key, target, result, asked, holds in (
        (KEY, "CREATE", "EQUAL", made, True),
        (KEY, "CREATE", "EQUAL", changed, False),
        (KEY, "CREATE", "EQUAL", "0", False),
        (OTHER, "CREATE", "EQUAL", "0", True),
        (OTHER, "CREATE", "EQUAL", made, False),
        (KEY, "MOD", "EQUAL", changed, True),
        (KEY, "MOD", "EQUAL", made, False),
        (OTHER, "MOD", "EQUAL", "0", True),
        (KEY, "MOD", "LESS", future, True),
        (KEY, "MOD", "LESS", changed, False),
        (KEY, "MOD", "GREATER", made, True),
        (KEY, "MOD", "NOT_EQUAL", changed, False),
        (KEY, "VERSION", "EQUAL", "2", True),
        (KEY, "VERSION", "GREATER", "2", False),
        (OTHER, "VERSION", "EQUAL", "0", True),
        (KEY, "VALUE", "EQUAL", TWO, True),
        (KEY, "VALUE", "LESS", TWO, False),
        (KEY, "VALUE", "GREATER", ONE, True),
        (OTHER, "VALUE", "NOT_EQUAL", ONE, False),
        (OTHER, "VALUE", "EQUAL", "", False),
        (KEY, "LEASE", "EQUAL", "0", True),
        (KEY, "LEASE", "GREATER", "0", False),
    ):
        names = {"CREATE": "create_revision", "MOD": "mod_revision"}
        compare = {"key": key, "target": target, "result": result, names.get(target, target.lower()): asked}
        answer = await etcd.ask("kv/txn", compare=[compare])
        assert answer.get("succeeded", False) is holds, compare


@conversation
async def test_a_transaction_is_refused_as_a_whole(etcd: Gateway) -> None:
    put, put_again = {"request_put": {"key": KEY, "value": ONE}}, {"request_put": {"key": KEY}}
    twice = (400, {"code": 3, "message": "etcdserver: duplicate key given in txn request"})
    assert await etcd.ask("kv/txn", success=[put, put_again]) == twice
    for gone in ({"key": KEY}, {"key": text(b"0"), "range_end": OTHER}):
        assert await etcd.ask("kv/txn", success=[put, {"request_delete_range": gone}]) == twice
        assert await etcd.ask("kv/txn", success=[{"request_delete_range": gone}, put]) == twice
    ranged = {"request_range": {"key": KEY, "revision": etcd.at(50)}}
    future = (400, {"code": 11, "message": "etcdserver: mvcc: required revision is a future revision"})
    assert await etcd.ask("kv/txn", success=[put, ranged]) == future
    no_lease = (404, {"code": 5, "message": "etcdserver: requested lease not found"})
    leased = {"request_put": {"key": OTHER, "lease": "9"}}
    assert await etcd.ask("kv/txn", success=[put, leased]) == no_lease
    many = [{"request_range": {"key": KEY}}] * 129
    too_many = (400, {"code": 3, "message": "etcdserver: too many operations in txn request"})
    assert await etcd.ask("kv/txn", failure=many) == too_many
    compares = [{"key": KEY, "target": "MOD", "mod_revision": "0"}] * 129
    assert await etcd.ask("kv/txn", compare=compares) == too_many
    assert (await etcd.ask("kv/txn", compare=compares[:128], success=many[:128]))["succeeded"]
    assert await etcd.ask("kv/range", **EVERYTHING) == {"header": 0}


# -- leases -----------------------------------------------------------------------------------------------


@conversation
async def test_a_lease_has_a_number_and_a_time(etcd: Gateway) -> None:
    assert await etcd.ask("lease/grant", TTL="10", ID="123") == {"header": 0, "ID": "123", "TTL": "10"}
    exists = (400, {"code": 9, "message": "etcdserver: lease already exists"})
    assert await etcd.ask("lease/grant", TTL="10", ID="123") == exists
    too_large = (400, {"code": 11, "message": "etcdserver: too large lease TTL"})
    assert await etcd.ask("lease/grant", TTL="9000000001") == too_large
    for short in ("0", "1"):
        granted = await etcd.ask("lease/grant", TTL=short)
        assert (granted["TTL"], granted["ID"] != "0") == ("2", True)
    alive = {"result": {"header": 0, "ID": "123", "TTL": "10"}}
    assert await etcd.ask("lease/keepalive", ID="123") == alive
    assert await etcd.ask("lease/keepalive", ID="77") == {"result": {"header": 0, "ID": "77"}}
    told = await etcd.ask("lease/timetolive", ID="123")
    assert (told["grantedTTL"], int(told["TTL"]) in {9, 10}) == ("10", True)
    assert await etcd.ask("kv/lease/timetolive", ID="77") == {"header": 0, "ID": "77", "TTL": "-1"}
    assert {"ID": "123"} in (await etcd.ask("lease/leases"))["leases"]


@conversation
async def test_keys_are_deleted_with_their_lease_at_one_revision(etcd: Gateway) -> None:
    await etcd.ask("lease/grant", TTL="10", ID="123")
    for key in (KEY, OTHER, THIRD):
        await etcd.ask("kv/put", key=key, lease="123")
    await etcd.ask("kv/put", key=THIRD)  # It is under no lease any more.
    assert (await etcd.key())["lease"] == "123"
    assert set((await etcd.ask("lease/timetolive", ID="123", keys=True))["keys"]) == {KEY, OTHER}
    async with etcd.watch(**EVERYTHING) as messages:
        await anext(messages)
        assert await etcd.ask("lease/revoke", ID="123") == {"header": 5}
        gone = [{"type": "DELETE", "kv": {"key": each, "mod_revision": 5}} for each in (KEY, OTHER)]
        assert await hear(messages, 2) == gone
    assert keys_of(await etcd.ask("kv/range", **EVERYTHING)) == "c"
    unknown = (404, {"code": 5, "message": "etcdserver: requested lease not found"})
    assert await etcd.ask("lease/revoke", ID="123") == unknown
    assert await etcd.ask("kv/put", key=KEY, lease="123") == unknown


@conversation
async def test_a_lease_without_keep_alive_expires(etcd: Gateway) -> None:
    await etcd.ask("lease/grant", TTL="2", ID="5")
    await etcd.ask("lease/grant", TTL="60", ID="6")
    await etcd.ask("kv/put", key=KEY, lease="5")
    await etcd.ask("kv/put", key=OTHER, lease="6")
    for _ in range(3):
        await trio.sleep(1)
        assert (await etcd.ask("lease/keepalive", ID="5"))["result"]["TTL"] == "2"
    async with etcd.watch(key=KEY) as messages:
        await anext(messages)
        began = trio.current_time()
        assert await hear(messages, 1) == [{"type": "DELETE", "kv": {"key": KEY, "mod_revision": 3}}]
        assert 1.5 <= trio.current_time() - began <= 5
    assert await etcd.ask("lease/keepalive", ID="5") == {"result": {"header": 3, "ID": "5"}}
    assert await etcd.ask("lease/timetolive", ID="5") == {"header": 3, "ID": "5", "TTL": "-1"}
    assert keys_of(await etcd.ask("kv/range", **EVERYTHING)) == "b"


# -- watches ----------------------------------------------------------------------------------------------


@conversation
async def test_a_watch_starts_at_its_revision(etcd: Gateway) -> None:
    await _put_three(etcd)
    await etcd.ask(
        "kv/txn", success=[{"request_put": {"key": THIRD}}, {"request_delete_range": {"key": OTHER}}]
    )
    async with etcd.watch(key=OTHER, range_end="AA==", start_revision=etcd.at(3)) as messages:
        assert await anext(messages) == {"header": 5, "created": True}
        assert await hear(messages, 3) == [
            {"kv": {"key": OTHER, "create_revision": 3, "mod_revision": 3, "version": "1", "value": ONE}},
            {"kv": {"key": THIRD, "create_revision": 2, "mod_revision": 5, "version": "2"}},
            {"type": "DELETE", "kv": {"key": OTHER, "mod_revision": 5}},
        ]
        await etcd.ask("kv/put", key=KEY)
        await hear_nothing(messages)


@conversation
async def test_a_watch_continues_with_later_changes(etcd: Gateway) -> None:
    await etcd.ask("kv/put", key=KEY)
    async with etcd.watch(key=KEY) as messages:
        assert await anext(messages) == {"header": 1, "created": True}
        for revision in (2, 3):
            await etcd.ask("kv/put", key=KEY)
            (event,) = await hear(messages, 1)
            assert event["kv"]["mod_revision"] == revision


@conversation
async def test_a_watch_from_a_later_revision_waits_for_it(etcd: Gateway) -> None:
    async with etcd.watch(**EVERYTHING, start_revision=etcd.at(3)) as messages:
        assert await anext(messages) == {"header": 0, "created": True}
        for _ in range(3):
            await etcd.ask("kv/put", key=KEY)
        (event,) = await hear(messages, 1)
        assert event["kv"]["mod_revision"] == 3


@conversation
async def test_a_watch_can_filter_puts_or_deletions(etcd: Gateway) -> None:
    await etcd.ask("kv/put", key=KEY)
    await etcd.ask("kv/deleterange", key=KEY)
    for unwanted, kinds in (("NOPUT", ["DELETE"]), ("NODELETE", [None])):
        watch = etcd.watch(key=KEY, start_revision=etcd.at(1), filters=[unwanted], progress_notify=True)
        async with watch as messages:
            await anext(messages)
            assert [each.get("type") for each in await hear(messages, 1)] == kinds
            await hear_nothing(messages)


@conversation
async def test_a_watch_before_a_compaction_is_cancelled(etcd: Gateway) -> None:
    await _put_three(etcd)
    await etcd.ask("kv/compaction", revision=etcd.at(3))
    async with etcd.watch(**EVERYTHING, start_revision=etcd.at(2)) as messages:
        assert await anext(messages) == {"header": 4, "created": True}
        assert await anext(messages) == {"header": None, "canceled": True, "compact_revision": 3}
        await hear_nothing(messages)  # The stream stays open.
    async with etcd.watch(**EVERYTHING, start_revision=etcd.at(3)) as messages:
        await anext(messages)
        assert [each["kv"]["mod_revision"] for each in await hear(messages, 2)] == [3, 4]


@conversation
async def test_a_watch_of_nothing_is_cancelled(etcd: Gateway) -> None:
    async with etcd.watch(key=KEY, range_end=KEY) as messages:
        assert await anext(messages) == {
            "header": 0,
            "watch_id": "-1",
            "created": True,
            "canceled": True,
            "cancel_reason": "mvcc: watcher range is empty",
        }
        await hear_nothing(messages)


@conversation
async def test_etcd_reports_its_version_and_revision(etcd: Gateway) -> None:
    await etcd.ask("kv/put", key=KEY)
    status = await etcd.ask("maintenance/status")
    assert status["header"] == 1
    assert status["version"].startswith("3.")
