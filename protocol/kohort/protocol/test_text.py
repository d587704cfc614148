"""What others sent stands in a message without harm, however long it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.text import MAX_MESSAGE_CHARACTERS, quoted, short_text


@given(st.text(max_size=40).flatmap(lambda piece: st.integers(0, 2000).map(lambda times: piece * times)))
def test_a_message_is_short_and_printable_for_any_quoted_text(text: str) -> None:
    short = short_text(text)
    assert len(short) <= MAX_MESSAGE_CHARACTERS
    assert short.isprintable()
    if text.isprintable() and len(text) <= MAX_MESSAGE_CHARACTERS:
        assert short == text


def test_a_long_message_keeps_its_start_and_end() -> None:
    short = short_text(f"The topic {'x' * 32_767} is there already")
    assert short.startswith("The topic xxx")
    assert short.endswith("xxx is there already")


@pytest.mark.parametrize(
    "name, shown",
    [
        ("orders", "'orders'"),
        ("bestellungen-größe", "'bestellungen-größe'"),
        ("a\nkohort ready", r"'a\nkohort ready'"),
        ("\x1b[31mred", r"'\x1b[31mred'"),
        ("\u2028\u202e", r"'\u2028\u202e'"),
    ],
)
def test_a_quoted_name_moves_no_cursor(name: str, shown: str) -> None:
    assert quoted(name) == shown


def test_an_error_message_fits_into_every_answer() -> None:
    error = ApiError(ErrorCode.INVALID_CONFIG, "no config " + "\0" * 32_767)
    assert error.message is not None
    assert len(error.message.encode()) < 4 * MAX_MESSAGE_CHARACTERS
    assert str(error) == f"INVALID_CONFIG: {error.message}"
