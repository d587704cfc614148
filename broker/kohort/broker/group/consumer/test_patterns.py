"""Expressions match what `re` matches, in linear time; what cannot be is refused."""

import re
import time

import pytest

from kohort.broker.group.consumer.patterns import Pattern

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
