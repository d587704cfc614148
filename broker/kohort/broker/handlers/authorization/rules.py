"""The forms that most rules have: something is asked as a whole, or part by part.

A rule's verdict has the request for the handler, and the handling of its answer.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from kohort.broker.handlers.authorization.refusals import Parts, made, refused, refused_parts
from kohort.broker.handlers.authorization.requester import DENIALS, Requester
from kohort.protocol.acls import CLUSTER_NAME, AclOperation, AclResourceType
from kohort.protocol.errors import ErrorCode
from kohort.protocol.schema import ZERO_UUID, Message

Finish = Callable[[Any], Any]


class Verdict(NamedTuple):
    """What becomes of a request."""

    message: Any = None
    """The request for the handler, complete or with fewer parts; None for none."""
    answer: Message | None = None
    """The answer where nothing is handed on."""
    finish: Finish | None = None
    """Makes of the answer to `message` the answer to the request."""
    hangs_up: bool = False
    """Whether the connection is closed after it, for a request without an answer."""


class Need(NamedTuple):
    """The required permission, one of `operations`, and the answer to a denial."""

    operations: tuple[AclOperation, ...]
    resource_type: AclResourceType
    of: str
    """Which resource, in words."""
    denial: str
    """The answer to a denial: a code's name, or a text."""


class Rule(Protocol):
    """How one API is checked."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """The required permissions, for the documentation."""
        ...

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return what becomes of the request."""
        ...


class Free:
    """Allowed for every principal."""

    needs: tuple[Need, ...] = ()

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return that the request is handed on."""
        return Verdict(message)


class Every:
    """Several rules, one after another: each checks what those before it have left."""

    def __init__(self, *rules: Rule) -> None:
        self._rules = rules
        self.needs = tuple(need for rule in rules for need in rule.needs)

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return what all rules together say."""
        finishes: list[Finish] = []
        for rule in self._rules:
            verdict = rule.judge(requester, message)
            if verdict.answer is not None:
                return Verdict(answer=_finished(tuple(finishes), verdict.answer))
            message = verdict.message
            if verdict.finish is not None:
                finishes.append(verdict.finish)
        return Verdict(message, None, partial(_finished, tuple(finishes)) if finishes else None)


def _finished(finishes: Sequence[Finish], answer: Any) -> Any:
    for finish in reversed(finishes):
        answer = finish(answer)
    return answer


class Whole:
    """A request is answered, or is refused as a whole."""

    def __init__(
        self,
        *operations: AclOperation,
        on: AclResourceType = AclResourceType.CLUSTER,
        field: str = "",
        parts: Parts | None = None,
        of: str = "",
    ) -> None:
        """Ask for one of `operations` on what `field` names; None there needs nothing.

        With `parts` a refusal names each of them.
        """
        self._operations = operations
        self._type = on
        self._field = field
        self._parts = parts
        code = DENIALS[on]
        self.needs = (Need(operations, on, of or ("the cluster" if not field else "its own"), code.name),)

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return the request, or its refusal."""
        name = getattr(message, self._field) if self._field else CLUSTER_NAME
        if name is None or _may_one(requester, self._operations, self._type, name):
            return Verdict(message)
        return Verdict(answer=refused(requester, message, DENIALS[self._type], self._parts))


def _may_one(
    requester: Requester, operations: Sequence[AclOperation], resource_type: AclResourceType, name: str
) -> bool:
    *others, last = operations
    return any(requester.may(each, resource_type, name, quietly=True) for each in others) or requester.may(
        last, resource_type, name
    )


class Each:
    """Parts of a request are handed on, and the others refused."""

    def __init__(
        self,
        operation: AclOperation,
        on: AclResourceType,
        parts: Parts,
        *,
        key: str = "name",
        of: str = "each",
        or_cluster: AclOperation | None = None,
    ) -> None:
        """Ask for `operation` on what each part names, by `key` or by a topic's id; '' is the part itself.

        A requester with `or_cluster` permission on the cluster has it for all of them.
        """
        self._operation = operation
        self._type = on
        self._parts = parts
        self._key = key
        self._or_cluster = or_cluster
        needs = [Need((operation,), on, of, DENIALS[on].name)]
        if or_cluster is not None:
            needs.insert(0, Need((or_cluster,), AclResourceType.CLUSTER, "the cluster, or", ""))
        self.needs = tuple(needs)

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return the allowed part of the request."""
        items = getattr(message, self._parts.asked)
        if not items or (
            self._or_cluster is not None and requester.may_cluster(self._or_cluster, quietly=True)
        ):
            return Verdict(message)
        return without_denied_parts(requester, message, self._parts, self._denial)

    def _denial(self, requester: Requester, item: Any) -> ErrorCode | None:
        name = item if not self._key else name_of(requester, item, self._key)
        if name is None or requester.may(self._operation, self._type, name):
            return None
        return DENIALS[self._type]


def name_of(requester: Requester, item: Any, key: str = "name") -> str | None:
    """Return the name of the resource of a part; None for an id without a topic."""
    topic_id = getattr(item, "topic_id", ZERO_UUID)
    name: str = getattr(item, key)
    return name if topic_id == ZERO_UUID else requester.topic_name(topic_id)


def without_denied_parts(
    requester: Requester, message: Any, parts: Parts, denial: Callable[[Requester, Any], ErrorCode | None]
) -> Verdict:
    """Return the request without its denied parts; the answer refuses these after the others."""
    kept: list[Any] = []
    denied: list[Message] = []
    response = requester.api.response
    for item in getattr(message, parts.asked):
        code = denial(requester, item)
        if code is None:
            kept.append(item)
        else:
            denied += refused_parts(parts, response, (item,), code)
    if not denied:
        return Verdict(message)
    if not kept:
        return Verdict(answer=made(response, {parts.answered: tuple(denied)}))
    left = msgspec.structs.replace(message, **{parts.asked: tuple(kept)})
    return Verdict(left, None, partial(with_more, parts.answered, tuple(denied)))


def with_more(field: str, more: tuple[Message, ...], answer: Any) -> Any:
    """Return the answer with more parts in this field."""
    return msgspec.structs.replace(answer, **{field: (*getattr(answer, field), *more)})
