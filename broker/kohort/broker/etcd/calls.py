"""The calls of etcd, independent of their transport.

A call is one question and its answer, a stream is one question and all later messages, both in the
JSON of etcd's gateway.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager

from kohort.broker.etcd.errors import (
    EtcdCompacted,
    EtcdError,
    EtcdLeaseLost,
    EtcdRejected,
    EtcdUnauthorized,
    EtcdUnavailable,
)
from kohort.broker.etcd.messages import (
    Compare,
    Delete,
    Found,
    Json,
    Lease,
    Operation,
    Put,
    Range,
    Transacted,
    delete_json,
    found_of,
    put_json,
    range_json,
    revision_of,
    transacted_of,
    txn_json,
)

PAGE_KEYS = 1_000
NOT_FOUND, PERMISSION_DENIED, OUT_OF_RANGE, UNAVAILABLE, UNAUTHENTICATED = 5, 7, 11, 14, 16  # gRPC's numbers.
DEADLINE_EXCEEDED = 4
LOST = frozenset({1, 2, 13, 15})
"""CANCELLED, UNKNOWN, INTERNAL, DATA_LOSS.

A step on the way failed, and the request may still be executed.
"""


class Calls(ABC):
    """Keys, transactions and leases of one etcd, or of what answers as it does."""

    # -- keys -------------------------------------------------------------------------------------------

    async def range(self, asked: Range, *, seconds: float | None = None) -> Found:
        """Return the present keys, linearizable. Raises: EtcdError."""
        return found_of(await self.call("kv/range", range_json(asked), seconds=seconds, again=True))

    async def range_all(self, key: bytes, end: bytes) -> Found:
        """Return all keys from `key` on and below `end` as of one revision. Raises: EtcdError."""
        found = await self.range(Range(key, end, PAGE_KEYS))
        items = list(found.items)
        revision, more = found.revision, found.more
        while more:
            page = await self.range(Range(items[-1].key + b"\0", end, PAGE_KEYS, revision))
            items += page.items
            more = page.more
        return Found(revision, tuple(items))

    async def put(self, asked: Put, *, seconds: float | None = None) -> int:
        """Return the revision at which the key has the value. Raises: EtcdError."""
        return revision_of(await self.call("kv/put", put_json(asked), seconds=seconds, again=True))

    async def delete(self, asked: Delete, *, seconds: float | None = None) -> int:
        """Return the revision at which the keys are gone. Raises: EtcdError."""
        return revision_of(await self.call("kv/deleterange", delete_json(asked), seconds=seconds, again=True))

    async def txn(
        self,
        compares: Sequence[Compare],
        success: Sequence[Operation],
        failure: Sequence[Operation] = (),
        *,
        seconds: float | None = None,
        again: bool = False,
    ) -> Transacted:
        """Return how it ended: `success` was done if all comparisons held, otherwise `failure`.

        `again` allows a repetition. Raises: EtcdError; after an `EtcdUnavailable` with
        `maybe_done` it may have been done, or may be done later.
        """
        form = txn_json(compares, success, failure)
        return transacted_of(await self.call("kv/txn", form, seconds=seconds, again=again))

    # -- leases -----------------------------------------------------------------------------------------

    async def grant(self, ttl_seconds: int, *, seconds: float | None = None) -> Lease:
        """Return a new lease. Raises: EtcdError."""
        answer = await self.call("lease/grant", {"TTL": str(ttl_seconds)}, seconds=seconds, again=True)
        return Lease(int(answer["ID"]), int(answer["TTL"]))

    async def keep_alive(self, lease_id: int, *, seconds: float | None = None) -> int:
        """Return how many seconds the lease is good for from now on.

        Raises: EtcdLeaseLost if the lease does not exist any more; EtcdError.
        """
        answer = await self.call("lease/keepalive", {"ID": str(lease_id)}, seconds=seconds, again=True)
        ttl_seconds = int(answer["result"].get("TTL", 0))
        if ttl_seconds <= 0:
            raise EtcdLeaseLost(NOT_FOUND, "the lease has expired")
        return ttl_seconds

    async def revoke(self, lease_id: int, *, seconds: float | None = None) -> None:
        """Return once the lease and all keys under it are gone. Raises: EtcdError."""
        try:
            await self.call("lease/revoke", {"ID": str(lease_id)}, seconds=seconds, again=True)
        except EtcdLeaseLost:
            return

    # -- asking -----------------------------------------------------------------------------------------

    @abstractmethod
    async def call(
        self, path: str, form: object, *, seconds: float | None = None, again: bool = False
    ) -> Json:
        """Return the answer; `again` says that the call may be made twice. Raises: EtcdError."""

    @abstractmethod
    def stream(
        self, path: str, form: object, *, idle_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[Json]]:
        """Give the messages of a stream; one attempt. Raises: EtcdError.

        A stream that is silent for this long counts as broken.
        """

    @property
    @abstractmethod
    def at(self) -> int:
        """Which endpoint is asked."""

    @abstractmethod
    def avoid(self, at: int) -> None:
        """Use the next endpoint from now on, unless another call has left this one already."""


def rejection(endpoint: str, error: Json | str) -> EtcdError:
    """Return what an error in an answer means."""
    if isinstance(error, str):
        error = {"message": error}
    code = int(error.get("code", error.get("grpc_code", 0)))
    message = str(error.get("message") or error.get("error") or "refused without a word")
    told = f"{endpoint}: {message}"
    if code in (UNAVAILABLE, DEADLINE_EXCEEDED) or "no leader" in message:
        return EtcdUnavailable(told, maybe_done="no leader" not in message)
    if code in (PERMISSION_DENIED, UNAUTHENTICATED) or "auth store is old" in message:
        return EtcdUnauthorized(code, told)
    if "user name is empty" in message:
        return EtcdUnauthorized(code, f"{told}: etcd asks for a user (kohort.etcd.user)")
    if "lease not found" in message:
        return EtcdLeaseLost(code, told)
    if "has been compacted" in message:
        return EtcdCompacted(code, told)
    return EtcdUnavailable(told, maybe_done=True) if code in LOST else EtcdRejected(code, told)
