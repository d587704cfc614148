"""Twenty rules, and what takes what: docs/queues.md has the same table."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

from kohort.client.values import ConsumerRecord
from kohort.queues.forward.routing import Route, choose, explain

RULES = """
[[route]]
name = "01-tests"
when = [{ header = "purpose", equals = "test" }]
action = "drop"
[[route]]
name = "02-broken"
when = [{ header = "x-broken" }]
action = "dead"
[[route]]
name = "03-trace"
when = [{ header = "trace", prefix = "eu-" }]
url = "http://localhost/03"
[[route]]
name = "04-vip"
when = [{ key_prefix = "vip-" }]
url = "http://localhost/04"
[[route]]
name = "05-canary"
when = [{ key_prefix = "shop-" }, { key_hash = [0, 10] }]
url = "http://localhost/05"
[[route]]
name = "06-shop"
when = [{ key_prefix = "shop-" }]
url = "http://localhost/06"
[[route]]
name = "07-germany"
when = [{ json_path = "$.to.country", equals = "de" }]
url = "http://localhost/07"
[[route]]
name = "08-large"
when = [{ json_path = "$.size", equals = 1000 }]
url = "http://localhost/08"
[[route]]
name = "09-first-item"
when = [{ json_path = "$.items[0].sku", equals = "a1" }]
url = "http://localhost/09"
[[route]]
name = "10-second-item"
when = [{ json_path = "$.items[1].sku", prefix = "b" }]
url = "http://localhost/10"
[[route]]
name = "11-express"
when = [{ json_path = "$.express", equals = true }]
url = "http://localhost/11"
[[route]]
name = "12-not-express"
when = [{ json_path = "$.express", equals = false }]
url = "http://localhost/12"
[[route]]
name = "13-price"
when = [{ json_path = "$.price", equals = 9.5 }]
url = "http://localhost/13"
[[route]]
name = "14-refund"
when = [{ json_path = "$.kind", prefix = "refund" }]
url = "http://localhost/14"
[[route]]
name = "15-deleted"
when = [{ json_path = "$.deleted" }]
action = "drop"
[[route]]
name = "16-list"
when = [{ json_path = "$[0]", equals = "batch" }]
url = "http://localhost/16"
[[route]]
name = "17-text"
when = [{ json_path = "$", prefix = "hello" }]
url = "http://localhost/17"
[[route]]
name = "18-both"
when = [{ header = "region", equals = "us" }, { json_path = "$.to.state", equals = "ca" }]
url = "http://localhost/18"
[[route]]
name = "19-us"
when = [{ header = "region", equals = "us" }]
url = "http://localhost/19"
[[route]]
name = "20-half"
when = [{ key_hash = [0, 50] }]
url = "http://localhost/20"
"""

# Key, headers, value, and its route. Of 100, the hash of shop-3 is 8, of shop-1 58, of k-6 26, of k-1 98.
TABLE: tuple[tuple[str | None, dict[str, str], str | None, str | None], ...] = (
    (None, {"purpose": "test"}, "{}", "01-tests"),
    ("vip-1", {"purpose": "test"}, '{"to": {"country": "de"}}', "01-tests"),
    (None, {"x-broken": ""}, None, "02-broken"),
    (None, {"trace": "eu-17"}, None, "03-trace"),
    (None, {"trace": "us-17"}, None, None),
    ("vip-9", {}, "no JSON", "04-vip"),
    ("vip", {}, None, None),
    ("shop-3", {}, None, "05-canary"),
    ("shop-1", {}, None, "06-shop"),
    (None, {}, '{"to": {"country": "de"}}', "07-germany"),
    (None, {}, '{"to": {"country": "DE"}}', None),
    (None, {}, '{"to": "de"}', None),
    (None, {}, '{"size": 1000}', "08-large"),
    (None, {}, '{"size": 1000.0}', "08-large"),
    (None, {}, '{"size": "1000"}', None),
    (None, {}, '{"items": [{"sku": "a1"}, {"sku": "b2"}]}', "09-first-item"),
    (None, {}, '{"items": [{"sku": "a2"}, {"sku": "b2"}]}', "10-second-item"),
    (None, {}, '{"items": [{"sku": "a2"}]}', None),
    (None, {}, '{"express": true}', "11-express"),
    (None, {}, '{"express": false}', "12-not-express"),
    (None, {}, '{"express": 1}', None),
    (None, {}, '{"price": 9.5}', "13-price"),
    (None, {}, '{"kind": "refund-part"}', "14-refund"),
    (None, {}, '{"kind": 7}', None),
    (None, {}, '{"deleted": null}', "15-deleted"),
    (None, {}, '["batch", 1]', "16-list"),
    (None, {}, '"hello, world"', "17-text"),
    (None, {"region": "us"}, '{"to": {"state": "ca"}}', "18-both"),
    (None, {"region": "us"}, '{"to": {"state": "ny"}}', "19-us"),
    (None, {"region": "eu"}, '{"to": {"state": "ca"}}', None),
    ("k-6", {}, None, "20-half"),
    ("k-1", {}, None, None),
    (None, {}, None, None),
    (None, {}, "{", None),
)

ROUTES = msgspec.convert(tomllib.loads(RULES)["route"], tuple[Route, ...])
DOCS = Path(__file__).parents[4] / "docs" / "queues.md"


def record_of(key: str | None, headers: dict[str, str], value: str | None) -> ConsumerRecord[bytes, bytes]:
    given = tuple((name, text.encode()) for name, text in headers.items())
    data = None if value is None else value.encode()
    return ConsumerRecord("t", 0, 0, 0, None if key is None else key.encode(), data, given)


@pytest.mark.parametrize("key, headers, value, taker", TABLE)
def test_a_record_is_taken_by_the_first_rule_that_holds(
    key: str | None, headers: dict[str, str], value: str | None, taker: str | None
) -> None:
    record = record_of(key, headers, value)
    route = choose(ROUTES, record)
    assert (None if route is None else route.name) == taker
    lines = explain(ROUTES, record)
    assert ": yes, " in lines[-1] if taker else len(lines) == len(ROUTES)
    assert all(": no, not " in each for each in (lines[:-1] if taker else lines))


def test_each_of_the_twenty_rules_takes_something() -> None:
    assert len(ROUTES) == 20
    assert {taker for *_, taker in TABLE if taker} == {each.name for each in ROUTES}


def test_the_docs_have_this_table() -> None:
    docs = DOCS.read_text(encoding="utf-8")
    for rule in ROUTES:
        taken = next(each for each in TABLE if each[3] == rule.name)
        assert row_of(rule, *taken[:3]) in docs


def row_of(rule: Route, key: str | None, headers: dict[str, str], value: str | None) -> str:
    """Return a row of the table: a rule, and a record that it takes."""
    conditions = " and ".join(f"`{each}`" for each in rule.when)
    parts = [f"key `{key}`"] * (key is not None) + [f"`{name}: {text}`" for name, text in headers.items()]
    parts += [f"`{value}`"] * (value is not None)
    action = rule.action.value if not rule.url else f"push to `{rule.url.removeprefix('http://localhost')}`"
    return f"| {rule.name} | {conditions} | {action} | {', '.join(parts)} |"
