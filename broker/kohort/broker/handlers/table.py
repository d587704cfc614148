"""Which function answers which API.

Modules are imported at the first request that needs them: a broker that starts for one test does not
pay for thirty APIs.
"""

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kohort.protocol.schema import Message

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.runtime.request import Request

Handler = Callable[["Broker", Any, "Request"], "Message | Awaitable[Message] | None"]
"""Takes the broker, the decoded message and its request; each handler names its own message class.

Returns the answer, or None where `request.respond(answer)` is called later (exactly once), or is a
coroutine function whose result is the answer.
"""

MODULES = {
    0: "produce",
    1: "fetch",
    2: "list_offsets",
    3: "metadata",
    8: "offset_commit",
    9: "offset_fetch",
    10: "find_coordinator",
    11: "join_group",
    12: "heartbeat",
    13: "leave_group",
    14: "sync_group",
    15: "describe_groups",
    16: "list_groups",
    18: "api_versions",
    19: "create_topics",
    20: "delete_topics",
    21: "delete_records",
    22: "init_producer_id",
    23: "offset_for_leader_epoch",
    32: "describe_configs",
    33: "alter_configs",
    35: "describe_log_dirs",
    37: "create_partitions",
    42: "delete_groups",
    44: "incremental_alter_configs",
    47: "offset_delete",
    60: "describe_cluster",
    61: "describe_producers",
    74: "list_config_resources",
    75: "describe_topic_partitions",
}

_loaded: dict[int, Handler] = {}


def handler_of(api_key: int) -> Handler:
    """Return the `handle` function of the API's module."""
    handler = _loaded.get(api_key)
    if handler is None:
        handler = import_module(f"kohort.broker.handlers.{MODULES[api_key]}").handle
        _loaded[api_key] = handler
    return handler
