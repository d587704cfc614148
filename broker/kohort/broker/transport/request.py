"""A request on its way: who sent it in which version, and where its answer goes."""

from collections.abc import Callable
from typing import Protocol

from kohort.broker.transport.file_range import FileRange
from kohort.protocol.compiled import mypyc_attr
from kohort.protocol.registry import Api
from kohort.protocol.schema import Message

ANONYMOUS = "User:ANONYMOUS"
"""Who has not said who it is, and need not. Source: Kafka's KafkaPrincipal."""

Answer = bytes | list[bytes | memoryview | FileRange]
"""An encoded answer or its pieces, its length and header before it."""


class Origin(Protocol):
    """Where requests come from: a connection, or what stands for one."""

    client_host: str
    """The peer's address as Kafka writes it, with a slash before it: `/127.0.0.1`."""
    client_software: str
    """Name and version of the client's library, once it has told them."""
    principal: str
    """Who asks, as `User:NAME`: `ANONYMOUS` where nobody has to say."""
    listener: int
    """By which of the broker's listeners it came: 0 for the first."""
    closed: bool
    """Whether it is gone."""
    on_close: list[Callable[[], None]]
    """What is to be done when it closes."""

    def complete(self, request: "Request", message: Message) -> None:
        """Take the answer to `request`; one that cannot be encoded closes the connection."""
        ...

    def abandon(self, request: "Request") -> None:
        """Take `request` as answered with nothing."""
        ...

    def close(self) -> None:
        """Close at once; answers that are still owed are dropped."""
        ...

    def mute(self) -> None:
        """Ask nothing more, or one thing at most, until `unmute`."""
        ...

    def unmute(self) -> None:
        """Go on asking."""
        ...


@mypyc_attr(allow_interpreted_subclasses=True)
class Request:
    """One request of one connection; its answer is sent when all before it have been."""

    __slots__ = (
        "answer",
        "api",
        "client_id",
        "connection",
        "correlation_id",
        "deferred",
        "held_bytes",
        "version",
    )

    def __init__(  # noqa: PLR0917  # Made for every request, which keywords would slow.
        self,
        connection: Origin,
        api: Api,
        version: int,
        correlation_id: int,
        client_id: str | None,
        held_bytes: int = 0,
    ) -> None:
        self.connection = connection
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.answer: Answer | None = None
        self.deferred: Message | None = None  # The answer, while there is no room to encode it.
        self.held_bytes = held_bytes  # What it is counted as until it is answered.

    @property
    def client_host(self) -> str:
        """The peer's address as Kafka writes it, with a slash before it: `/127.0.0.1`."""
        return self.connection.client_host

    @property
    def principal(self) -> str:
        """Who asks, as `User:NAME`."""
        return self.connection.principal

    @property
    def may_describe(self) -> Callable[[str], bool] | None:
        """Which topics, by their names, whoever asks may know of; None where nobody looks at that."""
        return None

    @property
    def may_describe_transaction(self) -> Callable[[str], bool] | None:
        """Which transactional ids whoever asks may know of; None where nobody looks at that."""
        return None

    @property
    def may_create(self) -> Callable[[str], bool] | None:
        """Which topics, by their names, whoever asks may have made; None where nobody looks at that."""
        return None

    def may_have(self, _size_bytes: int) -> bool:
        """Return whether so many bytes of records may be answered now; else it is none, and one waits."""
        return True

    def respond(self, message: Message) -> None:
        """Answer the request. The loop's thread only, and once; a peer that is gone is no error."""
        self.connection.complete(self, message)

    def hang_up(self) -> None:
        """Close the connection: an answer that was owed will not come."""
        self.connection.close()

    def abandon(self) -> None:
        """Never answer: an acks=0 produce. What was asked after it is answered in its turn."""
        self.connection.abandon(self)
