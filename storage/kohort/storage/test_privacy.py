"""A data folder is closed to other users of the machine, whoever has made it."""

import os
import stat
from pathlib import Path

import pytest

from kohort.storage import OsFileSystem
from kohort.storage.privacy import Privacy, close_to_others


def data_folder(path: Path) -> Path:
    folder = path / "data"
    (folder / "orders-0").mkdir(parents=True)
    for name in ("meta.properties", "orders-0/0.log"):
        (folder / name).write_text("secret")
        (folder / name).chmod(0o644)
    for each in (folder, folder / "orders-0"):
        each.chmod(0o755)
    return folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_permissions_of_a_folder_are_closed_once(tmp_path: Path) -> None:
    folder = data_folder(tmp_path)
    assert close_to_others(str(folder)) == Privacy(closed=4)
    assert mode(folder) == mode(folder / "orders-0") == 0o700
    assert mode(folder / "orders-0/0.log") == 0o600
    assert close_to_others(str(folder)) == Privacy()


def test_in_a_folder_of_another_user_only_its_content_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, chmod = data_folder(tmp_path), os.chmod

    def of_another(path: str, mode: int) -> None:
        if path == str(folder):
            raise PermissionError
        chmod(path, mode)

    monkeypatch.setattr(os, "chmod", of_another)
    assert close_to_others(str(folder)) == Privacy(closed=2, can_list=True)
    assert (mode(folder), mode(folder / "orders-0"), mode(folder / "meta.properties")) == (
        0o755,
        0o700,
        0o600,
    )


def test_a_file_system_without_modes_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = data_folder(tmp_path)
    monkeypatch.setattr(os, "chmod", lambda path, mode: None)
    assert "cannot be changed" in close_to_others(str(folder)).reason


@pytest.mark.parametrize("what", ["others", "sticky"])
def test_a_folder_shared_with_others_is_not_changed(tmp_path: Path, what: str) -> None:
    folder = data_folder(tmp_path)
    if what == "others":
        (folder / "meta.properties").rename(folder / "letters")
    else:
        folder.chmod(0o1777)
    before = mode(folder)
    assert close_to_others(str(folder)).reason
    assert mode(folder) == before


def test_a_missing_folder_is_no_error(tmp_path: Path) -> None:
    assert close_to_others(str(tmp_path / "none")) == Privacy()


def test_folders_are_created_with_their_parents(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        OsFileSystem().make_directory(tmp_path / "a" / "b")
        OsFileSystem().make_directory(tmp_path / "a" / "b")
    finally:
        os.umask(umask)
    assert mode(tmp_path / "a") == mode(tmp_path / "a" / "b") == 0o700
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        OsFileSystem().make_directory(tmp_path / "file")
