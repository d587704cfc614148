"""AlterConfigs: replaces a resource's configuration as a whole; omitted settings get their defaults."""

from kohort.broker.handlers.administration.config_changes import alter_unless_repeated
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata.configs import ConfigChange, Operation, Step
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterConfigsResource,
    AlterConfigsResponse,
    AlterConfigsResponseAlterConfigsResourceResponse,
)


async def handle(
    admin: Administration, message: AlterConfigsRequest, request: Request
) -> AlterConfigsResponse:
    """Return the result of each change."""
    changes = [_change(resource) for resource in message.resources]
    outcomes = await alter_unless_repeated(admin, changes, validate_only=message.validate_only)
    return AlterConfigsResponse(throttle_time_ms=0, responses=tuple(_result(*each) for each in outcomes))


def _change(resource: AlterConfigsRequestAlterConfigsResource) -> ConfigChange:
    return ConfigChange(
        resource.resource_type,
        resource.resource_name,
        tuple(Step(each.name, Operation.SET, each.value) for each in resource.configs),
        replace=True,
    )


def _result(change: ConfigChange, error: ApiError | None) -> AlterConfigsResponseAlterConfigsResourceResponse:
    return AlterConfigsResponseAlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=change.type,
        resource_name=change.name,
    )
