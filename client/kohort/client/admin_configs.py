"""The admin client's requests about settings of topics, brokers and groups."""

from collections.abc import Iterable, Mapping

from kohort.client.admin_items import AdminCalls, Answer
from kohort.client.admin_values import ConfigEntry, ConfigSource, ResourceType
from kohort.client.errors import BrokerError, check
from kohort.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from kohort.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from kohort.protocol.schema import Message

SET, DELETE, APPEND, SUBTRACT = range(4)
"""The operation on a setting; the last two are for lists. Source: AlterConfigOp.OpType."""

_SOURCES = frozenset(ConfigSource)


class ConfigAdmin(AdminCalls):
    """Calls that any broker answers, except for those about a broker's own settings."""

    async def describe_configs(self, resource: ResourceType, name: str) -> dict[str, ConfigEntry]:
        """Return the settings of a topic, a broker (its id as the name) or a group. Raises: BrokerError."""
        request = DescribeConfigsRequest(
            resources=(
                DescribeConfigsResource(resource_type=resource, resource_name=name, configuration_keys=None),
            )
        )
        answer = await self._ask(request, DescribeConfigsResponse, _node_of(resource, name))
        for result in answer.results:
            check(result.error_code, result.error_message)
        return {each.name: _entry(each) for result in answer.results for each in result.configs}

    async def alter_configs(
        self,
        resource: ResourceType,
        name: str,
        *,
        values: Mapping[str, str] | None = None,
        delete: Iterable[str] = (),
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Set some settings, and delete others so that their defaults hold. All other settings stay.

        `append` and `subtract` add values to settings that are lists, and remove them. Raises: BrokerError.
        """
        changes: list[tuple[str, int, str | None]] = [(each, DELETE, None) for each in delete]
        for operation, given in ((SET, values), (APPEND, append), (SUBTRACT, subtract)):
            changes += [(each, operation, value) for each, value in (given or {}).items()]
        request = IncrementalAlterConfigsRequest(
            resources=(
                IncrementalAlterConfigsRequestAlterConfigsResource(
                    resource_type=resource,
                    resource_name=name,
                    configs=tuple(
                        IncrementalAlterConfigsRequestAlterableConfig(
                            name=each, config_operation=operation, value=value
                        )
                        for each, operation, value in changes
                    ),
                ),
            ),
            validate_only=validate_only,
        )
        answer = await self._ask(request, IncrementalAlterConfigsResponse, _node_of(resource, name))
        for result in answer.responses:
            if result.error_code:
                text = result.error_message or str(BrokerError(result.error_code))
                raise BrokerError(result.error_code, f"{_described(resource, name)}: {text}")

    async def _ask(self, request: Message, kind: type[Answer], node_id: int | None) -> Answer:
        """Return one broker's answer; only a broken connection makes it ask again."""

        async def attempt() -> Answer:
            if node_id is None:
                return await self._cluster.request_any(request, kind)
            if node_id not in self._cluster.metadata.nodes:
                await self._cluster.refresh_metadata(())
            return await self._cluster.request(node_id, request, kind)

        return await self._cluster.retrying(attempt)


def _described(resource: ResourceType, name: str) -> str:
    """Return the owner of these settings as text; without a name all brokers."""
    if resource is ResourceType.BROKER:
        return f"broker {name}" if name else "all brokers"
    return f"{resource.name.lower().replace('_', ' ')} {name!r}"


def _node_of(resource: ResourceType, name: str) -> int | None:
    """Return the only broker that knows its own settings; any broker knows the rest."""
    return int(name) if resource is ResourceType.BROKER and name.isdecimal() else None


def _entry(told: DescribeConfigsResourceResult) -> ConfigEntry:
    source = ConfigSource(told.config_source) if told.config_source in _SOURCES else ConfigSource.UNKNOWN
    return ConfigEntry(told.name, told.value, source, told.read_only, told.is_sensitive)
