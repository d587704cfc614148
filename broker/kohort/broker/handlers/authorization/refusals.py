"""Answers to refused requests: as a whole, or part by part, in the shape of the API's answers."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kohort.broker.handlers.authorization.requester import Requester
from kohort.protocol.errors import ErrorCode
from kohort.protocol.schema import Field, Message


class Parts(NamedTuple):
    """The parts of a request, and the place of each one's code in the answer."""

    asked: str
    """The request's field with the parts, or an outer part's with the inner ones."""
    answered: str
    """The answer's."""
    same: tuple[str, ...]
    """What a part of the answer repeats: a field's name, `asked=answered`, or `=answered` of a bare value."""
    inner: "Parts | None" = None
    """The parts of each part that have the codes, if these are not its own."""
    told: Mapping[str, object] = {}
    """Other fields of a refused part; the rest have their defaults."""
    code: str = "error_code"


def refused(requester: Requester, message: Any, code: ErrorCode, parts: Parts | None = None) -> Message:
    """Return the answer that refuses the request as a whole: in its own code, and in that of each part."""
    response = requester.api.response
    values: dict[str, object] = {}
    fields = fields_of(response)
    for name, value in (("error_code", code), ("error_message", words(code))):
        own = fields.get(name)
        if own is not None and (requester.version in own.versions or own.ignorable):
            values[name] = value
    if parts is not None:
        values[parts.answered] = refused_parts(parts, response, getattr(message, parts.asked) or (), code)
    return made(response, values)


def refused_parts(
    parts: Parts, of: type[Message], items: Iterable[Any], code: ErrorCode
) -> tuple[Message, ...]:
    """Return the parts of an answer, or of a part of it, that say `code` to each of `items`."""
    struct = fields_of(of)[parts.answered].struct
    assert struct is not None, parts
    found = []
    for item in items:
        values: dict[str, object] = dict(parts.told)
        for each in parts.same:
            asked, equals, answered = each.partition("=")
            values[answered if equals else asked] = getattr(item, asked) if asked else item
        if parts.inner is None:
            values[parts.code] = code
        else:
            inner = getattr(item, parts.inner.asked)
            values[parts.inner.answered] = refused_parts(parts.inner, struct, inner, code)
        found.append(made(struct, values))
    return tuple(found)


def words(code: ErrorCode) -> str:
    """Return the code in words, as Kafka's Errors has it: some clients show no error without any."""
    return f"{code.name.replace('_', ' ').capitalize()}."


def made(of: type[Message], values: Mapping[str, object]) -> Message:
    """Return the message with these values, and all others at their defaults."""
    return of(**values)


def fields_of(of: type[Message]) -> dict[str, Field]:
    """Return the fields of a message by their names."""
    return {each.name: each for each in of.declaration().fields}
