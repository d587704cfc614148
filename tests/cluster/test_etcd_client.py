"""The client and a real etcd: keys, transactions, leases, watches, users, TLS; members that go and come."""

import datetime
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trustme

from kohort.broker.etcd.address import Credentials
from kohort.broker.etcd.client import EtcdClient
from kohort.broker.etcd.errors import (
    EtcdCompacted,
    EtcdError,
    EtcdLeaseLost,
    EtcdRejected,
    EtcdUnauthorized,
    EtcdUnavailable,
)
from kohort.broker.etcd.messages import (
    Change,
    Delete,
    Put,
    Range,
    Watched,
    created_at,
    not_there,
    prefix_end,
    unchanged_since,
)
from kohort.broker.etcd.watching import Watch
from tests.cluster.etcd_process import EtcdProcess
from tests.ports import free_port

PATIENCE_SECONDS = 20


@asynccontextmanager
async def connected(*urls: str, **options: object) -> AsyncIterator[EtcdClient]:
    async with EtcdClient(urls, **options) as client:  # type: ignore[arg-type]  # As the test gives them.
        yield client


def nowhere() -> str:
    """Return the URL of an endpoint that refuses."""
    return f"http://127.0.0.1:{free_port()}"


# -- keys -------------------------------------------------------------------------------------------------


async def test_a_key_is_put_found_and_deleted(shared_etcd: EtcdProcess) -> None:
    async with connected(shared_etcd.url) as client:
        put_at = await client.put(Put(b"keys/\x00\xff", b"\x01\x00"))
        found = await client.range(Range(b"keys/\x00\xff"))
        assert [(each.key, each.value, each.mod_revision) for each in found.items] == [
            (b"keys/\x00\xff", b"\x01\x00", put_at)
        ]
        gone_at = await client.delete(Delete(b"keys/", prefix_end(b"keys/")))
        assert gone_at == put_at + 1
        assert (await client.range(Range(b"keys/\x00\xff"))).items == ()


async def test_any_number_of_keys_is_read_at_one_revision(shared_etcd: EtcdProcess) -> None:
    async with connected(shared_etcd.url) as client:
        for begin in range(0, 2_300, 100):
            await client.txn([], [Put(b"many/%05d" % each, b"") for each in range(begin, begin + 100)])
        found = await client.range_all(b"many/", prefix_end(b"many/"))
    assert [each.key for each in found.items] == [b"many/%05d" % each for each in range(2_300)]


async def test_a_transaction_is_done_only_where_everything_it_compares_holds(
    shared_etcd: EtcdProcess,
) -> None:
    async with connected(shared_etcd.url) as client:
        made = await client.txn([not_there(b"txn/a")], [Put(b"txn/a", b"1")])
        assert made.succeeded
        again = await client.txn([not_there(b"txn/a")], [Put(b"txn/a", b"2")], [Range(b"txn/a")])
        assert not again.succeeded
        assert [each.value for each in again.found[0].items] == [b"1"]
        changed = await client.txn(
            [created_at(b"txn/a", made.revision), unchanged_since(b"txn/a", made.revision)],
            [Put(b"txn/a", b"3")],
        )
        assert (changed.succeeded, changed.revision) == (True, made.revision + 1)
        late = await client.txn([unchanged_since(b"txn/a", made.revision)], [Delete(b"txn/a")])
        assert not late.succeeded


async def test_a_refusal_of_etcd_has_its_own_error(shared_etcd: EtcdProcess) -> None:
    async with connected(shared_etcd.url) as client:
        with pytest.raises(EtcdRejected, match="future revision") as caught:
            await client.range(Range(b"a", revision=1 << 40))
        assert caught.value.code == 11
        with pytest.raises(EtcdRejected, match="duplicate key"):
            await client.txn([], [Put(b"a", b""), Put(b"a", b"")])


# -- leases -----------------------------------------------------------------------------------------------


async def test_a_key_with_a_lease_is_deleted_when_the_lease_is_revoked(shared_etcd: EtcdProcess) -> None:
    async with connected(shared_etcd.url) as client:
        lease = await client.grant(30)
        await client.put(Put(b"lease/a", b"", lease.id))
        assert await client.keep_alive(lease.id) == lease.ttl_seconds == 30
        assert (await client.range(Range(b"lease/a"))).items[0].lease == lease.id
        await client.revoke(lease.id)
        assert (await client.range(Range(b"lease/a"))).items == ()
        with pytest.raises(EtcdLeaseLost):
            await client.keep_alive(lease.id)
        with pytest.raises(EtcdLeaseLost):
            await client.put(Put(b"lease/a", b"", lease.id))
        await client.revoke(lease.id)  # What is gone already is what was wanted.


# -- endpoints --------------------------------------------------------------------------------------------


async def test_an_endpoint_that_refuses_is_skipped(shared_etcd: EtcdProcess) -> None:
    async with connected(nowhere(), nowhere(), shared_etcd.url) as client:
        done = await client.txn([not_there(b"turn/a")], [Put(b"turn/a", b"")])
        assert done.succeeded
        assert client.at == 2


