"""Parses a `sasl.jaas.config`: a login module, and options with their values.

    org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";

No error message quotes the text, because it contains passwords. Source: Kafka's JaasConfig.
"""

import re
from typing import NamedTuple

_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'|([^\s=;"\']+)|([=;])')
_FLAGS = ("required", "requisite", "sufficient", "optional")
_USER = "user_"
_FORM = 'MODULE required NAME="VALUE" ...;'


class LoginModule(NamedTuple):
    """The login module's class without its package, and its options."""

    name: str
    options: dict[str, str]


def parse_jaas(text: str) -> LoginModule:
    """Return the configuration's only module. Raises: ValueError, which never quotes the text."""
    words = list(_words(text))
    if len(words) < 3 or words[1].lower() not in _FLAGS or words[-1] != ";":
        raise ValueError(f"it is not of the form {_FORM}")
    options = {}
    rest = words[2:-1]
    if len(rest) % 3:
        raise ValueError(f"it is not of the form {_FORM}")
    for start in range(0, len(rest), 3):
        name, equals, value = rest[start : start + 3]
        if equals != "=" or name in ("=", ";"):
            raise ValueError(f"it is not of the form {_FORM}, with one module")
        options[name] = value
    return LoginModule(words[0].rpartition(".")[2], options)


def users_of(text: str, module_name: str) -> dict[str, str]:
    """Return the password of each user in a configuration of `module_name`. Raises: ValueError."""
    module = parse_jaas(text)
    if module.name != module_name:
        raise ValueError(f"the module has to be {module_name}")
    users = {
        name.removeprefix(_USER): value for name, value in module.options.items() if name.startswith(_USER)
    }
    if not all(name and password for name, password in users.items()):
        raise ValueError('a user has no name or no password: write user_NAME="PASSWORD"')
    return users


def _words(text: str) -> list[str]:
    found, position = [], 0
    stripped = text.strip()
    while position < len(stripped):
        match = _TOKEN.match(stripped, position)
        if match is None:
            raise ValueError("a quotation mark is missing")
        quoted = match[1] if match[1] is not None else match[2]
        found.append(match[0] if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        position = match.end()
        while position < len(stripped) and stripped[position].isspace():
            position += 1
    return found
