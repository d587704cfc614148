"""The picture of the broker's imports: it has no circle, and would say so if it had."""

from pathlib import Path
from types import ModuleType

import pytest

from tests.packaging.scripts import load_script


@pytest.fixture
def script() -> ModuleType:
    return load_script("docs/imports.py")


def test_the_composition_is_above_all_and_the_runtime_below(script: ModuleType) -> None:
    above = script.depths(script.imports())
    assert max(above, key=above.__getitem__) == "composition"
    assert above["runtime"] == above["config"] == 0
    assert above["group"] == 1, "it takes the defaults of its settings from config"
    assert above["handlers"] > above["transport"] > above["runtime"]


def test_a_circle_is_refused(script: ModuleType) -> None:
    with pytest.raises(SystemExit, match=r"circle among \['handlers', 'transport'\]"):
        script.depths({("handlers", "transport"), ("transport", "handlers"), ("handlers", "group")})


def test_type_checking_imports_are_counted_separately(script: ModuleType, tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    lines = (
        "from typing import TYPE_CHECKING",
        "if TYPE_CHECKING:",
        "    from kohort.broker.lag.watch import X",
    )
    source.write_text("\n".join(lines))
    assert list(script.imported(source)) == ["lag.watch"]
