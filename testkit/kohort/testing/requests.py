"""What clients have asked, and what they were answered."""

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
ERROR_CODES = (ERROR_CODE, "partition_error_code")  # The second in AddPartitionsToTxn alone.


def check_api(name: str) -> None:
    """Raise ValueError with the nearest name where no API is named so."""
    if name not in BY_NAME:
        nearest = get_close_matches(name, BY_NAME, n=1)
        hint = f" (did you mean {nearest[0]}?)" if nearest else ""
        raise ValueError(f"no API is named {name!r}{hint}")


@dataclass(slots=True, eq=False)
class SeenRequest:
    """One request. `message` is what was asked, decoded; None for Produce, for its records' sake."""

    api: str
    version: int
    client_id: str
    time: float
    """When it came, in the broker's seconds since 1970."""
    message: Message | None
    errors: tuple[ErrorCode, ...] = ()
    """The errors that the answer has, at the top and in its parts, each once."""
    is_answered: bool = False
    fault: str = ""
    """What was done to it by order of the test, in words."""

    def answered(self, answer: object) -> None:
        """Take over what the answer says."""
        self.errors = tuple(dict.fromkeys(errors_of(plain(answer))))
        self.is_answered = True


@dataclass(frozen=True, slots=True)
class Requests(Sequence[SeenRequest]):
    """Requests in the order in which they came."""

    _seen: tuple[SeenRequest, ...] = field(repr=False)

    def of(self, api: str | None = None, *, client_id: str | None = None) -> "Requests":
        """Return those of one API, or of one client, or both. Raises: ValueError for an unknown API."""
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
        """The names of their APIs, in order."""
        return [each.api for each in self._seen]

    @property
    def errors(self) -> list[ErrorCode]:
        """The errors that were answered, in order."""
        return [code for each in self._seen for code in each.errors]

    @overload
    def __getitem__(self, place: int) -> SeenRequest: ...
    @overload
    def __getitem__(self, place: slice) -> "Requests": ...
    def __getitem__(self, place: int | slice) -> "SeenRequest | Requests":
        return Requests(self._seen[place]) if isinstance(place, slice) else self._seen[place]

    def __len__(self) -> int:
        return len(self._seen)

    def __iter__(self) -> Iterator[SeenRequest]:
        return iter(self._seen)

    def __repr__(self) -> str:
        return f"<{len(self._seen)} requests: {', '.join(self.apis[-10:])}>"


def plain(answer: object) -> Message:
    """Return the message of an answer, also where it is kept in its encoded forms."""
    message = answer.message if isinstance(answer, Prepared) else answer
    assert isinstance(message, Message), answer
    return message


def errors_of(message: Message) -> Iterator[ErrorCode]:
    """Yield every error code in a message but NONE, that of its parts as well."""
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
    """Return the names of the fields in which more error codes may stand."""
    return tuple(
        each.name for each in kind.declaration().fields if each.struct is not None and has_errors(each.struct)
    )


@cache
def has_errors(kind: type[Message]) -> bool:
    """Whether an error code stands in such a struct, or in a part of it."""
    return any(each.name in ERROR_CODES for each in kind.declaration().fields) or bool(
        parts_with_errors(kind)
    )


def by_client(requests: Iterable[SeenRequest]) -> dict[str, list[SeenRequest]]:
    """Return the requests of each client."""
    found: dict[str, list[SeenRequest]] = {}
    for each in requests:
        found.setdefault(each.client_id, []).append(each)
    return found
