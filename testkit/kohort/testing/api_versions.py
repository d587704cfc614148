"""`Broker(api_versions="2.8")`: a broker that answers as one of an older Kafka version does."""

from collections.abc import Mapping
from typing import cast

import msgspec

from kohort.broker.config import ConfigError
from kohort.broker.transport.dispatch import Handle
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.headers import API_VERSIONS_KEY
from kohort.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kohort.protocol.schema import Message
from kohort.testing.kafka_versions import HIGHEST_VERSIONS, highest_versions
from kohort.testing.requests import message_of

FEATURES_SINCE = (4, 0)
"""Since then brokers tell clients about group.version and transaction.version."""
SHARE_GROUPS_SINCE = (4, 2)
"""Since then a new cluster has share groups and streams groups."""


class ApiLimits:
    """The APIs of one version of Kafka, as far as kohort has them."""

    def __init__(self, kafka_version: str) -> None:
        """Take the version, such as "2.8". Raises: ConfigError for an unknown one."""
        if kafka_version not in HIGHEST_VERSIONS:
            known = ", ".join(HIGHEST_VERSIONS)
            raise ConfigError(f"api_versions is {kafka_version!r}: it must be one of {known}")
        self.kafka_version = kafka_version
        self._numbers = tuple(map(int, kafka_version.split(".")))
        self._highest = highest_versions(kafka_version)

    @property
    def settings(self) -> Mapping[str, int]:
        """The settings that disable what this version of Kafka does not have."""
        names = (
            ["kohort.share.version", "kohort.streams.version"] if self._numbers < SHARE_GROUPS_SINCE else []
        )
        names += ["kohort.group.version"] if self._numbers < FEATURES_SINCE else []
        return dict.fromkeys(names, 0)

    def refusal(self, request: Request) -> str | None:
        """Return why this version of Kafka refuses the request, or None."""
        highest = self._highest.get(request.api.api_key)
        if highest is None:
            return f"refused: Kafka {self.kafka_version} has no {request.api.name}"
        if request.version <= highest:
            return None
        return f"refused: Kafka {self.kafka_version} has {request.api.name} up to version {highest}"

    def refuse(self, request: Request) -> Message | None:
        """Close the connection. Return the response if it is ApiVersions, in version 0 (KIP-511)."""
        if request.api.api_key != API_VERSIONS_KEY:
            request.hang_up()
            return None
        request.received.version = 0
        return ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=tuple(self._limited(API_VERSIONS_KEY, 0))
        )

    def wrap(self, handle: Handle) -> Handle:
        """Return a handler of ApiVersions that answers with these versions."""

        def answer(message: Message, request: Request) -> Message:
            found = message_of(handle(message, request))
            assert isinstance(found, ApiVersionsResponse)
            return self._limit(found)

        return answer

    def _limit(self, answer: ApiVersionsResponse) -> ApiVersionsResponse:
        keys = [
            limited for each in answer.api_keys for limited in self._limited(each.api_key, each.min_version)
        ]
        has_features = self._numbers >= FEATURES_SINCE
        changes: dict[str, object] = {"api_keys": tuple(keys)}
        if not has_features:
            changes |= {"supported_features": (), "finalized_features": (), "finalized_features_epoch": -1}
        replaced = msgspec.structs.replace(cast(msgspec.Struct, answer), **changes)
        return cast(ApiVersionsResponse, replaced)

    def _limited(self, api_key: int, lowest: int) -> list[ApiVersion]:
        """Return the versions of an API, or nothing if the two versions of Kafka have none in common."""
        highest = self._highest.get(api_key, -1)
        if highest < lowest:
            return []
        return [ApiVersion(api_key=api_key, min_version=lowest, max_version=highest)]
