"""A received request: its API, version, client, and connection for the answer."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from kohort.broker.transport.file_range import FileRange
from kohort.broker.transport.permissions import Permissions
from kohort.protocol.compiled import mypyc_attr
from kohort.protocol.registry import Api
from kohort.protocol.schema import Message

ANONYMOUS = "User:ANONYMOUS"
"""The principal of clients without authentication. Source: Kafka's KafkaPrincipal."""

Answer = bytes | list[bytes | memoryview | FileRange]
"""An encoded answer, or its pieces, with length and header."""


class Origin(Protocol):
    """The source of requests: a connection, or a replacement of one."""

    client_host: str
    """The peer's address as Kafka writes it, with a slash before it: `/127.0.0.1`."""
    client_software: str
    """Name and version of the client's library, from ApiVersions."""
    principal: str
    """The principal, `User:NAME`, or `ANONYMOUS` without authentication."""
    listener: int
    """The number of the broker's listener: 0 for the first."""
    permissions: Permissions
    """The permissions of its requests without an authorizer."""
    closed: bool
    """Whether it is closed."""
    on_close: list[Callable[[], None]]
    """Callbacks for its close."""

    def complete(self, request: "ReceivedRequest", message: Message) -> None:
        """Answer `request`. An answer that cannot be encoded closes the connection."""
        ...

    def abandon(self, request: "ReceivedRequest") -> None:
        """Complete `request` without an answer."""
        ...

    def close(self) -> None:
        """Close at once. Pending answers are dropped."""
        ...

    def mute(self) -> None:
        """Read no more requests, or at most one, until `unmute`."""
        ...

    def unmute(self) -> None:
        """Read requests again."""
        ...


@mypyc_attr(allow_interpreted_subclasses=True)
class Request(ABC):
    """One request for handlers. Wrappers must define each of these members."""

    __slots__ = ("api", "client_id", "connection", "correlation_id", "version")

    def __init__(
        self, connection: Origin, api: Api, version: int, correlation_id: int, client_id: str | None
    ) -> None:
        self.connection = connection
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id

    @property
    def client_host(self) -> str:
        """The peer's address as Kafka writes it, with a slash before it: `/127.0.0.1`."""
        return self.connection.client_host

    @property
    def principal(self) -> str:
        """The principal, `User:NAME`."""
        return self.connection.principal

    @property
    @abstractmethod
    def received(self) -> "ReceivedRequest":
        """The request of the connection: this one, or the wrapped one."""

    @property
    @abstractmethod
    def permissions(self) -> Permissions:
        """The permissions of the principal."""

    @abstractmethod
    def may_have(self, size_bytes: int) -> bool:
        """Return whether quotas allow an answer with so many bytes of records now."""

    @abstractmethod
    def respond(self, message: Message) -> None:
        """Answer the request, once, in the loop's thread. A closed connection is no error."""

    @abstractmethod
    def hang_up(self) -> None:
        """Close the connection without an answer."""

    @abstractmethod
    def abandon(self) -> None:
        """Complete the request without an answer, as for acks=0. Later requests are answered in order."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ReceivedRequest(Request):
    """One request of a connection. Its answer is sent after all earlier ones."""

    __slots__ = ("answer", "deferred", "held_bytes")

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
        self.deferred: Message | None = None  # the answer, while there is no room to encode it
        self.held_bytes = held_bytes  # the counted size until it is answered

    @property
    def received(self) -> "ReceivedRequest":
        """This request."""
        return self

    @property
    def permissions(self) -> Permissions:
        """The permissions of its connection."""
        return self.connection.permissions

    def may_have(self, size_bytes: int) -> bool:
        """Return True: there is no quota."""
        return True

    def respond(self, message: Message) -> None:
        """Answer the request."""
        self.connection.complete(self, message)

    def hang_up(self) -> None:
        """Close the connection."""
        self.connection.close()

    def abandon(self) -> None:
        """Complete the request without an answer."""
        self.connection.abandon(self)
