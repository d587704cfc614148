"""The authorizer: Kafka's rules one by one, and beside a model that looks at every entry each time."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.broker.authorization.acls import Binding, Entry, Filter, Pattern, check_filter, checked_binding
from kohort.broker.authorization.authorizer import ANSWERS_MAX, Authorizer, super_users
from kohort.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from kohort.protocol.errors import ApiError

O, R, P, W = AclOperation, AclResourceType, AclPatternType, AclPermission  # noqa: E741
ALICE, BOB, HERE = "User:alice", "User:bob", "10.0.0.1"


def binding(
    name: str = "orders",
    operation: AclOperation = O.READ,
    principal: str = ALICE,
    *,
    form: AclPatternType = P.LITERAL,
    kind: AclResourceType = R.TOPIC,
    host: str = "*",
    permission: AclPermission = W.ALLOW,
) -> Binding:
    return Binding(Pattern(kind, form, name), Entry(principal, host, operation, permission))


def authorizer_of(*bindings: Binding, allows_unmentioned: bool = False) -> Authorizer:
    made = Authorizer(super_users("User:root; User:admin ;"), allows_unmentioned=allows_unmentioned)
    fill(made, bindings)
    return made


def fill(authorizer: Authorizer, bindings: Iterable[Binding]) -> None:
    entries: dict[Pattern, list[Entry]] = {}
    for pattern, entry in bindings:
        entries.setdefault(pattern, []).append(entry)
    for pattern, some in entries.items():
        authorizer.put(pattern, some)


def may(
    authorizer: Authorizer,
    operation: AclOperation = O.READ,
    name: str = "orders",
    *,
    who: str = ALICE,
    host: str = HERE,
) -> bool:
    return authorizer.allows(who, host, operation, R.TOPIC, name)


def test_without_entries_only_super_users_are_allowed() -> None:
    empty = authorizer_of()
    assert not may(empty)
    assert may(empty, who="User:root")
    assert may(empty, who="User:admin")


def test_a_super_user_is_allowed_what_an_entry_denies() -> None:
    assert may(
        authorizer_of(binding(operation=O.ALL, principal="User:*", permission=W.DENY)), who="User:root"
    )


def test_a_resource_without_entries_can_be_open_to_everybody() -> None:
    open_otherwise = authorizer_of(binding(), allows_unmentioned=True)
    assert may(open_otherwise, name="others", who=BOB)
    assert not may(open_otherwise, who=BOB)  # It has entries, if of others.
    assert may(open_otherwise)


@pytest.mark.parametrize(
    "rule",
    [
        binding(),
        binding("*"),
        binding("ord", form=P.PREFIXED),
        binding("orders", form=P.PREFIXED),
        binding(principal="User:*"),
        binding(host=HERE),
        binding(operation=O.ALL),
    ],
)
def test_a_matching_entry_allows(rule: Binding) -> None:
    assert may(authorizer_of(rule))


@pytest.mark.parametrize(
    "rule",
    [
        binding("order"),
        binding("orders-2", form=P.PREFIXED),
        binding("*", form=P.PREFIXED),  # As a prefix it is an asterisk.
        binding(principal=BOB),
        binding(host="10.0.0.2"),
        binding(operation=O.WRITE),
        binding(kind=R.GROUP),
    ],
)
def test_an_entry_that_does_not_fit_does_not(rule: Binding) -> None:
    assert not may(authorizer_of(rule))


@pytest.mark.parametrize(("entrys", "requesters"), [("0:0:0:0:0:0:0:1", "::1"), ("::ffff:10.0.0.1", HERE)])
def test_an_entry_can_spell_its_address_as_java_does(entrys: str, requesters: str) -> None:
    denying = authorizer_of(binding(), binding(host=entrys, permission=W.DENY))
    assert not may(denying, host=requesters)
    assert may(denying, host="10.0.0.2")


@pytest.mark.parametrize(
    "denial",
    [
        binding(permission=W.DENY),
        binding("*", permission=W.DENY),
        binding("o", form=P.PREFIXED, permission=W.DENY),
        binding(principal="User:*", permission=W.DENY, operation=O.ALL),
    ],
)
def test_a_denial_wins(denial: Binding) -> None:
    assert not may(authorizer_of(binding(), binding("*", O.ALL), denial))


@pytest.mark.parametrize(
    "granted, implied",
    [
        *((each, O.DESCRIBE) for each in (O.READ, O.WRITE, O.DELETE, O.ALTER)),
        (O.ALTER_CONFIGS, O.DESCRIBE_CONFIGS),
    ],
)
def test_allowing_an_operation_allows_implied_ones_and_denying_it_does_not_deny_them(
    granted: AclOperation, implied: AclOperation
) -> None:
    assert may(authorizer_of(binding(operation=granted)), implied)
    assert not may(authorizer_of(binding(operation=implied)), granted)
    denied = binding(operation=granted, permission=W.DENY)
    assert may(authorizer_of(binding(operation=implied), denied), implied)


def test_entries_that_change_change_the_answer() -> None:
    authorizer = authorizer_of(binding())
    assert may(authorizer)
    authorizer.put(binding().pattern, ())
    assert not may(authorizer)
    fill(authorizer, [binding("o", form=P.PREFIXED)])
    assert may(authorizer)
    authorizer.put(Pattern(R.TOPIC, P.PREFIXED, "o"), ())
    assert not may(authorizer)


def test_the_cache_of_answers_is_bounded() -> None:
    authorizer = authorizer_of(binding("t", form=P.PREFIXED))
    assert all(may(authorizer, name=f"t{number}") for number in range(ANSWERS_MAX + 100))
    assert len(authorizer._answers) <= ANSWERS_MAX


def test_answers_for_long_names_are_not_cached() -> None:
    authorizer = authorizer_of(binding("x", form=P.PREFIXED))
    assert may(authorizer, name="x" * 100_000)
    assert not may(authorizer, name="y" * 100_000)
    assert not authorizer._answers


def test_a_check_does_not_read_all_of_ten_thousand_entries() -> None:
    looked_at = 0

    class Counted(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal looked_at
            looked_at += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    authorizer = Authorizer()
    for number in range(5_000):
        entry = Entry(f"User:{number}", Counted("10.1.1.1"), O.READ, W.ALLOW)
        authorizer.put(Pattern(R.TOPIC, P.LITERAL, f"topic-{number}"), [entry])
        authorizer.put(Pattern(R.TOPIC, P.PREFIXED, f"team-{number}."), [entry])
    assert authorizer.allows("User:77", "10.1.1.1", O.READ, R.TOPIC, "topic-77")
    assert authorizer.allows("User:78", "10.1.1.1", O.READ, R.TOPIC, "team-78.x")
    assert not authorizer.allows("User:78", "10.1.1.1", O.READ, R.TOPIC, "team-79.x")
    assert looked_at < 20


# -- any resource of a type -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expected, rules",
    [
        (False, []),
        (True, [binding()]),
        (True, [binding("*")]),
        (True, [binding("o", form=P.PREFIXED)]),
        (False, [binding(), binding(permission=W.DENY)]),
        (False, [binding(), binding("ord", form=P.PREFIXED, permission=W.DENY)]),
        (False, [binding("or", form=P.PREFIXED), binding("o", form=P.PREFIXED, permission=W.DENY)]),
        (True, [binding("o", form=P.PREFIXED), binding("or", form=P.PREFIXED, permission=W.DENY)]),
        (False, [binding("*"), binding("*", permission=W.DENY)]),
        (False, [binding(), binding("*", permission=W.DENY)]),
        (True, [binding("*"), binding("o", form=P.PREFIXED, permission=W.DENY)]),
        (False, [binding(principal=BOB)]),
        (False, [binding(host="10.9.9.9")]),
        (True, [binding(operation=O.ALL)]),
        (False, [binding(operation=O.WRITE)]),
    ],
)
def test_allows_some_says_if_any_topic_can_be_readable(expected: bool, rules: list[Binding]) -> None:
    authorizer = authorizer_of(*rules)
    assert authorizer.allows_some(ALICE, HERE, O.READ, R.TOPIC) is expected
    assert authorizer.allows_some(ALICE, HERE, O.READ, R.TOPIC) is expected  # As it is remembered.
    assert authorizer.allows_some("User:root", HERE, O.READ, R.TOPIC)


# -- beside a model ---------------------------------------------------------------------------------------

NAMES = st.text("ab*", min_size=1, max_size=3)
HOSTS = st.sampled_from(["*", "h1", "h2"])
PRINCIPALS = st.sampled_from([ALICE, BOB, "User:*"])
OPERATIONS = st.sampled_from([each for each in O if each > O.ANY])
BINDINGS = st.builds(
    lambda kind, form, name, *entry: Binding(Pattern(kind, form, name), Entry(*entry)),
    st.sampled_from([R.TOPIC, R.GROUP]),
    st.sampled_from([P.LITERAL, P.PREFIXED]),
    NAMES,
    PRINCIPALS,
    HOSTS,
    OPERATIONS,
    st.sampled_from([W.ALLOW, W.DENY]),
)


def model_allows(
    bindings: Iterable[Binding], who: str, host: str, operation: AclOperation, name: str, *, unmentioned: bool
) -> bool:
    """Return what Kafka's rules say, entry by entry."""
    about = [
        each.entry
        for each in bindings
        if each.pattern.resource_type == R.TOPIC
        and (
            each.pattern.name in (name, "*")
            if each.pattern.pattern_type == P.LITERAL
            else name.startswith(each.pattern.name)
        )
    ]
    if not about:
        return unmentioned
    mine = [each for each in about if each.principal in (who, "User:*") and each.host in (host, "*")]
    if any(each.permission == W.DENY and each.operation in (operation, O.ALL) for each in mine):
        return False
    granted = {each.operation for each in mine if each.permission == W.ALLOW}
    implied = {O.ALL, operation}
    if operation == O.DESCRIBE:
        implied |= {O.READ, O.WRITE, O.DELETE, O.ALTER}
    if operation == O.DESCRIBE_CONFIGS:
        implied.add(O.ALTER_CONFIGS)
    return bool(granted & implied)


