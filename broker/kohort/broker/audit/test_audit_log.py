"""The entries of the audit log, and how often they are written."""

import json
from typing import Any

from kohort.broker.audit import audit_log as trails
from kohort.broker.audit.audit_log import (
    KEPT_MAX,
    REFUSALS_PER_SECOND_MAX,
    REPEAT_MS,
    TEXT_MAX,
    USES_PER_SECOND_MAX,
    AuditLog,
)
from kohort.broker.runtime.clock import ManualClock


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.lines: list[dict[str, Any]] = []
        self.audit_log = AuditLog(lambda line: self.lines.append(json.loads(line)), self.clock)

    def use(self, topic: str = "orders", *, allowed: bool = True) -> None:
        self.audit_log.used("User:alice", "10.0.0.1", "Fetch", "READ", f"TOPIC:{topic}", allowed=allowed)


def test_repeated_use_is_logged_once_and_then_with_its_count() -> None:
    world = World()
    for _ in range(100):
        world.use()
    assert [each["times"] for each in world.lines] == [1]
    world.clock.advance(REPEAT_MS)
    world.use()
    assert [each["times"] for each in world.lines] == [1, 100]
    world.use("other")
    world.use("other", allowed=False)
    assert [(each["resource"], each["allowed"]) for each in world.lines[2:]] == [
        ("TOPIC:other", True),
        ("TOPIC:other", False),
    ]


def test_refused_requests_do_not_rotate_the_file() -> None:
    world = World()
    for number in range(5_000):
        world.use(f"topic-{number}", allowed=False)
        world.audit_log.login(f"User:user{number}", "10.0.0.1", "PLAIN", "there is no such user")
    assert len(world.lines) == REFUSALS_PER_SECOND_MAX
    world.use()
    assert world.lines[-1]["allowed"], "what is allowed is told of all the same"
    world.clock.advance(1_000)
    world.audit_log.login("User:x", "10.0.0.1", "PLAIN", "there is no such user")
    assert world.lines[-2]["refusals"] == 10_000 - REFUSALS_PER_SECOND_MAX
    assert world.lines[-1]["principal"] == "User:x"


def test_memory_and_lines_are_bounded_for_any_names() -> None:
    world = World()
    for number in range(KEPT_MAX + 10):
        world.use(f"{number}")
        world.clock.advance(10)
    assert len(world.audit_log._uses) == KEPT_MAX
    world.use("\ud800" + "x" * 100_000)
    assert len(world.lines[-1]["resource"]) < TEXT_MAX + 20
    assert trails.cut("line\nbreak") == "line\nbreak", "JSON escapes it"


def test_made_up_names_of_an_allowed_user_do_not_rotate_the_file() -> None:
    world = World()
    for number in range(5_000):
        world.use(f"made-up-{number}")
    assert len(world.lines) == USES_PER_SECOND_MAX == len(world.audit_log._uses)
    world.audit_log.used("User:bob", "10.0.0.2", "Fetch", "READ", "TOPIC:orders", allowed=True)
    assert world.lines[-1]["principal"] == "User:bob", "whom others leave their room"
    world.clock.advance(1_000)
    world.use("made-up-4999")
    assert (world.lines[-2]["principal"], world.lines[-2]["uses"]) == (
        "User:alice",
        5_000 - USES_PER_SECOND_MAX,
    )
    assert (world.lines[-1]["resource"], world.lines[-1]["times"]) == ("TOPIC:made-up-4999", 1)


def test_uses_over_the_rate_limit_are_added_to_a_later_line() -> None:
    world = World()
    for _ in range(3):
        world.use()
    world.clock.advance(REPEAT_MS)
    for number in range(USES_PER_SECOND_MAX):
        world.use(f"{number}")
    world.use()
    world.clock.advance(1_000)
    world.use()
    assert (world.lines[-1]["resource"], world.lines[-1]["times"]) == ("TOPIC:orders", 4)


def test_refused_requests_do_not_make_the_log_repeat_other_uses() -> None:
    world = World()
    world.use()
    for number in range(KEPT_MAX + 10):
        world.use(f"none-{number}", allowed=False)
    world.use()
    assert len([each for each in world.lines if each.get("allowed")]) == 1
    assert len(world.audit_log._refused) == KEPT_MAX
