"""What etcd does beyond what brokers need of a store of keys: it refuses more, and answers more questions.

So a test without an etcd finds a broker that asks what etcd would refuse. tests/cluster/test_etcd_contract.py
holds this store and etcd itself to the same answers.
"""

import operator
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kohort.broker.etcd.key_store import (
    END_OF_ALL,
    INVALID_ARGUMENT,
    OUT_OF_RANGE,
    UNIMPLEMENTED,
    Entry,
    KeyStore,
    Lease,
    Refused,
    json_of,
)
from kohort.broker.etcd.messages import Json

FAILED_PRECONDITION = 9  # gRPC's number.
OPERATIONS_MAX = 128  # etcd's --max-txn-ops.
TTL_SECONDS_MIN = 2  # One and a half times etcd's election timeout, in whole seconds.
TTL_SECONDS_MAX = 9_000_000_000
RESULTS: dict[str, Callable[[Any, Any], bool]] = {
    "EQUAL": operator.eq,
    "GREATER": operator.gt,
    "LESS": operator.lt,
    "NOT_EQUAL": operator.ne,
}
COMPARED = {"VERSION": "version", "CREATE": "create_revision", "MOD": "mod_revision", "LEASE": "lease"}
SORTED_BY: dict[str, Callable[[Entry], Any]] = {
    "KEY": lambda entry: entry.key,
    "VERSION": lambda entry: entry.version,
    "CREATE": lambda entry: entry.create_revision,
    "MOD": lambda entry: entry.revision,
    "VALUE": lambda entry: entry.value,
}
KNOWN = {
    "request_range": {
        *("key", "range_end", "limit", "revision", "serializable"),
        *("sort_order", "sort_target", "keys_only", "count_only"),
    },
    "request_put": {"key", "value", "lease"},
    "request_delete_range": {"key", "range_end"},
    "compare": {"key", "target", "result", "version", "create_revision", "mod_revision", "value", "lease"},
    "watch": {"key", "range_end", "start_revision", "filters", "progress_notify"},
}
"""What requests may have. Anything else is refused: it would be overlooked."""


