"""Access control entries in the metadata: one resource a pattern, one name in it for each entry.

They are kept as settings are, `{"ALLOW READ * User:alice": ""}` under `topic/literal/orders`, so that both
stores compare, change and watch them as they do those.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kohort.broker.authorization.acls import Binding, Entry, Filter, Pattern
from kohort.broker.authorization.authorizer import Authorizer
from kohort.broker.metadata.snapshot import ConfigResource, Mutation, ResourceType, Snapshot
from kohort.broker.metadata.store import MetadataStore
from kohort.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType

PATTERNS_PER_CHANGE = 64
"""Larger creations and deletions are made in steps of this size: etcd accepts no longer transaction."""


def bindings(snapshot: Snapshot, wanted: Filter) -> Iterator[Binding]:
    """Yield the bindings that the filter takes."""
    for resource, values in snapshot.configs.items():
        if resource.type is ResourceType.ACL:
            pattern = pattern_of(resource)
            if wanted.takes_pattern(pattern):
                for entry in map(entry_of, values):
                    if wanted.takes_entry(entry):
                        yield Binding(pattern, entry)


def creation(snapshot: Snapshot, created: Iterable[Binding]) -> Mutation:
    """Return a change that adds the bindings. Existing ones stay."""
    configs: dict[ConfigResource, dict[str, str]] = {}
    for pattern, entry in created:
        resource = resource_of(pattern)
        before = snapshot.configs.get(resource, {})
        configs.setdefault(resource, dict(before))[text_of(entry)] = ""
    return Mutation(configs={r: values for r, values in configs.items() if values != snapshot.configs.get(r)})


def deletion(snapshot: Snapshot, deleted: Iterable[Binding]) -> Mutation:
    """Return what removes the bindings that are still there."""
    configs: dict[ConfigResource, dict[str, str]] = {}
    for pattern, entry in deleted:
        resource = resource_of(pattern)
        before = snapshot.configs.get(resource, {})
        configs.setdefault(resource, dict(before)).pop(text_of(entry), None)
    return Mutation(
        configs={r: values for r, values in configs.items() if values != snapshot.configs.get(r, {})}
    )


def in_steps(found: Sequence[Binding]) -> Iterator[list[Binding]]:
    """Yield the bindings in parts that one change has room for; those of one pattern stay together."""
    by_pattern: dict[Pattern, list[Binding]] = {}
    for each in found:
        by_pattern.setdefault(each.pattern, []).append(each)
    patterns = list(by_pattern.values())
    for begin in range(0, len(patterns), PATTERNS_PER_CHANGE):
        yield [each for some in patterns[begin : begin + PATTERNS_PER_CHANGE] for each in some]


def follow_acls(store: MetadataStore, authorizer: Authorizer) -> None:
    """Give the authorizer all existing entries, and each later change."""

    def follow(before: Snapshot, after: Snapshot) -> None:
        if before.configs is not after.configs:
            _update_authorizer(authorizer, before.configs, after.configs)

    _update_authorizer(authorizer, {}, store.snapshot().configs)
    store.watch(follow)


_Configs = Mapping[ConfigResource, Mapping[str, str]]


def _update_authorizer(authorizer: Authorizer, before: _Configs, after: _Configs) -> None:
    for resource, values in after.items():
        if resource.type is ResourceType.ACL and before.get(resource) != values:
            authorizer.put(pattern_of(resource), map(entry_of, values))
    for resource in before:
        if resource.type is ResourceType.ACL and resource not in after:
            authorizer.put(pattern_of(resource), ())


# -- as text ------------------------------------------------------------------------------------------------


def resource_of(pattern: Pattern) -> ConfigResource:
    """Return the resource under which the entries of the pattern are stored."""
    kind, form, name = pattern
    return ConfigResource(ResourceType.ACL, f"{kind.name.lower()}/{form.name.lower()}/{name}")


def pattern_of(resource: ConfigResource) -> Pattern:
    """Return the pattern whose entries are stored under the resource."""
    kind, form, name = resource.name.split("/", 2)
    return Pattern(AclResourceType[kind.upper()], AclPatternType[form.upper()], name)


def text_of(entry: Entry) -> str:
    """Return the entry in its stored form."""
    return f"{entry.permission.name} {entry.operation.name} {entry.host} {entry.principal}"


def entry_of(text: str) -> Entry:
    """Return the entry stored as this text."""
    permission, operation, host, principal = text.split(" ", 3)
    return Entry(principal, host, AclOperation[operation], AclPermission[permission])
