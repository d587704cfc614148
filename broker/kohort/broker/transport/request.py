"""A request on its way: who sent it in which version, and where its answer goes."""

from typing import TYPE_CHECKING

from kohort.protocol.registry import Api
from kohort.protocol.schema import Message

if TYPE_CHECKING:
    from kohort.broker.transport.connection import Connection


class Request:
    """One request of one connection; its answer is sent when all before it have been."""

    __slots__ = ("answer", "api", "client_id", "connection", "correlation_id", "version")

    def __init__(
        self, connection: "Connection", api: Api, version: int, correlation_id: int, client_id: str | None
    ) -> None:
        self.connection = connection
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.answer: Answer | None = None

    @property
    def client_host(self) -> str:
        """The peer's address as Kafka writes it, with a slash before it: `/127.0.0.1`."""
        return self.connection.client_host

    def respond(self, message: Message) -> None:
        """Answer the request. The loop's thread only, and once; a peer that is gone is no error."""
        self.connection.complete(self, message)

    def hang_up(self) -> None:
        """Close the connection: an answer that was owed will not come."""
        self.connection.close()

    def abandon(self) -> None:
        """Never answer: an acks=0 produce. What was asked after it is answered in its turn."""
        self.connection.abandon(self)


Answer = list["bytes | memoryview | FileRange"]


class FileRange:
    """A range of an open file that is to be sent as it is: a piece of an answer."""

    __slots__ = ("file_descriptor", "keep", "position", "size_bytes")

    def __init__(self, file_descriptor: int, position: int, size_bytes: int, keep: object) -> None:
        self.file_descriptor = file_descriptor
        self.position = position
        self.size_bytes = size_bytes
        self.keep = keep  # Whatever holds the descriptor open until the range has been sent.

    def __len__(self) -> int:
        return self.size_bytes
