"""What stands for etcd in a test's cluster answers as etcd does: the same tests, by the same client."""

from __future__ import annotations

import inspect
import socket
import threading
from collections.abc import Awaitable, Callable
from uuid import uuid4

import pytest

from kohort.testing.metadata_server import MetadataServer
from tests.cluster import test_etcd_client, test_etcd_store
from tests.interop.waiting import wait_until

Test = Callable[..., Awaitable[None]]
ABOUT_IT = (
    test_etcd_client.test_a_key_is_put_found_and_deleted,
    test_etcd_client.test_any_number_of_keys_is_read_at_one_revision,
    test_etcd_client.test_a_transaction_is_done_only_where_everything_it_compares_holds,
    test_etcd_client.test_a_refusal_of_etcd_has_its_own_error,
    test_etcd_client.test_a_key_with_a_lease_is_deleted_when_the_lease_is_revoked,
    test_etcd_client.test_a_watch_returns_all_changes_of_a_revision_together,
    test_etcd_client.test_a_silent_watch_is_restarted_and_repeats_nothing,
    test_etcd_client.test_a_watch_from_before_a_compaction_raises_an_error,
    test_etcd_store.test_a_store_behind_a_compaction_reads_everything_again,
    test_etcd_store.test_brokers_see_each_other_and_the_epoch_is_the_revision_of_the_registration,
    test_etcd_store.test_a_broker_that_renews_its_lease_lives_and_another_expires,
    test_etcd_store.test_a_broker_without_a_lease_cannot_change_metadata_until_it_registers_again,
    test_etcd_store.test_there_is_one_controller_and_another_after_its_lease_ended,
    test_etcd_store.test_a_dead_broker_is_removed_before_its_lease_ends_and_loses_the_controller_role,
)


@pytest.mark.parametrize("about", ABOUT_IT, ids=lambda each: each.__name__)
async def test_the_test_server_passes_the_etcd_contract(about: Test) -> None:
    server = MetadataServer()  # Of its own: one forgets what came before a revision.
    try:
        given = {"shared_etcd": server, "name": uuid4().hex}
        wanted = inspect.signature(about).parameters
        await about(**{name: value for name, value in given.items() if name in wanted})
    finally:
        server.close()


def test_an_aborted_call_closes_its_connection_without_output(
    capfd: pytest.CaptureFixture[str],
) -> None:
    server = MetadataServer()
    before = set(threading.enumerate())
    reset = b"\1\0\0\0\0\0\0\0"  # struct linger: on, 0 s.
    try:
        for cut in (b"POST /v3/kv/range HTTP/1.1\r\nContent-Length: 10\r\n\r\n{", b"POST /v3/kv/range HT"):
            for linger in (b"\0" * 8, reset):
                with socket.create_connection(("127.0.0.1", server.port)) as connection:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    connection.sendall(cut)
        wait_until(lambda: set(threading.enumerate()) <= before, "all calls are over")
    finally:
        server.close()
    assert capfd.readouterr().err == ""
