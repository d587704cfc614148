"""Settings, changed as an administrator would."""

from __future__ import annotations

from kohort.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from tests.attacks.wire import Line

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SET = 0


def alter(line: Line, kind: int, resource: str, **settings: str) -> int:
    """Set these (an underscore for each dot) and return the error code."""
    configs = tuple(
        IncrementalAlterConfigsRequestAlterableConfig(
            name=name.replace("_", "."), config_operation=SET, value=value
        )
        for name, value in settings.items()
    )
    altered = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=kind, resource_name=resource, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=(altered,), validate_only=False)
    return line.ask(request, IncrementalAlterConfigsResponse).responses[0].error_code
