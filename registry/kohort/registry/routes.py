"""The paths of Confluent's REST API, and which decision each asks for."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec

from kohort.registry import errors
from kohort.registry.administration import Administration
from kohort.registry.core import Decision, Schemas
from kohort.registry.errors import RegistryError
from kohort.registry.parsing import Parser
from kohort.registry.records import LATEST
from kohort.registry.requests import VERSION_MAX, NewConfig, NewMode, NewSchema
from kohort.registry.state import State
from kohort.registry.subjects import DEFAULT_CONTEXT, in_context, normal
from kohort.registry.views import Views, page_of

Body = TypeVar("Body")
ANY = "*"
NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


class Call(msgspec.Struct, frozen=True):
    """A request over HTTP, without what HTTP adds to it."""

    method: str
    path: bytes
    query: bytes = b""
    body: bytes = b""


class Asked:
    """What a call asks for: the parts of its path that stand for something, its query and its body."""

    def __init__(
        self, names: tuple[str, ...], query: Mapping[str, list[str]], body: bytes, context: str
    ) -> None:
        self.names = names
        self._query = query
        self._body = body
        self._context = context

    @property
    def subject(self) -> str:
        """The subject that the path names, with the context that the path is in."""
        return self.in_context(self.names[0])

    def in_context(self, name: str) -> str:
        """Return a subject's name with the context that the path is in."""
        return normal(name if name.startswith(":.") else in_context(name, self._context))

    @property
    def version(self) -> int:
        """The version that the path names, or LATEST. Raises: RegistryError."""
        text = self.names[1].strip()
        if text == "latest":
            return LATEST
        number = _number(text)
        if number is None or (number != LATEST and not 1 <= number <= VERSION_MAX):
            raise errors.invalid_version(text)
        return number

    @property
    def id(self) -> int:
        """The id that the path names. Raises: RegistryError."""
        number = _number(self.names[0])
        if number is None or not 0 <= number <= VERSION_MAX:
            raise RegistryError(404, 404, "HTTP 404 Not Found")
        return number

    def flag(self, name: str) -> bool:
        """Return whether the query says `true`."""
        return self.text(name).lower() == "true"

    def text(self, name: str) -> str:
        """Return what the query says, or nothing."""
        return self._query.get(name, [""])[-1]

    def texts(self, name: str) -> list[str]:
        """Return all that the query says under a name."""
        return self._query.get(name, [])

    def number(self, name: str, default: int) -> int:
        """Return a number of the query. Raises: RegistryError."""
        number = _number(self.text(name).strip() or str(default))
        if number is None:
            raise RegistryError(400, 400, f"{name} is no number")
        return number

    @property
    def of_subject(self) -> str | None:
        """The subject that the query names, to look an id up in its context."""
        subject = self.text("subject")
        if subject:
            return self.in_context(subject)
        return None if self._context == DEFAULT_CONTEXT else in_context("", self._context)

    @property
    def prefix(self) -> str:
        """How the names of subjects begin that are meant; nothing where all are."""
        prefix = self.text("subjectPrefix")
        return self.in_context(prefix) if prefix else self.of_subject or ""

    def body(self, kind: type[Body]) -> Body:
        """Return the body. Raises: RegistryError."""
        try:
            return msgspec.json.decode(self._body, type=kind)
        except msgspec.ValidationError as error:
            raise RegistryError(422, 422, str(error)) from None
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise RegistryError(400, 400, f"the body is no JSON: {error}") from None


Handler = Callable[[Asked], Decision]


