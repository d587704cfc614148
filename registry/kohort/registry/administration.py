"""The registry's decisions on what is there: deletions, compatibility levels and modes. Pure."""

from typing import Any

import msgspec

from kohort.registry import errors
from kohort.registry.core import IMPORT, LEVELS, MODES, Decision
from kohort.registry.records import (
    LATEST,
    ClearSubjectKey,
    ConfigKey,
    ConfigValue,
    DeleteSubjectKey,
    DeleteSubjectValue,
    ModeKey,
    ModeValue,
    Record,
    SchemaKey,
    SchemaValue,
)
from kohort.registry.requests import NewConfig, NewMode
from kohort.registry.state import State, covers
from kohort.registry.subjects import check_subject


class Administration:
    """Deletes, and sets levels and modes."""

    def __init__(self, state: State) -> None:
        self._state = state

    # -- deleting -----------------------------------------------------------------------------------------

    def delete_version(self, subject: str, number: int, *, permanent: bool) -> Decision:
        """Delete a version softly, or for good what was deleted softly. Raises: RegistryError."""
        self._check_writable(subject)
        if not self._state.versions(subject, with_deleted=True):
            raise errors.subject_not_found(subject)
        found = self._state.version(subject, number, with_deleted=number != LATEST)
        if found is None:
            raise errors.version_not_found(number)
        if permanent and not found.deleted:
            raise errors.version_not_soft_deleted(subject, found.version)
        if not permanent and found.deleted:
            raise errors.version_soft_deleted(subject, found.version)
        self._check_unreferenced(found, with_deleted=permanent)
        key = SchemaKey(subject, found.version)
        if permanent:
            return Decision(found.version, (Record(key),))
        records = [Record(key, msgspec.structs.replace(found, deleted=True))]
        if len(self._state.versions(subject)) == 1:
            records += self._settings_removed(subject)
        return Decision(found.version, tuple(records))

    def delete_subject(self, subject: str, *, permanent: bool) -> Decision:
        """Delete all versions of a subject softly, or for good. Raises: RegistryError."""
        self._check_writable(subject)
        everything = self._state.versions(subject, with_deleted=True)
        there = [each for each in everything if not each.deleted]
        if not everything:
            raise errors.subject_not_found(subject)
        if permanent and there:
            raise errors.subject_not_soft_deleted(subject)
        if not permanent and not there:
            raise errors.subject_soft_deleted(subject)
        deleted = everything if permanent else there
        for each in deleted:
            self._check_unreferenced(each, with_deleted=permanent)
        numbers = [each.version for each in deleted]
        if permanent:
            return Decision(numbers, tuple(Record(SchemaKey(subject, each)) for each in numbers))
        mark = Record(DeleteSubjectKey(subject), DeleteSubjectValue(subject, numbers[-1]))
        return Decision(numbers, (mark, *self._settings_removed(subject)))

    def _check_writable(self, subject: str | None) -> None:
        if self._state.mode_in_force(subject).startswith("READONLY"):
            what = "The registry" if subject is None else f"Subject {subject}"
            raise errors.not_permitted(f"{what} is in read-only mode")

    def _check_unreferenced(self, value: SchemaValue, *, with_deleted: bool) -> None:
        if self._state.others_referring(value, with_deleted=with_deleted):
            raise errors.is_referenced(value.subject, value.version)

    def _settings_removed(self, subject: str) -> list[Record]:
        records = [Record(ModeKey(subject))] if subject in self._state.modes else []
        return [*records, Record(ConfigKey(subject))] if subject in self._state.levels else records

    # -- compatibility levels -----------------------------------------------------------------------------

    def level(self, subject: str | None, *, default_to_global: bool) -> Decision:
        """Return the level of a subject, or with None that for all. Raises: RegistryError."""
        if subject is not None and subject not in self._state.levels and not default_to_global:
            raise errors.no_subject_config(subject)
        found = self._state.config(subject)
        return Decision(_config_answer("compatibilityLevel", found, self._state.level(subject)))

    def set_level(self, subject: str | None, new: NewConfig) -> Decision:
        """Set the level of a subject, or with None that for all. Raises: RegistryError."""
        if subject is not None:
            _check_scope(subject)
        given = new.compatibilityLevel if new.compatibility is None else new.compatibility
        level = None if given is None else given.upper()
        if level is not None and level not in LEVELS:
            raise errors.invalid_level()
        self._check_writable(subject)
        before = self._state.levels.get(subject, ConfigValue())
        normalize = before.normalize if new.normalize is None else new.normalize
        value = ConfigValue(subject, level or before.compatibilityLevel, normalize)
        return Decision(_config_answer("compatibility", value, given), (Record(ConfigKey(subject), value),))

    def delete_level(self, subject: str | None) -> Decision:
        """Take back the level of a subject, or that for all; return it. Raises: RegistryError."""
        if subject is not None and subject not in self._state.levels:
            raise errors.subject_not_found(subject)
        self._check_writable(subject)
        found = self._state.levels.get(subject, ConfigValue())
        answer = _config_answer(
            "compatibilityLevel", found, found.compatibilityLevel or self._state.level(None)
        )
        return Decision(answer, (Record(ConfigKey(subject)),))

    # -- modes --------------------------------------------------------------------------------------------

    def mode(self, subject: str | None, *, default_to_global: bool) -> Decision:
        """Return the mode of a subject, or with None that for all. Raises: RegistryError."""
        if subject is not None and subject not in self._state.modes and not default_to_global:
            raise errors.no_subject_mode(subject)
        return Decision({"mode": self._state.mode_in_force(subject)})

    def set_mode(self, subject: str | None, new: NewMode, *, force: bool) -> Decision:
        """Set the mode of a subject, or with None that for all. IMPORT needs that there are no schemas.

        Raises: RegistryError.
        """
        if subject is not None:
            _check_scope(subject)
        mode = (new.mode or "").upper()
        if mode not in MODES:
            raise errors.invalid_mode()
        records = [Record(ModeKey(subject), ModeValue(mode, subject))]
        if mode == IMPORT and self._state.mode(subject) != IMPORT and not force:
            records = [*self._cleared(subject), *records]
        return Decision({"mode": mode}, tuple(records))

    def _cleared(self, subject: str | None) -> list[Record]:
        """Return what removes softly deleted versions for good, so that ids can be anything."""
        there = [
            each
            for each in self._state.all_versions(with_deleted=True)
            if subject is None or covers(subject, each.subject)
        ]
        if any(not each.deleted for each in there):
            raise errors.not_permitted("Cannot import since found existing subjects")
        for each in there:
            self._check_unreferenced(each, with_deleted=subject is not None)
        records = [Record(SchemaKey(each.subject, each.version)) for each in there]
        return [*records, Record(ClearSubjectKey(subject))]

    def delete_mode(self, subject: str | None) -> Decision:
        """Take back the mode of a subject, or that for all; return it. Raises: RegistryError."""
        if subject is not None and subject not in self._state.modes:
            raise errors.subject_not_found(subject)
        return Decision({"mode": self._state.mode(subject)}, (Record(ModeKey(subject)),))


def _check_scope(subject: str) -> None:
    if not (subject.startswith(":.") and subject.endswith(":")):  # A whole context.
        check_subject(subject)


def _config_answer(name: str, value: ConfigValue, level: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {} if level is None else {name: level}
    return found if value.normalize is None else {**found, "normalize": value.normalize}
