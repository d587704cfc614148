"""Values of settings that stand elsewhere.

    ${env:NAME}    ${file:PATH}    ${file:PATH:KEY}    ${directory:PATH:NAME}

As Kafka's config providers have them (KIP-297, KIP-421, KIP-632, KIP-887): the environment, a file of Java's
properties, a folder with a file for each. `${file:PATH}` without a key, which Kafka has not, is all that the
file has, without the end of its last line: that is how Docker and Kubernetes give secrets.
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
"""The environment variable that says which providers there are, or `none`: whoever lets strangers choose a
password has no other to offer them. Kafka: the property org.apache.kafka.automatic.config.providers."""

Provide = Callable[[str | None, str], str]
"""Returns the value of a path and a key. Raises: ValueError, OSError."""


def _env(path: str | None, key: str) -> str:
    if path:
        raise ValueError("an environment variable has no path: ${env:NAME}")
    found = os.environ.get(key)
    if found is None:
        raise ValueError(f"there is no environment variable {key}")
    return found


def _file(path: str | None, key: str) -> str:
    if not path:
        return _content(key)
    found = {each.name: each.value for each in read_properties(Path(path))}
    if key not in found:
        raise ValueError(f"{path} has no {key}")
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


KNOWN: Mapping[str, Provide] = {"env": _env, "file": _file, "directory": _directory}
"""What there is under its own name, without a word about it."""

_BY_CLASS: Mapping[str, Provide] = {
    f"{CLASSES}EnvVarConfigProvider": _env,
    f"{CLASSES}FileConfigProvider": _file,
    f"{CLASSES}DirectoryConfigProvider": _directory,
}


def _allowed() -> frozenset[Provide]:
    """Return the providers that the environment leaves. Raises: ValueError for one that there is not."""
    text = os.environ.get(ALLOWED_VARIABLE)
    if text is None:
        return frozenset(KNOWN.values())
    names = {each.strip() for each in text.split(",")} - {"", "none"}
    if unknown := sorted(names - KNOWN.keys()):
        there_are = ", ".join(KNOWN)
        raise ValueError(f"{ALLOWED_VARIABLE} has {', '.join(unknown)}: give none, or some of {there_are}")
    return frozenset(KNOWN[each] for each in names)


def providers(settings: Mapping[str, str]) -> tuple[Mapping[str, Provide], dict[str, str]]:
    """Return the providers that settings name, besides those that there are, and the other settings.

    Raises: ValueError for a provider that there is not, and for what Kafka's can be told and these cannot.
    """
    found = dict(KNOWN)
    rest = {name: text for name, text in settings.items() if not name.startswith(PROVIDERS)}
    for alias in filter(None, map(str.strip, settings.get(PROVIDERS, "").split(","))):
        kind = settings.get(f"{PROVIDERS}.{alias}.class", "").strip()
        if kind not in _BY_CLASS:
            raise ValueError(f"{PROVIDERS}.{alias}.class={kind}: there are {', '.join(sorted(_BY_CLASS))}")
        if _BY_CLASS[kind] not in _allowed():
            raise ValueError(f"{PROVIDERS}.{alias}.class={kind}: {ALLOWED_VARIABLE} does not allow it")
        found[alias] = _BY_CLASS[kind]
    if told := sorted(name for name in settings if name.startswith(f"{PROVIDERS}.") and ".param." in name):
        raise ValueError(f"{told[0]}: providers take no parameters here")
    return found, rest


def resolved(text: str, known: Mapping[str, Provide] = KNOWN) -> str:
    """Return the text with what its references stand for.

    Those of providers that are unknown, or that the environment does not allow, stay as they are.
    Raises: ValueError, which names the reference and nothing of what is secret.
    """
    if "${" not in text:
        return text
    allowed = _allowed()

    def found(match: re.Match[str]) -> str:
        provide = known.get(match[1])
        if provide is None or provide not in allowed:
            return match[0]
        try:
            return provide(match[3], match[4])
        except OSError as error:
            raise ValueError(f"{match[0]}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ValueError(f"{match[0]}: it must be UTF-8 text") from None
        except ValueError as error:
            raise ValueError(f"{match[0]}: {error}") from None

    return REFERENCE.sub(found, text)
