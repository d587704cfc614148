import pytest

from kohort.cli.wire_input import bytes_of

DATA = bytes(range(24)) + bytes(40) + b"| tail  x>"

XXD = """\
00000000: 0001 0203 0405 0607 0809 0a0b 0c0d 0e0f  ................
00000010: 1011 1213 1415 1617 0000 0000 0000 0000  ................
00000020: 0000 0000 0000 0000 0000 0000 0000 0000  ................
00000030: 0000 0000 0000 0000 0000 0000 0000 0000  ................
00000040: 7c20 7461 696c 2020 783e                 | tail  x>
"""
HEXDUMP_C = """\
00000000  00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f  |................|
00000010  10 11 12 13 14 15 16 17  00 00 00 00 00 00 00 00  |................|
00000020  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
*
00000040  7c 20 74 61 69 6c 20 20  78 3e                    || tail  x>|
0000004a
"""
HEXDUMP = """\
0000000 0100 0302 0504 0706 0908 0b0a 0d0c 0f0e
0000010 1110 1312 1514 1716 0000 0000 0000 0000
0000020 0000 0000 0000 0000 0000 0000 0000 0000
*
0000040 207c 6174 6c69 2020 3e78
000004a
"""
OD = """\
000000 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f  >................<
000010 10 11 12 13 14 15 16 17 00 00 00 00 00 00 00 00  >................<
000020 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  >................<
*
000040 7c 20 74 61 69 6c 20 20 78 3e                    >| tail  x><
00004a
"""


@pytest.mark.parametrize("text", [XXD, HEXDUMP_C, HEXDUMP, OD], ids=["xxd", "hexdump -C", "hexdump", "od"])
def test_dumps_of_every_tool_are_read(text: str) -> None:
    assert bytes_of(text) == DATA


def test_an_odd_number_of_bytes_in_words_ends_at_the_length_that_hexdump_prints() -> None:
    assert bytes_of("0000000 0100 0002\n0000003\n") == b"\x00\x01\x02"


@pytest.mark.parametrize(
    "text",
    [
        "0000002a000c",
        "0000 002a 000c",
        "0000\n002a\n000c\n",
        "00:00:00:2a:00:0c",
        "0x00, 0x00, 0x00, 0x2a, 0x00, 0x0c",
        r'"\x00\x00\x00\x2a\x00\x0c"',
        "{0x00,0x00,0x00,0x2A,\n 0x00,0x0C}",
    ],
)
def test_hexadecimal_digits_are_read_in_any_layout(text: str) -> None:
    assert bytes_of(text) == b"\x00\x00\x00\x2a\x00\x0c"


def test_text_that_is_not_hexadecimal_is_named_with_its_line() -> None:
    with pytest.raises(ValueError, match="line 2 is no hexadecimal: 'GET /'"):
        bytes_of("0001\nGET /\n")
