"""Pushes the records of topics to services, and does with each what the service answers.

destination = Destination(name="orders", topic="orders", url="http://127.0.0.1:8080/orders")

async with open_service(destination) as service:
    await Forwarder(destination, service, bootstrap_servers="localhost:9092").run()

`kohort forward --config forward.toml` runs several of them. For trio and asyncio; needs the extra `queues`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.queues.forward.forwarder import Forwarder
    from kohort.queues.forward.replaying import purge, replay
    from kohort.queues.forward.service import open_service
    from kohort.queues.forward.settings import Destination, ForwardSettings, load_settings
    from kohort.queues.forward.verdict import Action, Verdict

_HOME = {
    "forwarder": "Forwarder",
    "replaying": "purge replay",
    "service": "open_service",
    "settings": "Destination ForwardSettings load_settings",
    "verdict": "Action Verdict",
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names.split()}

__all__ = [
    "Action",
    "Destination",
    "ForwardSettings",
    "Forwarder",
    "Verdict",
    "load_settings",
    "open_service",
    "purge",
    "replay",
]


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    value: object = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
