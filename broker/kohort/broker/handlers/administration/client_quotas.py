"""The allowed entities and values of quotas: the rules of Kafka's ClientQuotaControlManager."""

import ipaddress
import math
from collections.abc import Mapping, Sequence

from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.describe_client_quotas import DescribeClientQuotasComponent
from kohort.protocol.text import short_text

USER, CLIENT_ID, IP = "user", "client-id", "ip"
ENTITY_TYPES = (USER, CLIENT_ID, IP)
WHOLE_NUMBERS = frozenset({"producer_byte_rate", "consumer_byte_rate", "connection_creation_rate"})
KEYS: Mapping[str, frozenset[str]] = {
    USER: frozenset(
        {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
    ),
    IP: frozenset({"connection_creation_rate"}),
}
EXACT, DEFAULT, SPECIFIED = 0, 1, 2
_MATCH_NAMES = {DEFAULT: "MATCH_TYPE_DEFAULT", SPECIFIED: "MATCH_TYPE_SPECIFIED"}


def check_filter(components: Sequence[DescribeClientQuotasComponent]) -> None:
    """Return where quotas may be asked for like this. Raises: ApiError."""
    for each in components:
        _check_match(each)
    seen: set[str] = set()
    for each in components:
        if each.entity_type in seen:
            raise _invalid(f"Entity type {each.entity_type} cannot appear more than once in the filter.")
        if not each.entity_type:
            raise _invalid("Invalid empty entity type.")
        if each.entity_type not in ENTITY_TYPES:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {each.entity_type}")
        seen.add(each.entity_type)
    if IP in seen and len(seen) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user"
            " or clientId filter component."
        )


def _check_match(component: DescribeClientQuotasComponent) -> None:
    if component.match_type == EXACT:
        if component.match is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    elif component.match_type not in _MATCH_NAMES:
        raise _invalid(f"Unknown match type {component.match_type}")
    elif component.match is not None:
        name = _MATCH_NAMES[component.match_type]
        raise _invalid(f"Request specified {name}, but also specified a match string.")


def check_entity(entity: Mapping[str, str | None]) -> frozenset[str]:
    """Return the keys that quotas of the entity may have; a name of None is the default. Raises: ApiError."""
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity.items():
        if kind not in ENTITY_TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if IP not in entity:
        return KEYS[USER]
    if len(entity) > 1:
        raise _invalid(
            "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
        )
    address = entity[IP]
    if address is not None:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise _invalid(f"{short_text(address, 100)} is not a valid IP.") from None
    return KEYS[IP]


def check_value(keys: frozenset[str], key: str, value: float) -> None:
    """Return if a quota may have this value. Raises: ApiError."""
    if key not in keys:
        raise _invalid(f"Invalid configuration key {key}")
    if not value > 0 or math.isinf(value):
        raise _invalid(f"Quota {key} must be greater than 0")
    if key in WHOLE_NUMBERS and value != int(value):
        raise _invalid(f"{key} cannot be a fractional value.")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
