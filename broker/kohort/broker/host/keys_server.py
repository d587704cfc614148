"""The supervisor's side of the metadata: a store of keys; a change is synced before anybody sees it.

Requests that have arrived together are synced together. A lease lasts as long as the worker's channel: the
kernel ends that when the process dies, so nothing has to be waited for, and a slow worker loses nothing.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import structlog
import trio

from kohort.broker.etcd.calls import UNAVAILABLE
from kohort.broker.etcd.key_store import KeyStore, Refused
from kohort.broker.etcd.messages import Json
from kohort.broker.host.channel import Channel
from kohort.broker.host.key_log import KeyLog
from kohort.storage import StorageError

CHANGES_KEPT = 10_000
RETRY_SECONDS = 1.0
NEVER = 0.0  # The store's time does not advance: it ends no lease.

Answer = Callable[[Json], None]

log = structlog.get_logger("kohort.host")


class _Call(NamedTuple):
    """A question, and its requester; `refused` means that nothing was done."""

    path: str
    form: Json
    answer: Answer


class _Client:
    """A connected worker: its watches, and the leases that end with it."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.watches: dict[int, dict[str, object]] = {}
        self.leases: list[int] = []


class KeysServer:
    """The store, and its clients. One loop."""

    def __init__(self, key_log: KeyLog) -> None:
        """Start with the content of the log, without keys under leases: no worker is left. Blocks.

        Raises: StorageError.
        """
        self._log = key_log
        self._leases: dict[int, int] = {}
        self._store = self._restored()
        self._log.append(self._store.changes_since(key_log.revision), self._store.revision)
        self._clients: set[_Client] = set()
        self._calls: list[_Call] = []
        self._more = trio.Event()
        self._keeps_leases = False

    def _restored(self) -> KeyStore:
        """Return the store as it is on the disk."""
        store = KeyStore(self._log.entries.values(), self._log.revision)
        store.adopt(self._leases)
        return store

    async def run(self) -> None:
        """Answer, until cancelled."""
        while True:
            await self._more.wait()
            self._more = trio.Event()
            calls, self._calls = self._calls, []
            before = self._store.revision
            answers = [(each, self._answered(each)) for each in calls]
            changes = self._store.changes_since(before)
            if changes:
                try:
                    await trio.to_thread.run_sync(self._log.append, changes, self._store.revision)
                except StorageError as error:
                    log.error("the metadata can't be changed", error=str(error))
                    self._store = self._restored()
                    answers = [(each, _refused(UNAVAILABLE, str(error))) for each in calls]
            for call, answer in answers:
                call.answer(answer)
            if changes:
                self._notify_clients()
                self._store.keep_changes(CHANGES_KEPT)

    def _answered(self, call: _Call) -> Json:
        try:
            return {"answer": self._store.answer(call.path, call.form, NEVER)}
        except Refused as refused:
            return _refused(refused.code, str(refused))

    def _ask(self, path: str, form: Json, answer: Answer) -> None:
        self._calls.append(_Call(path, form, answer))
        self._more.set()

    def keep_leases(self) -> None:
        """Stop ending leases: all workers stop, and no elections are needed."""
        self._keeps_leases = True

    # -- clients ------------------------------------------------------------------------------------------

    async def serve(self, channel: Channel, other: Callable[[Json], None]) -> None:
        """Answer one worker until it is gone; `other` gets messages that are not for the store."""
        client = _Client(channel)
        self._clients.add(client)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(channel.write)
                async for message in channel.messages():
                    self._take(client, message, other)
                nursery.cancel_scope.cancel()
        finally:
            self._clients.discard(client)
            channel.close()
        if not self._keeps_leases:
            await self._end(client.leases)

    def _take(self, client: _Client, message: Json, other: Callable[[Json], None]) -> None:
        if "call" in message:
            path = message["path"]
            answer = partial(self._send, client, message["call"])
            if path == "lease/grant":
                answer = partial(self._granted, client, answer)
            self._ask(path, message["form"], answer)
        elif "watch" in message:
            client.watches[message["watch"]] = dict(message["form"]["create_request"])
            self._notify_client(client)
        elif "end" in message:
            client.watches.pop(message["end"], None)
        else:
            other(message)

    def _granted(self, client: _Client, answer: Answer, told: Json) -> None:
        if "answer" in told:
            lease_id = int(told["answer"]["ID"])
            self._leases[lease_id] = int(told["answer"]["TTL"])
            client.leases.append(lease_id)
            if client not in self._clients:  # It died meanwhile.
                self._ask("lease/revoke", {"ID": str(lease_id)}, lambda told: None)
        answer(told)

    def _send(self, client: _Client, number: int, told: Json) -> None:
        if client in self._clients:
            client.channel.send({"to": number, **told})

    async def _end(self, leases: list[int]) -> None:
        """Return when these leases have ended, however long the disk refuses writes."""
        for lease_id in leases:
            while not await self._is_revoked(lease_id):
                await trio.sleep(RETRY_SECONDS)
            self._leases.pop(lease_id, None)

    async def _is_revoked(self, lease_id: int) -> bool:
        heard = trio.Event()
        told: list[Json] = []

        def on_answer(answer: Json) -> None:
            told.append(answer)
            heard.set()

        self._ask("lease/revoke", {"ID": str(lease_id)}, on_answer)
        await heard.wait()
        return "refused" not in told[0] or told[0]["refused"]["code"] != UNAVAILABLE

    # -- watches ------------------------------------------------------------------------------------------

    def _notify_clients(self) -> None:
        for client in tuple(self._clients):
            self._notify_client(client)

    def _notify_client(self, client: _Client) -> None:
        """Send news to each of its watches; a watch for compacted revisions ends."""
        for number, form in tuple(client.watches.items()):
            try:
                news, form["start_revision"] = self._store.news(form)
            except Refused as refused:
                del client.watches[number]
                compacted = str(max(self._store.compacted, 1))
                told = {"canceled": True, "cancel_reason": str(refused), "compact_revision": compacted}
                client.channel.send({"to": number, "news": told})
            else:
                if news is not None:
                    client.channel.send({"to": number, "news": news})


def _refused(code: int, message: str) -> Json:
    return {"refused": {"code": code, "message": message}}
