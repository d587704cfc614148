"""Tells the brokers of the cluster from others who say that they are."""

from kohort.broker.metadata import MetadataStore
from kohort.broker.transport.request import Request


class KnownBrokers:
    """By the listener that brokers reach each other by, their user there, and their epochs."""

    def __init__(self, metadata: MetadataStore, node_id: int, listener: int, user: str | None) -> None:
        """`node_id` is this broker's own; where brokers say by SASL who they are it is as `user`."""
        self._metadata = metadata
        self._node_id = node_id
        self._listener = listener
        self._principal = None if user is None else f"User:{user}"

    def knows(self, request: Request, node_id: int, epoch: int) -> bool:
        """Return whether the request is one of another broker, which says that it is this one.

        Where it does not say which one it is, by a `node_id` below 0, its user tells.
        """
        if request.connection.listener != self._listener or node_id == self._node_id:
            return False
        if self._principal is not None and request.principal != self._principal:
            return False
        if node_id < 0:
            return self._principal is not None
        broker = self._metadata.snapshot().broker(node_id)
        return broker is not None and broker.epoch == epoch
