import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.rooms import ROOMS

ROOT = Path(__file__).parents[3]
STUBS = sorted(each for room in ROOMS for each in (ROOT / room / "kohort").rglob("*.pyi"))


def name_of(stub: Path) -> str:
    parts = stub.with_suffix("").relative_to(ROOT).parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("stub", STUBS, ids=name_of)
def test_every_name_of_a_stub_is_there(stub: Path) -> None:
    module = import_module(name_of(stub))
    assert dir(module) == module.__all__
    if name_of(stub) == "kohort.pipeline.ingest":
        pytest.importorskip("pyspark")
    for name in module.__all__:
        assert getattr(module, name) is vars(module)[name]
    with pytest.raises(AttributeError, match="has no attribute 'Absent'"):
        module.Absent  # noqa: B018


def test_a_star_import_brings_every_name() -> None:
    names: dict[str, object] = {}
    exec("from kohort.client import *", names)
    assert names["TopicPartition"] is sys.modules["kohort.client.values"].TopicPartition


def test_a_lazy_name_can_rename_a_name_of_another_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lazily.py").write_text(
        "from kohort.protocol.lazy_names import lazy_names\n"
        "__getattr__, __dir__ = lazy_names(__name__, __file__)\n"
    )
    (tmp_path / "lazily.pyi").write_text("from fractions import Fraction as Ratio\n\n__all__ = ['Ratio']\n")
    monkeypatch.syspath_prepend(tmp_path)
    lazily = import_module("lazily")
    assert "Ratio" not in vars(lazily)
    assert lazily.Ratio(1, 2) * 2 == 1
