"""Which route takes a record, and what is said about it."""

from __future__ import annotations

import pytest

from kohort.client.errors import ConfigurationError
from kohort.client.partitioner import murmur2
from kohort.client.values import ConsumerRecord
from kohort.queues.forward.routing import Condition, Route, RouteAction, choose, explain

VALUE = b'{"total": 7, "paid": true, "to": {"country": "de"}, "items": [{"sku": "a-1"}, {"sku": "b-2"}]}'


def record(
    value: bytes | None = VALUE, key: bytes | None = b"vip-1", **headers: bytes
) -> ConsumerRecord[bytes, bytes]:
    return ConsumerRecord("orders", 0, 0, 0, key, value, tuple(headers.items()))


def route(name: str, *when: Condition, **settings: object) -> Route:
    return Route(name=name, when=when, url="http://127.0.0.1/x", **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "condition, holds",
    [
        (Condition(header="region", equals="eu"), True),
        (Condition(header="region", equals="us"), False),
        (Condition(header="region", prefix="e"), True),
        (Condition(header="region"), True),
        (Condition(header="absent"), False),
        (Condition(key_prefix="vip-"), True),
        (Condition(key_prefix="vip-2"), False),
        (Condition(json_path="$.to.country", equals="de"), True),
        (Condition(json_path="$.to.country", prefix="d"), True),
        (Condition(json_path="$.total", equals=7), True),
        (Condition(json_path="$.total", equals=7.0), True),
        (Condition(json_path="$.total", equals="7"), False),
        (Condition(json_path="$.paid", equals=True), True),
        (Condition(json_path="$.paid", equals=1), False),
        (Condition(json_path="$.items[1].sku", equals="b-2"), True),
        (Condition(json_path="$.items[2].sku"), False),
        (Condition(json_path="$.total.more"), False),
        (Condition(json_path="$"), True),
    ],
)
def test_a_condition_on_a_header_a_key_or_a_path(condition: Condition, holds: bool) -> None:
    found = choose([route("r", condition)], record(region=b"eu"))
    assert (found is not None) is holds


@pytest.mark.parametrize("value", [None, b"", b"no json", b"{", b"\xff", b"[" * 100_000])
def test_a_value_that_is_no_json_meets_no_path(value: bytes | None) -> None:
    assert (
        choose([route("r", Condition(json_path="$.a")), route("s", Condition(json_path="$"))], record(value))
        is None
    )


def test_a_hash_range_takes_its_share_of_keys_and_none_without_a_key() -> None:
    canary = route("canary", Condition(key_hash=(0, 10)))
    keys = [b"%d" % number for number in range(2_000)]
    taken = [each for each in keys if choose([canary], record(key=each)) is canary]
    assert taken == [each for each in keys if (murmur2(each) & 0x7FFFFFFF) % 100 < 10]
    assert 100 < len(taken) < 300
    assert choose([canary], record(key=None)) is None


def test_the_first_route_whose_conditions_all_hold_takes_the_record_and_says_why() -> None:
    eu = Condition(header="region", equals="eu")
    vip = Condition(key_prefix="vip-")
    routes = [
        route("us", Condition(header="region", equals="us")),
        route("both", eu, Condition(key_prefix="other-")),
        route("eu", eu, vip),
        Route(name="rest", when=(vip,), action=RouteAction.DROP),
    ]
    assert choose(routes, record(region=b"eu")) is routes[2]
    assert explain(routes, record(region=b"eu")) == [
        "route us: no, not header region equals 'us'",
        "route both: no, not key_prefix 'other-'",
        "route eu: yes, push to http://127.0.0.1/x",
    ]
    assert explain(routes, record())[-1] == "route rest: yes, drop"
    assert choose(routes, record(key=None)) is None


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({}, "one of header"),
        ({"header": "a", "key_prefix": "b"}, "one of header"),
        ({"key_prefix": "b", "equals": "b"}, "for a header or a json_path"),
        ({"header": "a", "equals": 5}, "a header is a text"),
        ({"header": "a", "equals": "b", "prefix": "c"}, "not both"),
        ({"json_path": "total"}, "json_path"),
        ({"json_path": "$.a[x]"}, "json_path"),
        ({"key_hash": (10, 10)}, "key_hash"),
        ({"key_hash": (0, 101)}, "key_hash"),
    ],
)
def test_a_wrong_condition_is_refused(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Condition(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"name": "a route"}, "letters, digits"),
        ({"when": ()}, "needs a condition"),
        ({"url": ""}, "has a url"),
        ({"action": RouteAction.DEAD}, "has a url"),
        ({"rate_max": -1.0}, "not negative"),
    ],
)
def test_a_wrong_route_is_refused(wrong: dict[str, object], words: str) -> None:
    right = {"name": "r", "when": (Condition(header="a"),), "url": "http://127.0.0.1/x"}
    with pytest.raises(ConfigurationError, match=words):
        Route(**{**right, **wrong})  # type: ignore[arg-type]
