"""Access control entries as they are kept, and an authorizer that follows them."""

import pytest

from kohort.broker.authorization.acls import Binding, Entry, Filter, Pattern
from kohort.broker.metadata import ConfigResource, ResourceType, Snapshot
from kohort.broker.metadata.acls import (
    PATTERNS_PER_CHANGE,
    bindings,
    creation,
    deletion,
    entry_of,
    in_steps,
    pattern_of,
    resource_of,
    text_of,
)
from kohort.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType

READ = Entry("User:CN=al ice,O=x", "::1", AclOperation.READ, AclPermission.ALLOW)
WRITE = Entry("User:bob", "*", AclOperation.IDEMPOTENT_WRITE, AclPermission.DENY)


def pattern(name: str) -> Pattern:
    return Pattern(AclResourceType.TRANSACTIONAL_ID, AclPatternType.PREFIXED, name)


@pytest.mark.parametrize("name", ["orders", "a/b c", "*"])
@pytest.mark.parametrize("entry", [READ, WRITE])
def test_access_control_entries_survive_their_stored_form(name: str, entry: Entry) -> None:
    assert pattern_of(resource_of(pattern(name))) == pattern(name)
    assert entry_of(text_of(entry)) == entry


def test_entries_are_added_and_removed() -> None:
    empty = Snapshot(1, "c", 1)
    one = empty.after(creation(empty, [Binding(pattern("a"), READ)]))
    two = one.after(creation(one, [Binding(pattern("a"), WRITE), Binding(pattern("b"), READ)]))
    assert {(each.pattern.name, each.entry) for each in bindings(two, Filter())} == {
        ("a", READ),
        ("a", WRITE),
        ("b", READ),
    }
    assert not creation(two, [Binding(pattern("a"), READ)])
    assert not deletion(one, [Binding(pattern("b"), READ)])
    left = two.after(deletion(two, [Binding(pattern("a"), READ), Binding(pattern("b"), READ)]))
    assert list(bindings(left, Filter())) == [Binding(pattern("a"), WRITE)]
    assert list(left.configs) == [resource_of(pattern("a"))]


def test_settings_are_no_entries() -> None:
    other = Snapshot(1, "c", 1, configs={ConfigResource(ResourceType.BROKER, "1"): {"a": "b"}})
    assert list(bindings(other, Filter())) == []


def test_many_patterns_are_changed_in_steps_and_each_at_once() -> None:
    found = [Binding(pattern(f"{number}"), entry) for number in range(100) for entry in (READ, WRITE)]
    steps = list(in_steps(found))
    assert [len({each.pattern for each in step}) for step in steps] == [
        PATTERNS_PER_CHANGE,
        100 - PATTERNS_PER_CHANGE,
    ]
    assert sorted(each for step in steps for each in step) == sorted(found)
