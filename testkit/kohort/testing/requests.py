"""The requests of clients, and the errors in their responses."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import overload

from kohort.broker.handlers.prepared import Prepared
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import Message

ERROR_CODE = "error_code"
ERROR_CODES = (ERROR_CODE, "partition_error_code")  # The second occurs only in AddPartitionsToTxn.


def check_api(name: str) -> None:
    """Raise ValueError with the most similar name if there is no API of this name."""
    if name not in BY_NAME:
        nearest = get_close_matches(name, BY_NAME, n=1)
        hint = f" (did you mean {nearest[0]}?)" if nearest else ""
        raise ValueError(f"no API is named {name!r}{hint}")


@dataclass(slots=True, eq=False)
class SeenRequest:
    """One request. `message` is the decoded request, or None for Produce, whose records are large."""

    api: str
    version: int
    client_id: str
    time: float
    """When it arrived, in the broker's seconds since 1970."""
    message: Message | None
    errors: tuple[ErrorCode, ...] = ()
    """The different errors in the response, at the top and in its parts."""
    is_answered: bool = False
    fault: str = ""
    """The injected fault, as text."""

    def answered(self, answer: object) -> None:
        """Store the errors of the response."""
        self.errors = tuple(dict.fromkeys(errors_of(message_of(answer))))
        self.is_answered = True


@dataclass(frozen=True, slots=True)
class Requests(Sequence[SeenRequest]):
    """Requests in order of arrival."""

    _seen: tuple[SeenRequest, ...] = field(repr=False)

    def of(self, api: str | None = None, *, client_id: str | None = None) -> "Requests":
        """Return the requests of one API, of one client, or both. Raises: ValueError for an unknown API."""
        if api is not None:
            check_api(api)
        return Requests(
            tuple(
                each
                for each in self._seen
                if (api is None or each.api == api) and (client_id is None or each.client_id == client_id)
            )
        )

    @property
    def apis(self) -> list[str]:
        """The API of each request, in order."""
        return [each.api for each in self._seen]

    @property
    def errors(self) -> list[ErrorCode]:
        """The errors in the responses, in order."""
        return [code for each in self._seen for code in each.errors]

    @overload
    def __getitem__(self, index: int) -> SeenRequest: ...
    @overload
    def __getitem__(self, index: slice) -> "Requests": ...
    def __getitem__(self, index: int | slice) -> "SeenRequest | Requests":
        return Requests(self._seen[index]) if isinstance(index, slice) else self._seen[index]

    def __len__(self) -> int:
        return len(self._seen)

    def __iter__(self) -> Iterator[SeenRequest]:
        return iter(self._seen)

    def __repr__(self) -> str:
        return f"<{len(self._seen)} requests: {', '.join(self.apis[-10:])}>"


def message_of(answer: object) -> Message:
    """Return the message of a response, also of a `Prepared` one."""
    message = answer.message if isinstance(answer, Prepared) else answer
    assert isinstance(message, Message), answer
    return message


def errors_of(message: Message) -> Iterator[ErrorCode]:
    """Yield every error code except NONE in a message and its parts."""
    for name in ERROR_CODES:
        code = getattr(message, name, 0)
        if code:
            yield ErrorCode(code)
    for part in parts_with_errors(type(message)):
        value = getattr(message, part)
        for each in value if isinstance(value, tuple | list) else (value,):
            if isinstance(each, Message):
                yield from errors_of(each)


@cache
def parts_with_errors(kind: type[Message]) -> tuple[str, ...]:
    """Return the names of the fields with parts that may have error codes."""
    return tuple(
        each.name for each in kind.declaration().fields if each.struct is not None and has_errors(each.struct)
    )


@cache
def has_errors(kind: type[Message]) -> bool:
    """Whether such a struct, or a part of it, has an error code."""
    return any(each.name in ERROR_CODES for each in kind.declaration().fields) or bool(
        parts_with_errors(kind)
    )


def by_client(requests: Iterable[SeenRequest]) -> dict[str, list[SeenRequest]]:
    """Return the requests of each client."""
    found: dict[str, list[SeenRequest]] = {}
    for each in requests:
        found.setdefault(each.client_id, []).append(each)
    return found
