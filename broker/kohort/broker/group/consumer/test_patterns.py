"""Expressions match what `re` matches, in linear time; what cannot be is refused."""

import re
import time
from random import Random

import pytest

from kohort.broker.group.consumer.patterns import Pattern, TooMuchWork

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
def test_what_cannot_be_matched_in_linear_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Pattern(text)


def test_no_expression_takes_long() -> None:
    pattern = Pattern("(a|a|aa)*(a*)*b")
    began = time.process_time()
    for length in range(200):
        assert not pattern.matches("a" * length)
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    "text", ["((a?){40}b?){40}", "(.?.?.?.?){500}", ".*a.{1000}", "((a|b)?){700}(a|b){249}"]
)
def test_an_expression_of_many_states_gives_up_before_it_takes_long(text: str) -> None:
    random, pattern = Random(19), Pattern(text)
    names = ["".join(random.choice("ab") for _ in range(249)) for _ in range(1_000)]
    began = time.process_time()
    with pytest.raises(TooMuchWork):
        assert not list(filter(pattern.matches, names))
    assert time.process_time() - began < 1.0


def test_many_names_are_matched_by_an_expression_of_many() -> None:
    wanted = [f"team-{number}.orders" for number in range(100)]
    pattern = Pattern("|".join(wanted).replace(".", "[.]"))
    names = [f"team-{number}.{topic}" for number in range(2_500) for topic in ("orders", "bills", "x")]
    assert [name for name in names if pattern.matches(name)] == wanted
