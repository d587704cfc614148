"""What java.util.Properties reads; each case was compared with Java 17."""

from pathlib import Path

import pytest

from kohort.protocol.java_properties import parse_properties, read_properties


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("# a comment that ends in a backslash \\\na=1\n", [("a", "1")]),
        ("! another \\\nb=2\n", [("b", "2")]),
        ("a=C:\\\\kafka\\\\\nb=2\n", [("a", "C:\\kafka\\"), ("b", "2")]),
        ("a=1,\\\n    2,\\\n\t3\n", [("a", "1,2,3")]),
        ("a = 1\\\n\\\n b\n", [("a", "1b")]),
        ("a\\:b\\=c=d\\:e\\=f\n", [("a:b=c", "d:e=f")]),
        ("name: value\n", [("name", "value")]),
        ("name value with spaces \n", [("name", "value with spaces ")]),
        ("name\tvalue\n", [("name", "value")]),
        ("name\n", [("name", "")]),
        ("  name  =  value\n", [("name", "value")]),
        ("a=gr\\u00fcn\n", [("a", "grün")]),
        ("a=x\\ty\\nz\n", [("a", "x\ty\nz")]),
        ("a=\\q\n", [("a", "q")]),
        ("a=1\r\nb=2\rc=3", [("a", "1"), ("b", "2"), ("c", "3")]),
        ("a=1\na=2\n", [("a", "1"), ("a", "2")]),
        ("a=1 # no comment\n", [("a", "1 # no comment")]),
        ("a\\ b=1\n", [("a b", "1")]),
        ("a=1\x0b2\x85\u2028\n", [("a", "1\x0b2\x85\u2028")]),
        ("=1\n", [("", "1")]),
        ("a=1\n\\\nb=2\n", [("a", "1"), ("b", "2")]),
        ("a=b\\", [("a", "b")]),
        ("\fa=1\n", [("a", "1")]),
        ("a=1\\\n#b=2\n", [("a", "1#b=2")]),
        ("", []),
    ],
)
def test_settings_equal_those_that_java_reads(text: str, settings: list[tuple[str, str]]) -> None:
    assert [(each.name, each.value) for each in parse_properties(text)] == settings


def test_a_setting_has_the_line_on_which_it_starts() -> None:
    found = parse_properties("# one \x0b \x85\n\r\na=1,\\\n  2\nb=3\n")
    assert [(each.name, each.line) for each in found] == [("a", 3), ("b", 5)]


@pytest.mark.parametrize("escape", ["\\u00", "\\uzzzz", "\\u12g4"])
def test_a_damaged_escape_names_its_line(escape: str) -> None:
    with pytest.raises(ValueError, match=r"^line 3: .* four hexadecimal digits$"):
        parse_properties(f"a=1\n\nb={escape}\n")


@pytest.mark.parametrize(
    "data", ["a=grün\n".encode(), "\ufeffa=grün\n".encode(), "a=grün\n".encode("iso-8859-1")]
)
def test_a_file_can_be_utf_8_or_iso_8859_1(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(data)
    assert [(each.name, each.value) for each in read_properties(tmp_path / "f")] == [("a", "grün")]
