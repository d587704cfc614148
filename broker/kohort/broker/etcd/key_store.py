"""Replaces etcd where there is none: keys with their revisions, transactions, leases, watches.

It is one store in memory, and answers the brokers' requests in the JSON of etcd's gateway. No clock, no
file and no socket: time is passed in, in seconds. The brokers of one host use it instead of etcd, and
those of a test's cluster. Source: etcd's rpc.proto, its mvcc.
"""

from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kohort.broker.etcd.messages import Json

NOT_FOUND, INVALID_ARGUMENT, OUT_OF_RANGE, UNIMPLEMENTED = 5, 3, 11, 12  # gRPC's numbers.
END_OF_ALL = b"\0"
"""The end of a range that has no end."""


class Refused(Exception):
    """What etcd would not do, with gRPC's number for the reason."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"etcdserver: {message}")
        self.code = code


class Entry(NamedTuple):
    """A key as one revision has left it; a `value` of None: deleted."""

    key: bytes
    value: bytes | None
    create_revision: int
    revision: int
    version: int
    lease: int


class Lease:
    """Its expiry, and its keys."""

    def __init__(self, ttl_seconds: int, until: float) -> None:
        self.ttl_seconds = ttl_seconds
        self.until = until
        self.keys: set[bytes] = set()


class KeyStore:
    """The keys, and their history. One thread at a time."""

    def __init__(self, entries: Iterable[Entry] = (), revision: int = 1) -> None:
        """Start with the keys at a revision; everything before that is compacted."""
        self._history: dict[bytes, list[Entry]] = {each.key: [each] for each in entries}
        self._changes: list[Entry] = []  # By revision.
        self.revision = revision
        self.compacted = 0
        self._told_from = revision + 1 if self._history else 0  # Earlier changes are unknown.
        self._leases: dict[int, Lease] = {}
        self._lease_ids = 0

    def answer(self, path: str, form: Json, now: float) -> Json:
        """Return the answer to a call that is no stream of answers. Raises: Refused."""
        self.expire(now)
        match path:
            case "kv/range":
                return self._headed(self._range(form))
            case "kv/put" | "kv/deleterange":
                name = "request_put" if path == "kv/put" else "request_delete_range"
                (told,) = self._transact([{name: form}])
                return self._headed(*told.values())
            case "kv/txn":
                return self._txn(form)
            case "kv/compaction":
                return self._compact(int(form["revision"]))
            case "lease/grant":
                return self._grant(int(form["TTL"]), now)
            case "lease/keepalive":
                return {"result": self._keep_alive(int(form["ID"]), now)}
            case "lease/revoke":
                self._lease(int(form["ID"]))
                self._end(int(form["ID"]))
                return self._headed({})
        raise Refused(UNIMPLEMENTED, f"{path} is not known here")

    def _headed(self, answer: Json) -> dict[str, Any]:
        return {"header": {"revision": str(self.revision)}, **answer}

    # -- keys -------------------------------------------------------------------------------------------

    def _txn(self, form: Json) -> Json:
        succeeded = all(self._holds(each) for each in form.get("compare", ()))
        responses = self._transact(form.get("success" if succeeded else "failure", ()))
        return self._headed({"succeeded": succeeded, "responses": responses})

    def _holds(self, compare: Json) -> bool:
        entry = self._at(b64decode(compare["key"]), self.revision)
        if compare["target"] == "CREATE":
            return int(compare["create_revision"]) == (0 if entry is None else entry.create_revision)
        if compare["target"] == "MOD":
            return int(compare["mod_revision"]) == (0 if entry is None else entry.revision)
        raise Refused(UNIMPLEMENTED, f"comparing {compare['target']} is not known here")

    def _transact(self, operations: Iterable[Json]) -> list[Json]:
        """Do all of it at one revision, and return the answers in order; nothing where one is refused."""
        asked = [next(iter(each.items())) for each in operations]
        puts = [b64decode(form["key"]) for name, form in asked if name == "request_put"]
        if len(set(puts)) < len(puts):
            raise Refused(INVALID_ARGUMENT, "duplicate key given in txn request")
        for name, form in asked:
            if name == "request_put" and int(form.get("lease", 0)):
                self._lease(int(form["lease"]))
            elif name == "request_range":
                self._check_revision(int(form.get("revision", 0)))
        revision = self.revision + 1
        answers: list[Json] = []
        for name, form in asked:
            if name == "request_range":
                answers.append({"response_range": self._range(form, revision)})
            elif name == "request_put":
                self._put(b64decode(form["key"]), b64decode(form.get("value", "")), revision,
                          int(form.get("lease", 0)))  # fmt: skip
                answers.append({"response_put": {}})
            else:
                gone = [each.key for each in self._between(form, revision)]
                for key in gone:
                    self._delete(key, revision)
                answers.append({"response_delete_range": {"deleted": str(len(gone))}})
        self._took(revision)
        return answers

    def _put(self, key: bytes, value: bytes, revision: int, lease: int) -> None:
        before = self._at(key, revision)
        if before is not None and before.lease:
            self._leases[before.lease].keys.discard(key)
        if lease:
            self._leases[lease].keys.add(key)
        created, version = (revision, 0) if before is None else (before.create_revision, before.version)
        self._add(Entry(key, value, created, revision, version + 1, lease))

    def _delete(self, key: bytes, revision: int) -> None:
        before = self._at(key, revision)
        assert before is not None
        if before.lease:
            self._leases[before.lease].keys.discard(key)
        self._add(Entry(key, None, 0, revision, 0, 0))

    def _add(self, entry: Entry) -> None:
        self._history.setdefault(entry.key, []).append(entry)
        self._changes.append(entry)

    def entries(self) -> list[Entry]:
        """Return every key that there is, as it was put last."""
        return [last for history in self._history.values() if (last := history[-1]).value is not None]

    def adopt(self, leases: Mapping[int, int]) -> None:
        """Add these leases, with their numbers and times to live; keys of others are deleted now."""
        for number, ttl_seconds in leases.items():
            self._leases[number] = Lease(ttl_seconds, float("inf"))
            self._lease_ids = max(self._lease_ids, number)
        revision = self.revision + 1
        for entry in self.entries():
            if entry.lease in self._leases:
                self._leases[entry.lease].keys.add(entry.key)
            elif entry.lease:
                self._add(Entry(entry.key, None, 0, revision, 0, 0))
        self._took(revision)

    def changes_since(self, revision: int) -> list[Entry]:
        """Return the changes after a revision that is not compacted, in order."""
        return self._changes[bisect_right(self._changes, revision, key=lambda each: each.revision) :]

    def keep_changes(self, most: int) -> None:
        """Forget the oldest changes where there are more than twice as many as `most`."""
        if len(self._changes) > 2 * most:
            self._compact(self._changes[-most].revision)

    def _took(self, revision: int) -> None:
        """Increase the revision, if something has changed."""
        if self._changes and self._changes[-1].revision == revision:
            self.revision = revision

    def _at(self, key: bytes, revision: int) -> Entry | None:
        """Return the key as of a revision, None where it was not there."""
        history = self._history.get(key, ())
        place = bisect_right(history, revision, key=lambda each: each.revision)
        return history[place - 1] if place and history[place - 1].value is not None else None

    def _between(self, form: Json, revision: int) -> list[Entry]:
        key, is_asked = _asked(form)
        keys = sorted(filter(is_asked, self._history)) if form.get("range_end") else [key]
        return [entry for each in keys if (entry := self._at(each, revision)) is not None]

    def _range(self, form: Json, revision: int | None = None) -> dict[str, Any]:
        asked, limit = int(form.get("revision", 0)), int(form.get("limit", 0))
        self._check_revision(asked)
        found = self._between(form, asked or revision or self.revision)
        kept = found[:limit] if limit else found
        answer: dict[str, Any] = {"kvs": [json_of(each) for each in kept], "count": str(len(found))}
        return {**answer, "more": True} if len(kept) < len(found) else answer

    def _check_revision(self, asked: int) -> None:
        """Return if keys can be read as of this revision, 0 for now. Raises: Refused."""
        if 0 < asked < self.compacted:
            raise Refused(OUT_OF_RANGE, "mvcc: required revision has been compacted")
        if asked > self.revision:
            raise Refused(OUT_OF_RANGE, "mvcc: required revision is a future revision")

    def _compact(self, revision: int) -> Json:
        """Drop former values of keys before a revision, except the current ones."""
        if revision <= self.compacted:
            raise Refused(OUT_OF_RANGE, "mvcc: required revision has been compacted")
        self._check_revision(revision)
        self.compacted = revision
        place = bisect_right(self._changes, revision - 1, key=lambda each: each.revision)
        del self._changes[:place]
        for key, history in list(self._history.items()):
            first = bisect_right(history, revision, key=lambda each: each.revision) - 1
            if first >= 0:
                del history[: first if history[first].value is not None else first + 1]
            if not history:
                del self._history[key]
        return self._headed({})

    # -- leases -----------------------------------------------------------------------------------------

    def _grant(self, ttl_seconds: int, now: float) -> Json:
        self._lease_ids += 1
        self._leases[self._lease_ids] = Lease(ttl_seconds, now + ttl_seconds)
        return self._headed({"ID": str(self._lease_ids), "TTL": str(ttl_seconds)})

    def _keep_alive(self, lease_id: int, now: float) -> Json:
        lease = self._leases.get(lease_id)
        if lease is None:
            return self._headed({"ID": str(lease_id)})
        lease.until = now + lease.ttl_seconds
        return self._headed({"ID": str(lease_id), "TTL": str(lease.ttl_seconds)})

    def _lease(self, lease_id: int) -> Lease:
        lease = self._leases.get(lease_id)
        if lease is None:
            raise Refused(NOT_FOUND, "requested lease not found")
        return lease

    def _end(self, lease_id: int) -> None:
        revision = self.revision + 1
        for key in sorted(self._leases[lease_id].keys):
            self._delete(key, revision)
        del self._leases[lease_id]
        self._took(revision)

    def expire(self, now: float) -> None:
        """End the expired leases."""
        for lease_id in [number for number, lease in self._leases.items() if lease.until <= now]:
            self._end(lease_id)

    # -- watches ----------------------------------------------------------------------------------------

    def news(self, form: Json) -> tuple[Json | None, int]:
        """Return the changes for a watch from its revision, and its next revision.

        None if there are no changes. Raises: Refused if those changes were compacted.
        """
        start = int(form.get("start_revision", 0)) or self.revision + 1
        if start < max(self.compacted, self._told_from):
            raise Refused(OUT_OF_RANGE, "mvcc: required revision has been compacted")
        _, is_asked = _asked(form)
        place = bisect_right(self._changes, start - 1, key=lambda each: each.revision)
        told = [each for each in self._changes[place:] if is_asked(each.key)]
        following = max(start, self.revision + 1)  # A watch from a later revision waits for it.
        if not told:
            return None, following
        return self._headed({"events": [event_of(each) for each in told]}), following


def _asked(form: Json) -> tuple[bytes, Callable[[bytes], bool]]:
    """Return the key in a request, and the function that tells whether a key is in its range."""
    key, end = b64decode(form["key"]), b64decode(form.get("range_end", ""))
    if not end:
        return key, key.__eq__
    if end == END_OF_ALL:
        return key, lambda each: key <= each
    return key, lambda each: key <= each < end


def json_of(entry: Entry) -> Json:
    """Return a key and what belongs to it."""
    form = {
        "key": b64encode(entry.key).decode(),
        "create_revision": str(entry.create_revision),
        "mod_revision": str(entry.revision),
        "version": str(entry.version),
        "value": b64encode(entry.value or b"").decode(),
    }
    return {**form, "lease": str(entry.lease)} if entry.lease else form


def event_of(entry: Entry) -> Json:
    """Return a change as the event of a watch."""
    if entry.value is None:
        key = b64encode(entry.key).decode()
        return {"type": "DELETE", "kv": {"key": key, "mod_revision": str(entry.revision)}}
    return {"kv": json_of(entry)}
