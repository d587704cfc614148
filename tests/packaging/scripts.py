"""Scripts of the repository as modules: they belong to no package."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def load_script(path: str) -> ModuleType:
    """Return the module of a Python file, such as `deploy/release.py`. It is executed each time."""
    name = path.removesuffix(".py").replace("/", "_")
    spec = spec_from_file_location(name, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # Data classes look for their module there.
    spec.loader.exec_module(module)
    return module
