"""Expressions match what `re` matches, in linear time; what cannot be is refused."""

import re
import unicodedata
from random import Random

import pytest

from kohort.broker.group.consumer.pattern_syntax import LENGTH_MAX, NESTING_MAX, Characters
from kohort.broker.group.consumer.patterns import STATES_MAX, Pattern, TooMuchWork
from tests.costs import times_as_costly

COSTLY_MAX = 3
"""Of the longest name. None of these expressions costs as much; what explodes costs a thousand times more."""

NAMES = (
    "",
    "a",
    "b",
    "ab",
    "abc",
    "aab",
    "orders-eu",
    "orders-us.1",
    "Orders",
    "t_1",
    "12",
    "x" * 249,
    "a.b",
    "é",
)


@pytest.mark.parametrize(
    "text",
    [
        "a", "ab|b", "a*b", "(a|b)*c?", "orders-.*", "^orders-(eu|us).*$", "[a-c]+", "[^a-c]*",
        r"\w+\d", r"[\d]{2}",
        "a{0,2}b", "x{249}", "(?i)ORDERS.*", r"a\.b", "(?:ab?)+?", "^$|a", ".", "", "[]a]", "(a*)*b",
        r"\S+", "[^-]+-eu",
    ],
)  # fmt: skip
def test_an_expression_matches_what_re_matches(text: str) -> None:
    pattern = Pattern(text)
    assert [pattern.matches(name) for name in NAMES] == [bool(re.fullmatch(text, name)) for name in NAMES]


@pytest.mark.parametrize(
    "text", ["(", "[", "*", r"(a)\1", "(?=a)a", "(?<!a)b", r"\bab", "a{1000000}", "a" * 5_000]
)
def test_an_expression_without_linear_matching_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Pattern(text)


RE2_NAMES = (
    "", "a", "b", "ab", "A", "aB1", "a.", "1", "-", "\n", "\u00e9", "\u00c9", "aaab", "{", "z", "orders-eu",
)  # fmt: skip
RE2_MATCHES: tuple[tuple[str, str | None], ...] = (
    (r"a\z", "a"), (r"\Aa", "a"), ("(?P<x>a|b)", "a b"), ("(?<x>a)b", "ab"), (r"\Qa.\E", "a."),
    ("(?i)A", "a A"), ("(?i:a)b", "ab"), ("(?i)\u00c9", "\u00e9 \u00c9"), (r"\pL", "a b A \u00e9 \u00c9 z"),
    (r"\p{Lu}", "A \u00c9"), (r"[\pN-]", "1 -"), ("[[:alpha:]]+", "a b ab A aaab z"),
    (r"[\d-]", "1 -"), ("[^-[:alpha:]]", "1 \n \u00e9 \u00c9 {"), ("a{,2}", ""), ("{", "{"), ("a{2,1}", None),
    ("a**", None), ("(?=a)", None), ("(?!a)", None), (r"\1", None), (r"\p{Greek", None), ("(?x)a", None),
    (".", "a b A 1 - \u00e9 \u00c9 { z"), ("(?s).", "a b A 1 - \n \u00e9 \u00c9 { z"), ("x{1001}", None),
    ("[a-z]+-(eu|us)", "orders-eu"), ("[b-a]", None), ("[a", None), ("a)", None), ("(a", None), ("*a", None),
    ("a(?i)B1", "aB1"), (r"\x41", "A"), (r"\x{7A}", "z"), ("(?:a*)*b", "b ab aaab"), ("a{3}b", "aaab"),
    ("[]a]", "a"), (r"\w", "a b A 1 z"), ("(?U)a+b", "ab aaab"),
    (r"\D\W?", "a b A a. - \n \u00e9 \u00c9 { z"),
)  # fmt: skip
"""What google-re2 1.1.20251105 says; names are separated by blanks, and None is no expression."""


@pytest.mark.parametrize("text, matches", RE2_MATCHES)
def test_an_expression_matches_what_re2_matches(text: str, matches: str | None) -> None:
    if matches is None:
        with pytest.raises(ValueError, match=r"."):
            Pattern(text)
        return
    pattern = Pattern(text)
    assert [name for name in RE2_NAMES if pattern.matches(name)] == matches.split(" " if matches else None)


