"""What the control port of a broker answers."""

import itertools
from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from kohort.protocol.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.testing.expectations import explain
from kohort.testing.groups import Group, Record
from kohort.testing.holds import Hold
from kohort.testing.requests import Requests, SeenRequest
from kohort.testing.waiting import TIMEOUT_SECONDS

B = TypeVar("B", bound=msgspec.Struct)


class NotFound(Exception):
    """There is nothing at this path."""


class AdvanceBody(msgspec.Struct, forbid_unknown_fields=True):
    """`POST /time`."""

    advance_seconds: float
    alive: tuple[str, ...] = ()


class FaultBody(msgspec.Struct, forbid_unknown_fields=True):
    """`POST /faults`: `error` answers with an error, `delay_seconds` delays, `action` is `drop` or `tear`."""

    api: str
    error: str | None = None
    delay_seconds: float | None = None
    action: str | None = None
    times: int = 1
    client: str | None = None


class HoldBody(msgspec.Struct, forbid_unknown_fields=True):
    """`POST /holds`."""

    api: str
    client: str | None = None


class WaitBody(msgspec.Struct, forbid_unknown_fields=True):
    """`POST /holds/ID/wait`."""

    count: int = 1
    within_seconds: float = TIMEOUT_SECONDS


class ReleaseBody(msgspec.Struct, forbid_unknown_fields=True):
    """`POST /holds/ID/release`: the oldest ones, or without a count all."""

    count: int | None = None


class TopicBody(msgspec.Struct, forbid_unknown_fields=True):
    """`POST /topics`."""

    name: str
    partitions: int | None = None
    configs: dict[str, str] = {}


class CommitBody(msgspec.Struct, forbid_unknown_fields=True):
    """`POST /expect/commit`."""

    group: str
    topic: str
    offset: int
    partition: int = 0
    within_seconds: float = TIMEOUT_SECONDS


class LagBody(msgspec.Struct, forbid_unknown_fields=True):
    """`POST /expect/no-lag`."""

    group: str
    topic: str
    within_seconds: float = TIMEOUT_SECONDS


class MembersBody(msgspec.Struct, forbid_unknown_fields=True):
    """`POST /expect/members`."""

    group: str
    count: int | None = None
    clients: tuple[str, ...] | None = None
    within_seconds: float = TIMEOUT_SECONDS


class RecordsBody(msgspec.Struct, forbid_unknown_fields=True):
    """`POST /expect/records`. Values are text."""

    topic: str
    count: int | None = None
    values: tuple[str | None, ...] | None = None
    within_seconds: float = TIMEOUT_SECONDS


class RequestBody(msgspec.Struct, forbid_unknown_fields=True):
    """`POST /expect/request`."""

    api: str
    client: str | None = None
    error: str | None = None
    count: int = 1
    within_seconds: float = TIMEOUT_SECONDS