class EtcdStore(KeyStore):
    """The keys and leases of an etcd."""

    late_seconds = 0.0
    """How long after its time a lease ends. Nobody can keep it alive meanwhile."""

    def answer(self, path: str, form: Json, now: float) -> Json:
        """Return the answer to a call that is no stream of answers. Raises: Refused."""
        self.expire(now)
        match path:
            case "kv/range":
                self._check("request_range", form)
            case "kv/put":
                self._check("request_put", form)
            case "kv/deleterange":
                self._check("request_delete_range", form)
            case "kv/txn":
                self._check_txn(form)
            case "lease/keepalive" if (lease := self._leases.get(int(form["ID"]))) and lease.until <= now:
                return {"result": self._headed({"ID": form["ID"]})}
            case "lease/timetolive":
                return self._time_to_live(int(form["ID"]), bool(form.get("keys")), now)
            case "lease/leases":
                return self._headed({"leases": [{"ID": str(each)} for each in self.lease_ids]})
            case "lease/grant":
                return self._grant_as_asked(int(form.get("ID", 0)), int(form.get("TTL", 0)), now)
            case "maintenance/status":
                return self._headed({"version": "3.6.5"})
        return super().answer(path, form, now)

    # -- keys -------------------------------------------------------------------------------------------

    def _check_txn(self, form: Json) -> None:
        """Return if etcd would look at the transaction at all. Raises: Refused."""
        compares, branches = form.get("compare", ()), [form.get("success", ()), form.get("failure", ())]
        if max(map(len, [compares, *branches])) > OPERATIONS_MAX:
            raise Refused(INVALID_ARGUMENT, "too many operations in txn request")
        for each in compares:
            self._check("compare", each)
        for operations in branches:
            for operation in operations:
                self._check(*next(iter(operation.items())))
            _check_duplicates(operations)

    def _check(self, kind: str, form: Json) -> None:
        known = KNOWN.get(kind)
        unknown = {kind} if known is None else form.keys() - known
        if unknown:
            raise Refused(UNIMPLEMENTED, f"not simulated: {', '.join(sorted(unknown))}")
        if not form.get("key"):
            raise Refused(INVALID_ARGUMENT, "key is not provided")

    def _transact(self, operations: Iterable[Json]) -> list[Json]:
        revision, answers = self.revision, super()._transact(operations)
        for answer in answers:
            ((name, told),) = answer.items()
            if name == "response_put" or int(told.get("deleted", 0)):
                revision = self.revision
            told["header"] = {"revision": str(revision)}
        return answers

    def _holds(self, compare: Json) -> bool:
        entry = self._at(b64decode(compare["key"]), self.revision)
        target = compare.get("target", "VERSION")
        holds = RESULTS[compare.get("result", "EQUAL")]
        if target == "VALUE":  # A key that is not there has no value to compare.
            return entry is not None and holds(entry.value, b64decode(compare.get("value", "")))
        name = COMPARED[target]
        found = {} if entry is None else json_of(entry)
        return holds(int(found.get(name, 0)), int(compare.get(name, 0)))

    def _range(self, form: Json, revision: int | None = None) -> dict[str, Any]:
        if form.get("count_only"):
            return {"count": super()._range({**form, "limit": 0}, revision)["count"]}
        answer = super()._range(form, revision)
        if form.get("keys_only"):
            answer["kvs"] = [{**each, "value": ""} for each in answer["kvs"]]
        return answer

    def _between(self, form: Json, revision: int) -> list[Entry]:
        found, order = super()._between(form, revision), form.get("sort_order", "NONE")
        target = form.get("sort_target", "KEY")
        if order == "NONE" and target == "KEY":
            return found
        return sorted(found, key=SORTED_BY[target], reverse=order == "DESCEND")

    # -- leases -----------------------------------------------------------------------------------------

    def _grant_as_asked(self, lease_id: int, ttl_seconds: int, now: float) -> Json:
        if ttl_seconds > TTL_SECONDS_MAX:
            raise Refused(OUT_OF_RANGE, "too large lease TTL")
        if lease_id in self._leases:
            raise Refused(FAILED_PRECONDITION, "lease already exists")
        ttl_seconds = max(ttl_seconds, TTL_SECONDS_MIN)
        if not lease_id:
            return self._grant(ttl_seconds, now)
        self._leases[lease_id] = Lease(ttl_seconds, now + ttl_seconds)
        self._lease_ids = max(self._lease_ids, lease_id)
        return self._headed({"ID": str(lease_id), "TTL": str(ttl_seconds)})

    def expire(self, now: float) -> None:
        """End the leases whose time is over."""
        super().expire(now - self.late_seconds)

    @property
    def lease_ids(self) -> list[int]:
        """The leases that have not ended."""
        return sorted(self._leases)

    def begin_leases_anew(self, now: float) -> None:
        """Give each lease its whole time again."""
        for lease in self._leases.values():
            lease.until = max(lease.until, now + lease.ttl_seconds)

    def _time_to_live(self, lease_id: int, with_keys: bool, now: float) -> Json:
        lease = self._leases.get(lease_id)
        if lease is None:
            return self._headed({"ID": str(lease_id), "TTL": "-1"})
        keys = [b64encode(each).decode() for each in sorted(lease.keys)] if with_keys else []
        left = {"TTL": str(int(lease.until - now)), "grantedTTL": str(lease.ttl_seconds), "keys": keys}
        return self._headed({"ID": str(lease_id), **left})

    # -- watches ----------------------------------------------------------------------------------------

    def watch_refused(self, form: Json) -> str | None:
        """Return why a watch is refused at once, None where it is not. Raises: Refused."""
        if form.keys() - KNOWN["watch"]:
            raise Refused(UNIMPLEMENTED, f"not simulated: {', '.join(sorted(form.keys() - KNOWN['watch']))}")
        end = b64decode(form.get("range_end", ""))
        is_empty = end and end != END_OF_ALL and end <= b64decode(form.get("key", ""))
        return "mvcc: watcher range is empty" if is_empty else None

    def news(self, form: Json) -> tuple[Json | None, int]:
        """Return a watch's next message, with the changes from its revision on, and its next revision."""
        message, following = super().news(form)
        filters = form.get("filters", ())
        if message is None or not filters:
            return message, following
        unwanted = {{"NOPUT": None, "NODELETE": "DELETE"}[each] for each in filters}
        events = [each for each in message["events"] if each.get("type") not in unwanted]
        return ({**message, "events": events} if events else None), following


def _check_duplicates(operations: Iterable[Json]) -> None:
    """Return if no key is put twice, or put and deleted. Raises: Refused."""
    puts: set[bytes] = set()
    for form in _named("request_put", operations):
        key = b64decode(form["key"])
        if key in puts:
            raise Refused(INVALID_ARGUMENT, "duplicate key given in txn request")
        puts.add(key)
    for form in _named("request_delete_range", operations):
        first, end = b64decode(form["key"]), b64decode(form.get("range_end", ""))
        # etcd overlooks a range without an end here.
        if any(first <= key < end if end else key == first for key in puts):
            raise Refused(INVALID_ARGUMENT, "duplicate key given in txn request")


def _named(name: str, operations: Iterable[Json]) -> Iterator[Json]:
    return (each[name] for each in operations if name in each)
