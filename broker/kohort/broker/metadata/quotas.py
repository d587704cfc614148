"""Quotas in the metadata: one resource an entity, its quotas under their names, kept as settings are."""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from kohort.broker.metadata.snapshot import ConfigResource, Mutation, ResourceType, Snapshot
from kohort.broker.metadata.store import MetadataStore
from kohort.broker.quotas.book import Book, Entity


def resource_of(entity: Entity) -> ConfigResource:
    """Return the resource under which the entity's quotas are stored.

    JSON with its names, a null for a default.
    """
    name = msgspec.json.encode(dict(sorted(entity.items()))).decode()
    return ConfigResource(ResourceType.CLIENT_QUOTA, name)


def entity_of(resource: ConfigResource) -> dict[str, str | None]:
    """Return the entity whose quotas are stored under the resource."""
    return msgspec.json.decode(resource.name, type=dict[str, str | None])


def values_of(texts: Mapping[str, str]) -> dict[str, float]:
    """Return the quotas that are kept as these texts."""
    return {name: float(text) for name, text in texts.items()}


def quotas(snapshot: Snapshot) -> Iterator[tuple[dict[str, str | None], dict[str, float]]]:
    """Yield every entity with its quotas."""
    for resource, texts in snapshot.configs.items():
        if resource.type is ResourceType.CLIENT_QUOTA:
            yield entity_of(resource), values_of(texts)


def alteration(snapshot: Snapshot, entity: Entity, changes: Mapping[str, float | None]) -> Mutation:
    """Return what sets quotas of the entity; None removes one."""
    resource = resource_of(entity)
    before = snapshot.configs.get(resource, {})
    after = dict(before)
    for name, value in changes.items():
        if value is None:
            after.pop(name, None)
        else:
            after[name] = repr(float(value))
    return Mutation() if after == before else Mutation(configs={resource: after})


def follow_quotas(store: MetadataStore, book: Book) -> Callable[[], None]:
    """Give the book all existing quotas, and each later change."""

    def follow(before: Snapshot, after: Snapshot) -> None:
        if before.configs is not after.configs:
            _update_book(book, before.configs, after.configs)

    _update_book(book, {}, store.snapshot().configs)
    return store.watch(follow)


_Configs = Mapping[ConfigResource, Mapping[str, str]]


def _update_book(book: Book, before: _Configs, after: _Configs) -> None:
    for resource, texts in after.items():
        if resource.type is ResourceType.CLIENT_QUOTA and before.get(resource) != texts:
            book.put(entity_of(resource), values_of(texts))
    for resource in before:
        if resource.type is ResourceType.CLIENT_QUOTA and resource not in after:
            book.put(entity_of(resource), {})