class Routes:
    """The control port of one broker. Any thread."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._holds: dict[str, Hold] = {}
        self._numbers = itertools.count(1)
        self._routes: dict[tuple[str, str], Callable[[str, dict[str, str], bytes], object]] = {
            ("GET", "/time"): lambda *_: {"time": broker.clock.time()},
            ("POST", "/time"): self._advance,
            ("POST", "/faults"): self._order_fault,
            ("DELETE", "/faults"): self._clear_faults,
            ("POST", "/holds"): self._begin_hold,
            ("DELETE", "/holds/*"): self._end_hold,
            ("POST", "/holds/*/wait"): self._wait,
            ("POST", "/holds/*/release"): self._release,
            ("POST", "/topics"): self._create_topic,
            ("POST", "/groups/*/rebalance"): self._rebalance,
            ("POST", "/connections/drop"): self._drop_connections,
            ("POST", "/expect/commit"): self._expect_commit,
            ("POST", "/expect/no-lag"): self._expect_no_lag,
            ("POST", "/expect/members"): self._expect_members,
            ("POST", "/expect/records"): self._expect_records,
            ("POST", "/expect/request"): self._expect_request,
            ("GET", "/requests"): self._requests,
            ("GET", "/groups/*"): self._group,
            ("GET", "/groups/*/explain"): lambda name, *_: "\n".join([*explain(broker, name), ""]),
            ("GET", "/records/*"): self._records,
            ("GET", "/report"): lambda *_: broker.report() + "\n",
        }

    def answer(self, method: str, path: list[str], query: dict[str, str], body: bytes) -> object:
        """Return the answer: text, or what JSON can express.

        Raises: NotFound, NotInTime for a failed expectation, ValueError, BrokerFailed.
        """
        for pattern in (path, [*path[:1], "*", *path[2:]]):
            route = self._routes.get((method, "/" + "/".join(pattern)))
            if route is not None:
                return route(path[1] if len(path) > 1 else "", query, body)
        known = ", ".join(f"{method} {pattern}" for method, pattern in self._routes)
        raise NotFound(f"there is no {method} /{'/'.join(path)}: there are {known}")

    def close(self) -> None:
        """End every hold."""
        for each in list(self._holds):
            self._end_hold(each, {}, b"")

    # -- orders -------------------------------------------------------------------------------------------

    def _advance(self, _: str, query: dict[str, str], body: bytes) -> object:
        found = read(AdvanceBody, body)
        self._broker.clock.advance(found.advance_seconds, alive=found.alive)
        return {"time": self._broker.clock.time()}

    def _order_fault(self, _: str, query: dict[str, str], body: bytes) -> object:
        found = read(FaultBody, body)
        wanted = [each for each in (found.error, found.delay_seconds, found.action) if each is not None]
        if len(wanted) != 1 or found.action not in (None, "drop", "tear"):
            raise ValueError('give one of error, delay_seconds and action, which is "drop" or "tear"')
        api, times, client = found.api, found.times, found.client
        if found.error is not None:
            self._broker.fail_next(api, error_of(found.error), times=times, client_id=client)
        elif found.delay_seconds is not None:
            self._broker.delay_next(api, found.delay_seconds, times=times, client_id=client)
        elif found.action == "drop":
            self._broker.drop_next(api, times=times, client_id=client)
        else:
            self._broker.tear_next(api, times=times, client_id=client)
        return {}

    def _clear_faults(self, _: str, query: dict[str, str], body: bytes) -> object:
        self._broker.clear_faults()
        return {}

    def _rebalance(self, name: str, query: dict[str, str], body: bytes) -> object:
        try:
            self._broker.rebalance(name)
        except KeyError as error:
            raise NotFound(error.args[0]) from None
        return {}

    def _create_topic(self, _: str, query: dict[str, str], body: bytes) -> object:
        found = read(TopicBody, body)
        return {"name": self._broker.create_topic(found.name, found.partitions, **found.configs)}

    def _drop_connections(self, _: str, query: dict[str, str], body: bytes) -> object:
        return {"count": self._broker.drop_connections(query.get("client"))}

    # -- barriers -----------------------------------------------------------------------------------------

    def _begin_hold(self, _: str, query: dict[str, str], body: bytes) -> object:
        found = read(HoldBody, body)
        hold = self._broker.hold(found.api, client=found.client)
        number = str(next(self._numbers))
        self._holds[number] = hold.__enter__()
        return {"hold": number}

    def _hold(self, number: str) -> Hold:
        if number not in self._holds:
            raise NotFound(f"there is no hold {number}: POST /holds begins one")
        return self._holds[number]

    def _wait(self, number: str, query: dict[str, str], body: bytes) -> object:
        found = read(WaitBody, body)
        return requests_body(self._hold(number).wait(found.count, found.within_seconds))

    def _release(self, number: str, query: dict[str, str], body: bytes) -> object:
        hold, count = self._hold(number), read(ReleaseBody, body).count
        if count is not None and not 0 < count <= len(hold):
            raise ValueError(f"{len(hold)} requests are held, not {count}: wait for more")
        return requests_body(hold._release(count))

    def _end_hold(self, number: str, query: dict[str, str], body: bytes) -> object:
        self._hold(number).__exit__(None, None, None)
        self._holds.pop(number, None)
        return {}

    # -- expectations -------------------------------------------------------------------------------------

    def _expect_commit(self, _: str, query: dict[str, str], body: bytes) -> object:
        found = read(CommitBody, body)
        return group_body(self._broker.expect_commit(**msgspec.structs.asdict(found)))

    def _expect_no_lag(self, _: str, query: dict[str, str], body: bytes) -> object:
        return group_body(self._broker.expect_no_lag(**msgspec.structs.asdict(read(LagBody, body))))

    def _expect_members(self, _: str, query: dict[str, str], body: bytes) -> object:
        return group_body(self._broker.expect_members(**msgspec.structs.asdict(read(MembersBody, body))))

    def _expect_records(self, _: str, query: dict[str, str], body: bytes) -> object:
        found = read(RecordsBody, body)
        values = None
        if found.values is not None:
            values = [None if each is None else each.encode() for each in found.values]
        return records_body(
            self._broker.expect_records(
                topic=found.topic, count=found.count, values=values, within_seconds=found.within_seconds
            )
        )

    def _expect_request(self, _: str, query: dict[str, str], body: bytes) -> object:
        found = read(RequestBody, body)
        return requests_body(
            self._broker.expect_request(
                found.api,
                client=found.client,
                error=None if found.error is None else error_of(found.error),
                count=found.count,
                within_seconds=found.within_seconds,
            )
        )

    # -- what happened ------------------------------------------------------------------------------------

    def _group(self, name: str, query: dict[str, str], body: bytes) -> object:
        groups = self._broker.groups
        if name not in groups:
            raise NotFound(f"there is no group {name!r}")
        return group_body(groups[name])

    def _records(self, name: str, query: dict[str, str], body: bytes) -> object:
        try:
            return records_body(self._broker.records(name))
        except KeyError:
            raise NotFound(f"there is no topic {name!r}") from None

    def _requests(self, _: str, query: dict[str, str], body: bytes) -> object:
        found: Requests = self._broker.requests.of(query.get("api"), client_id=query.get("client"))
        return requests_body(found)


def read(kind: type[B], body: bytes) -> B:
    """Return a request's body. Raises: msgspec.ValidationError, msgspec.DecodeError."""
    return msgspec.json.decode(body or b"{}", type=kind)


