"""What the registry refuses, with Confluent's error codes (class Errors of their server)."""

from collections.abc import Sequence


class RegistryError(Exception):
    """A request that is refused: an HTTP status, a code, and a message for people."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


class InvalidSchema(Exception):
    """A text that is no schema of its type; the message says why."""


def subject_not_found(subject: str) -> RegistryError:
    """Return the refusal of a subject that is not there."""
    return RegistryError(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> RegistryError:
    """Return the refusal of a version that is not there."""
    return RegistryError(404, 40402, f"Version {version} not found.")


def schema_not_found(schema_id: object = None) -> RegistryError:
    """Return the refusal of an id, or of a text, that is not there."""
    return RegistryError(
        404, 40403, "Schema not found" if schema_id is None else f"Schema {schema_id} not found"
    )


def subject_soft_deleted(subject: str) -> RegistryError:
    """Return the refusal to delete softly what is deleted softly."""
    return RegistryError(
        404, 40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently"
    )


def subject_not_soft_deleted(subject: str) -> RegistryError:
    """Return the refusal to delete for good what is not deleted softly."""
    return RegistryError(
        404, 40405, f"Subject '{subject}' was not deleted first before being permanently deleted"
    )


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    """Return the refusal to delete softly a version that is deleted softly."""
    message = (
        f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently"
    )
    return RegistryError(404, 40406, message)


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    """Return the refusal to delete for good a version that is not deleted softly."""
    message = f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    return RegistryError(404, 40407, message)


def no_subject_config(subject: str) -> RegistryError:
    """Return what is said of a subject that has no compatibility level of its own."""
    message = f"Subject '{subject}' does not have subject-level compatibility configured"
    return RegistryError(404, 40408, message)


def no_subject_mode(subject: str) -> RegistryError:
    """Return what is said of a subject that has no mode of its own."""
    return RegistryError(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")


def invalid_schema(message: str) -> RegistryError:
    """Return the refusal of a text that is no schema."""
    return RegistryError(422, 42201, message)


def invalid_version(version: object) -> RegistryError:
    """Return the refusal of a version that is no version number."""
    message = (
        f"The specified version '{version}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"'
    )
    return RegistryError(422, 42202, message)


def invalid_level() -> RegistryError:
    """Return the refusal of an unknown compatibility level."""
    message = (
        "Invalid compatibility level. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive"
    )
    return RegistryError(422, 42203, message)


def invalid_mode() -> RegistryError:
    """Return the refusal of an unknown mode."""
    message = "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, IMPORT"
    return RegistryError(422, 42204, message)


def not_permitted(message: str) -> RegistryError:
    """Return the refusal of what the mode does not allow."""
    return RegistryError(422, 42205, message)


def id_mismatch(message: str) -> RegistryError:
    """Return the refusal of an id that belongs to another schema."""
    return RegistryError(422, 42207, message)


def is_referenced(subject: str, version: int) -> RegistryError:
    """Return the refusal to delete what other schemas refer to."""
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return RegistryError(422, 42206, f"One or more references exist to the schema {key}.")


def too_large(message: str) -> RegistryError:
    """Return the refusal of a schema that no record has room for."""
    return RegistryError(422, 42209, message)


def store_failed(message: str) -> RegistryError:
    """Return what is said where the topic cannot be read or written."""
    return RegistryError(500, 50001, message)


def store_timed_out(message: str) -> RegistryError:
    """Return what is said where the topic could not be read or written in time."""
    return RegistryError(500, 50002, message)


def incompatible(subject: str, details: Sequence[str]) -> RegistryError:
    """Return the refusal of a schema that earlier data or readers do not fit."""
    message = (
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", '
        f"details: [{', '.join(details)}]"
    )
    return RegistryError(409, 409, message)
