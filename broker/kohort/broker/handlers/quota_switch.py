"""Where quotas come in: nothing is there until there is one, and it is not even imported."""

from collections.abc import Callable

from kohort.broker.metadata import MetadataStore, ResourceType, Snapshot
from kohort.broker.transport.dispatch import Dispatch, Handle


class QuotaSwitch:
    """A `Dispatch` that another takes the place of when the first quota is set. The loop's thread only."""

    def __init__(
        self, inner: Dispatch, metadata: MetadataStore, metered: Callable[[Dispatch], Dispatch]
    ) -> None:
        """Let `metered` make the other one, at the start or at any time later."""
        self._inner = inner
        self._metadata = metadata
        self._metered = metered
        self._is_metered = False
        self._rebind: Callable[[], None] = lambda: None

    def handler_of(self, api_key: int) -> Handle:
        """Return the function that answers the API."""
        return self._inner.handler_of(api_key)

    def begin(self, rebind: Callable[[], None]) -> None:
        """Watch for quotas from now on; `rebind` requests every handler again."""
        self._rebind = rebind
        self._metadata.watch(self._follow)
        self._look(self._metadata.snapshot())

    def _follow(self, before: Snapshot, after: Snapshot) -> None:
        if not self._is_metered and before.configs is not after.configs:
            self._look(after)

    def _look(self, snapshot: Snapshot) -> None:
        if not any(each.type is ResourceType.CLIENT_QUOTA for each in snapshot.configs):
            return
        self._is_metered = True
        self._inner = self._metered(self._inner)
        self._rebind()
