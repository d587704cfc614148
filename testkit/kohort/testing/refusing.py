"""The answer that says no: made from the request, so that every part which it names gets the error.

A field of the answer is taken from the field of the same name in the request; a list of the answer stands for
the request's list of the same name, or else for the one that it has.
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
AS_MUCH_AS = {"partition_index": ("partition", "index"), "index": ("partition_index",)}
"""Other names that requests have for a field of answers."""


def refuse(answer: type[Message], request: Message, code: ErrorCode, version: int) -> Message:
    """Return an answer of this class in which everything that was asked has failed with `code`."""
    return _refused(answer, request, code, version)


def _refused(kind: type[Message], asked: Message, code: ErrorCode, version: int) -> Message:
    values: dict[str, object] = {}
    fields = [each for each in kind.declaration().fields if version in each.versions]
    parts = [each for each in fields if each.struct is not None and has_errors(each.struct)]
    for each in fields:
        if each.name in ERROR_CODES:
            is_for_parts = kind.__name__ == "FetchResponse" and code not in SESSION_ERRORS
            values[each.name] = ErrorCode.NONE if is_for_parts else code
        elif each in parts:
            values[each.name] = tuple(_refused_each(each, asked, code, version))
        else:
            found = _same(asked, each)
            if found is not None:
                values[each.name] = found
            elif each.default is None and version not in each.nullable:
                values[each.name] = b""  # Records, where none are not said by null.
    return kind(**values)


def _refused_each(field: Field, asked: Message, code: ErrorCode, version: int) -> Iterable[Message]:
    assert field.struct is not None
    for each in _counterpart(field.name, asked, version):
        if isinstance(each, Message):
            yield _refused(field.struct, each, code, version)
        else:
            yield _of_value(field.struct, each, code)


def _counterpart(name: str, asked: Message, version: int) -> tuple[object, ...]:
    """Return what the request lists where the answer has the list of this name."""
    lists = [
        each
        for each in asked.declaration().fields
        if each.element is not None and version in each.versions and getattr(asked, each.name)
    ]
    named = [each for each in lists if each.name == name] or lists
    return tuple(getattr(asked, named[0].name)) if named else ()


def _of_value(kind: type[Message], value: object, code: ErrorCode) -> Message:
    """Return the part of an answer for what the request names by a plain value: a name, a number."""
    fields = kind.declaration().fields
    error_code = next((each.name for each in fields if each.name in ERROR_CODES), ERROR_CODE)
    wanted = next(
        each.name
        for each in fields
        if each.name not in ERROR_CODES and each.struct is None and isinstance(value, type(each.default))
    )
    return kind(**{wanted: value, error_code: code})


def _same(asked: Message, field: Field) -> object:
    """Return the request's value of a field, by its name or another one that means the same, or None."""
    for name in (field.name, *AS_MUCH_AS.get(field.name, ())):
        for each in asked.declaration().fields:
            if each.name == name and each.wire == field.wire and each.struct is field.struct:
                return getattr(asked, name)
    return None