async def test_a_hanging_endpoint_uses_only_a_part_of_the_timeout(
    shared_etcd: EtcdProcess, own_etcd: EtcdProcess
) -> None:
    own_etcd.signal(signal.SIGSTOP)
    try:
        async with connected(own_etcd.url, shared_etcd.url, call_seconds=2) as client:
            assert (await client.range(Range(b"hangs"))).items == ()
            client.avoid(1)
            with pytest.raises(EtcdUnavailable) as caught:  # It may have been done: nobody asks for it twice.
                await client.txn([], [Put(b"hangs", b"")])
            assert caught.value.maybe_done
    finally:
        own_etcd.signal(signal.SIGCONT)


async def test_without_an_answer_the_call_ends_in_time_and_names_the_endpoints() -> None:
    first, second = nowhere(), nowhere()
    async with connected(first, second, call_seconds=0.4) as client:
        began = trio.current_time()
        with pytest.raises(EtcdUnavailable) as caught:
            await client.range(Range(b"a"))
        assert trio.current_time() - began < 2
    assert not caught.value.maybe_done
    assert first in str(caught.value)
    assert second in str(caught.value)


async def test_a_call_waits_for_an_etcd_that_returns_in_time(own_etcd: EtcdProcess) -> None:
    own_etcd.kill()
    async with (
        connected(own_etcd.url, call_seconds=PATIENCE_SECONDS) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(trio.to_thread.run_sync, own_etcd.start)
        assert (await client.put(Put(b"back", b""))) > 1


async def test_an_endpoint_that_is_not_etcd_is_named(tmp_path: Path) -> None:
    async def answer(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, answer, 0)
        port = listeners[0].socket.getsockname()[1]
        async with connected(f"http://127.0.0.1:{port}", call_seconds=1) as client:
            with pytest.raises(EtcdUnavailable, match="is it etcd"):
                await client.txn([], [])
        nursery.cancel_scope.cancel()


# -- watches ----------------------------------------------------------------------------------------------


class Told:
    """What a watch has told so far."""

    def __init__(self) -> None:
        self.all: list[Watched] = []
        self._more = trio.Event()

    def __call__(self, watched: Watched) -> None:
        self.all.append(watched)
        self._more.set()
        self._more = trio.Event()

    @property
    def changes(self) -> list[Change]:
        return [change for watched in self.all for change in watched.changes]

    async def until(self, count: int) -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            while len(self.changes) < count:
                await self._more.wait()


async def test_a_watch_returns_all_changes_of_a_revision_together(shared_etcd: EtcdProcess) -> None:
    async with connected(shared_etcd.url) as client, trio.open_nursery() as nursery:
        begin = await client.put(Put(b"watch/before", b""))
        told = Told()
        watch = Watch(client, b"watch/", prefix_end(b"watch/"), begin + 1)
        nursery.start_soon(watch.run, told)
        await client.txn([], [Put(b"watch/a", b"1"), Put(b"other", b""), Put(b"watch/b", b"2")])
        await told.until(2)
        gone_at = await client.delete(Delete(b"watch/a"))
        await told.until(3)
        nursery.cancel_scope.cancel()
    assert [[(each.item.key, each.deleted) for each in watched.changes] for watched in told.all] == [
        [(b"watch/a", False), (b"watch/b", False)],
        [(b"watch/a", True)],
    ]
    assert (told.all[-1].revision, watch.revision) == (gone_at, gone_at + 1)


async def test_a_watch_continues_at_its_revision_after_etcd_was_away(own_etcd: EtcdProcess) -> None:
    async with (
        connected(own_etcd.url, call_seconds=PATIENCE_SECONDS) as client,
        trio.open_nursery() as nursery,
    ):
        told = Told()
        nursery.start_soon(Watch(client, b"w", b"x", 1).run, told)
        await client.put(Put(b"w1", b""))
        await told.until(1)
        own_etcd.kill()
        own_etcd.start()
        await client.put(Put(b"w2", b""))
        await told.until(2)
        nursery.cancel_scope.cancel()
    assert [each.item.key for each in told.changes] == [b"w1", b"w2"]


async def test_a_silent_watch_is_restarted_and_repeats_nothing(shared_etcd: EtcdProcess) -> None:
    async with connected(shared_etcd.url) as client, trio.open_nursery() as nursery:
        begin = await client.put(Put(b"silent/a", b""))
        told = Told()
        watch = Watch(client, b"silent/", prefix_end(b"silent/"), begin, idle_seconds=0.1)
        nursery.start_soon(watch.run, told)
        await told.until(1)
        await trio.sleep(0.5)  # Several times as long as it may be silent.
        await client.put(Put(b"silent/b", b""))
        await told.until(2)
        nursery.cancel_scope.cancel()
    assert [each.item.key for each in told.changes] == [b"silent/a", b"silent/b"]


async def test_a_watch_from_before_a_compaction_raises_an_error(shared_etcd: EtcdProcess) -> None:
    async with connected(shared_etcd.url) as client:
        first = await client.put(Put(b"compact", b""))
        last = await client.put(Put(b"compact", b""))
        await client.call("kv/compaction", {"revision": str(last)})
        with trio.fail_after(PATIENCE_SECONDS), pytest.raises(EtcdCompacted) as caught:
            await Watch(client, b"compact", b"", first).run(lambda _: None)
        assert caught.value.compact_revision == last
        with pytest.raises(EtcdCompacted):
            await client.range(Range(b"compact", revision=first))


# -- users and TLS ----------------------------------------------------------------------------------------


@pytest.fixture
def guarded_etcd(etcd_program: Path, tmp_path: Path) -> Iterator[EtcdProcess]:
    """An etcd whose tokens live two seconds."""
    process = EtcdProcess(etcd_program, tmp_path, "--auth-token-ttl", "2")
    try:
        process.start()
        yield process
    finally:
        process.kill()


async def enable_users(url: str) -> None:
    """Let `kohort` write below `kohort/`, and nobody else anything."""
    permission = {"permType": "READWRITE", "key": "a29ob3J0Lw==", "range_end": "a29ob3J0MA=="}
    async with connected(url) as client:
        for path, form in (
            ("auth/user/add", {"name": "root", "password": "r"}),
            ("auth/role/add", {"name": "root"}),
            ("auth/user/grant", {"user": "root", "role": "root"}),
            ("auth/user/add", {"name": "kohort", "password": "secret"}),
            ("auth/role/add", {"name": "brokers"}),
            ("auth/role/grant", {"name": "brokers", "perm": permission}),
            ("auth/user/grant", {"user": "kohort", "role": "brokers"}),
            ("auth/enable", {}),
        ):
            await client.call(path, form)


async def test_a_user_has_the_rights_of_its_role_and_its_token_is_renewed(guarded_etcd: EtcdProcess) -> None:
    await enable_users(guarded_etcd.url)
    known = Credentials(user="kohort", password="secret")
    async with connected(guarded_etcd.url, credentials=known) as client, trio.open_nursery() as nursery:
        begin = await client.put(Put(b"kohort/a", b""))
        told = Told()
        watch = Watch(client, b"kohort/", prefix_end(b"kohort/"), begin, idle_seconds=0.5)
        nursery.start_soon(watch.run, told)
        with pytest.raises(EtcdUnauthorized, match="permission denied"):
            await client.put(Put(b"elsewhere", b""))
        await told.until(1)
        client._token = "no-such-token.1"  # As if it had expired.
        await client.put(Put(b"kohort/b", b""))
        await told.until(2)
        client._token = "no-such-token.1"
        await trio.sleep(1)  # Twice as long as the watch may be silent: it has been asked for again.
        await client.put(Put(b"kohort/c", b""))
        await told.until(3)
        nursery.cancel_scope.cancel()


async def test_a_wrong_password_and_no_user_at_all_are_refused_clearly(guarded_etcd: EtcdProcess) -> None:
    await enable_users(guarded_etcd.url)
    async with connected(guarded_etcd.url) as client:
        with pytest.raises(EtcdUnauthorized, match="etcd asks for a user"):
            await client.put(Put(b"kohort/a", b""))
    wrong = Credentials(user="kohort", password="guessed")
    async with connected(guarded_etcd.url, credentials=wrong) as client:
        with pytest.raises(EtcdUnauthorized, match=r"user kohort: .*invalid user ID or password"):
            await client.put(Put(b"kohort/a", b""))
        with trio.fail_after(PATIENCE_SECONDS), pytest.raises(EtcdUnauthorized):
            await Watch(client, b"kohort/", b"kohort0", 1).run(lambda _: None)


async def test_tls_checks_both_sides(etcd_program: Path, tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    for ca, name in ((authority, "ca.pem"), (other, "other.pem")):
        ca.cert_pem.write_to_path(tmp_path / name)
    for name in ("server", "client"):
        issued = authority.issue_cert("127.0.0.1", not_after=tomorrow)
        issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / f"{name}.pem")
    server = str(tmp_path / "server.pem")
    ca_file, client_file = tmp_path / "ca.pem", tmp_path / "client.pem"
    process = EtcdProcess(
        etcd_program, tmp_path, "--cert-file", server, "--key-file", server,
        "--client-cert-auth", "--trusted-ca-file", str(ca_file), scheme="https",
    )  # fmt: skip
    process.start()
    try:
        good = Credentials(ca_file=ca_file, certificate_file=client_file)
        async with connected(process.url, credentials=good) as client:
            assert await client.put(Put(b"tls", b"")) > 1
        stranger = Credentials(ca_file=tmp_path / "other.pem", certificate_file=client_file)
        async with connected(process.url, credentials=stranger, call_seconds=1) as client:
            with pytest.raises(EtcdUnavailable, match="certificate verify failed"):
                await client.put(Put(b"tls", b""))
        async with connected(process.url, credentials=Credentials(ca_file=ca_file), call_seconds=1) as client:
            with pytest.raises(EtcdUnavailable):
                await client.put(Put(b"tls", b""))
    finally:
        process.kill()


def test_a_file_that_is_no_certificate_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(EtcdError, match=r"ca\.pem can't be used"):
        EtcdClient(["https://localhost:1"], Credentials(ca_file=tmp_path / "ca.pem"))
