"""A route whose last part is the name of something, which may be any text."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from starlette.routing import Route


class NamedRoute(Route):
    """A route with a `{name:path}` at its end, which may have line breaks: the id of a group may."""

    def __init__(self, path: str, endpoint: Callable[..., Any], *, methods: Sequence[str] = ("GET",)) -> None:
        super().__init__(path, endpoint, methods=list(methods))
        self.path_regex = re.compile(self.path_regex.pattern.removesuffix("$") + r"\Z", re.DOTALL)
