"""The parts of a broker that questions about share groups are put to."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from kohort.broker.config.current import CurrentConfig
from kohort.broker.handlers.data.family import Data
from kohort.broker.handlers.features import share_version
from kohort.broker.handlers.groups.family import GroupServices

if TYPE_CHECKING:
    from kohort.broker.coordination.shares import Shares


class ShareServices(msgspec.Struct, frozen=True):
    """The groups and partitions of this broker, and what share groups take, made at first use."""

    groups: GroupServices
    data: Data
    shares: "Callable[[], Shares]"
    current: CurrentConfig

    @property
    def is_enabled(self) -> bool:
        """Whether there are share groups: `share.version` is at least 1."""
        return share_version(self.current.config) > 0
