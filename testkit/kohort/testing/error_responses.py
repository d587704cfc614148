"""Builds the error response to a request: every part of the request gets the error.

A field of the response has the value of the request's field with the same name. A list of the response
corresponds to the request's list with the same name, or to its only list.
"""

from collections.abc import Iterable

from kohort.protocol.errors import ErrorCode
from kohort.protocol.schema import Field, Message
from kohort.testing.requests import ERROR_CODE, ERROR_CODES, has_errors

SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
SYNONYMS = {"partition_index": ("partition", "index"), "index": ("partition_index",)}
"""Names in requests for a field of responses."""


def error_response(answer: type[Message], request: Message, code: ErrorCode, version: int) -> Message:
    """Return a response of this class in which every part of the request has failed with `code`."""
    return _error_response(answer, request, code, version)


def _error_response(kind: type[Message], asked: Message, code: ErrorCode, version: int) -> Message:
    values: dict[str, object] = {}
    fields = [each for each in kind.declaration().fields if version in each.versions]
    parts = [each for each in fields if each.struct is not None and has_errors(each.struct)]
    for each in fields:
        if each.name in ERROR_CODES:
            is_for_parts = kind.__name__ == "FetchResponse" and code not in SESSION_ERRORS
            values[each.name] = ErrorCode.NONE if is_for_parts else code
        elif each in parts:
            values[each.name] = tuple(_error_responses(each, asked, code, version))
        else:
            found = _request_value(asked, each)
            if found is not None:
                values[each.name] = found
            elif each.default is None and version not in each.nullable:
                values[each.name] = b""  # Records, in versions without null.
    return kind(**values)


def _error_responses(field: Field, asked: Message, code: ErrorCode, version: int) -> Iterable[Message]:
    assert field.struct is not None
    for each in _counterpart(field.name, asked, version):
        if isinstance(each, Message):
            yield _error_response(field.struct, each, code, version)
        else:
            yield _of_value(field.struct, each, code)


def _counterpart(name: str, asked: Message, version: int) -> tuple[object, ...]:
    """Return the request's list that corresponds to the response's list `name`."""
    lists = [
        each
        for each in asked.declaration().fields
        if each.element is not None and version in each.versions and getattr(asked, each.name)
    ]
    named = [each for each in lists if each.name == name] or lists
    return tuple(getattr(asked, named[0].name)) if named else ()


def _of_value(kind: type[Message], value: object, code: ErrorCode) -> Message:
    """Return the part of a response for a plain value in the request, such as a name or a number."""
    fields = kind.declaration().fields
    error_code = next((each.name for each in fields if each.name in ERROR_CODES), ERROR_CODE)
    wanted = next(
        each.name
        for each in fields
        if each.name not in ERROR_CODES and each.struct is None and isinstance(value, type(each.default))
    )
    return kind(**{wanted: value, error_code: code})


def _request_value(asked: Message, field: Field) -> object:
    """Return the request's value of a field, by its name or a synonym, or None."""
    for name in (field.name, *SYNONYMS.get(field.name, ())):
        for each in asked.declaration().fields:
            if each.name == name and each.wire == field.wire and each.struct is field.struct:
                return getattr(asked, name)
    return None
