"""The registry's answers to reads. Pure."""

from typing import Any, TypeVar

from kohort.registry import errors
from kohort.registry.core import Decision, schema_answer, version_answer
from kohort.registry.parsing import Parser
from kohort.registry.records import LATEST, SchemaValue
from kohort.registry.state import State
from kohort.registry.subjects import DEFAULT_CONTEXT, context_of

T = TypeVar("T")
ALL_CONTEXTS = ":*:"


class Text(str):
    """An answer that is a schema's own text."""

    __slots__ = ()


class Views:
    """Lists and shows."""

    def __init__(self, state: State, parser: Parser) -> None:
        self._state = state
        self._parser = parser

    # -- by id --------------------------------------------------------------------------------------------

    def by_id(
        self, schema_id: int, subject: str | None, *, with_max_id: bool = False, form: str = ""
    ) -> Decision:
        """Return the schema of an id. Raises: RegistryError."""
        found = self._parser.shown(self._with_id(schema_id, subject)[0], form)
        answer = schema_answer(found)
        if with_max_id:
            answer["maxId"] = self._state.newest_id(context_of(found.subject))
        return Decision(answer)

    def text_by_id(self, schema_id: int, subject: str | None, *, form: str = "") -> Decision:
        """Return the text of an id alone. Raises: RegistryError."""
        return Decision(Text(self._parser.shown(self._with_id(schema_id, subject)[0], form).schema))

    def versions_of_id(self, schema_id: int, subject: str | None, *, with_deleted: bool) -> Decision:
        """Return the subjects and versions that have an id. Raises: RegistryError."""
        there = [each for each in self._with_id(schema_id, subject) if with_deleted or not each.deleted]
        return Decision([{"subject": each.subject, "version": each.version} for each in there])

    def subjects_of_id(self, schema_id: int, subject: str | None, *, with_deleted: bool) -> Decision:
        """Return the subjects that have an id. Raises: RegistryError."""
        there = [each for each in self._with_id(schema_id, subject) if with_deleted or not each.deleted]
        return Decision(sorted({each.subject for each in there}))

    def _with_id(self, schema_id: int, subject: str | None) -> list[SchemaValue]:
        context = self._state.context_of_id(schema_id, subject)
        if context is None:
            raise errors.schema_not_found(schema_id)
        return self._state.with_id(schema_id, context)

    # -- by subject ---------------------------------------------------------------------------------------

    def subjects(self, prefix: str, *, with_deleted: bool, deleted_only: bool) -> Decision:
        """Return the names of subjects that begin so, without a prefix those of every context."""
        is_all = prefix in ("", ALL_CONTEXTS)
        found = []
        for name in self._state.names("" if is_all else prefix):
            is_deleted = not self._state.versions(name)
            if (with_deleted or deleted_only) if is_deleted else not deleted_only:
                found.append(name)
        return Decision(found)

    def versions(self, subject: str, *, with_deleted: bool, deleted_only: bool) -> Decision:
        """Return the numbers of a subject's versions. Raises: RegistryError."""
        there = self._state.versions(subject, with_deleted=with_deleted or deleted_only)
        numbers = [each.version for each in there if each.deleted or not deleted_only]
        if not numbers:
            raise errors.subject_not_found(subject)
        return Decision(numbers)

    def version(self, subject: str, number: int, *, with_deleted: bool, form: str = "") -> Decision:
        """Return one version of a subject. Raises: RegistryError."""
        found = self._version(subject, number, with_deleted=with_deleted)
        return Decision(version_answer(self._parser.shown(found, form)))

    def text(self, subject: str, number: int, *, with_deleted: bool, form: str = "") -> Decision:
        """Return the text of one version alone. Raises: RegistryError."""
        found = self._version(subject, number, with_deleted=with_deleted)
        return Decision(Text(self._parser.shown(found, form).schema))

    def referrers(self, subject: str, number: int, *, with_deleted: bool) -> Decision:
        """Return the ids of the schemas that refer to a version. Raises: RegistryError."""
        found = self._version(subject, number, with_deleted=True)
        there = self._state.referrers(subject, found.version, with_deleted=with_deleted)
        return Decision(sorted({each.id for each in there}))

    def latest_with_metadata(
        self, subject: str, wanted: dict[str, str], *, with_deleted: bool, form: str = ""
    ) -> Decision:
        """Return the newest version whose metadata have these properties. Raises: RegistryError."""
        versions = self._state.versions(subject, with_deleted=with_deleted)
        if not versions:
            raise errors.subject_not_found(subject)
        for each in reversed(versions):
            properties = (each.metadata or {}).get("properties")
            properties = properties if isinstance(properties, dict) else {}
            if all(properties.get(name) == value for name, value in wanted.items()):
                return Decision(version_answer(self._parser.shown(each, form)))
        raise errors.schema_not_found()

    def _version(self, subject: str, number: int, *, with_deleted: bool) -> SchemaValue:
        found = self._state.version(subject, number, with_deleted=with_deleted)
        if found is None:
            if number == LATEST or not self._state.versions(subject, with_deleted=with_deleted):
                raise errors.subject_not_found(subject)
            raise errors.version_not_found(number)
        return found

    # -- everything ---------------------------------------------------------------------------------------

    def schemas(self, prefix: str, *, with_deleted: bool, latest_only: bool) -> Decision:
        """Return versions of subjects whose names begin so; without a prefix of the default context."""
        found: dict[Any, SchemaValue] = {}
        is_all = prefix == ALL_CONTEXTS
        for each in self._state.all_versions("" if is_all else prefix, with_deleted=with_deleted):
            if not prefix and context_of(each.subject) != DEFAULT_CONTEXT:
                continue
            found[each.subject if latest_only else (each.subject, each.version)] = each
        return Decision([version_answer(each) for each in found.values()])

    def contexts(self) -> Decision:
        """Return the contexts that there are."""
        return Decision(self._state.contexts())

    def types(self) -> Decision:
        """Return the languages that are served."""
        return Decision(self._parser.types)


def page_of(items: list[T], offset: int, limit: int) -> list[T]:
    """Return up to `limit` items from an offset on; all if the limit is negative."""
    begin = max(0, offset)
    return items[begin:] if limit < 0 else items[begin : begin + limit]
