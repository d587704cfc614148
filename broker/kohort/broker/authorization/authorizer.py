"""Decides what a principal may do, from access control entries. Pure.

Entries of a resource's name, of `*`, and of each prefix of its name apply to the resource. A DENY entry wins
over all ALLOW entries. If entries apply and none allows, the answer is no. A decision reads only entries of
the resource and the principal, and it is cached until an entry changes.
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
"""The largest number of cached decisions. Then the cache is cleared."""
REMEMBERED_CHARACTERS_MAX = 255
"""Decisions about longer names are not cached, because clients could fill the memory with them."""

_O = AclOperation
_IMPLYING = {
    _O.DESCRIBE: frozenset({_O.ALL, _O.DESCRIBE, _O.READ, _O.WRITE, _O.DELETE, _O.ALTER}),
    _O.DESCRIBE_CONFIGS: frozenset({_O.ALL, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS}),
}
ALLOWING: Mapping[AclOperation, frozenset[AclOperation]] = {
    each: _IMPLYING.get(each, frozenset({_O.ALL, each})) for each in AclOperation
}
"""By operation: an entry that allows one of these also allows it. DENY entries imply nothing."""

_Entries = Mapping[str, tuple[Entry, ...]]
"""The entries of one pattern, by principal."""


class _OfType:
    """The patterns of one resource type."""

    __slots__ = ("lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, _Entries] = {}
        self.prefixed: dict[str, _Entries] = {}
        self.lengths: tuple[int, ...] = ()
        """The different lengths of the prefixes."""

    def put(self, pattern: Pattern, entries: _Entries) -> None:
        """Set the entries of the pattern. Without entries it is removed."""
        is_literal = pattern.pattern_type == AclPatternType.LITERAL
        patterns = self.literal if is_literal else self.prefixed
        if entries:
            patterns[pattern.name] = entries
        else:
            patterns.pop(pattern.name, None)
        if not is_literal:
            self.lengths = tuple(sorted({len(each) for each in self.prefixed}))

    def about(self, name: str) -> Iterator[_Entries]:
        """Yield the entries of each pattern that matches the resource."""
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
    """Decides whether operations are allowed. `put` changes the entries of a pattern."""

    def __init__(self, super_users: Iterable[str] = (), *, allows_unmentioned: bool = False) -> None:
        """Allow `super_users` everything.

        With `allows_unmentioned` everybody may do everything with a resource without any entry.
        """
        self._super_users = frozenset(super_users)
        self._allows_unmentioned = allows_unmentioned
        self._types: dict[AclResourceType, _OfType] = {each: _OfType() for each in AclResourceType}
        self._answers: dict[tuple[str, str, AclOperation, AclResourceType, str | None], bool] = {}

    def put(self, pattern: Pattern, entries: Iterable[Entry]) -> None:
        """Set the entries of the pattern. Without entries it is removed."""
        by_principal: dict[str, tuple[Entry, ...]] = {}
        for entry in entries:
            known = entry
            if ":" in entry.host:  # Only IPv6 has several spellings.
                known = entry._replace(host=canonical_address(entry.host))
            by_principal[entry.principal] = (*by_principal.get(entry.principal, ()), known)
        self._types[pattern.resource_type].put(pattern, by_principal)
        self._answers.clear()

    def allows(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> bool:
        """Return whether `principal` at the address `host` may do the operation on the resource.

        `host` has the form of `canonical_address`. Entries may have Java's form.
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
        """Return whether `principal` may do the operation on some resource of the type."""
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
        """Decide like Kafka: operations that imply `operation` do not count here."""
        if self.allows(principal, host, operation, resource_type, "hardcode"):  # Kafka tries this name, too.
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
    """Yield the entries for this principal or everybody, at this address or any."""
    for who in (principal, EVERY_USER) if principal != EVERY_USER else (EVERY_USER,):
        for entry in entries.get(who, ()):
            if entry.host in (ANY_NAME, host):
                yield entry


def _is_dominated(allowed: tuple[AclPatternType, str], denied: set[tuple[AclPatternType, str]]) -> bool:
    """Return whether DENY patterns cover everything that the pattern allows. Only `*` covers `*`."""
    pattern_type, name = allowed
    if pattern_type == AclPatternType.LITERAL and (name == ANY_NAME or allowed in denied):
        return name != ANY_NAME
    return any((AclPatternType.PREFIXED, name[:end]) in denied for end in range(1, len(name) + 1))


def super_users(text: str) -> tuple[str, ...]:
    """Return the principals in `super.users`, which are separated by semicolons."""
    return tuple(each.strip() for each in text.split(";") if each.strip())
