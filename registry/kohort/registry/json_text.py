"""The JSON of schemas: what is read can be written again, and then read again."""

import json
import math
from typing import Any

from kohort.registry.errors import InvalidSchema


def read_json(text: str) -> Any:
    """Return what a text says. Raises: InvalidSchema for what JSON or UTF-8 cannot say."""
    try:
        found = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
        if "\\u" in text:
            json.dumps(found, ensure_ascii=False).encode()  # Half a surrogate pair is no character.
    except ValueError as error:
        raise InvalidSchema(f"it is no JSON: {error}") from None
    except RecursionError:
        raise InvalidSchema("it is nested too deeply") from None
    return found


def write_json(value: Any, *, sort_keys: bool = False) -> str:
    """Return the text of a value, without spaces. Raises: InvalidSchema for one that is nested too deeply."""
    try:
        return json.dumps(
            value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=sort_keys
        )
    except RecursionError:
        raise InvalidSchema("it is nested too deeply") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no value of JSON")


def _finite(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f"{text[:40]} is too large a number")
    return found
