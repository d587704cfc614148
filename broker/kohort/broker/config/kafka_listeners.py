"""The listeners that a server.properties of Kafka names, and what they are to speak.

A file that asks for encryption or for authentication gets a broker with it or none: one that served
everybody in the clear instead would do so unseen. Source: Kafka's AbstractKafkaConfig and
SocketServerConfigs.
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
_KAFKAS_CONTROLLERS = "CONTROLLER"  # What Kafka's own files call it; nobody listens there here.


def listener_flags(texts: Mapping[str, str]) -> dict[str, str]:
    """Return what a file's listeners are as options; empty text stands for one that is not advertised.

    `texts` has those of `NAMES` that the file says. Raises: ConfigError for what cannot be served as asked.
    """
    for name in (CIPHERS, ENGINE):
        if texts.get(name):
            raise ConfigError(
                f"{name}: what OpenSSL offers is spoken, and nothing else can be chosen here yet"
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
    """Return what a listener speaks. Raises: ConfigError where that is not spoken here."""
    protocol = protocols.get(name)
    if protocol is None:
        raise ConfigError(
            f"{setting}: nothing says which protocol {name} speaks: {PROTOCOLS}={name}:PROTOCOL"
        )
    if protocol not in SPOKEN:
        raise ConfigError(f"{setting}: {name} is to speak {protocol}, which is none of {', '.join(SPOKEN)}")
    return protocol


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
