"""The listeners of a Kafka server.properties, and their security protocols.

If the file asks for encryption or authentication that kohort does not have, the broker does not start. It
must not serve without that protection unnoticed. Source: Kafka's AbstractKafkaConfig and SocketServerConfigs.
"""

from collections.abc import Mapping
from typing import Final

from kohort.broker.config.values import ConfigError

LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
PROTOCOLS: Final = "listener.security.protocol.map"
CONTROLLERS: Final = "controller.listener.names"
CIPHERS: Final = "ssl.cipher.suites"
ENGINE: Final = "ssl.engine.factory.class"
NAMES: Final = frozenset((LISTENERS, ADVERTISED, PROTOCOLS, CONTROLLERS, CIPHERS, ENGINE))

PORT = "9092"
PLAINTEXT = "PLAINTEXT"
SPOKEN = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_EACH_FOR_ITSELF = {name: name for name in SPOKEN}
_KAFKAS_CONTROLLERS = "CONTROLLER"  # The name in Kafka's own files. kohort has no such listener.


def listener_flags(texts: Mapping[str, str]) -> dict[str, str]:
    """Return a file's listeners as options. An empty text means that a listener is not advertised.

    `texts` has the file's settings of `NAMES`. Raises: ConfigError for unsupported settings.
    """
    for name in (CIPHERS, ENGINE):
        if texts.get(name):
            raise ConfigError(
                f"{name} is not supported: kohort uses OpenSSL's cipher suites and engine. Remove the setting"
            )
    listeners = _for_clients(texts, LISTENERS)
    advertised = {name: place.rpartition("://")[2] for name, place in _for_clients(texts, ADVERTISED).items()}
    if unknown := [name for name in advertised if listeners and name not in listeners]:
        raise ConfigError(f"{ADVERTISED} names {unknown[0]}, which {LISTENERS} does not")
    flags = {"listen": ",".join(listeners.values())} if listeners else {}
    if advertised:
        flags["advertise"] = ",".join(advertised.get(name, "") for name in listeners or advertised)
    return flags


def _for_clients(texts: Mapping[str, str], setting: str) -> dict[str, str]:
    """Return [[NAME:]PROTOCOL://]HOST:PORT of each listener for clients by its name. Raises: ConfigError."""
    if setting not in texts:
        return {}
    protocols = _protocols(texts.get(PROTOCOLS))
    controllers = {name.upper() for name in _items(texts.get(CONTROLLERS) or _KAFKAS_CONTROLLERS)}
    places: dict[str, str] = {}
    for item in _items(texts[setting]):
        name, _, place = item.partition("://")
        name = name.upper()
        if name in controllers:
            continue
        if name in places:
            raise ConfigError(f"{setting} names {name} twice")
        protocol = _spoken_protocol(name, protocols, setting)
        host, _, port = place.rpartition(":")
        scheme = "" if protocol == PLAINTEXT else f"{protocol}://"
        if scheme and name != protocol:
            scheme = f"{name}:{scheme}"
        places[name] = f"{scheme}{host or '0.0.0.0'}:{port or PORT}"  # Kafka: no host is every interface.
    if not places:
        raise ConfigError(f"{setting} names no listener for clients")
    return places


def _spoken_protocol(name: str, protocols: Mapping[str, str], setting: str) -> str:
    """Return a listener's security protocol. Raises: ConfigError for an unsupported protocol."""
    protocol = protocols.get(name)
    if protocol is None:
        raise ConfigError(
            f"{setting}: the listener {name} has no security protocol: set {PROTOCOLS}={name}:PROTOCOL"
        )
    if protocol not in SPOKEN:
        raise ConfigError(f"{setting}: {name} has the protocol {protocol}: give one of {', '.join(SPOKEN)}")
    return protocol


def _protocols(text: str | None) -> Mapping[str, str]:
    """Return each listener's protocol by its name. Without a map, the name is the protocol."""
    if not text:
        return _EACH_FOR_ITSELF
    protocols = {}
    for item in _items(text):
        name, colon, protocol = item.partition(":")
        if not colon:
            raise ConfigError(f"{PROTOCOLS}: {item!r} is not NAME:PROTOCOL")
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def _items(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]
