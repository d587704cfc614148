"""Distinguishes the brokers of the cluster from clients that claim to be brokers."""

from hmac import compare_digest
from uuid import UUID

from kohort.broker.metadata import MetadataStore
from kohort.broker.transport.request import Request


def client_id_of(node_id: int, incarnation_id: UUID) -> str:
    """Return a broker's client id for other brokers: only brokers know its process's id."""
    return f"broker-{node_id}-{incarnation_id.hex}"


class KnownBrokers:
    """By the listener that brokers reach each other by, their user there, their epochs and client ids."""

    def __init__(self, metadata: MetadataStore, node_id: int, listener: int, user: str | None) -> None:
        """`node_id` is this broker's own; if brokers authenticate by SASL it is as `user`."""
        self._metadata = metadata
        self._node_id = node_id
        self._listener = listener
        self._principal = None if user is None else f"User:{user}"

    def knows(self, request: Request, node_id: int, epoch: int) -> bool:
        """Return whether the request is one of another broker, which says that it is this one.

        A request without a node id, with a `node_id` below 0, is identified by its user, and without users by
        its client id.
        """
        if request.connection.listener != self._listener or node_id == self._node_id:
            return False
        if self._principal is not None and request.principal != self._principal:
            return False
        if node_id < 0:
            return self._principal is not None or self._is_named(request.client_id or "")
        broker = self._metadata.snapshot().broker(node_id)
        return broker is not None and broker.epoch == epoch

    def _is_named(self, client_id: str) -> bool:
        """Return whether another live broker has this client id."""
        return any(
            each.incarnation_id is not None
            and each.node_id != self._node_id
            and compare_digest(client_id.encode(), client_id_of(each.node_id, each.incarnation_id).encode())
            for each in self._metadata.snapshot().brokers
        )
