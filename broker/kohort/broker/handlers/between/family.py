"""The parts of a broker that questions of other brokers are put to."""

from collections.abc import Awaitable, Callable

import msgspec

from kohort.broker.lag import LocalEnds
from kohort.protocol.between_brokers import BrokerPageRequest, BrokerPageResponse


class Between(msgspec.Struct, frozen=True):
    """This broker's answers to other brokers, about partitions and groups here."""

    ends: LocalEnds
    page: Callable[[BrokerPageRequest], Awaitable[BrokerPageResponse]]
    """Returns what this broker alone answers to an HTTP client."""
