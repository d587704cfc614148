"""What somebody may do, by the access control entries that there are. Pure.

A resource has the entries of its own name, of `*`, and of each prefix of its name. One that denies wins over
all that allow; where there are entries, and none allows, nobody may. A question looks at no entry of another
resource or another principal, and an answer is remembered until an entry changes.
Source: Kafka's StandardAuthorizerData; the default method authorizeByResourceType of its Authorizer.
"""

from collections.abc import Iterable, Iterator, Mapping

from kohort.broker.authorization.acls import Entry, Pattern
from kohort.protocol.acls import (
    ANY_NAME,
    EVERY_USER,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)
from kohort.protocol.addresses import canonical_address

ANSWERS_MAX = 16_384
"""So many are remembered; then it begins anew."""
REMEMBERED_CHARACTERS_MAX = 255
"""What is asked of longer names is decided each time: whoever asks could have megabytes of them kept."""

_O = AclOperation
_IMPLYING = {
    _O.DESCRIBE: frozenset({_O.ALL, _O.DESCRIBE, _O.READ, _O.WRITE, _O.DELETE, _O.ALTER}),
    _O.DESCRIBE_CONFIGS: frozenset({_O.ALL, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS}),
}
ALLOWING: Mapping[AclOperation, frozenset[AclOperation]] = {
    each: _IMPLYING.get(each, frozenset({_O.ALL, each})) for each in AclOperation
}
"""By operation: an entry that allows one of these allows it, too. What is denied implies nothing."""

_Entries = Mapping[str, tuple[Entry, ...]]
"""The entries of one pattern, by principal."""


class _OfType:
    """The patterns of one type of resources."""

    __slots__ = ("lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, _Entries] = {}
        self.prefixed: dict[str, _Entries] = {}
        self.lengths: tuple[int, ...] = ()
        """Of the prefixes that there are, each once."""

    def put(self, pattern: Pattern, entries: _Entries) -> None:
        """Let these be the entries of the pattern; none removes it."""
        is_literal = pattern.pattern_type == AclPatternType.LITERAL
        patterns = self.literal if is_literal else self.prefixed
        if entries:
            patterns[pattern.name] = entries
        else:
            patterns.pop(pattern.name, None)
        if not is_literal:
            self.lengths = tuple(sorted({len(each) for each in self.prefixed}))

    def about(self, name: str) -> Iterator[_Entries]:
        """Yield the entries of each pattern that the resource comes under."""
        literal = self.literal
        if literal:
            own = literal.get(name)
            if own is not None:
                yield own
            everything = literal.get(ANY_NAME) if name != ANY_NAME else None
            if everything is not None:
                yield everything
        for length in self.lengths:
            if length > len(name):
                return
            found = self.prefixed.get(name[:length])
            if found is not None:
                yield found

    def entries(self) -> Iterator[tuple[AclPatternType, str, _Entries]]:
        """Yield every pattern."""
        for name, entries in self.literal.items():
            yield AclPatternType.LITERAL, name, entries
        for name, entries in self.prefixed.items():
            yield AclPatternType.PREFIXED, name, entries


class Authorizer:
    """Says yes or no; it is told of each pattern whose entries change."""

    def __init__(self, super_users: Iterable[str] = (), *, allows_unmentioned: bool = False) -> None:
        """Let `super_users` do everything.

        With `allows_unmentioned` everybody may do everything with a resource that has no entry at all.
        """
        self._super_users = frozenset(super_users)
        self._allows_unmentioned = allows_unmentioned
        self._types: dict[AclResourceType, _OfType] = {each: _OfType() for each in AclResourceType}
        self._answers: dict[tuple[str, str, AclOperation, AclResourceType, str | None], bool] = {}

    def put(self, pattern: Pattern, entries: Iterable[Entry]) -> None:
        """Let these be the entries of the pattern from now on; none removes it."""
        by_principal: dict[str, tuple[Entry, ...]] = {}
        for entry in entries:
            known = entry
            if ":" in entry.host:  # Else there are no two ways to write it.
                known = entry._replace(host=canonical_address(entry.host))
            by_principal[entry.principal] = (*by_principal.get(entry.principal, ()), known)
        self._types[pattern.resource_type].put(pattern, by_principal)
        self._answers.clear()

    def allows(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> bool:
        """Return whether `principal`, asking from the address `host`, may do that to the resource.

        `host` is spelled as by `canonical_address`; entries may spell it as Java does.
        """
        question = principal, host, operation, resource_type, name
        answer = self._answers.get(question)
        if answer is None:
            answer = self._decide(*question)
            if len(name) <= REMEMBERED_CHARACTERS_MAX:
                self._remember(question, answer)
        return answer

    def allows_some(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Return whether there may be a resource of the type that `principal` may do that to."""
        question = principal, host, operation, resource_type, None
        answer = self._answers.get(question)
        if answer is None:
            answer = self._decide_some(principal, host, operation, resource_type)
            self._remember(question, answer)
        return answer

    def _remember(
        self, question: tuple[str, str, AclOperation, AclResourceType, str | None], answer: bool
    ) -> None:
        if len(self._answers) >= ANSWERS_MAX:
            self._answers.clear()
        self._answers[question] = answer

    def _decide(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> bool:
        if principal in self._super_users:
            return True
        allowing = ALLOWING[operation]
        is_mentioned = is_allowed = False
        for entries in self._types[resource_type].about(name):
            is_mentioned = True
            for entry in _concerning(entries, principal, host):
                if entry.permission == AclPermission.ALLOW:
                    is_allowed = is_allowed or entry.operation in allowing
                elif entry.operation in (operation, AclOperation.ALL):
                    return False
        return is_allowed or (not is_mentioned and self._allows_unmentioned)

    def _decide_some(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Return what Kafka does: what an operation implies does not count here."""
        if self.allows(principal, host, operation, resource_type, "hardcode"):  # The name that Kafka tries.
            return True
        denied: set[tuple[AclPatternType, str]] = set()
        allowed: list[tuple[AclPatternType, str]] = []
        for pattern_type, name, entries in self._types[resource_type].entries():
            for entry in _concerning(entries, principal, host):
                if entry.operation not in (operation, AclOperation.ALL):
                    continue
                if entry.permission == AclPermission.ALLOW:
                    allowed.append((pattern_type, name))
                else:
                    denied.add((pattern_type, name))
        if (AclPatternType.LITERAL, ANY_NAME) in denied:
            return False
        return any(not _is_dominated(each, denied) for each in allowed)


def _concerning(entries: _Entries, principal: str, host: str) -> Iterator[Entry]:
    """Yield the entries that are about this principal, or anybody, at this address, or any."""
    for who in (principal, EVERY_USER) if principal != EVERY_USER else (EVERY_USER,):
        for entry in entries.get(who, ()):
            if entry.host in (ANY_NAME, host):
                yield entry


def _is_dominated(allowed: tuple[AclPatternType, str], denied: set[tuple[AclPatternType, str]]) -> bool:
    """Return whether all that the pattern allows is denied; `*` is only by itself."""
    pattern_type, name = allowed
    if pattern_type == AclPatternType.LITERAL and (name == ANY_NAME or allowed in denied):
        return name != ANY_NAME
    return any((AclPatternType.PREFIXED, name[:end]) in denied for end in range(1, len(name) + 1))


def super_users(text: str) -> tuple[str, ...]:
    """Return who may do everything, of `super.users`: principals with semicolons between them."""
    return tuple(each.strip() for each in text.split(";") if each.strip())
