"""ApiVersions: which APIs in which versions, the first thing that a client asks."""

import re
from functools import cache

from kohort.broker.handlers.administration.family import Administration
from kohort.broker.handlers.apis import MODULES, TRANSACTIONS
from kohort.broker.handlers.prepared import Prepared
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kohort.protocol.registry import APIS

TRANSACTION_VERSION = 2
"""KIP-890's: each end of a transaction gives its producer a new epoch, and brokers add partitions."""
FEATURES = {"group.version": 1, "transaction.version": TRANSACTION_VERSION}
"""Kafka's names of features, and the levels at which they are there (Kafka: server.common.Feature)."""
FEATURES_EPOCH = 0  # They never change while a broker runs.

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")  # KIP-511


def handle(
    admin: Administration, message: ApiVersionsRequest, request: Request
) -> ApiVersionsResponse | Prepared[ApiVersionsResponse]:
    """Return the versions, or INVALID_REQUEST for software that calls itself something impossible.

    Of Kafka's features `group.version` is told of, without which no client tries the consumer protocol, and
    `transaction.version`; the others (metadata.version and its like) are for what kohort does not have, and a
    client takes an absent one for level 0. In a cluster there are no transactions yet.
    """
    if request.version >= 3:
        software = message.client_software_name, message.client_software_version
        if not all(map(_SOFTWARE.fullmatch, software)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=())
        request.connection.client_software = " ".join(software)
    if _is_meant_for_another(admin, message):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED, api_keys=())
    return _prepared(with_transactions=admin.expel is None)


@cache
def _prepared(*, with_transactions: bool) -> Prepared[ApiVersionsResponse]:
    """Return what nearly every connection asks first."""
    return Prepared(supported(with_transactions=with_transactions))


def _is_meant_for_another(admin: Administration, message: ApiVersionsRequest) -> bool:
    """Return whether the client thinks that it speaks to another cluster or broker (KIP-1242)."""
    if message.cluster_id is None or message.node_id < 0:
        return False
    return message.cluster_id != admin.cluster_id or message.node_id != admin.node_id


@cache
def supported(*, with_transactions: bool = True) -> ApiVersionsResponse:
    """Return every API that has a handler, and the features."""
    absent = frozenset() if with_transactions else TRANSACTIONS.keys()
    levels = {
        name: level for name, level in FEATURES.items() if with_transactions or name != "transaction.version"
    }
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=tuple(map(_range, sorted(MODULES.keys() - absent))),
        supported_features=tuple(
            SupportedFeatureKey(name=name, min_version=0, max_version=level) for name, level in levels.items()
        ),
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in levels.items()
        ),
    )


def _range(api_key: int) -> ApiVersion:
    versions = APIS[api_key].versions
    return ApiVersion(api_key=api_key, min_version=versions.lowest, max_version=versions.highest)
