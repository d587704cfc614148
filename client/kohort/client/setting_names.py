"""Unknown names of settings: their names in other clients, and likely typing mistakes."""

from collections.abc import Iterable

import msgspec

_OTHER_NAMES = {
    "max_in_flight_requests_per_connection": "max_in_flight",
    "compression_gzip_level": "compression_level",
    "compression_lz4_level": "compression_level",
    "compression_zstd_level": "compression_level",
    "partitioner_class": "partitioner",
    "bootstrap_server": "bootstrap_servers",
    "bootstrap": "bootstrap_servers",
    "brokers": "bootstrap_servers",
    "auto_commit": "enable_auto_commit",
    "auto_commit_enable": "enable_auto_commit",
    "auto_commit_offset": "enable_auto_commit",
    "auto_commit_offsets": "enable_auto_commit",
    "autocommit": "enable_auto_commit",
    "enable_auto_offset_store": "enable_auto_commit",
    "auto_offset": "auto_offset_reset",
    "from_beginning": "auto_offset_reset",
    "offset_reset": "auto_offset_reset",
    "group": "group_id",
    "group_name": "group_id",
    "assignor": "partition_assignment_strategy",
    "session_timeout": "session_timeout_ms",
    "max_poll_interval": "max_poll_interval_ms",
    "queued_max_messages_kbytes": "prefetch_max_bytes",
    "fetch_message_max_bytes": "max_partition_fetch_bytes",
    "retry_backoff": "retry_backoff_ms",
    "ssl_cafile": "ssl_truststore_location",
    "ssl_ca_location": "ssl_truststore_location",
    "ssl_certfile": "ssl_keystore_location",
    "ssl_certificate_location": "ssl_keystore_location",
    "ssl_keyfile": "ssl_keystore_location",
    "ssl_check_hostname": "ssl_endpoint_identification_algorithm",
    "sasl_username": "sasl_plain_username",
    "sasl_password": "sasl_plain_password",
    "sasl_mechanisms": "sasl_mechanism",
}
_SECURITY = ("sasl_", "ssl_")
_NOT_HERE = {
    "consumer_timeout_ms": "poll(timeout_ms=...) says how long to wait, and iteration does not end",
    "api_version": "versions are agreed upon with each broker",
    "api_version_auto_timeout_ms": "versions are agreed upon with each broker",
}
"""Settings of other clients that this one lacks: a similar name would mislead."""


def unknown_setting(name: str, kind: type[msgspec.Struct], others: Iterable[type[msgspec.Struct]]) -> str:
    """Return the message about a setting that a client of this kind does not have; `others` may have it."""
    plain = name.replace(".", "_").lower()
    known = kind.__struct_fields__
    client = kind.__name__.removesuffix("Config")
    if plain.startswith(_SECURITY) and plain not in known and plain not in _OTHER_NAMES:
        kind_of = (
            "this client's SASL has no such setting"
            if plain.startswith("sasl_")
            else "this client's TLS has no such setting"
        )
        return f"unknown setting {name!r}: {kind_of}"
    if plain in _NOT_HERE:
        return f"unknown setting {name!r}: {_NOT_HERE[plain]}"
    if plain not in known:
        for other in others:
            if plain in other.__struct_fields__:
                owner = other.__name__.removesuffix("Config")
                return f"unknown setting {name!r}: a {owner} has it, but not {_AN.get(client, 'a')} {client}"
    from difflib import get_close_matches  # noqa: PLC0415  Only a mistake needs it.

    near = _OTHER_NAMES.get(plain, plain)
    nearest = get_close_matches(near, known, n=1, cutoff=0.7)
    return f"unknown setting {name!r}" + (f"; did you mean {nearest[0]!r}?" if nearest else "")


_AN = {"Admin": "an"}
