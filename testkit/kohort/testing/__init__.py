"""A broker inside a user's test: `with Broker() as broker: ... broker.bootstrap`.

Names are imported when they are asked for: pytest imports this package wherever kohort is installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.broker.config import ConfigError
    from kohort.protocol.errors import ErrorCode
    from kohort.testing.aio import AsyncBroker
    from kohort.testing.broker import Broker
    from kohort.testing.cluster import Cluster
    from kohort.testing.errors import BrokerFailed, NotInTime
    from kohort.testing.groups import Group, Record

__all__ = [
    "AsyncBroker",
    "Broker",
    "BrokerFailed",
    "Cluster",
    "ConfigError",
    "ErrorCode",
    "Group",
    "NotInTime",
    "Record",
]

_PLACES = {
    "AsyncBroker": "kohort.testing.aio",
    "Broker": "kohort.testing.broker",
    "BrokerFailed": "kohort.testing.errors",
    "Cluster": "kohort.testing.cluster",
    "ConfigError": "kohort.broker.config",
    "ErrorCode": "kohort.protocol.errors",
    "Group": "kohort.testing.groups",
    "NotInTime": "kohort.testing.errors",
    "Record": "kohort.testing.groups",
}


def __getattr__(name: str) -> object:
    """Return a public name. Raises: AttributeError."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