class Routes:
    """Finds what a call asks for."""

    def __init__(self, state: State, cluster_id: str = "") -> None:
        parser = Parser(state)
        self._schemas = Schemas(state, parser)
        self._administration = Administration(state)
        self._views = Views(state, parser)
        self._cluster_id = cluster_id
        self._table: dict[tuple[str, ...], dict[str, Handler]] = {}
        self._add_subjects()
        self._add_schemas()
        self._add_settings()

    def answer(self, call: Call) -> Decision:
        """Return the decision on a call. Raises: RegistryError."""
        parts = _parts(call.path)
        context = DEFAULT_CONTEXT
        # /contexts/:.staging:/subjects is /subjects in that context.
        if parts[0] == "contexts" and len(parts) > 2:
            context, parts = parts[1].strip(":") or DEFAULT_CONTEXT, parts[2:]
            context = context if context.startswith(".") else f".{context}"
            if ":" in context:
                raise RegistryError(422, 42208, f"'{context}' is not a valid context: it has a colon.")
        methods, names = self._found(parts)
        handler = methods.get(call.method)
        if handler is None:
            raise RegistryError(405, 405, "HTTP 405 Method Not Allowed")
        query: dict[str, list[str]] = {}
        for name, value in parse_qsl(call.query.decode("latin-1"), keep_blank_values=True):
            query.setdefault(name, []).append(value)
        return handler(Asked(names, query, call.body, context))

    def is_of_id(self, call: Call) -> bool:
        """Return whether a call asks for what an id stands for: that never changes."""
        return (
            call.method == "GET"
            and call.path.startswith(b"/schemas/ids/")
            and call.path.count(b"/") == 3
            and b"format=" not in call.query
        )

    def _found(self, parts: tuple[str, ...]) -> tuple[dict[str, Handler], tuple[str, ...]]:
        for pattern, methods in self._table.items():
            if len(pattern) == len(parts) and all(
                ANY in (a,) or a == b for a, b in zip(pattern, parts, strict=True)
            ):
                return methods, tuple(b for a, b in zip(pattern, parts, strict=True) if a == ANY)
        raise RegistryError(404, 404, "HTTP 404 Not Found")

    def _add(self, method: str, path: str, handler: Handler) -> None:
        self._table.setdefault(tuple(path.split("/")), {})[method] = handler

    # -- the table ----------------------------------------------------------------------------------------

    def _add_subjects(self) -> None:
        schemas, views, add = self._schemas, self._views, self._add
        add("GET", "subjects", self._list_subjects)
        add("POST", "subjects/*", lambda asked: schemas.lookup(
            asked.subject, asked.body(NewSchema),
            normalize=asked.flag("normalize"), with_deleted=asked.flag("deleted"), form=asked.text("format"),
        ))  # fmt: skip
        add("DELETE", "subjects/*", lambda asked: self._administration.delete_subject(
            asked.subject, permanent=asked.flag("permanent")
        ))  # fmt: skip
        add("GET", "subjects/*/versions", lambda asked: _paged(asked, views.versions(
            asked.subject, with_deleted=asked.flag("deleted"), deleted_only=asked.flag("deletedOnly")
        )))  # fmt: skip
        add("POST", "subjects/*/versions", lambda asked: schemas.register(
            asked.subject, asked.body(NewSchema), normalize=asked.flag("normalize")
        ))  # fmt: skip
        add("GET", "subjects/*/versions/*", lambda asked: views.version(
            asked.subject, asked.version, with_deleted=asked.flag("deleted"), form=asked.text("format")
        ))  # fmt: skip
        add("DELETE", "subjects/*/versions/*", lambda asked: self._administration.delete_version(
            asked.subject, asked.version, permanent=asked.flag("permanent")
        ))  # fmt: skip
        add("GET", "subjects/*/versions/*/schema", lambda asked: views.text(
            asked.subject, asked.version, with_deleted=asked.flag("deleted"), form=asked.text("format")
        ))  # fmt: skip
        add("GET", "subjects/*/versions/*/referencedby", lambda asked: _paged(asked, views.referrers(
            asked.subject, asked.version, with_deleted=asked.flag("deleted")
        )))  # fmt: skip
        add("GET", "subjects/*/metadata", lambda asked: views.latest_with_metadata(
            asked.subject,
            dict(zip(asked.texts("key"), asked.texts("value"), strict=False)),
            with_deleted=asked.flag("deleted"),
            form=asked.text("format"),
        ))  # fmt: skip
        add("POST", "compatibility/subjects/*/versions", lambda asked: schemas.check(
            asked.subject, None, asked.body(NewSchema),
            verbose=asked.flag("verbose"), normalize=asked.flag("normalize"),
        ))  # fmt: skip
        add("POST", "compatibility/subjects/*/versions/*", lambda asked: schemas.check(
            asked.subject, asked.version, asked.body(NewSchema),
            verbose=asked.flag("verbose"), normalize=asked.flag("normalize"),
        ))  # fmt: skip

    def _list_subjects(self, asked: Asked) -> Decision:
        found = self._views.subjects(
            asked.prefix,
            with_deleted=asked.flag("deleted"),
            deleted_only=asked.flag("deletedOnly"),
        )
        return _paged(asked, found)

    def _add_schemas(self) -> None:
        views, add = self._views, self._add
        add("GET", "schemas", lambda asked: _paged(asked, views.schemas(
            asked.prefix,
            with_deleted=asked.flag("deleted"),
            latest_only=asked.flag("latestOnly"),
        )))  # fmt: skip
        add("GET", "schemas/types", lambda _: views.types())
        add("GET", "schemas/ids/*", lambda asked: views.by_id(
            asked.id, asked.of_subject, with_max_id=asked.flag("fetchMaxId"), form=asked.text("format")
        ))  # fmt: skip
        add(
            "GET",
            "schemas/ids/*/schema",
            lambda asked: views.text_by_id(asked.id, asked.of_subject, form=asked.text("format")),
        )
        add("GET", "schemas/ids/*/versions", lambda asked: _paged(asked, views.versions_of_id(
            asked.id, asked.of_subject, with_deleted=asked.flag("deleted")
        )))  # fmt: skip
        add("GET", "schemas/ids/*/subjects", lambda asked: _paged(asked, views.subjects_of_id(
            asked.id, asked.of_subject, with_deleted=asked.flag("deleted")
        )))  # fmt: skip
        add("GET", "contexts", lambda _: views.contexts())

    def _add_settings(self) -> None:
        administration, add = self._administration, self._add
        for suffix in ("", "/*"):  # For all, and for one subject.
            add("GET", f"config{suffix}", lambda asked: administration.level(
                _scope(asked), default_to_global=asked.flag("defaultToGlobal")
            ))  # fmt: skip
            add("PUT", f"config{suffix}", lambda asked: administration.set_level(
                _scope(asked), asked.body(NewConfig)
            ))  # fmt: skip
            add("DELETE", f"config{suffix}", lambda asked: administration.delete_level(_scope(asked)))
            add("GET", f"mode{suffix}", lambda asked: administration.mode(
                _scope(asked), default_to_global=asked.flag("defaultToGlobal")
            ))  # fmt: skip
            add("PUT", f"mode{suffix}", lambda asked: administration.set_mode(
                _scope(asked), asked.body(NewMode), force=asked.flag("force")
            ))  # fmt: skip
            add("DELETE", f"mode{suffix}", lambda asked: administration.delete_mode(_scope(asked)))
        add("GET", "", lambda _: Decision({}))
        add("GET", "v1/metadata/id", lambda _: Decision(
            {"scope": {"path": [], "clusters": {"kafka-cluster": self._cluster_id}}, "id": self._cluster_id}
        ))  # fmt: skip


def _parts(path: bytes) -> tuple[str, ...]:
    """Return the parts of a path. Raises: RegistryError for bytes that are no UTF-8: they name nothing."""
    try:
        return tuple(
            unquote(each.decode("latin-1"), errors="strict") for each in path.strip(b"/").split(b"/")
        )
    except UnicodeDecodeError as error:
        raise RegistryError(400, 400, f"the path is no UTF-8: {error}") from None


def _number(text: str) -> int | None:
    """Return a number in decimal digits; None for what is none, or has too many."""
    return int(text) if NUMBER.fullmatch(text) else None


def _scope(asked: Asked) -> str | None:
    """Return the subject whose setting is meant, None for that of all."""
    return asked.subject or None if asked.names else asked.of_subject


def _paged(asked: Asked, found: Decision) -> Decision:
    items: list[Any] = found.answer
    return Decision(page_of(items, asked.number("offset", 0), asked.number("limit", -1)))
