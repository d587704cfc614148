"""Settings as text, under Kafka's names, as command lines and property files have them."""

from typing import Any

import msgspec

from kohort.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from kohort.client.errors import ConfigurationError
from kohort.client.setting_names import unknown_setting
from kohort.client.share.config import ShareConsumerConfig

READERS: tuple[type[ClientConfig], ...] = (ConsumerConfig, ShareConsumerConfig)
_NO_TEXT = frozenset({"key_deserializer", "value_deserializer", "sasl_oauth_token_provider"})
_BOOLEANS = {"true": True, "false": False}


def reader_setting(name: str, text: str) -> tuple[str, object]:
    """Return a consumer's or share consumer's setting by its name here, and its value of the right type.

    Raises: ConfigurationError for an unknown name, or an invalid value.
    """
    plain = name.strip().replace(".", "_")
    for kind in READERS:
        for each in msgspec.structs.fields(kind):
            if each.name == plain:
                return plain, _value(name.strip(), text.strip(), each.type)
    raise ConfigurationError(unknown_setting(name.strip(), ConsumerConfig, (ProducerConfig,)))


def _value(name: str, text: str, kind: Any) -> object:
    if name.replace(".", "_") in _NO_TEXT:
        raise ConfigurationError(f"{name} is a function of Python's: it can't be given as text")
    if kind is bool:
        if text.lower() not in _BOOLEANS:
            raise ConfigurationError(f"{name} is {text!r}: give true or false")
        return _BOOLEANS[text.lower()]
    if kind is object:  # Names of assignors.
        return text
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        problem = str(error)
        raise ConfigurationError(f"{name} is {text!r}: {problem[0].lower()}{problem[1:]}") from None
