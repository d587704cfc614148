"""A request on its way: who sent it in which version, and where its answer goes."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from kohort.broker.transport.file_range import FileRange
from kohort.broker.transport.permissions import Permissions
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
    permissions: Permissions
    """Those of its requests, unless an authorizer looks at each."""
    closed: bool
    """Whether it is gone."""
    on_close: list[Callable[[], None]]
    """What is to be done when it closes."""

    def complete(self, request: "ReceivedRequest", message: Message) -> None:
        """Take the answer to `request`; one that cannot be encoded closes the connection."""
        ...

    def abandon(self, request: "ReceivedRequest") -> None:
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
class Request(ABC):
    """One request, as handlers see it. Whoever stands in for one has to say each of these anew."""

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
        """Who asks, as `User:NAME`."""
        return self.connection.principal

    @property
    @abstractmethod
    def received(self) -> "ReceivedRequest":
        """The request that the connection knows: this one, or the one for which it stands."""

    @property
    @abstractmethod
    def permissions(self) -> Permissions:
        """What whoever asks may know of and have made."""

    @abstractmethod
    def may_have(self, size_bytes: int) -> bool:
        """Return whether so many bytes of records may be answered now; else it is none, and one waits."""

    @abstractmethod
    def respond(self, message: Message) -> None:
        """Answer the request. The loop's thread only, and once; a peer that is gone is no error."""

    @abstractmethod
    def hang_up(self) -> None:
        """Close the connection: an answer that was owed will not come."""

    @abstractmethod
    def abandon(self) -> None:
        """Never answer: an acks=0 produce. What was asked after it is answered in its turn."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ReceivedRequest(Request):
    """One request of one connection; its answer is sent when all before it have been."""

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
        self.deferred: Message | None = None  # The answer, while there is no room to encode it.
        self.held_bytes = held_bytes  # What it is counted as until it is answered.

    @property
    def received(self) -> "ReceivedRequest":
        """This one."""
        return self

    @property
    def permissions(self) -> Permissions:
        """Those of its connection: nobody has looked at this request for itself."""
        return self.connection.permissions

    def may_have(self, size_bytes: int) -> bool:
        """Return True: its bytes are not measured."""
        return True

    def respond(self, message: Message) -> None:
        """Answer the request."""
        self.connection.complete(self, message)

    def hang_up(self) -> None:
        """Close the connection."""
        self.connection.close()

    def abandon(self) -> None:
        """Never answer."""
        self.connection.abandon(self)
