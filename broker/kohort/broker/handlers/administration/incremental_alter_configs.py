"""IncrementalAlterConfigs: single values are set, deleted, appended to or subtracted from (KIP-339)."""

from kohort.broker.handlers.administration.config_changes import alter_unless_repeated
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata.configs import ConfigChange, Step
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)


async def handle(
    admin: Administration, message: IncrementalAlterConfigsRequest, request: Request
) -> IncrementalAlterConfigsResponse:
    """Return the result of each change."""
    changes = [_change(resource) for resource in message.resources]
    outcomes = await alter_unless_repeated(admin, changes, validate_only=message.validate_only)
    return IncrementalAlterConfigsResponse(
        throttle_time_ms=0, responses=tuple(_result(*each) for each in outcomes)
    )


def _change(resource: IncrementalAlterConfigsRequestAlterConfigsResource) -> ConfigChange:
    steps = tuple(Step(each.name, each.config_operation, each.value) for each in resource.configs)
    return ConfigChange(resource.resource_type, resource.resource_name, steps)


def _result(
    change: ConfigChange, error: ApiError | None
) -> IncrementalAlterConfigsResponseAlterConfigsResourceResponse:
    return IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=change.type,
        resource_name=change.name,
    )
