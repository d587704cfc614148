from pathlib import Path

import pytest

from kohort.broker import ephemeral
from kohort.broker.ephemeral import best_place, throw_away_folder


def test_the_folder_is_deleted_with_its_content() -> None:
    with throw_away_folder() as folder:
        (folder / "orders-0").mkdir()
        (folder / "orders-0" / "log").write_bytes(b"records")
    assert not folder.exists()


def test_without_writable_memory_the_folder_is_in_the_temporary_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ephemeral, "MEMORY", tmp_path / "none")
    assert best_place() is None
    monkeypatch.setattr(ephemeral, "MEMORY", tmp_path)
    assert best_place() == tmp_path
    monkeypatch.setattr(ephemeral, "MEMORY_BYTES_MIN", 1 << 62)
    assert best_place() is None