@given(
    st.lists(BINDINGS, max_size=8, unique=True),
    st.integers(0, 8),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from([ALICE, BOB]), st.sampled_from(["h1", "h2"]), OPERATIONS, NAMES)),
)
def test_the_authorizer_agrees_with_the_reference_model(
    bindings: list[Binding],
    kept: int,
    unmentioned: bool,
    questions: list[tuple[str, str, AclOperation, str]],
) -> None:
    authorizer = Authorizer(allows_unmentioned=unmentioned)
    fill(authorizer, bindings)
    for present in (bindings, bindings[:kept]):
        for pattern in {each.pattern for each in bindings}:
            authorizer.put(pattern, [each.entry for each in present if each.pattern == pattern])
        for who, host, operation, name in questions:
            expected = model_allows(present, who, host, operation, name, unmentioned=unmentioned)
            assert authorizer.allows(who, host, operation, R.TOPIC, name) is expected


# -- filters and what may be created ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "wanted, taken",
    [
        (Filter(), {"literal", "prefix", "all"}),
        (Filter(R.TOPIC, P.LITERAL, "orders"), {"literal"}),
        (Filter(R.TOPIC, P.PREFIXED, "ord"), {"prefix"}),
        (Filter(R.TOPIC, P.ANY, "ord"), {"prefix"}),
        (Filter(R.TOPIC, P.MATCH, "orders"), {"literal", "prefix", "all"}),
        (Filter(R.TOPIC, P.MATCH, "ord"), {"prefix", "all"}),
        (Filter(R.TOPIC, P.LITERAL, "*"), {"all"}),
        (Filter(R.TOPIC, P.LITERAL), {"literal", "all"}),
        (Filter(R.GROUP), set()),
        (Filter(principal=BOB), {"all"}),
        (Filter(host="*"), {"literal", "prefix", "all"}),
        (Filter(host=HERE), set()),
        (Filter(operation=O.WRITE), {"prefix"}),
        (Filter(permission=W.DENY), {"all"}),
    ],
)
def test_filters(wanted: Filter, taken: set[str]) -> None:
    there = {
        "literal": binding(),
        "prefix": binding("ord", O.WRITE, form=P.PREFIXED),
        "all": binding("*", principal=BOB, permission=W.DENY),
    }
    check_filter(wanted)
    assert {
        name
        for name, (pattern, entry) in there.items()
        if wanted.takes_pattern(pattern) and wanted.takes_entry(entry)
    } == taken


