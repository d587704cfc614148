"""What the log of schemas says: subjects with their versions, ids, compatibility levels and modes. Pure."""

import bisect
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from kohort.registry.records import (
    ClearSubjectKey,
    ConfigKey,
    ConfigValue,
    DeleteSubjectKey,
    DeleteSubjectValue,
    ModeKey,
    ModeValue,
    Record,
    Reference,
    SchemaKey,
    SchemaValue,
)
from kohort.registry.subjects import DEFAULT_CONTEXT, context_of, in_context, plain_name, whole_context

T = TypeVar("T")

BACKWARD = "BACKWARD"
READWRITE = "READWRITE"
READONLY_OVERRIDE = "READONLY_OVERRIDE"

Content = tuple[str, str, tuple[Reference, ...], bytes]
"""What makes two schemas equal: type, text, references, and metadata with rules."""


def content_of(value: SchemaValue) -> Content:
    """Return what makes this schema equal to another."""
    besides = msgspec.json.encode((value.metadata, value.ruleSet), order="deterministic")
    return value.schemaType, value.schema, value.references, besides


class State:
    """The registry as of some offset of its log."""

    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, SchemaValue]] = {}
        """The versions of each subject by number, oldest first, the softly deleted ones too."""
        self.levels: dict[str | None, ConfigValue] = {}
        """Compatibility levels by subject; None is for all that have none."""
        self.modes: dict[str | None, str] = {}
        self._uses: dict[
            tuple[str, int], dict[tuple[str, int], None]
        ] = {}  # Who has an id, by context and id.
        self._by_content: dict[str, dict[Content, int]] = {}  # By context.
        self._newest_id: dict[str, int] = {}
        self._referrers: dict[tuple[str, int], dict[tuple[str, int], None]] = {}
        self.generation = 0
        """How often the state was cleared: a version may be another one then."""

    # -- the log ------------------------------------------------------------------------------------------

    def apply(self, record: Record) -> None:
        """Take the next record of the log."""
        key, value = record.key, record.value
        if isinstance(key, SchemaKey):
            self._take_schema(key, value if isinstance(value, SchemaValue) else None)
        elif isinstance(key, ConfigKey):
            _set(self.levels, key.subject, value if isinstance(value, ConfigValue) else None)
        elif isinstance(key, ModeKey):
            _set(self.modes, key.subject, value.mode if isinstance(value, ModeValue) else None)
        elif isinstance(key, DeleteSubjectKey) and isinstance(value, DeleteSubjectValue):
            self._delete_softly(key.subject, value.version)
        elif isinstance(key, ClearSubjectKey):
            self._clear(key.subject)

    def clear(self) -> None:
        """Forget everything, before another log is read."""
        self.subjects.clear()
        self.levels.clear()
        self.modes.clear()
        self._uses.clear()
        self._by_content.clear()
        self._newest_id.clear()
        self._referrers.clear()
        self.generation += 1

    def _take_schema(self, key: SchemaKey, value: SchemaValue | None) -> None:
        versions = self.subjects.setdefault(key.subject, {})
        before = versions.pop(key.version, None)
        if before is not None:
            self._forget(before)
        if value is not None:
            self._keep(value)
            is_newest = not versions or key.version > next(reversed(versions))
            versions[key.version] = value
            if not is_newest:
                self.subjects[key.subject] = dict(sorted(versions.items()))
        elif not versions:
            del self.subjects[key.subject]

    def _keep(self, value: SchemaValue) -> None:
        context, place = context_of(value.subject), (value.subject, value.version)
        self._uses.setdefault((context, value.id), {})[place] = None
        self._by_content.setdefault(context, {}).setdefault(content_of(value), value.id)
        self._newest_id[context] = max(self._newest_id.get(context, 0), value.id)
        for each in value.references:
            referred = (qualified(each.subject, value.subject), each.version)
            self._referrers.setdefault(referred, {})[place] = None

    def _forget(self, value: SchemaValue) -> None:
        context, place = context_of(value.subject), (value.subject, value.version)
        uses = self._uses[(context, value.id)]
        del uses[place]
        if not uses:
            del self._uses[(context, value.id)]
            by_content = self._by_content[context]
            if by_content.get(content_of(value)) == value.id:
                del by_content[content_of(value)]
        for each in value.references:
            referred = (qualified(each.subject, value.subject), each.version)
            referrers = self._referrers.get(referred, {})
            referrers.pop(place, None)
            if not referrers:
                self._referrers.pop(referred, None)

    def _delete_softly(self, subject: str, up_to: int) -> None:
        for number, value in list(self.subjects.get(subject, {}).items()):
            if number <= up_to:
                self.subjects[subject][number] = msgspec.structs.replace(value, deleted=True)

    def _clear(self, subject: str | None) -> None:
        names = [each for each in self.subjects if subject is None or covers(subject, each)]
        for name in names:
            for number, value in list(self.subjects[name].items()):
                if value.deleted:
                    self._take_schema(SchemaKey(name, number), None)

    # -- looking up ---------------------------------------------------------------------------------------

    def versions(self, subject: str, *, with_deleted: bool = False) -> list[SchemaValue]:
        """Return the versions of a subject, the oldest first; none if it is not there."""
        return [each for each in self.subjects.get(subject, {}).values() if with_deleted or not each.deleted]

    def version(self, subject: str, number: int, *, with_deleted: bool = False) -> SchemaValue | None:
        """Return one version of a subject, by its number or LATEST; None if it is not there."""
        if number < 0:
            there = self.versions(subject, with_deleted=with_deleted)
            return there[-1] if there else None
        found = self.subjects.get(subject, {}).get(number)
        return found if found is not None and (with_deleted or not found.deleted) else None

    def all_versions(self, prefix: str = "", *, with_deleted: bool = False) -> Iterator[SchemaValue]:
        """Yield every version of the subjects whose names begin so, by subject and number."""
        for subject in self.names(prefix):
            yield from self.versions(subject, with_deleted=with_deleted)

    def names(self, prefix: str = "") -> list[str]:
        """Return the subjects whose names begin so, sorted, the softly deleted ones too."""
        names = sorted(self.subjects)
        if not prefix:
            return names
        begin = bisect.bisect_left(names, prefix)
        return [each for each in names[begin:] if each.startswith(prefix)]

    def with_id(self, schema_id: int, context: str, *, with_deleted: bool = True) -> list[SchemaValue]:
        """Return the versions that have this id in the context."""
        places = self._uses.get((context, schema_id), {})
        found = [self.subjects[subject][version] for subject, version in places]
        return [each for each in found if with_deleted or not each.deleted]

    def context_of_id(self, schema_id: int, subject: str | None) -> str | None:
        """Return the context whose schema is meant by an id, None where there is none.

        A subject without a context may be one of any context: a client that knows its topic alone asks so.
        """
        context = context_of(subject)
        if (context, schema_id) in self._uses and (not subject or context != DEFAULT_CONTEXT):
            return context
        if subject and context == DEFAULT_CONTEXT:
            for each in self.contexts():
                name = in_context(plain_name(subject), each)
                if any(value.subject == name for value in self.with_id(schema_id, each)):
                    return each
        return context if (context, schema_id) in self._uses else None

    def id_of(self, content: Content, context: str) -> int | None:
        """Return the id that this schema has in the context."""
        return self._by_content.get(context, {}).get(content)

    def newest_id(self, context: str = DEFAULT_CONTEXT) -> int:
        """Return the largest id that was given, 0 if none was."""
        return self._newest_id.get(context, 0)

    def contexts(self) -> list[str]:
        """Return the contexts that have schemas, and the default one."""
        return sorted({DEFAULT_CONTEXT, *map(context_of, self.subjects)})

    def referrers(self, subject: str, version: int, *, with_deleted: bool = False) -> list[SchemaValue]:
        """Return the versions that refer to this one."""
        places = self._referrers.get((subject, version), {})
        found = [self.subjects[name][number] for name, number in places]
        return [each for each in found if with_deleted or not each.deleted]

    def others_referring(self, value: SchemaValue, *, with_deleted: bool = True) -> list[SchemaValue]:
        """Return the other versions that refer to this one."""
        found = self.referrers(value.subject, value.version, with_deleted=with_deleted)
        return [each for each in found if (each.subject, each.version) != (value.subject, value.version)]

    def config(self, subject: str | None) -> ConfigValue:
        """Return the settings that count for a subject: its own, its context's, or those for all."""
        for name in _scopes(subject):
            if (found := self.levels.get(name)) is not None:
                return found
        return ConfigValue()

    def level(self, subject: str | None) -> str:
        """Return the compatibility level that counts for a subject."""
        levels = (self.levels[name].compatibilityLevel for name in _scopes(subject) if name in self.levels)
        return next((each for each in levels if each is not None), BACKWARD)

    def mode(self, subject: str | None) -> str:
        """Return the mode of a subject: its own, its context's, or that for all."""
        modes = (self.modes[name] for name in _scopes(subject) if name in self.modes)
        return next(modes, READWRITE)

    def mode_in_force(self, subject: str | None) -> str:
        """Return the mode that decides what may be written: READONLY_OVERRIDE for all counts first."""
        mode = self.modes.get(None)
        return READONLY_OVERRIDE if mode == READONLY_OVERRIDE else self.mode(subject)


def qualified(subject: str, referrer: str) -> str:
    """Return a subject as it is meant by one that refers to it: in its context, if it names none."""
    return subject if subject.startswith(":.") else in_context(subject, context_of(referrer))


def covers(scope: str, subject: str) -> bool:
    """Return whether a setting's subject is this one, or its whole context."""
    return scope == subject or scope == whole_context(context_of(subject))


def _scopes(subject: str | None) -> Iterable[str | None]:
    return dict.fromkeys((subject, whole_context(context_of(subject)), None))


def _set(values: dict[str | None, T], subject: str | None, value: T | None) -> None:
    if value is None:
        values.pop(subject, None)
    else:
        values[subject] = value


def replayed(records: Iterable[Record]) -> State:
    """Return the state that these records make."""
    state = State()
    for record in records:
        state.apply(record)
    return state
