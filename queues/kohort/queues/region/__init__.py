"""Consumers that drain, checkpoint and reset together, so that what they compute counts each record once.

await RegionCoordinator(region, bootstrap_servers="localhost:9092").run()
await RegionMember(region, "a", operator, topics=["flights"], bootstrap_servers="localhost:9092").run()
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.queues.region.asking import ask, checkpointed_states, region_state
    from kohort.queues.region.coordinating import Region
    from kohort.queues.region.coordinator import RegionCoordinator
    from kohort.queues.region.entries import Asked, Phase, RegionState
    from kohort.queues.region.member import RefusedError, RegionMember, Start
    from kohort.queues.region.membership import MemberState
    from kohort.queues.region.processing import Operator
    from kohort.queues.region.states import StateLostError

_HOME = {
    "asking": "ask checkpointed_states region_state",
    "coordinating": "Region",
    "coordinator": "RegionCoordinator",
    "entries": "Asked Phase RegionState",
    "member": "RefusedError RegionMember Start",
    "membership": "MemberState",
    "processing": "Operator",
    "states": "StateLostError",
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names.split()}

__all__ = [
    "Asked",
    "MemberState",
    "Operator",
    "Phase",
    "RefusedError",
    "Region",
    "RegionCoordinator",
    "RegionMember",
    "RegionState",
    "Start",
    "StateLostError",
    "ask",
    "checkpointed_states",
    "region_state",
]


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    value: object = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
