"""The registry's decisions on schemas: a request and the state in, records and an answer out. Pure."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from kohort.registry import errors
from kohort.registry.errors import InvalidSchema, RegistryError
from kohort.registry.parsing import Candidate, Parser
from kohort.registry.records import LATEST, Record, SchemaKey, SchemaValue
from kohort.registry.requests import ID_MAX, VERSION_MAX, NewSchema
from kohort.registry.state import READONLY_OVERRIDE, READWRITE, State, content_of, qualified
from kohort.registry.subjects import check_subject, context_of

LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
IMPORT = "IMPORT"
MODES = (READWRITE, "READONLY", READONLY_OVERRIDE, IMPORT)
TEXT_SHOWN_MAX = 2_000


class Decision(msgspec.Struct, frozen=True):
    """The `answer`, which is sent once `records` are in the log. A read has no records."""

    answer: Any
    records: tuple[Record, ...] = ()


Request = Callable[[], Decision]


class Schemas:
    """Registers schemas, looks them up, and checks whether they fit."""

    def __init__(self, state: State, parser: Parser) -> None:
        self._state = state
        self._parser = parser

    # -- registering --------------------------------------------------------------------------------------

    def register(self, subject: str, new: NewSchema, *, normalize: bool = False) -> Decision:
        """Give the schema a version of the subject, and an id. A registered schema keeps its own.

        Raises: RegistryError.
        """
        check_subject(subject)
        is_imported = _is_imported(new)
        wants_normal = normalize or bool(self._state.config(subject).normalize)
        candidate = self._parser.candidate(subject, new, normalize=wants_normal, is_new=not is_imported)
        candidate = self._with_metadata_of_latest(subject, candidate)
        if (found := self._registered(subject, candidate, new)) is not None:
            return Decision(_registered_answer(found))
        self._check_mode(subject, new)
        if self._state.mode(subject) != IMPORT:
            problems = self._incompatibilities(subject, candidate)
            if problems:
                raise errors.incompatible(subject, problems)
        self._parser.check_kept(candidate)
        value = msgspec.structs.replace(
            candidate.value, id=self._id_for(candidate, new), version=self._version_for(subject, new)
        )
        self._check_overwritten(value)
        return Decision(_registered_answer(value), (*self._replaced_by(value), _record(value)))

    def _check_overwritten(self, value: SchemaValue) -> None:
        """Return if no schema needs the one that an import replaces. Raises: RegistryError."""
        former = self._state.version(value.subject, value.version, with_deleted=True)
        if former is None or content_of(former) == content_of(value):
            return
        place = (value.subject, value.version)
        if any((qualified(each.subject, value.subject), each.version) == place for each in value.references):
            raise errors.invalid_schema(
                f"it refers to version {value.version} of subject {value.subject}, which it would replace"
            )
        if self._state.others_referring(former):
            raise errors.is_referenced(*place)

    def _check_mode(self, subject: str, new: NewSchema) -> None:
        mode = self._state.mode_in_force(subject)
        if mode.startswith("READONLY"):
            raise errors.not_permitted(f"Subject {subject} is in read-only mode")
        if _is_imported(new):
            if mode != IMPORT:
                raise errors.not_permitted(f"Subject {subject} is not in import mode")
        elif mode != READWRITE:
            raise errors.not_permitted(f"Subject {subject} is not in read-write mode")

    def _with_metadata_of_latest(self, subject: str, candidate: Candidate) -> Candidate:
        """Return it with metadata and rules of the version before, where it brings none."""
        latest = self._state.version(subject, LATEST)
        if latest is None:
            return candidate
        value = msgspec.structs.replace(
            candidate.value,
            metadata=candidate.value.metadata or latest.metadata,
            ruleSet=candidate.value.ruleSet or latest.ruleSet,
        )
        return Candidate(candidate.parsed, value)

    def _registered(self, subject: str, candidate: Candidate, new: NewSchema) -> SchemaValue | None:
        """Return the newest version that has this schema, and the id and the version that an import names."""
        for each in reversed(self._state.versions(subject)):
            is_meant = not _is_imported(new) or (
                each.id == new.id and (not new.version or new.version < 0 or each.version == new.version)
            )
            if is_meant and self._parser.equals(each, candidate):
                return each
        return None

    def _id_for(self, candidate: Candidate, new: NewSchema) -> int:
        context = context_of(candidate.value.subject)
        if new.id is None or new.id <= 0:
            there = self._state.id_of(candidate.content, context)
            if there is None and self._state.newest_id(context) >= ID_MAX:
                raise errors.not_permitted(f"The id {ID_MAX} is taken, and there is none behind it")
            return self._state.newest_id(context) + 1 if there is None else there
        others = self._state.with_id(new.id, context)
        if any(content_of(each) != candidate.content for each in others):
            raise errors.not_permitted(f"Overwrite new schema with id {new.id} is not permitted.")
        return new.id

    def _version_for(self, subject: str, new: NewSchema) -> int:
        newest = self._state.version(subject, LATEST, with_deleted=True)
        following = 1 if newest is None else newest.version + 1
        if new.version is None or new.version <= 0:
            if following > VERSION_MAX:
                raise errors.not_permitted(f"The version {VERSION_MAX} is taken, and there is none behind it")
            return following
        if new.version != following and self._state.mode(subject) != IMPORT:
            raise errors.invalid_schema(f"The next version of the subject is {following}, not {new.version}")
        return new.version

    def _replaced_by(self, value: SchemaValue) -> list[Record]:
        """Return what removes softly deleted versions with this id: the schema has a new number now."""
        return [
            Record(SchemaKey(each.subject, each.version))
            for each in self._state.versions(value.subject, with_deleted=True)
            if each.deleted
            and each.id == value.id
            and each.version < value.version
            and not self._state.referrers(each.subject, each.version, with_deleted=True)
        ]

    # -- looking up ---------------------------------------------------------------------------------------

    def lookup(
        self,
        subject: str,
        new: NewSchema,
        *,
        normalize: bool = False,
        with_deleted: bool = False,
        form: str = "",
    ) -> Decision:
        """Return the version of the subject that has this schema. Raises: RegistryError."""
        versions = self._state.versions(subject, with_deleted=with_deleted)
        if not versions:
            raise errors.subject_not_found(subject)
        candidate = self._parser.candidate(subject, new, normalize=normalize, is_new=False)
        has_besides = new.metadata is not None or new.ruleSet is not None
        for each in reversed(versions):
            if self._parser.equals(each, candidate, with_metadata=has_besides):
                return Decision(version_answer(self._parser.shown(each, form)))
        raise errors.schema_not_found()

    # -- checking -----------------------------------------------------------------------------------------

    def check(
        self, subject: str, number: int | None, new: NewSchema, *, verbose: bool, normalize: bool = False
    ) -> Decision:
        """Say whether the schema fits one version, or with None the versions that a registration checks.

        Raises: RegistryError.
        """
        if number is None:
            earlier = self._looked_at(subject)
        else:
            found = self._state.version(subject, number)
            if found is None and number != LATEST:
                raise errors.version_not_found(number)
            earlier = [] if found is None else [found]
        try:
            candidate = self._parser.candidate(subject, new, normalize=normalize)
            problems = self._problems(self._state.level(subject), candidate, earlier)
        except RegistryError as error:
            if not verbose:
                raise
            problems = [error.message]
        answer: dict[str, Any] = {"is_compatible": not problems}
        if verbose:
            answer["messages"] = problems
        return Decision(answer)

    def _incompatibilities(self, subject: str, candidate: Candidate) -> list[str]:
        return self._problems(self._state.level(subject), candidate, self._looked_at(subject))

    def _looked_at(self, subject: str) -> list[SchemaValue]:
        """Return the versions that a new one has to fit: the last one, or all."""
        versions = self._state.versions(subject)
        return versions if self._state.level(subject).endswith("_TRANSITIVE") else versions[-1:]

    def _problems(self, level: str, candidate: Candidate, earlier: Sequence[SchemaValue]) -> list[str]:
        """Return why it does not fit, by the newest version that it does not fit."""
        if level == "NONE":
            return []
        for each in reversed(earlier):
            try:
                found = self._problems_with(level, candidate, each)
            except InvalidSchema as error:
                raise errors.invalid_schema(str(error)) from None
            if found:
                old = f"{{oldSchemaVersion: {each.version}}}"
                return [
                    *found,
                    old,
                    f"{{oldSchema: '{each.schema[:TEXT_SHOWN_MAX]}'}}",
                    f"{{compatibility: '{level}'}}",
                ]
        return []

    def _problems_with(self, level: str, candidate: Candidate, earlier: SchemaValue) -> list[str]:
        if earlier.schemaType != candidate.value.schemaType:
            return [f"the earlier schema is of type {earlier.schemaType}"]
        old, new = self._parser.registered(earlier), candidate.parsed
        found: list[str] = []
        if level.startswith(("BACKWARD", "FULL")):
            found += new.problems_reading(old)
        if level.startswith(("FORWARD", "FULL")):
            found += old.problems_reading(new)
        return found


def _is_imported(new: NewSchema) -> bool:
    return new.id is not None and new.id > 0


def _record(value: SchemaValue) -> Record:
    return Record(SchemaKey(value.subject, value.version), value)


def _registered_answer(value: SchemaValue) -> dict[str, Any]:
    """Return the answer to a registration. It has no text: clients keep their own under the id."""
    return {"id": value.id, "version": value.version}


def schema_answer(value: SchemaValue) -> dict[str, Any]:
    """Return a schema without its place."""
    found: dict[str, Any] = {"schema": value.schema}
    if value.schemaType != "AVRO":
        found["schemaType"] = value.schemaType
    if value.references:
        found["references"] = value.references
    if value.metadata is not None:
        found["metadata"] = value.metadata
    if value.ruleSet is not None:
        found["ruleSet"] = value.ruleSet
    return found


def version_answer(value: SchemaValue) -> dict[str, Any]:
    """Return a version of a subject."""
    found = {"subject": value.subject, "version": value.version, "id": value.id, **schema_answer(value)}
    return {**found, "deleted": True} if value.deleted else found
