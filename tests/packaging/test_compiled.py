"""The modules that are compiled on request, and that nobody pays for who did not ask."""

import shutil
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from kohort.protocol import request_decoders
from kohort.protocol.records import builder
from kohort.protocol.request_decoders.module_writer import request_of, typed_module
from tests.packaging.scripts import load_script

ROOT = Path(__file__).parents[2]


@pytest.fixture
def hook() -> ModuleType:
    return load_script("hatch_build.py")


def test_compiled_modules_belong_to_the_shipped_packages(hook: ModuleType) -> None:
    for path in (*hook.COMPILED, hook.READERS):
        assert (ROOT / path).is_file()
        assert path.partition("/")[0] in hook.PARTS


@pytest.mark.parametrize("value", [None, "", "0"])
def test_modules_are_not_compiled_without_a_request(
    hook: ModuleType, value: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(hook.ASKED_FOR, raising=False)
    if value is not None:
        monkeypatch.setenv(hook.ASKED_FOR, value)
    made = hook.CompilingHook(str(ROOT), {}, None, None, str(tmp_path), "wheel")
    build_data = {"force_include": {}, "pure_python": True}
    made.initialize("standard", build_data)
    assert build_data == {"force_include": {}, "pure_python": True}
    assert made.dependencies() == []


def test_a_request_installs_the_compiler(
    hook: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(hook.ASKED_FOR, "1")
    made = hook.CompilingHook(str(ROOT), {}, None, None, str(tmp_path), "wheel")
    assert [each.partition(">")[0] for each in made.dependencies()] == ["mypy", "setuptools", *hook.TYPES]


def test_a_build_writes_the_decoders_of_its_own_schemas(hook: ModuleType, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "protocol", tmp_path, dirs_exist_ok=True)
    written = hook.write_decoders(tmp_path)
    assert [Path(each).stem for each in written] == list(request_decoders.APIS)
    for path, api in zip(written, request_decoders.APIS, strict=True):
        assert (tmp_path / path).read_text(encoding="utf-8") == typed_module(request_of(api))


@pytest.mark.skipif(builder.__file__.endswith(".py"), reason="make compiled runs it")
def test_all_compiled_modules_are_loaded_compiled(hook: ModuleType) -> None:
    decoders = (f"{request_decoders.__name__}.{each}" for each in request_decoders.APIS)
    paths = (*hook.COMPILED, hook.READERS)
    for name in (
        *decoders,
        *(each.partition("/")[2].removesuffix(".py").replace("/", ".") for each in paths),
    ):
        assert Path(import_module(name).__file__ or "").suffix == ".so", name
    with pytest.raises(TypeError):
        builder.RecordWriter().add("late", None, b"v", ())  # type: ignore[arg-type]  # That is what is tested.