@pytest.mark.parametrize(
    "wrong", [Filter(0), Filter(9), Filter(pattern_type=0), Filter(operation=99), Filter(permission=0)]
)
def test_a_filter_of_things_unknown_is_refused(wrong: Filter) -> None:
    with pytest.raises(ApiError):
        check_filter(wrong)


RIGHT = (R.TOPIC, P.LITERAL, "orders", ALICE, "*", O.READ, W.ALLOW)


@pytest.mark.parametrize(
    "place, value, words",
    [
        (0, R.ANY, "resourceType"),
        (0, 99, "resourceType"),
        (0, R.CLUSTER, "kafka-cluster"),
        (1, P.MATCH, "patternType"),
        (2, "", "empty resource name"),
        (3, "alice", "parse principal"),
        (3, "User:", "parse principal"),
        (4, "", "host"),
        (4, "a b", "host"),
        (5, O.ANY, "operation"),
        (6, W.ANY, "permissionType"),
    ],
)
def test_an_entry_that_could_never_match_is_not_created(place: int, value: object, words: str) -> None:
    assert checked_binding(*RIGHT) == binding()
    wrong: list[object] = list(RIGHT)
    wrong[place] = value
    with pytest.raises(ApiError, match=words):
        checked_binding(*wrong)  # type: ignore[arg-type]
