"""The permissions of a request's principal, for handlers whose answers depend on them."""

from typing import Protocol


class Permissions(Protocol):
    """The permissions of a principal."""

    def may_describe(self, topic: str, /) -> bool:
        """Return whether the principal may describe the topic."""
        ...

    def may_describe_transaction(self, transactional_id: str, /) -> bool:
        """Return whether the principal may describe the transactional id."""
        ...

    def may_create(self, topic: str, /) -> bool:
        """Return whether the principal may create the topic."""
        ...


class _All:
    """Allows everything, or nothing."""

    def __init__(self, *, are_allowed: bool) -> None:
        self._are_allowed = are_allowed

    def may_describe(self, _topic: str) -> bool:
        return self._are_allowed

    def may_describe_transaction(self, _transactional_id: str) -> bool:
        return self._are_allowed

    def may_create(self, _topic: str) -> bool:
        return self._are_allowed


ALLOW_ALL: Permissions = _All(are_allowed=True)
"""The permissions of everybody without an authorizer."""

DENY_ALL: Permissions = _All(are_allowed=False)
"""The permissions of a request that the authorizer has not seen."""