def error_of(name: str) -> ErrorCode:
    """Return the error of this name. Raises: ValueError."""
    try:
        return ErrorCode[name]
    except KeyError:
        raise ValueError(f"no error of Kafka is named {name!r}") from None


def requests_body(requests: Iterable[SeenRequest]) -> dict[str, object]:
    """Return requests for JSON."""
    return {
        "requests": [
            {
                "api": each.api,
                "version": each.version,
                "client": each.client_id,
                "time": each.time,
                "errors": [code.name for code in each.errors],
                "is_answered": each.is_answered,
                "fault": each.fault,
            }
            for each in requests
        ]
    }


def records_body(records: Iterable[Record]) -> dict[str, object]:
    """Return records for JSON: keys and values as text, and as base64."""
    return {
        "records": [
            {
                "partition": each.partition,
                "offset": each.offset,
                "timestamp_ms": each.timestamp_ms,
                "key": text_of(each.key),
                "key_base64": base64_of(each.key),
                "value": text_of(each.value),
                "value_base64": base64_of(each.value),
                "headers": [[name, text_of(value)] for name, value in each.headers],
            }
            for each in records
        ]
    }


def group_body(group: Group) -> dict[str, object]:
    """Return a group for JSON."""
    return {
        "group": group.group_id,
        "state": group.state,
        "generation": group.generation,
        "members": [
            {"member_id": each.member_id, "client": each.client_id, "partitions": each.partitions}
            for each in group.members
        ],
        "offsets": [
            {"topic": topic, "partition": partition, "offset": offset}
            for (topic, partition), offset in group.offsets.items()
        ],
        "rebalances": [
            {"cause": each.cause, "outcome": each.outcome, "generation": each.generation}
            for each in group.rebalances
        ],
    }


def text_of(value: bytes | None) -> str | None:
    """Return bytes as text, without what is not UTF-8."""
    return None if value is None else value.decode("utf-8", "replace")


def base64_of(value: bytes | None) -> str | None:
    """Return bytes as base64."""
    return None if value is None else b64encode(value).decode()
