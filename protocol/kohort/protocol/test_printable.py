import json

import pytest

from kohort.protocol.printable import printable, printable_json


@pytest.mark.parametrize("text", ["", "billing-1", "a b\tc", "C:\\n", "Zürich", "注文", "🙂"])
def test_ordinary_text_is_not_escaped(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    "text, shown",
    [
        ("a\nkohort ready", r"a\nkohort ready"),
        ("a\r\x1b[2Kb", r"a\r\x1b[2Kb"),
        ("\x00\x07\x7f", r"\x00\x07\x7f"),
        ("\x9b31mred", r"\x9b31mred"),  # One byte's CSI, which some terminals know.
        ("\u202egnp.exe", r"\u202egnp.exe"),  # From here on right to left.
        ("a\u2028b\x85c", r"a\u2028b\x85c"),  # What else is a line's end.
        ("\U000e0041", r"\U000e0041"),
        ("\ud800", r"\ud800"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown


@pytest.mark.parametrize("text", ["a\nb", "\x9b31m", "\u202e", "\U000e0041", "\ud800", "é🙂\t", '"\\'])
def test_printable_json_has_the_same_content(text: str) -> None:
    given = json.dumps({"group": text, "n": [1]}, indent=2, ensure_ascii=False)
    shown = printable_json(given)
    assert json.loads(shown) == {"group": text, "n": [1]}
    assert all(each.isprintable() for line in shown.splitlines() for each in line)


def test_json_of_plain_text_is_not_changed() -> None:
    given = json.dumps({"Zürich": "🙂"}, indent=2, ensure_ascii=False)
    assert printable_json(given) == given
