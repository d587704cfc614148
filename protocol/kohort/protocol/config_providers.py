"""References in the values of settings, replaced by what config providers return.

    ${env:NAME}    ${file:PATH}    ${file:PATH:KEY}    ${directory:PATH:NAME}

These are Kafka's config providers (KIP-297, KIP-421, KIP-632, KIP-887): the environment, a Java properties
file, and a folder with one file per value. Kafka has no `${file:PATH}` without a key: here it is the whole
file without its last line end, because Docker and Kubernetes provide secrets as files.
Source: org.apache.kafka.common.config.ConfigTransformer and its providers.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from kohort.protocol.java_properties import read_properties

REFERENCE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
FILE_BYTES_MAX = 1 << 20
PROVIDERS = "config.providers"
CLASSES = "org.apache.kafka.common.config.provider."
ALLOWED_VARIABLE = "KOHORT_CONFIG_PROVIDERS"
"""The environment variable that lists the allowed providers, or `none`. A service whose users choose
passwords sets `none`. Kafka: the property org.apache.kafka.automatic.config.providers."""

Provider = Callable[[str | None, str], str]
"""Returns the value of a path and a key. Raises: ValueError, OSError."""


def _env(path: str | None, key: str) -> str:
    if path:
        raise ValueError("a reference to an environment variable has no path: write ${env:NAME}")
    found = os.environ.get(key)
    if found is None:
        raise ValueError(f"the environment variable {key} is not set")
    return found


def _file(path: str | None, key: str) -> str:
    if not path:
        return _content(key)
    found = {each.name: each.value for each in read_properties(Path(path))}
    if key not in found:
        raise ValueError(f"{path} has no property {key}")
    return found[key]


def _directory(path: str | None, key: str) -> str:
    if not path or not key or key in (".", "..") or "/" in key:
        raise ValueError("give a folder and the name of a file in it: ${directory:PATH:NAME}")
    return _content(str(Path(path) / key))


def _content(path: str) -> str:
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read(FILE_BYTES_MAX + 1)
    if len(text) > FILE_BYTES_MAX:
        raise ValueError(f"{path} is larger than {FILE_BYTES_MAX} bytes")
    return text.removesuffix("\n").removesuffix("\r")


DEFAULT_PROVIDERS: Mapping[str, Provider] = {"env": _env, "file": _file, "directory": _directory}
"""Providers that need no `config.providers`."""

_BY_CLASS: Mapping[str, Provider] = {
    f"{CLASSES}EnvVarConfigProvider": _env,
    f"{CLASSES}FileConfigProvider": _file,
    f"{CLASSES}DirectoryConfigProvider": _directory,
}


def _allowed() -> frozenset[Provider]:
    """Return the providers that the environment allows. Raises: ValueError for an unknown name."""
    text = os.environ.get(ALLOWED_VARIABLE)
    if text is None:
        return frozenset(DEFAULT_PROVIDERS.values())
    names = {each.strip() for each in text.split(",")} - {"", "none"}
    if unknown := sorted(names - DEFAULT_PROVIDERS.keys()):
        names_known = ", ".join(DEFAULT_PROVIDERS)
        raise ValueError(f"{ALLOWED_VARIABLE} has {', '.join(unknown)}: give none, or some of {names_known}")
    return frozenset(DEFAULT_PROVIDERS[each] for each in names)


def providers(settings: Mapping[str, str]) -> tuple[Mapping[str, Provider], dict[str, str]]:
    """Return the default providers and the defined ones, and the settings that define none.

    Raises: ValueError for an unknown or forbidden provider, and for a provider's parameters.
    """
    found = dict(DEFAULT_PROVIDERS)
    rest = {name: text for name, text in settings.items() if not name.startswith(PROVIDERS)}
    for alias in filter(None, map(str.strip, settings.get(PROVIDERS, "").split(","))):
        kind = settings.get(f"{PROVIDERS}.{alias}.class", "").strip()
        if kind not in _BY_CLASS:
            raise ValueError(f"{PROVIDERS}.{alias}.class={kind}: give one of {', '.join(sorted(_BY_CLASS))}")
        if _BY_CLASS[kind] not in _allowed():
            raise ValueError(f"{PROVIDERS}.{alias}.class={kind}: {ALLOWED_VARIABLE} does not allow it")
        found[alias] = _BY_CLASS[kind]
    if given := sorted(name for name in settings if name.startswith(f"{PROVIDERS}.") and ".param." in name):
        raise ValueError(f"{given[0]}: kohort's config providers have no parameters: remove it")
    return found, rest


def resolve(text: str, known: Mapping[str, Provider] = DEFAULT_PROVIDERS) -> str:
    """Return the text with its references replaced by their values.

    References to unknown or forbidden providers stay unchanged.
    Raises: ValueError with the reference, never with a secret.
    """
    if "${" not in text:
        return text
    allowed = _allowed()

    def found(match: re.Match[str]) -> str:
        provider = known.get(match[1])
        if provider is None or provider not in allowed:
            return match[0]
        try:
            return provider(match[3], match[4])
        except OSError as error:
            raise ValueError(f"{match[0]}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ValueError(f"{match[0]}: it must be UTF-8 text") from None
        except ValueError as error:
            raise ValueError(f"{match[0]}: {error}") from None

    return REFERENCE.sub(found, text)
