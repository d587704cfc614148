"""ApiVersions: which APIs in which versions, the first thing that a client asks."""

import re
from functools import cache

from kohort.broker.handlers.administration.family import Administration
from kohort.broker.handlers.apis import MODULES
from kohort.broker.handlers.features import SUPPORTED, group_version, share_version, streams_version
from kohort.broker.handlers.prepared import Prepared
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kohort.protocol.registry import APIS

FEATURES_EPOCH = 0  # They never change while a broker runs.

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")  # KIP-511


def handle(
    admin: Administration, message: ApiVersionsRequest, request: Request
) -> ApiVersionsResponse | Prepared[ApiVersionsResponse]:
    """Return the versions, or INVALID_REQUEST for an invalid software name.

    Of Kafka's features it returns `group.version`, without which no client tries the consumer protocol,
    `share.version`, `streams.version` and `transaction.version`; the others (metadata.version and its like)
    belong to features that kohort lacks, and a client takes an absent one for level 0.
    """
    if request.version >= 3:
        software = message.client_software_name, message.client_software_version
        if not all(map(_SOFTWARE.fullmatch, software)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=())
        request.connection.client_software = " ".join(software)
    if _is_meant_for_another(admin, message):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED, api_keys=())
    config = admin.current.config
    return _prepared(group_version(config), share_version(config), streams_version(config))


@cache
def _prepared(group_level: int, share_level: int, streams_level: int) -> Prepared[ApiVersionsResponse]:
    """Return what nearly every connection asks first, with these features at those levels."""
    return Prepared(supported(group_level, share_level, streams_level))


def _is_meant_for_another(admin: Administration, message: ApiVersionsRequest) -> bool:
    """Return whether the client expects another cluster or broker (KIP-1242)."""
    if message.cluster_id is None or message.node_id < 0:
        return False
    return message.cluster_id != admin.cluster_id or message.node_id != admin.node_id


@cache
def supported(
    group_level: int = SUPPORTED["group.version"],
    share_level: int = SUPPORTED["share.version"],
    streams_level: int = SUPPORTED["streams.version"],
) -> ApiVersionsResponse:
    """Return every API that has a handler, and the features; one at level 0 is not finalized, as in Kafka."""
    levels = {
        **SUPPORTED,
        "group.version": group_level,
        "share.version": share_level,
        "streams.version": streams_level,
    }
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=tuple(map(_range, sorted(MODULES))),
        supported_features=tuple(
            SupportedFeatureKey(name=name, min_version=0, max_version=level)
            for name, level in SUPPORTED.items()
        ),
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in levels.items()
            if level > 0
        ),
    )


def _range(api_key: int) -> ApiVersion:
    versions = APIS[api_key].versions
    return ApiVersion(api_key=api_key, min_version=versions.lowest, max_version=versions.highest)
