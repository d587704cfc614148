"""The listeners that a server.properties of Kafka names, and what they are to speak.

A file that asks for encryption, for authentication or for an authorizer gets a broker with it or none: one
that served everybody in the clear instead would do so unseen. Source: Kafka's AbstractKafkaConfig and
SocketServerConfigs.
"""

from collections.abc import Mapping
from typing import Final

from kohort.broker.config.values import ConfigError

LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
PROTOCOLS: Final = "listener.security.protocol.map"
CONTROLLERS: Final = "controller.listener.names"
AUTHORIZER: Final = "authorizer.class.name"
NAMES: Final = frozenset((LISTENERS, ADVERTISED, PROTOCOLS, CONTROLLERS, AUTHORIZER))

PORT = "9092"
PLAINTEXT = "PLAINTEXT"
_EACH_FOR_ITSELF = {name: name for name in (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")}
_KAFKAS_CONTROLLERS = "CONTROLLER"  # What Kafka's own files call it; nobody listens there here.


def listener_flags(texts: Mapping[str, str]) -> dict[str, str]:
    """Return what a file's listeners are as options; empty text stands for one that is not advertised.

    `texts` has those of `NAMES` that the file says. Raises: ConfigError for what cannot be served as asked.
    """
    if texts.get(AUTHORIZER):
        raise ConfigError(
            f"{AUTHORIZER}: there is no authorizer here, everybody may do everything; "
            "without this line that is agreed to"
        )
    listeners = _for_clients(texts, LISTENERS)
    advertised = _for_clients(texts, ADVERTISED)
    if unknown := [name for name in advertised if listeners and name not in listeners]:
        raise ConfigError(f"{ADVERTISED} names {unknown[0]}, which {LISTENERS} does not")
    flags = {"listen": ",".join(listeners.values())} if listeners else {}
    if advertised:
        flags["advertise"] = ",".join(advertised.get(name, "") for name in listeners or advertised)
    return flags


def _for_clients(texts: Mapping[str, str], setting: str) -> dict[str, str]:
    """Return HOST:PORT of each listener for clients by its name. Raises: ConfigError."""
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
        _require_plaintext(name, protocols, setting)
        host, _, port = place.rpartition(":")
        places[name] = f"{host or '0.0.0.0'}:{port or PORT}"  # Kafka: no host is every interface.
    if not places:
        raise ConfigError(f"{setting} names no listener for clients")
    return places


def _require_plaintext(name: str, protocols: Mapping[str, str], setting: str) -> None:
    protocol = protocols.get(name)
    if protocol is None:
        raise ConfigError(
            f"{setting}: nothing says which protocol {name} speaks: {PROTOCOLS}={name}:PROTOCOL"
        )
    if protocol != PLAINTEXT:
        raise ConfigError(
            f"{setting}: {name} is to speak {protocol}, and only PLAINTEXT is spoken here yet: "
            "it would be open to everybody who reaches it"
        )


def _protocols(text: str | None) -> Mapping[str, str]:
    """Return each listener's protocol by its name; without a map, that which it is called after."""
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
