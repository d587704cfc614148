"""The files of the live page: those in its folder, and no other."""

from pathlib import Path, PureWindowsPath

import pytest

from kohort.broker.http.page_files import page_file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a page, beside which there are other files."""
    (tmp_path / "other.html").write_bytes(b"secret")
    found = tmp_path / "assets"
    (found / "folder.html").mkdir(parents=True)
    (found / "notes.txt").write_bytes(b"secret")
    (found / "page.html").write_bytes(b"page")
    return found


def test_a_file_of_the_folder_is_given_with_its_type(folder: Path) -> None:
    found = page_file("page.html", folder)
    assert found is not None
    assert (found.content_type, found.body) == ("text/html; charset=utf-8", b"page")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "notes.txt", "folder.html", "absent.html", "../other.html", "./page.html"]
)
def test_nothing_else_is_given(name: str, folder: Path) -> None:
    assert page_file(name, folder) is None


class WindowsFolder(type(Path())):  # type: ignore[misc]
    """A folder below which names are found as on Windows, where a backslash separates, too."""

    def __truediv__(self, name: str) -> Path:
        return Path(self, PureWindowsPath(name).as_posix())


def test_a_name_of_windows_does_not_lead_out_of_the_folder(folder: Path) -> None:
    windows = WindowsFolder(folder)
    assert (windows / "..\\other.html").read_bytes() == b"secret"
    assert page_file("..\\other.html", windows) is None
    assert page_file("page.html", windows) == page_file("page.html", folder)
