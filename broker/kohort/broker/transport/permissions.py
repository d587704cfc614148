"""What whoever asks may know of, and have made: handlers ask it where an answer depends on that."""

from typing import Protocol


class Permissions(Protocol):
    """Looks who may do what."""

    def may_describe(self, topic: str, /) -> bool:
        """Return whether the topic is one that whoever asks may know of."""
        ...

    def may_describe_transaction(self, transactional_id: str, /) -> bool:
        """Return whether the transactional id is one that whoever asks may know of."""
        ...

    def may_create(self, topic: str, /) -> bool:
        """Return whether a topic of that name may be made for whoever asks."""
        ...


class _All:
    """One answer to every question."""

    def __init__(self, *, are_allowed: bool) -> None:
        self._are_allowed = are_allowed

    def may_describe(self, _topic: str) -> bool:
        return self._are_allowed

    def may_describe_transaction(self, _transactional_id: str) -> bool:
        return self._are_allowed

    def may_create(self, _topic: str) -> bool:
        return self._are_allowed


ALLOW_ALL: Permissions = _All(are_allowed=True)
"""Those of everybody, where there is no authorizer."""

DENY_ALL: Permissions = _All(are_allowed=False)
"""Those of a request that no authorizer has looked at, where there is one."""