MANY_LETTERS = "".join(chr(0x4E00 + 2 * number) for number in range(4_000))
COSTLY = (
    "(){4000000000}", "(){0,4000000000}", f"[{MANY_LETTERS}]{{9990}}", f"[{MANY_LETTERS}]{{990}}",
    "(" * 200 + ")" * 200, "(" * 2_000 + ")" * 2_000, "(?:" * 1_000 + ")" * 1_000, "(a|" * 600 + ")" * 600,
    "(" + "()" * 1_000 + "){1000}", "((){1000}){1000}", "(((a{100}){100}){100}){100}", "(|){1000}" * 100,
    "(?i)" + "[\0-\U0010ffff]" * 800, r"(?i)[\x{0}-\x{10FFFF}]" * 150, "|" * 4_000, "a?" * 2_000,
    "a{" + "9" * 4_000 + "}", "a{" + "9" * 4_000,
    "[[:" * 1_000, "[[a" * 1_000, "(?" + "i" * 4_000 + ")", r"\Q" + "a" * 4_000,
    r"\p{" + "L" * 4_000 + "}", "(?P<" + "x" * 4_000 + ">a)", "(?:^*)*" * 500,
    "(" * NESTING_MAX + "a" + ")*" * NESTING_MAX,
)  # fmt: skip


def use(text: str) -> None:
    """Compile an expression, and match a few names with it, where that is possible."""
    try:
        pattern = Pattern(text)
    except ValueError as error:
        assert len(str(error)) < 200  # noqa: PT017  # It goes into an answer, whichever way it ends.
        return
    assert len(pattern._edges) <= STATES_MAX
    for name in ("", "a" * 249, MANY_LETTERS[:249]):
        try:
            pattern.matches(name)
        except TooMuchWork:
            break


def use_a_long_name() -> None:
    """Use the longest expression without an operator: what anybody may cost."""
    use("a" * LENGTH_MAX)


@pytest.mark.parametrize("text", COSTLY, ids=lambda text: f"{text[:12]!a}")
def test_no_expression_is_expensive_to_compile(text: str) -> None:
    """Where an instruction took 4,000,000,000 rounds before."""
    assert times_as_costly(lambda: use(text), use_a_long_name) < COSTLY_MAX


def test_an_expression_can_be_as_long_as_the_limit() -> None:
    assert Pattern("a" * LENGTH_MAX).matches("a" * LENGTH_MAX)
    with pytest.raises(ValueError, match="longer than"):
        Pattern("a" * (LENGTH_MAX + 1))


def test_long_names_count_as_work() -> None:
    pattern, name = Pattern(".*"), "x" * 32_000
    with pytest.raises(TooMuchWork):
        assert all(pattern.matches(name) for _ in range(1_000))


def test_a_set_of_characters_has_what_is_in_its_ranges_and_categories() -> None:
    random = Random(7)
    for _ in range(200):
        ranges = [sorted((random.randrange(400), random.randrange(400))) for _ in range(random.randrange(6))]
        categories = random.sample(["L", "Lu", "N", "P"], random.randrange(3))
        is_negated = random.random() < 0.5
        found = Characters(
            ((a, b) for a, b in ranges), ((each, False) for each in categories), is_negated=is_negated
        )
        for code in range(420):
            is_in = any(a <= code <= b for a, b in ranges) or any(
                unicodedata.category(chr(code)).startswith(each) for each in categories
            )
            assert (chr(code) in found) is (is_in is not is_negated)


def test_no_expression_takes_long_to_match() -> None:
    pattern = Pattern("(a|a|aa)*(a*)*b")

    def match() -> None:
        for length in range(200):
            assert not pattern.matches("a" * length)

    assert times_as_costly(match, use_a_long_name) < COSTLY_MAX


@pytest.mark.parametrize(
    "text", ["((a?){30}b?){30}", "(.?.?.?.?){250}", ".*a.{1000}", "((a|b)?){350}(a|b){249}"]
)
def test_an_expression_with_many_states_gives_up_before_it_takes_long(text: str) -> None:
    random = Random(19)
    names = ["".join(random.choice("ab") for _ in range(249)) for _ in range(1_000)]

    def match() -> None:
        with pytest.raises(TooMuchWork):
            assert not list(filter(Pattern(text).matches, names))

    assert times_as_costly(match, use_a_long_name) < COSTLY_MAX


def test_many_names_are_matched_by_an_expression_of_many() -> None:
    wanted = [f"team-{number}.orders" for number in range(100)]
    pattern = Pattern("|".join(wanted).replace(".", "[.]"))
    names = [f"team-{number}.{topic}" for number in range(2_500) for topic in ("orders", "bills", "x")]
    assert [name for name in names if pattern.matches(name)] == wanted
